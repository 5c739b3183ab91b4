//! `millstream lab`: experiments in virtual time.

mod attacks;
mod choice;
mod cluster;
mod expect;
mod keep;
mod progress;
mod replay;
mod results;
mod sweep;

use crate::command::CliResult;
use ::lab::shipped;

/// The commit this program was built from.
const COMMIT: &str = env!("MILLSTREAM_COMMIT");

/// Arguments of the command.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the shipped experiments, or the measures.
    List {
        /// List what is measured instead.
        #[arg(long)]
        measures: bool,
    },
    /// Run experiments and write a report. An interrupted run continues where it stopped.
    Run(sweep::Args),
    /// Run an experiment over a grid of parameters from the command line. An interrupted run continues where it
    /// stopped.
    Sweep(sweep::SweepArgs),
    /// Write the report again from the results of earlier runs.
    Report(sweep::Args),
    /// Run experiments and record their results for `run --expect`.
    Record(expect::Args),
    /// Repeat one combination with one seed, with all time series and packets.
    Replay(replay::Args),
    /// Attack a server beside legitimate clients, and print the clients' throughput and the server's memory and work.
    Attacks(attacks::Args),
    /// Write every run as a separate task, for other machines.
    Export(cluster::ExportArgs),
    /// Run the task on the standard input and write its result to the standard output.
    Task,
    /// Combine results of tasks into a report.
    Gather(cluster::GatherArgs),
}

/// Does what was asked for.
pub(crate) fn run(args: Args) -> CliResult {
    match args.command {
        Command::List { measures } => list(measures),
        Command::Run(args) => sweep::run(&args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Report(args) => sweep::report(&args),
        Command::Record(args) => expect::record(&args),
        Command::Replay(args) => replay::replay(&args),
        Command::Attacks(args) => attacks::attacks(&args),
        Command::Export(args) => cluster::export(&args),
        Command::Task => cluster::task(),
        Command::Gather(args) => cluster::gather(&args),
    }
}

fn list(measures: bool) -> CliResult {
    if measures {
        ::lab::measures().iter().for_each(|(name, help)| outln!("{name:<18} {help}"));
        return Ok(());
    }
    for experiment in shipped()? {
        let runs = experiment.tasks(None)?.len();
        outln!("{:<20} {runs:>4} runs  {}", experiment.name, experiment.spec().title);
    }
    Ok(())
}
