//! The states of RFC 9293, section 3.3.2, and those of a repair.

base::names! {
    /// Where a connection stands. LISTEN and CLOSED have no [`crate::Connection`]; TIME-WAIT lives in
    /// [`crate::TimeWait`].
    pub enum State {
        SynSent: "SYN-SENT", "Our SYN is out.",
        SynReceived: "SYN-RECEIVED", "Both SYNs seen, ours not acknowledged.",
        Established: "ESTABLISHED", "Data flows.",
        FinWait1: "FIN-WAIT-1", "We are done; our FIN is queued or out.",
        FinWait2: "FIN-WAIT-2", "Our FIN is acknowledged; the peer may still send.",
        CloseWait: "CLOSE-WAIT", "The peer is done; we are not.",
        Closing: "CLOSING", "Both FINs out, ours not acknowledged.",
        LastAck: "LAST-ACK", "The peer is done, our FIN is queued or out.",
        Closed: "CLOSED", "Over: the connection may be removed.",
    }
}

impl State {
    /// Linux's number of it (`TCP_ESTABLISHED` and so on, include/net/tcp_states.h), which its tools know.
    pub const fn number(self) -> u8 {
        match self {
            State::Established => 1,
            State::SynSent => 2,
            State::SynReceived => 3,
            State::FinWait1 => 4,
            State::FinWait2 => 5,
            State::Closed => 7,
            State::CloseWait => 8,
            State::LastAck => 9,
            State::Closing => 11,
        }
    }

    /// Both SYNs were seen and acknowledged: RFC 9293's synchronized states.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, State::SynSent | State::SynReceived | State::Closed)
    }

    /// The peer may still send data: its FIN has not been taken.
    pub const fn may_receive(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// New data may be sent, or what was queued before the FIN.
    pub const fn may_send(self) -> bool {
        matches!(
            self,
            State::Established | State::CloseWait | State::FinWait1 | State::Closing | State::LastAck
        )
    }
}

/// Which repair of losses is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// None yet: something was SACKed, or a repair has just ended.
    Disorder,
    /// Fast recovery: the policy has reduced, holes are being filled.
    Fast,
    /// The policy has reduced without a loss (RFC 3168): sending is metered until what was in flight is gone.
    Reduced,
    /// After a timeout: everything not SACKed is sent again, in slow start.
    Timeout,
    /// After a path MTU reduction: likewise, but nothing was lost to congestion (RFC 1191, section 6.4).
    Resegment,
}

impl Phase {
    /// Is something sent again?
    pub(crate) fn repairs(self) -> bool {
        matches!(self, Phase::Fast | Phase::Timeout | Phase::Resegment)
    }
}
