//! `cargo xtask differ`: generated inputs on this stack and on the kernel, compared (docs/SUITES.md).

use crate::{Outcome, run};

/// Runs the program of crates/lab/differ with these arguments; `calls` and `packets` are its kinds of input.
pub(crate) fn differ(arguments: &[String]) -> Outcome {
    if arguments.first().is_some_and(|kind| kind == "calls") {
        let launcher =
            ["build", "--quiet", "--locked", "--package", "millstream", "--package", "millstream-preload"];
        run::cargo(&launcher).check()?;
    }
    run::cargo(&["run", "--quiet", "--locked", "--package", "millstream-differ", "--"])
        .args(arguments)
        .check()
}
