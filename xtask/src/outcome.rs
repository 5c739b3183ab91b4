//! Result of a task.

/// Result of every task: an error is printed to the person who ran it, in full sentences.
pub(crate) type Outcome = Result<(), String>;
