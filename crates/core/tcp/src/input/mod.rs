//! A segment arrives: the checks of RFC 9293, section 3.10.7, in its order.

mod ack;
pub(crate) mod challenges;
mod data;
pub(crate) mod fast;
mod handshake;
mod reset;
mod sequence;

use wire::tcp::{Flags, Segment};

use crate::connection::{Bits, Connection};
use crate::{Config, Cx, Disposition, DropReason, Incident, State};

crate::bits::writer!(PEER_FIN, TIME_WAIT);

/// Goes on to the next check, or is dropped for a reason that was counted.
type Check = Result<(), DropReason>;

impl Connection {
    /// A segment for this connection arrived, or a run: segments that continue each other and agree in all but their
    /// timestamps, of which `seg` has the header of the first, PSH and FIN of the last, and the number (`merged`) and
    /// the data of all. The result of a run is as if each had come alone, except that one acknowledgment answers for
    /// all. A probe sees it as one packet.
    #[inline]
    pub fn on_segment(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Disposition {
        cx.counters.segments_in += 1;
        self.counts.received(seg.merged);
        if cx.probe.is_some() {
            self.show_inbound(cx, seg);
        }
        if seg.rest.is_none() { self.take(cx, seg) } else { self.take_run(cx, seg) }
    }

    #[inline(always)]
    fn take(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Disposition {
        let len = seg.payload.len() as u32;
        if self.is_predicted(seg, len) {
            self.take_short_path(cx, seg, len)
        } else {
            self.take_slow_path(cx, seg)
        }
    }

    /// Handles what takes the short path. Apart from the decision, which then needs no registers saved.
    #[inline(never)]
    fn take_short_path(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>, len: u32) -> Disposition {
        self.take_predicted(cx, seg, len);
        Disposition::Done
    }

    /// Handles a run: at once if it is what is expected next, else segment by segment.
    #[inline(never)]
    fn take_run(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Disposition {
        let len = seg.len();
        if self.is_predicted(seg, len) { self.take_short_path(cx, seg, len) } else { self.take_each(cx, seg) }
    }

    /// Handles a run segment by segment; the last has its PSH and FIN. Returns what became of the last.
    #[cold]
    fn take_each(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Disposition {
        let last = Flags(seg.flags.0 & (Flags::FIN | Flags::PSH).0);
        let whole = seg.len();
        let size = whole.div_ceil(u32::from(seg.merged.max(1))).max(1);
        let (mut done, mut seq, mut disposition) = (0, seg.seq, Disposition::Done);
        seg.for_each_piece(&mut |payload| {
            let end = done + payload.len() as u32;
            let merged = (end.div_ceil(size) - done.div_ceil(size)) as u16;
            let flags = Flags(seg.flags.0 & !last.0 | if end == whole { last.0 } else { 0 });
            disposition = self.take(cx, &Segment { seq, payload, rest: None, merged, flags, ..*seg });
            (done, seq) = (end, seq + payload.len() as u32);
            !matches!(disposition, Disposition::TimeWait | Disposition::Closed)
        });
        disposition
    }

    /// Processes a segment that header prediction did not take. A function of its own, or the predicted path would
    /// pay for its registers.
    #[inline(never)]
    fn take_slow_path(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Disposition {
        cx.counters.unpredicted += 1;
        let result = match self.state() {
            State::Closed => return Disposition::Dropped(DropReason::Closed),
            State::SynSent => self.on_syn_sent(cx, seg),
            _ => self.check(cx, seg),
        };
        match (self.state(), result) {
            (State::Closed, _) if self.bits.has(Bits::TIME_WAIT) => Disposition::TimeWait,
            (State::Closed, _) => Disposition::Closed,
            (_, Ok(())) => Disposition::Done,
            (_, Err(reason)) => {
                cx.counters.count_drop(reason);
                self.note(cx, Incident::Dropped(reason));
                Disposition::Dropped(reason)
            }
        }
    }

    /// Every state but SYN-SENT (RFC 9293, section 3.10.7.4).
    /// RFC 7323, 5.3-2; RFC 3168, 6.1.5-2; RFC 6093, 4-1.
    #[inline(always)]
    fn check(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Check {
        self.check_timestamp(cx, seg)?; // RFC 7323, section 5.3
        self.check_sequence(cx, seg)?; // first
        self.check_reset(cx, seg)?; // second; the third, security, is history (RFC 9293, appendix A.1)
        self.check_syn(cx, seg)?; // fourth
        if !seg.payload.is_empty() {
            self.heed_pause(cx);
        }
        self.rcv.note_arrival(cx.now);
        self.take_ecn(cx, seg);
        self.check_ack(cx, seg)?; // fifth
        if self.bits.has(Bits::ACCECN) {
            self.count_codepoint(cx, seg);
        }
        self.note_timestamp(seg);
        let text = if seg.flags.has(Flags::SYN) { &behind_syn(seg) } else { seg };
        // Sixth: the urgent pointer is ignored, its bytes are data like any other (RFC 6093, section 4).
        let taken = self.take_text(cx, text); // seventh
        self.take_fin(cx, text); // eighth
        taken
    }

    /// Data arrived. After silence for longer than the retransmission timeout the peer's slow start begins again (RFC
    /// 5681, section 4.1), and segments are acknowledged at once.
    #[inline(always)]
    fn heed_pause(&mut self, cx: &Cx<'_>) {
        let silent = (cx.now.as_millis() as u32).wrapping_sub(self.rcv.last_ms());
        if u64::from(silent) * 1_000 > u64::from(self.timers.rto_us()) {
            self.begin_quick_acks(cx.config);
        }
    }

    /// Begins to acknowledge segments at once.
    #[cold]
    fn begin_quick_acks(&mut self, config: &Config) {
        self.rcv.set_quick(self.rcv.quick().max(config.quick_acks));
    }

    /// RFC 5961, section 7: an acknowledgment that an attacker may have asked for, within limits.
    /// RFC 5961, 7-1 and 7-2.
    fn challenge(&mut self, cx: &mut Cx<'_>, cause: Cause) {
        let now = cx.now.as_millis() as u32;
        let least = 1_000 / cx.config.challenge_ack_limit.max(1);
        let last = &mut self.cold_mut().challenges.last_ms;
        if last.is_some_and(|last| now.wrapping_sub(last) < least) {
            cx.counters.challenge_acks_withheld += 1;
            return;
        }
        *last = Some(now);
        cx.counters.challenge_acks += 1;
        *match cause {
            Cause::Reset => &mut cx.counters.challenged_resets,
            Cause::Syn => &mut cx.counters.challenged_syns,
            Cause::Ack => &mut cx.counters.challenged_acks,
            Cause::Place => &mut cx.counters.challenged_places,
        } += 1;
        self.request_challenge();
    }
}

/// Cause of a challenge ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    /// A RST that is not exactly the next byte (RFC 5961, section 3).
    Reset,
    /// A SYN in a synchronized state (section 4).
    Syn,
    /// An acknowledgment out of range (section 5).
    Ack,
    /// A segment without data that is old or lies outside the window (RFC 9293, section 3.10.7.4).
    Place,
}

/// Returns the rest of a segment behind its SYN, which takes one sequence number.
pub(crate) fn behind_syn<'a>(seg: &Segment<'a>) -> Segment<'a> {
    Segment { seq: seg.seq + 1, flags: Flags(seg.flags.0 & !Flags::SYN.0), ..*seg }
}
