//! Congestion control: policies behind one trait. A policy owns its window and hands it out; it never
//! reaches into the connection.
//!
//! Built-in policies live inline in [`Control`]; programs add their own to a core's [`Registry`], which boxes
//! them. A name that is not registered is an error, never a silent default.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bbr;
mod cdg;
mod classical;
mod control;
mod controller;
mod cubic;
mod dctcp;
mod deliveries;
mod fuzz;
mod htcp;
mod hystart;
mod hystart_limits;
mod many;
mod newreno;
mod prague;
mod registry;
mod reno;
mod round;
#[cfg(test)]
mod tests;
mod tunable;
mod vegas;

pub use bbr::Bbr;
pub use cdg::Cdg;
pub use classical::{Classical, HALF, Law, Part};
pub use control::Control;
pub use controller::{
    AckSample, Controller, EcnFeedback, Needs, PathInfo, RateSample, Signal, SignalInfo, Window,
};
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use deliveries::{Deliveries, Departure};
pub use fuzz::fuzz;
pub use htcp::HTcp;
pub use hystart_limits::HyStartLimits;
pub use many::{MulTcp, MulWin};
pub use newreno::NewReno;
pub use prague::Prague;
pub use registry::{
    CreateError, Factory, Listed, REFUGE, RegisterError, Registry, RemoveError, SetError, Unknown, Withheld,
};
pub use reno::Reno;
pub use tunable::{Tunable, TunableError};
pub use vegas::Vegas;
