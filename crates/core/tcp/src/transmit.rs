//! Segments that leave a connection.

use base::Seq;
use wire::tcp::{Flags, Header};

/// A segment to send. The caller emits `header` and then the payload ([`crate::Connection::copy_payload`]).
#[derive(Clone, Copy, Debug)]
pub struct Transmit {
    /// TCP header, options included; ports filled in.
    pub header: Header,
    /// First payload byte, as an offset into the send buffer's unacknowledged data.
    pub offset: u32,
    /// Payload bytes; more than `mss` only when the slot allows a super-segment.
    pub len: u32,
    /// Payload bytes per wire segment.
    pub mss: u16,
    /// Which list it goes to: control before ACK before data.
    pub class: TransmitClass,
    /// ECN codepoint and DSCP for the IP header.
    pub tos: u8,
    /// IP TTL / hop limit.
    pub ttl: u8,
    /// Is this a retransmission?
    pub retransmit: bool,
}

/// mTCP's three transmit lists, the most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TransmitClass {
    /// SYN, FIN without data, RST.
    Control,
    /// Pure ACK, probe.
    Ack,
    /// Data.
    Data,
}

/// Limits of the port for one transmission.
#[derive(Clone, Copy, Debug)]
pub struct TxLimits {
    /// Largest payload of one transmission where the port segments (TSO); 0 where it does not. One MSS always
    /// goes.
    pub max_payload: u32,
}

/// A range of the send sequence: bytes of data, and the FIN behind them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SeqRange {
    pub(crate) seq: Seq,
    pub(crate) len: u32,
    pub(crate) fin: bool,
}

/// A segment decided on, before it has a header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxPlan {
    pub(crate) seq: Seq,
    /// Bytes of data.
    pub(crate) len: u32,
    pub(crate) flags: Flags,
    /// Bytes of data in each segment on the wire; 0 stands for a full one.
    pub(crate) mss: u16,
    pub(crate) class: TransmitClass,
    pub(crate) retransmit: bool,
    /// It may tell what arrived out of order: room is left for SACK blocks.
    pub(crate) tells: bool,
}

impl TxPlan {
    /// No data.
    pub(crate) fn bare(seq: Seq, flags: Flags, class: TransmitClass) -> TxPlan {
        TxPlan { seq, len: 0, flags, mss: 0, class, retransmit: false, tells: true }
    }
}
