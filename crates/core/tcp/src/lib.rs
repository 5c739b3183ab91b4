//! One TCP connection, sans-IO: facts come in by `on_`, wishes go out by `poll_`, getters are bare nouns.
//!
//! Nothing here reads a clock, knows a thread or touches a device. The caller passes time and the core's
//! shared things in a [`Cx`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod api;
mod assembler;
mod chain;
mod config;
mod cookie;
#[doc(hidden)]
pub mod fuzz;
mod isn;
mod pool;
mod reset;
mod rtt;
mod scale;
mod scoreboard;
mod timewait;

pub use api::*;
pub use config::{Config, Setting, SettingError, SocketOptions};
pub use cookie::{Cookie, CookieJar};
pub use isn::IsnSource;
pub use pool::Pool;
pub use reset::reset_for;
pub use timewait::{TimeWait, TimeWaitAnswer};
