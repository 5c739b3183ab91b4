//! Differential tests against the Linux kernel with generated inputs. A seed makes an input, the input runs on the
//! kernel and on this stack, and what both did is compared. An input whose results differ is reduced to the smallest
//! one that still differs.
//!
//! ```text
//! seed -> generator -> input --+--> kernel -----+--> compare --> a row of `reasons` explains it, or it is a finding
//!                              +--> Millstream -+        \-----> shrink -> a program in C, or a packetdrill script
//! ```
#![forbid(unsafe_code)]

pub mod calls;
pub mod faults;
pub mod options;
pub mod packets;
pub mod progress;
pub mod reasons;
pub mod shrink;
