//! The SYN and the SYN-ACK where a [`CachedState`] start knows how they look: only their numbers are worked out.

use base::Seq;
use wire::tcp::{Options, Timestamps};

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::handshake::cached::CachedState;
use crate::{Cx, Transmit};

/// Fields of a SYN or SYN-ACK that differ from one connection to the next, beside its ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// Sequence number.
    pub seq: Seq,
    /// Acknowledgment number; 0 on a SYN.
    pub ack: Seq,
    /// Window field.
    pub window: u16,
    /// The timestamps, if it carries any.
    pub stamps: Option<Timestamps>,
}

impl Connection {
    /// In the place of [`Connection::poll_transmit`]: our SYN or SYN-ACK, leaving for the first time and looking like
    /// that of `cached`. `None`, and nothing happened, if something else is due or it looks otherwise.
    #[inline]
    pub fn poll_opening(&mut self, cx: &mut Cx<'_>, cached: &CachedState) -> Option<Opening> {
        let first = self.due() == Due::SYN && self.snd.flight() == 0 && self.snd.queued() == 0;
        if !first || self.bits.has(Bits::OWN_SYN) || cx.probe.is_some() || !cached.opens(self) {
            return None;
        }
        let Transmit { header, .. } = self.open_bare(cx);
        cx.counters.segments_out += 1;
        self.counts.sent(1);
        let stamps = header.options.timestamps;
        Some(Opening { seq: header.seq, ack: header.ack, window: header.window, stamps })
    }

    /// Inlined: of all this, only what the caller looks at is worked out.
    #[inline(always)]
    fn open_bare(&mut self, cx: &mut Cx<'_>) -> Transmit {
        let plan = self.plan_syn(cx);
        let options = Options { timestamps: self.stamps(cx, plan.flags), ..Options::NONE };
        self.build(cx, &plan, options)
    }

    /// How the SYN or SYN-ACK of a connection looks that exists for this only. `None` if there is something special
    /// about it.
    pub(crate) fn show_opening(&mut self, cx: &mut Cx<'_>) -> Option<Transmit> {
        if self.bits.has(Bits::OWN_SYN) {
            return None;
        }
        let plan = self.plan_syn(cx);
        Some(self.build_fully(cx, &plan))
    }
}
