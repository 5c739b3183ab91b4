//! Receive offload: packets of a flow that arrive together and continue each other go up as one, so that the stack pays
//! for headers, look-ups, acknowledgments and events once for all of them.
//!
//! ```text
//!   packet ──> long enough? ──no──> alone
//!                │yes
//!                v
//!   what the flow's last packet belongs to ──> continues it? ──no──> alone, or the first of a merged run
//!                                                │yes
//!                                                v
//!                                              joins; PSH or a short segment is the last
//! ```
//! Whether a packet continues another is seen from its bytes, before it is parsed: everything that packets of a merged
//! run share is compared as it lies there, and the few fields that are a packet's own must say what they must
//! ([`MergedRun::join`]). In [`BatchGro`] nothing is held from batch to batch, dropped, acknowledged or put in another
//! order, so a loss is told to the peer as early as ever. Payload is read once, for its checksum.
//!
//! An [`Engine`] makes longer runs, and runs of what came in another order, at the price of a bounded time: it keeps
//! packets beyond their batch where more of their flow is expected. It drops and acknowledges nothing either.
//!
//! Where several workers receive for one host an [`Arbiter`] says whose packet goes up next.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod arbiter;
mod arrival;
mod config;
mod engine;
mod flow;
pub mod fuzz;
mod islands;
mod layout;
mod merged_run;
mod merged_runs;
mod pieces;
mod run;
#[cfg(test)]
mod tests;

pub use arbiter::{Arbiter, CONTROL_RUN, Next, QUEUES_MAX};
pub use arrival::Arrival;
pub use config::{Config, HOLD_MAX};
pub use engine::{Engine, HoldCounters};
pub use merged_run::{MERGE_MAX, MergedRun, Refusal};
pub use merged_runs::{BatchGro, GroCounters, MERGE_WORTH};
pub use run::{Flush, Run};
