//! Receive offload: packets of a flow that arrive together and continue each other go up as one, so that the stack pays
//! for headers, look-ups, acknowledgments and events once for all of them.
//!
//! ```text
//!   packet ──> long enough? ──no──> alone
//!                │yes
//!                v
//!   what the flow's last packet belongs to ──> continues it? ──no──> alone, or the first of a train
//!                                                │yes
//!                                                v
//!                                              joins; PSH or a short segment is the last
//! ```
//! Whether a packet continues another is seen from its octets, before it is parsed: everything that packets of a train
//! share is compared as it lies there, and the few fields that are a packet's own must say what they must
//! ([`Train::join`]). Nothing is held from batch to batch, dropped, acknowledged or put in another order, so a loss is
//! told to the peer as early as ever. Payload is read once, for its checksum.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod fuzz;
mod layout;
mod octets;
#[cfg(test)]
mod tests;
mod train;
mod trains;

pub use train::{Refusal, TRAIN_MAX, Train};
pub use trains::{TRAIN_WORTH, TrainCounters, Trains};
