//! Packet I/O: one trait, many ports.
//!
//! One of the four rooms where `unsafe` lives.

mod port;
pub use port::*;
