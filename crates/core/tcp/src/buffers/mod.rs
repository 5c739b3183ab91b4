//! Memory for data: the pool of chunks, chains of them, frames of the link, and when what is in flight left.

pub(crate) mod chain;
pub(crate) mod frames;
pub(crate) mod pool;
pub(crate) mod sent;
