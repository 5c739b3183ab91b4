//! Packet I/O: one trait, many ports.
//!
//! One of the four rooms where `unsafe` lives.

mod fault;
pub mod fuzz;
pub mod netlink;
mod open;
mod packet;
mod pair;
mod pcap;
mod port;
mod record;
mod shm;
mod spread;
mod sys;
mod tap;
mod tee;
#[cfg(test)]
mod testnet;
pub mod userns;
mod vnet;
mod watch;
pub mod xdp;

pub use fault::{Fault, FaultConfig, FaultCounts, Faults};
pub use open::{OpenError, open, open_help};
pub use packet::{Packet, PacketConfig, Receive, open_packet};
pub use pair::{Pair, PairConfig, pair};
pub use pcap::{Pcap, PcapConfig, open_pcap};
pub use port::*;
pub use record::Recorder;
pub use shm::{Shm, ShmConfig, open_shm};
pub use tap::{Tap, TapConfig, open_tap};
pub use tee::Tee;
