//! Output that a connection has to make.

/// Pending output, as bits; nothing set means that `poll_transmit` need not look.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Due(u8);

impl Due {
    /// SYN, or SYN-ACK once the peer's SYN is known.
    pub(crate) const SYN: Due = Due(1);
    /// RST: the last segment of a connection, or the answer to a bad acknowledgment in a handshake.
    pub(crate) const RST: Due = Due(2);
    /// An acknowledgment, alone or on whatever else leaves.
    pub(crate) const ACK: Due = Due(4);
    /// Something changed about data, FIN or retransmissions: look whether any can leave.
    pub(crate) const DATA: Due = Due(8);
    /// A zero-window probe.
    pub(crate) const PROBE: Due = Due(16);
    /// A keepalive probe.
    pub(crate) const KEEPALIVE: Due = Due(32);
    /// A tail loss probe.
    pub(crate) const TAIL_PROBE: Due = Due(64);
    /// The acknowledgment of a SYN-ACK, alone and before anything else.
    pub(crate) const GREETING: Due = Due(128);
    /// Output that precedes all other.
    pub(crate) const FIRST: Due = Due(Due::RST.0 | Due::SYN.0 | Due::GREETING.0);

    #[inline]
    pub(crate) fn has(self, one: Due) -> bool {
        self.0 & one.0 != 0
    }

    #[inline]
    pub(crate) fn clear(&mut self, one: Due) {
        self.0 &= !one.0;
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl core::ops::BitOrAssign for Due {
    #[inline]
    fn bitor_assign(&mut self, rhs: Due) {
        self.0 |= rhs.0;
    }
}
