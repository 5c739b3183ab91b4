//! One core's share-nothing stack: demultiplexing, listeners, ports, timers, IP and neighbours, and the one
//! fixed sequence of a turn.
//!
//! [`Core`] is the whole of it. The same [`Core::turn`] runs on a pinned thread, inside an application's
//! `epoll_wait`, and in the emulator's virtual time.
#![forbid(unsafe_code)]

mod auth;
mod cached_handshakes;
mod core;
mod error;
mod fast_open;
pub mod fuzz;
mod handover;
mod loopback;
mod net;
mod ops;
mod panicked;
mod policies;
mod probes;
mod reclaim;
mod report;
mod rx;
mod secrets;
mod shared_ports;
mod stats;
mod tables;
mod tracers;
mod transmit;
mod turn;
mod tx;

pub use core::{BATCHES_MAX, Core, CoreConfig};
pub use error::OpError;
pub use fast_open::FastOpenListen;
pub use net::ip::{Loopback, OwnAddr};
pub use offload::GroCounters;
pub use ops::{Connect, Row};
pub use probes::watch::ProbeId;
pub use report::Figure;
pub use rx::Offload;
pub use rx::adopted::FrameBytes;
pub use stats::{PacketDrop, Stats};
pub use tables::conns::ConnId;
pub use tables::host_cache::HostRow;
pub use tables::listeners::{Listen, ListenerId};
pub use turn::{Notice, Turn};
