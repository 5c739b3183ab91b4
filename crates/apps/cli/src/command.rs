//! Result and number of jobs, of every command.

/// Result of a command; the text of an error says what to do.
pub(crate) type CliResult = Result<(), Box<dyn std::error::Error>>;

/// How many of many jobs run at the same time: as many as asked for, or for 0 one on each processor.
pub(crate) fn at_once(jobs: usize) -> usize {
    match jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    }
}
