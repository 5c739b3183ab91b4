//! Packet I/O: one trait, many ports.
//!
//! One of the four rooms where `unsafe` lives.

mod pair;
mod port;

pub use pair::{Pair, PairConfig, pair};
pub use port::*;
