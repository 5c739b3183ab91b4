//! Models that a fuzz target calls with any bytes, and ordinary tests with random ones.

mod arbiter;
mod engine;
mod merged_runs;

pub use arbiter::arbiter;
pub use engine::engine;
pub use merged_runs::merged_runs;
#[cfg(test)]
pub(crate) use merged_runs::whole_by_hand;
