//! What ports and network share: an inbox and an outbox per port, and spare buffers.
//!
//! The lock is there because a port must be `Send`; in a network everything happens on one thread.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A packet on its way.
pub(crate) type Packet = Vec<u8>;

#[derive(Default)]
pub(crate) struct Medium {
    pub(crate) ports: Vec<Boxes>,
    /// Buffers to use again, so that a warm network does not allocate.
    pub(crate) spare: Vec<Packet>,
}

#[derive(Default)]
pub(crate) struct Boxes {
    pub(crate) inbox: VecDeque<Packet>,
    pub(crate) outbox: Vec<Packet>,
}

#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Medium>>);

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Medium> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer that holds `bytes`, from the spares if there are any.
pub(crate) fn packet_of(spare: &mut Vec<Packet>, bytes: &[u8]) -> Packet {
    let mut packet = spare.pop().unwrap_or_default();
    packet.clear();
    packet.extend_from_slice(bytes);
    packet
}
