//! The packetdrill language in virtual time: scripts of packets and system calls against the production stack.
#![forbid(unsafe_code)]

pub mod code;
pub mod fuzz;
pub mod lang;
pub mod original;
pub mod run;
pub mod suite;
