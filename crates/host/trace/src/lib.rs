//! What a stack lets people see: packets on their way, recorded without ever delaying one.
#![forbid(unsafe_code)]

mod capture;
mod tap;

pub use capture::{Capture, CaptureStats, capture, write_start};
pub use tap::{Switch, tapped};
