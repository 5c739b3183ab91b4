//! Queues, byte rings, frame pools and doorbells: the few things that cores, threads and the kernel share.
//!
//! One of the four rooms where `unsafe` lives; every block names its invariant and has a model beside it.

mod frame;
mod map;
mod sync;

pub use frame::{Frame, FramePool};
pub use map::{Mapping, Pages};
