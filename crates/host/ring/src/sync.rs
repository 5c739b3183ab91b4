//! The atomics of this room: the machine's, or loom's when a model explores every interleaving.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic;
#[cfg(loom)]
pub(crate) use loom::sync::atomic;
