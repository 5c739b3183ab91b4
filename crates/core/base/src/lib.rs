//! The words every other room uses: time, sequence numbers, addresses, rates, hashing, seeded
//! randomness, numbers from bytes for models, paged slabs and the macros that turn one table into many things.
//!
//! Nothing here does I/O, reads a clock or keeps global state; the crate builds for wasm32 with no import.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod addr;
mod hash;
mod input;
mod nearest;
mod rate;
mod rng;
mod seq;
mod slab;
mod table;
mod time;

pub use addr::{Addr, Endpoint, FlowKey};
pub use hash::SipKey;
pub use input::Input;
pub use nearest::nearest;
pub use rate::Rate;
pub use rng::Rng;
pub use seq::Seq;
pub use slab::Slab;
pub use time::{Duration, Instant};
