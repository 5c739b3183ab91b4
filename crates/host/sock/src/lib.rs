//! Sockets over a Millstream stack: descriptors, epoll, poll, pipes and options with Linux's meaning, and a
//! Rust API that reads like std::net.
#![forbid(unsafe_code)]

pub mod address;
pub mod boundary;
mod c;
mod card;
mod clients;
mod clock;
pub mod cmsg;
mod config_file;
pub mod control;
mod cpu;
mod descriptors;
mod engine;
mod errno;
pub mod keys;
pub mod metrics;
mod net;
mod object;
mod open;
pub mod options;
pub mod paired;
mod pipe;
mod poller;
pub mod program;
mod readiness;
pub mod runner;
mod settings;
mod sockets;
pub mod syscalls;
mod table;
pub mod tcp_info;
mod transport;
pub mod tree;
mod tuning;
mod watch;

pub use clock::{Clock, SystemClock};
pub use cpu::pin_to;
pub use engine::{Engine, Limits};
pub use errno::Errno;
pub use net::{Stack, TcpListener, TcpStream};
pub use open::{OpenError, Opened, Tap, open, open_beside, open_interruptible, open_over};
pub use paired::Paired;
pub use pio::{Role, give_up_root, loses_link, set_capabilities, use_all_permitted};
pub use policy::elevated;
pub use poller::Poller;
pub use runner::Runner;
pub use settings::{
    Assignments, Bytes, ControlLevel, Loopback, Mode, Offload, Receivers, Row, SettingError, Settings,
    Workers, tcp_settings,
};
pub use sockets::{
    Check, EpollEvent, EpollOp, ErrorReport, Family, Fd, PollFd, Ready, Received, RecvFlags, SendFlags,
    Sockets,
};
pub use tcp::{Hints, Shutdown};
pub use transport::Transport;

/// The programs of the guide and of the README are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/GUIDE.md")]
#[doc = include_str!("../../../../README.md")]
struct Guide;
