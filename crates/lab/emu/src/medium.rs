//! State shared by ports and network: an inbox and an outbox per port, and spare buffers.
//!
//! The lock is there because a port must be `Send`; in a network everything happens on one thread.

use pio::{RxChecksum, RxMeta};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A packet on its way.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    /// Metadata for the port that receives it.
    pub(crate) meta: Meta,
}

/// [`RxMeta`] that can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The checksum was left unfinished by a sender who trusts the path.
    pub(crate) partial: bool,
    /// Payload bytes per segment, if it stands for several.
    pub(crate) gso_size: u16,
}

impl From<Meta> for RxMeta {
    fn from(meta: Meta) -> RxMeta {
        let checksum = if meta.partial { RxChecksum::Partial } else { RxChecksum::Unverified };
        RxMeta { checksum, gso_size: meta.gso_size, more: false }
    }
}

impl Packet {
    /// Bytes on the wire.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

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

/// A packet of `bytes`, in a spare's buffer if there is one.
pub(crate) fn packet_of(spare: &mut Vec<Packet>, bytes: &[u8], meta: Meta) -> Packet {
    let mut packet = spare.pop().unwrap_or_default();
    packet.bytes.clear();
    packet.bytes.extend_from_slice(bytes);
    packet.meta = meta;
    packet
}
