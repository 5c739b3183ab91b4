//! Second check: RST.

use wire::tcp::{Flags, Segment};

use crate::connection::{Bits, Connection};
use crate::input::{Cause, Check};
use crate::{Cx, DropReason, Error, State};

impl Connection {
    /// Only the exact next byte resets (RFC 5961, section 3.2), unless a profile says otherwise; anything else in the
    /// window is asked again.
    /// RFC 9293, MUST-11, MUST-12, SHLD-2 and MUST-66; RFC 5961, 3.2-2, 3.2-3 and 3.2-4.
    pub(crate) fn check_reset(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Check {
        if !seg.flags.has(Flags::RST) {
            return Ok(());
        }
        if seg.seq != self.rcv.nxt() && !cx.config.quirks.insecure_rst {
            self.challenge(cx, Cause::Reset);
            return Err(DropReason::BadReset);
        }
        cx.counters.resets_in += 1;
        if self.state().is_synchronized() {
            cx.counters.established_resets += 1;
        }
        match self.state() {
            // RFC 9293, section 3.10.7.4: a passive open goes back to LISTEN without a word; an active one
            // was refused.
            State::SynReceived if !self.bits.has(Bits::ACTIVE | Bits::EARLY) => {
                cx.counters.attempt_fails += 1;
                self.finish(cx);
            }
            State::SynReceived if self.bits.has(Bits::ACTIVE) => self.fail(cx, Error::Refused),
            // All that could still be lost has arrived.
            State::Closing | State::LastAck if self.bits.has(Bits::ORPHAN) => self.finish(cx),
            // As on Linux: the peer's end was in order, and what fails is the next send.
            State::CloseWait if !cx.config.quirks.reset_after_fin => self.fail(cx, Error::BrokenPipe),
            _ => self.fail(cx, Error::Reset),
        }
        // Whatever else it carries is not looked at: the connection is gone.
        Err(DropReason::Closed)
    }
}
