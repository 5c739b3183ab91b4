//! Models that a fuzz target calls with any bytes, and ordinary tests with random ones.

mod arbiter;
mod engine;
mod trains;

pub use arbiter::arbiter;
pub use engine::engine;
pub use trains::trains;
#[cfg(test)]
pub(crate) use trains::whole_by_hand;
