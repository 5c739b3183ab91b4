//! Events of a connection between its segments, for observers.

use cc::Signal;

use crate::{DropReason, Error};

base::names! {
    /// A timer that came up.
    pub enum Timer {
        Handshake: "handshake", "Our SYN or SYN-ACK was not answered.",
        Retransmission: "retransmission", "What is in flight was not acknowledged (RFC 6298).",
        Reordering: "reordering", "What could have been overtaken has had its time (RFC 8985, section 6.2).",
        TailProbe: "tail-probe", "The end of the flight was not acknowledged (RFC 8985, section 7).",
        Persist: "persist", "The peer's window is shut, or holds back too small a segment (RFC 9293, section 3.8.6).",
        DelayedAck: "delayed-ack", "Nothing was sent on which an acknowledgment could ride (RFC 5681, section 4.2).",
        Idle: "idle", "Keepalive, FIN-WAIT-2 of an orphan, another look at an exhausted pool, or the pace.",
    }
}

/// Something that happened to a connection beside segments and changes of its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Incident {
    /// A timer came up.
    Timer(Timer),
    /// A retransmission timeout of data, the `nth` in a row (RFC 6298).
    Timeout {
        /// 1 for the first.
        nth: u8,
    },
    /// Fast recovery began (RFC 5681, section 3.2; RFC 6675).
    RecoveryEntered,
    /// A repair is over, or was found `needless` (RFC 3522).
    RecoveryLeft {
        /// The recovery was needless: the data had arrived.
        needless: bool,
    },
    /// The policy was told of congestion.
    Congestion(Signal),
    /// A segment was dropped.
    Dropped(DropReason),
    /// The connection failed.
    Failed(Error),
}
