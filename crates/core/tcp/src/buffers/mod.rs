//! Memory for data: the pool of chunks, chains of them, frames of the link, and what is done when chunks are scarce.

pub(crate) mod chain;
pub(crate) mod frames;
pub(crate) mod memory;
pub(crate) mod pool;
