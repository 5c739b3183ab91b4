//! Packet I/O: one trait, many ports.
//!
//! One of the seven crates where `unsafe` lives.

pub mod apart;
pub mod child;
#[cfg(feature = "dpdk")]
mod dpdk;
mod epoll_timer;
mod extensions;
pub mod fuzz;
mod group;
mod inspect;
mod interfaces;
mod layers;
mod messages;
pub mod netlink;
mod nic;
mod open;
mod open_error;
mod packet;
mod pair;
mod pcap;
mod peer_hash;
mod port;
mod ports;
mod processes;
mod reattach;
pub mod regular;
mod shared_dir;
mod shm;
mod sleep;
mod sum;
mod sys;
mod tap;
#[cfg(test)]
mod tests;
pub mod unix_socket;
mod user;
pub mod userns;
mod vnet;
pub mod xdp;

#[cfg(feature = "dpdk")]
pub use dpdk::{Dpdk, DpdkConfig, open_dpdk};
pub use epoll_timer::EpollTimer;
pub use inspect::{Inspection, capabilities, inspect, lockable_memory, missing_capabilities};
pub use interfaces::{addresses_of, has_interface};
pub use layers::Layer;
pub use layers::card::{Card, CardConfig, RECEIVERS_MAX};
pub use layers::gro::{Gro, HELD_MAX};
pub use layers::lanes::{Fit, LANES_MAX, Lanes};
pub use layers::steer::{Rss, Steered, steer};
pub use open::{open, open_wire};
pub use open_error::OpenError;
pub use packet::{Packet, PacketConfig, open_packet};
pub use pair::{Pair, PairConfig, pair};
pub use pcap::{Pcap, PcapConfig, open_pcap};
pub use port::*;
pub use shm::{Shm, ShmConfig, open_shm};
pub use sleep::{sleep_on, wait, wake_precisely};
pub use sum::summer;
pub use sys::process_cpu;
pub use tap::{Tap, TapConfig, open_tap};
pub use user::{User, give_up_root, loses_link, set_capabilities, use_all_permitted};
