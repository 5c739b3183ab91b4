//! Experiments on TCP in virtual time. A file says what flows over which path, what is varied and what must come out;
//! whole production stacks run it, each combination with many seeds, and the same seed gives the same result on every
//! machine.
//!
//! ```
//! let file = r#"
//!     title = "A flow fills a small path"
//!     seconds = 5
//!     seeds = 2
//!     [path]
//!     rtt_ms = 20
//!     down_kbit = 2000
//!     queue = "loose 20000"
//!     [[flow]]
//!     cc = "newreno"
//!     [[check]]
//!     measure = "utilisation"
//!     range = { min = 0.7, max = 1.0 }
//! "#;
//! let experiment = lab::Experiment::parse("small", file)?;
//! let tasks = experiment.tasks(None)?;
//! let outcomes = tasks.iter().map(lab::run).collect::<Result<Vec<_>, _>>()?;
//! let verdicts = experiment.judge(&outcomes);
//! assert!(verdicts.iter().all(|verdict| verdict.holds), "{verdicts:?}");
//! # Ok::<(), lab::SpecError>(())
//! ```
#![forbid(unsafe_code)]

mod apps;
pub mod attacks;
mod bounds;
mod build;
mod captures;
mod chance;
mod convergence;
mod expect;
mod experiment;
mod formula;
mod grid;
mod hops;
mod logs;
mod measure;
pub mod mulwin;
mod path;
mod plan;
mod records;
mod replay;
pub mod report;
mod run;
mod shipped;
mod spec;
pub mod stats;
mod store;
mod sweep;
#[cfg(test)]
mod tests;
mod verdict;
mod world;

pub use expect::{Comparison, Expectation, Moved};
pub use experiment::Experiment;
pub use grid::{Vary, point, typed};
pub use measure::measures;
pub use path::pipes;
pub use plan::{Brought, Planned};
pub use replay::{Film, replay};
pub use run::{Outcome, Series, run};
pub use shipped::shipped;
pub use spec::{
    Capture, Cbr, Check, Falls, Flow, Folders, Ills, Order, Path, Plot, Point, Range, Ratio, Siftr, Spec,
    SpecError, Task, Theory, Want,
};
pub use stats::{Estimate, jain, quantile};
pub use store::{Courses, Limits, Store};
pub use sweep::{Alike, Ended, Failure, alike, attempt, renamed, sweep};
pub use verdict::Verdict;
