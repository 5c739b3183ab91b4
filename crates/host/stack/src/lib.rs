//! One core's share-nothing stack: demultiplexing, listeners, ports, timers, IP and neighbours, and the one
//! fixed sequence of a turn.
//!
//! [`Core`] is the whole of it. The same [`Core::turn`] runs on a pinned thread, inside an application's
//! `epoll_wait`, and in the emulator's virtual time.
#![forbid(unsafe_code)]

mod adopted;
mod again;
mod auth;
mod conns;
mod core;
mod demux;
mod fast_open;
pub mod fuzz;
mod handover;
mod handshake_cache;
mod hosts;
mod icmp;
mod input;
mod ip;
mod limit;
mod link;
mod listeners;
mod loopback;
mod merge;
mod neighbours;
mod ops;
mod over;
mod paths;
mod policies;
mod ports;
mod probes;
mod recent;
mod reclaim;
mod report;
mod rx;
mod secrets;
mod sharing;
mod stats;
mod timewait;
mod tracers;
mod turn;
mod tx;
mod wheel;

pub use conns::ConnId;
pub use core::{BATCHES_MAX, Core, CoreConfig};
pub use fast_open::FastOpenListen;
pub use hosts::HostRow;
pub use ip::OwnAddr;
pub use listeners::{Listen, ListenerId};
pub use loopback::Loopback;
pub use merge::Offload;
pub use offload::GroCounters;
pub use ops::{Connect, OpError, Row};
pub use probes::ProbeId;
pub use report::Figure;
pub use stats::{PacketDrop, Stats};
pub use turn::{Notice, Turn};
