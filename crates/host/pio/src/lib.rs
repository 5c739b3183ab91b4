//! Packet I/O: one trait, many ports.
//!
//! One of the four rooms where `unsafe` lives.

pub mod fuzz;
pub mod netlink;
mod open;
mod packet;
mod pair;
mod port;
mod shm;
mod spread;
mod sys;
mod tap;
#[cfg(test)]
mod testnet;
pub mod userns;
mod vnet;
pub mod xdp;

pub use open::{OpenError, open};
pub use packet::{Packet, PacketConfig, Receive, open_packet};
pub use pair::{Pair, PairConfig, pair};
pub use port::*;
pub use shm::{Shm, ShmConfig, open_shm};
pub use tap::{Tap, TapConfig, open_tap};
