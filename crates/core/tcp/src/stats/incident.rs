//! Events of a connection between its segments, for observers.

use cc::Signal;

use crate::connection::{Bits, Connection};
use crate::{Cx, DropReason, Error, State};

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

impl Connection {
    /// Tells the observer.
    #[inline]
    pub(crate) fn note(&self, cx: &mut Cx<'_>, incident: Incident) {
        if cx.probe.is_some() {
            self.note_to_probe(cx, incident);
        }
    }

    #[cold]
    fn note_to_probe(&self, cx: &mut Cx<'_>, incident: Incident) {
        if let Some(probe) = cx.probe.as_deref_mut() {
            probe.incident(cx.now, self.key(), &incident);
        }
    }

    /// Tells the observer which timers have expired.
    #[cold]
    pub(crate) fn note_timers(&self, cx: &mut Cx<'_>) {
        let now = cx.now;
        if self.timers.is_delack_due(now) {
            self.note_to_probe(cx, Incident::Timer(Timer::DelayedAck));
        }
        if self.timers.is_rtx_due(now) {
            self.note_to_probe(cx, Incident::Timer(self.rtx_stands_for()));
        }
        if self.timers.is_idle_due(now) {
            self.note_to_probe(cx, Incident::Timer(Timer::Idle));
        }
    }

    fn rtx_stands_for(&self) -> Timer {
        match self.state() {
            State::SynSent | State::SynReceived => Timer::Handshake,
            _ if self.bits.has(Bits::REORDERING) => Timer::Reordering,
            _ if self.bits.has(Bits::TAIL_PROBE) => Timer::TailProbe,
            _ if self.snd.flight() == 0 || self.snd.window() == 0 => Timer::Persist,
            _ => Timer::Retransmission,
        }
    }
}
