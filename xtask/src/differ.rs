//! `cargo xtask differ`: generated inputs on this stack and on the kernel, compared.

use crate::{Outcome, run};

/// The program of crates/lab/differ with these arguments; `calls` and `packets` are its kinds of input.
pub(crate) fn differ(arguments: &[String]) -> Outcome {
    run::cargo(&["run", "--quiet", "--locked", "--package", "millstream-differ", "--"])
        .args(arguments)
        .check()
}
