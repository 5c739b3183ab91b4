//! Queues, byte rings, frame pools and doorbells: the few things that cores, threads and the kernel share.
//!
//! One of the seven crates where `unsafe` lives; every block names its invariant and has a model beside it.
//!
//! * [`WorkerPool`]: threads that help another with its work, a run of items at a time.
//! * [`FramePool`], [`Frame`]: slots of one mapping, each with one owner. [`GrowingPool`]: several, mapped when needed.
//! * [`spsc::queue`], [`bytes::bytes`]: items and bytes from one thread to another.
//! * [`doorbell()`], [`SleepFlag`], [`EventFd`]: waking a thread that sleeps, and only then.
//! * [`Nap`]: a sleep that a signal's handler ends, whenever it runs.
//! * [`shared::SharedMemory`]: memory shared with a process that may be hostile.
//! * [`Table`]: items that never move, on huge pages.
//! * [`Line`]: a value that shares its cache lines with no other.
//! * [`prefetch_read`]: a hint to the cache. [`current_cpu`]: where a thread runs.
//!
//! Under `cfg(loom)` the models explore every interleaving (`RUSTFLAGS="--cfg loom" cargo test -p millstream-ring
//! --release loom`); Miri runs the ordinary tests of everything that needs no kernel.

pub mod bytes;
mod cpu;
mod doorbell;
mod ends;
#[cfg(not(loom))]
mod eventfd;
mod frame;
mod growing;
mod map;
mod nap;
mod prefetch;
pub mod shared;
pub mod spsc;
mod sync;
mod table;
mod worker_pool;

pub use bytes::{ByteConsumer, ByteProducer, bytes};
pub use cpu::current_cpu;
pub use doorbell::{Ringer, SleepFlag, Sleeper, Woken, doorbell};
pub use ends::{Reader, Writer};
#[cfg(not(loom))]
pub use eventfd::EventFd;
pub use frame::{Frame, FramePool};
pub use growing::GrowingPool;
pub use map::{Mapping, Pages};
pub use nap::Nap;
pub use prefetch::{prefetch_all, prefetch_bytes, prefetch_read, prefetching};
pub use spsc::{Consumer, Producer, queue};
pub use sync::Line;
pub use table::Table;
pub use worker_pool::Lost;
#[cfg(not(loom))]
pub use worker_pool::WorkerPool;
