//! Observation of a stack: packets are recorded without delaying them.
#![forbid(unsafe_code)]

mod annotate;
pub mod blackbox;
mod capture;
mod points;
pub mod queue;
pub mod siftr;
mod tap;

pub use annotate::StateProbe;
pub use capture::{Capture, CaptureStats, capture, write_start};
pub use points::Points;
pub use tap::{Switch, tapped};
