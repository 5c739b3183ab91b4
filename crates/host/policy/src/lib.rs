//! Congestion control from shared libraries: a table of C functions ([`abi`], `include/millstream_cc.h`), the loader
//! that makes a policy of such a table, and [`export!`], which makes such a table of a [`cc::Controller`].
//!
//! A library stays mapped until the last connection has let go of its policy, whatever has removed it from registries.

pub mod abi;
mod adapter;
mod elevated;
pub mod export;
mod library;

pub use adapter::Loaded;
pub use elevated::elevated;
pub use library::{Library, LoadError};
