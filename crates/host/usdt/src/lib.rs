//! Static tracepoints (USDT): places of the program where bpftrace, perf and SystemTap can look in.
//!
//! A point is one `nop` and a note in the ELF file (`.note.stapsdt`, as SystemTap's `sys/sdt.h` writes it), which says
//! where the `nop` is, where its arguments are when it is reached, and where its semaphore lies. A tracer that attaches
//! replaces the `nop` and increments the semaphore; when it detaches it decrements it. So the program does nothing for
//! a point before it has seen the semaphore, and all semaphores lie together: [`watched`] looks at them with one load
//! for every four points.
//!
//! ```
//! use usdt::{Flow, StateChanged};
//!
//! if usdt::watched() && StateChanged::is_watched() {
//!     let flow = Flow { local: [0; 16], remote: [0; 16], local_port: 80, remote_port: 4711 };
//!     StateChanged { flow: flow.place(), from: 2, to: 1 }.reach();
//! }
//! ```
//!
//! There is a crate for this, `probe`, with a macro for each place; a table of our own says each point once, with what
//! its arguments are, for the program, its tests and its guide.
//!
//! Elsewhere than on Linux, x86-64 and AArch64, nothing can look in: nothing is ever watched.

mod elf;
mod flow;
mod hits;
mod points;
mod semaphores;
#[cfg(test)]
mod tests;

pub use elf::{ElfError, Note, notes};
pub use flow::Flow;
pub use hits::Hits;
pub use points::*;
pub use semaphores::{Look, is_watched, look, watched};

/// Provider of the points: `usdt:BINARY:millstream:NAME`.
pub const PROVIDER: &str = "millstream";
