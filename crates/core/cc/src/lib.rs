//! Congestion control: policies behind one trait. A policy owns its window and hands it out; it never
//! reaches into the connection.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod controller;
pub use controller::*;
