//! `cargo xtask differ`: generated inputs on this stack and on the kernel, compared (docs/SUITES.md).

use crate::{Outcome, run};

/// Runs the program of crates/lab/differ with these arguments; `calls` and `packets` are its kinds of input.
pub(crate) fn differ(arguments: &[String]) -> Outcome {
    if arguments.first().is_some_and(|kind| kind == "calls") {
        run::build_launcher("dev")?;
    }
    run::cargo(&["run", "--quiet", "--locked", "--package", "millstream-differ", "--"])
        .args(arguments)
        .check()
}
