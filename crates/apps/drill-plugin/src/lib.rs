//! `libmillstream_drill.so`: the original packetdrill drives this stack, in virtual time (`--so_filename`).
//!
//! The tool loads the library and asks [`packetdrill_interface_init`] for a table of functions: the calls of its
//! scripts, packets in and out, and the clock. What they do is [`drill::run`]'s, the same that `millstream drill` runs
//! scripts with; here are only C's types on one side and descriptors of the kernel's own on the other.
//!
//! C is met in three files: `interface` (the functions), `memory` (what their pointers point to) and `kernel`
//! (descriptors, errno). Nothing else is unsafe.

mod flags;
mod interface;
mod kernel;
mod memory;
mod plug;
mod preload;
mod script;
mod sysctls;
mod table;

pub use interface::{Interface, packetdrill_interface_init};
