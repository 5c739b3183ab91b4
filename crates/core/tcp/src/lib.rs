//! One TCP connection, sans-IO: facts come in by `on_`, requests go out by `poll_`, getters are bare nouns.
//!
//! Nothing here reads a clock, knows a thread or touches a device. The caller passes time and the core's
//! shared things in a [`Cx`].
//!
//! `connection` holds the variables, `sender` and `receiver` those of the two sequence spaces, `bits` its flags. `input` is the list of checks of RFC 9293,
//! section 3.10.7, in its order, with a short path in front; `output` decides on the next segment and builds it;
//! `application` is what the owner calls. `sent` knows when what is in flight left, `rack` tells losses by it,
//! `tail_probe` asks when nothing comes back. `recovery` repairs, `prr` meters it, `retransmission` chooses what is
//! sent again, `resent` knows what that was. `marks` keeps what the application said about places in its stream.
//! `timers` has three dates, `window` the receive window and its tuning, `icmp` and
//! `path` the size of segments, `ecn` marks, `accecn` their exact count, `fast_open` data with the SYN, `account` what
//! is counted for the owner alone, `auth` signs, `defer` lets what is half-open wait for data. Whatever is rare lives
//! in a box that exists only while it is needed.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod accecn;
mod account;
mod application;
mod archive;
mod assembler;
pub mod auth;
mod bits;
mod chain;
mod charge;
mod config;
mod connection;
mod cookie;
mod counters;
mod cx;
pub mod defer;
mod delivery;
mod ecn;
mod ecn_policy;
mod event;
mod fast_open;
mod frames;
#[doc(hidden)]
pub mod fuzz;
mod getters;
mod handover;
mod host;
mod icmp;
mod incident;
mod info;
mod input;
mod isn;
mod limit;
mod marks;
mod memory;
mod mtu_search;
mod options;
mod output;
mod pacing;
mod path;
mod pool;
mod probe;
mod quirks;
mod receiver;
mod recovery;
mod reset;
mod rtt;
mod scale;
mod send_buffer;
mod sender;
mod sent;
mod start;
mod state;
mod timers;
mod times;
mod timewait;
mod transmit;
mod vitals;
mod window;

#[cfg(test)]
mod tests;

pub use archive::Archived;
pub use config::{Config, Setting, SettingError};
pub use connection::{Connection, Open};
pub use cookie::{Cookie, CookieJar};
pub use counters::{Counters, DropReason};
pub use cx::Cx;
pub use ecn_policy::EcnPolicy;
pub use event::{Disposition, Error, Events, ReadError, Shutdown, WriteError};
pub use fast_open::{
    CookieWorth, FastOpenAnswer, FastOpenCache, FastOpenJar, FastOpenKeys, FastOpenOffer, FastOpenOutcome,
    Lesson,
};
pub use frames::Frames;
pub use handover::Handover;
pub use host::{HostHint, HostLesson, HostMemory};
pub use icmp::IcmpError;
pub use incident::{Incident, Timer};
pub use info::{AccEcnInfo, Info, OptionSeen};
pub use isn::IsnSource;
pub use limit::{Limit, Limited, ReceiveLimit};
pub use marks::{Hints, Report, Stamps};
pub use options::{SocketOptions, Times};
pub use output::Opening;
pub use pool::Pool;
pub use probe::{Payload, Probe, Seen, Stray};
pub use quirks::Quirks;
pub use receiver::{ADOPTED_MIN, ReassemblyInfo};
pub use reset::reset_for;
pub use start::Fresh;
pub use state::State;
pub use timewait::{TimeWait, TimeWaitAnswer};
pub use transmit::{Transmit, TransmitClass, TxLimits};
pub use vitals::{Features, Vitals};
