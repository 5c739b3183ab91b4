//! A packet as it comes to the engine.

use base::{FlowKey, Seq};
use wire::tcp::Flags;

/// Control bits that data may have to be held: anything else is an event of its own.
const PLAIN: Flags = Flags(Flags::ACK.0 | Flags::PSH.0 | Flags::ACE.0);

/// A TCP packet whose checksums are right.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<T> {
    /// Flow of the packet.
    pub key: FlowKey,
    /// A keyed hash of that: a sender must not know which flows share a row of the table.
    pub hash: u64,
    /// Where its IP header starts.
    pub ip: usize,
    /// Where TCP starts, and where its payload ends.
    pub tcp: usize,
    /// See `tcp`.
    pub end: usize,
    /// It stands for several segments of the wire: the link has merged them.
    pub merged: bool,
    /// The packet.
    pub packet: T,
}

/// Fields of a packet that the engine reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) seq: Seq,
    pub(crate) len: u32,
    pub(crate) flags: Flags,
}

impl<T: AsRef<[u8]>> Arrival<T> {
    pub(crate) fn look(&self) -> Seen {
        Seen::of(self.packet.as_ref().get(self.tcp..self.end).unwrap_or_default())
    }
}

impl Seen {
    /// Sequence number, length and control bits of a TCP segment; of what is too short, zeros.
    #[inline(always)]
    pub(crate) fn of(segment: &[u8]) -> Seen {
        let [_, _, _, _, a, b, c, d, _, _, _, _, e, f] = segment.first_chunk().copied().unwrap_or_default();
        let (seq, bits) = (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]));
        let header = usize::from(bits >> 12) * 4;
        Seen {
            seq: Seq::new(seq),
            len: segment.len().saturating_sub(header) as u32,
            flags: Flags(bits & Flags::ALL.0),
        }
    }

    /// One past its last byte.
    pub(crate) fn end(&self) -> Seq {
        self.seq + self.len
    }

    /// Data and nothing else: may it be held?
    pub(crate) fn is_plain(&self) -> bool {
        self.flags.has(Flags::ACK) && self.flags.0 & !PLAIN.0 == 0 && self.len > 0
    }
}
