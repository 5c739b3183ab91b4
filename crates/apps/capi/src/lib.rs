//! `libmillstream`: the stack for C programs. `millstream.h` is made from this crate's functions and their
//! documentation (`cargo xtask headers`); docs/C.md is the guide.
//!
//! Every function of [`calls`] takes a context first, returns -1 (or NULL) and sets `errno` when it fails, and lets no
//! panic out: see `boundary`. What C's pointers point to is read and written in `memory` and nowhere else.

pub mod boundary;
pub mod calls;
mod context;
pub mod host;
pub mod memory;
mod settings;

pub use context::Context;

/// A version in the manner of C.
pub const VERSION: &std::ffi::CStr =
    match std::ffi::CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version holds no NUL"),
    };
