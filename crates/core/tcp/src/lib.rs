//! One TCP connection, sans-IO: facts come in by `on_`, requests go out by `poll_`, getters are bare nouns.
//!
//! Nothing here reads a clock, knows a thread or touches a device. The caller passes time and the core's
//! shared things in a [`Cx`].
//!
//! `connection` holds the parts of a connection, `lifecycle` begins and ends it. The type of each part is in a file
//! that names no connection, and its variables are private to its folder: `sender` and `receiver` the two sequence
//! spaces, `timers` dates, timeout and round-trip time, `recovery` the repair of losses. `input` is the list of checks
//! of RFC 9293, section 3.10.7, in its order, with a short path in front; `output` decides on the next segment and
//! builds it; `application` is what the owner calls. `handshake` and `close` are beginning and end, `mtu` the size of
//! segments, `ecn` marks and their exact count, `buffers` memory, `stats` what is counted and shown, `auth` signatures.
//! `bits` are flags, each changed by one module; `marks` is what the application said about places in its stream.
//! Whatever is rare lives in a box that exists only while it is needed.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod application;
pub mod auth;
mod bits;
mod buffers;
mod close;
mod config;
mod connection;
mod cx;
mod delivery;
mod due;
mod ecn;
mod event;
#[doc(hidden)]
pub mod fuzz;
mod handshake;
mod host;
mod input;
mod lifecycle;
mod marks;
mod memory;
mod mtu;
mod options;
mod output;
mod pacing;
mod quirks;
mod receiver;
mod recovery;
mod scale;
mod sender;
mod start;
mod state;
mod stats;
mod timers;
mod transmit;

#[cfg(test)]
mod tests;

pub use buffers::frames::Frames;
pub use buffers::pool::Pool;
pub use close::reset::reset_for;
pub use close::timewait::{TimeWait, TimeWaitAnswer};
pub use config::{Config, Setting, SettingError};
pub use connection::Connection;
pub use cx::Cx;
pub use ecn::ecn_policy::EcnPolicy;
pub use event::{Disposition, Error, Events, ReadError, Shutdown, WriteError};
pub use handshake::cached::CachedState;
pub use handshake::cookie::{Cookie, CookieJar};
pub use handshake::defer;
pub use handshake::fast_open::{
    CookieWorth, FastOpenAnswer, FastOpenCache, FastOpenJar, FastOpenKeys, FastOpenOffer, FastOpenOutcome,
    Lesson,
};
pub use handshake::handover::Handover;
pub use handshake::isn::IsnSource;
pub use host::{HostHint, HostLesson, HostMemory};
pub use marks::ends::{Hints, Report, Stamps};
pub use mtu::icmp::IcmpError;
pub use options::{SocketOptions, Times};
pub use output::Opening;
pub use quirks::Quirks;
pub use receiver::ADOPTED_MIN;
pub use sender::send_buffer::LENT_MIN;
pub use start::{Fresh, Open};
pub use state::State;
pub use stats::counters::{Counters, DropReason};
pub use stats::incident::{Incident, Timer};
pub use stats::info::{AccEcnInfo, Info, OptionSeen, ReassemblyInfo};
pub use stats::limited::{Limit, Limited, ReceiveLimit};
pub use stats::probe::{Payload, Probe, Seen, Stray};
pub use stats::vitals::{Features, Vitals};
pub use transmit::{Transmit, TransmitClass, TxLimits};
