//! One core's share-nothing stack: demultiplexing, listeners, ports, timers, IP and neighbours, and the one
//! fixed sequence of a turn.
#![forbid(unsafe_code)]

mod api;
pub use api::*;
