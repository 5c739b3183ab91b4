//! Finding and repairing what the network lost: fast recovery by SACK (RFC 6675), by duplicate
//! acknowledgments where there is no SACK (RFC 6582), after a timeout (RFC 5681, RFC 6298), and after a path
//! MTU reduction.
//!
//! ```text
//!  snd_una             resend              recover            snd_nxt
//!     │ retransmitted    │   still to look at  │  sent later     │
//! ────┴──────────────────┴─────────────────────┴─────────────────┴────
//! ```

use alloc::boxed::Box;

use base::Seq;
use cc::{Controller, Signal, SignalInfo};
use wire::tcp::Segment;

use crate::Cx;
use crate::connection::{Bits, Connection};
use crate::output::Due;
use crate::resent::Resent;
use crate::scale::{ts_before, ts_value};
use crate::scoreboard::{DUP_THRESH, Scoreboard};

/// Which repair is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// None yet: something was SACKed, or a repair has just ended.
    Disorder,
    /// Fast recovery: the policy has reduced, holes are being filled.
    Fast,
    /// After a timeout: everything not SACKed is sent again, in slow start.
    Timeout,
    /// After a path MTU reduction: likewise, but nothing was lost to congestion (RFC 1191, section 6.4).
    Resegment,
}

/// What a repair remembers. It exists from the first sign of loss until all is acknowledged.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) board: Scoreboard,
    pub(crate) phase: Phase,
    /// The repair ends when this is acknowledged: SND.NXT when it began.
    pub(crate) recover: Seq,
    /// One past the highest octet retransmitted (HighRxt of RFC 6675), or where sending again stands.
    pub(crate) resend: Seq,
    /// Retransmissions of a recovery by SACK, and which of them were lost.
    pub(crate) resent: Resent,
    /// SND.NXT when the policy last reduced: what is lost of what left before is no news (RFC 5681, section
    /// 4.3).
    reduced: Seq,
    /// Octets that duplicate acknowledgments say have left the network (RFC 6582's inflation of the window).
    inflation: u32,
    /// Our timestamp when the repair's first retransmission left: an acknowledgment of something older shows
    /// that the repair was needless (RFC 3522).
    first_ts: Option<u32>,
    /// Whether the repair was needless is known, or cannot be known any more.
    judged: bool,
    /// What the policy was told when the repair began.
    signal: Signal,
    /// A partial acknowledgment restarted the timer (RFC 6582, section 3.2, the impatient variant).
    restarted: bool,
    /// The oldest hole goes out whatever the window says: a repair begins (RFC 6675, section 5, step 4.3), or
    /// without SACK a partial acknowledgment named the next hole (RFC 6582, section 3.2, step 3).
    pub(crate) urgent: bool,
    /// The rescue retransmission was used (RFC 6675, section 4, rule 4).
    pub(crate) rescued: bool,
}

impl Connection {
    pub(crate) fn phase(&self) -> Phase {
        self.loss.as_ref().map_or(Phase::Disorder, |loss| loss.phase)
    }

    pub(crate) fn loss(&mut self) -> &mut Loss {
        let una = self.snd_una;
        self.loss.get_or_insert_with(|| {
            Box::new(Loss {
                board: Scoreboard::new(),
                phase: Phase::Disorder,
                recover: una - 1,
                resend: una,
                resent: Resent::default(),
                reduced: una,
                inflation: 0,
                first_ts: None,
                judged: false,
                signal: Signal::Loss,
                restarted: false,
                urgent: false,
                rescued: false,
            })
        })
    }

    /// Octets thought to be in the network (RFC 6675's pipe; FlightSize where nothing is amiss).
    pub(crate) fn pipe(&self) -> u32 {
        let Some(loss) = &self.loss else { return self.flight() };
        let sack = self.bits.has(Bits::SACK);
        match loss.phase {
            Phase::Disorder => loss.board.pipe(self.snd_una, self.snd_nxt, self.snd_mss.into(), loss.resend),
            Phase::Fast if sack => {
                let pipe = loss.board.pipe(self.snd_una, self.snd_nxt, self.snd_mss.into(), loss.resend);
                let lost = loss.resent.lost_runs().filter(|&(_, end)| end.after(self.snd_una));
                let gone = lost.map(|(start, end)| loss.board.unsacked(start.later(self.snd_una), end));
                pipe.saturating_sub(gone.sum())
            }
            Phase::Fast => self.flight().saturating_sub(loss.inflation),
            // What was sent before and not sent again counts as gone. An acknowledgment may have run ahead of
            // what was sent again, because the peer held the rest.
            Phase::Timeout | Phase::Resegment => {
                let resent = loss.resend.later(self.snd_una).earlier(loss.recover);
                let resent = loss.board.unsacked(self.snd_una, resent);
                resent + self.snd_nxt.offset_from(loss.recover)
            }
        }
    }

    /// RFC 3042: the first two duplicate acknowledgments each let one new segment out. With SACK the pipe
    /// shrinks by itself.
    pub(crate) fn limited_transmit(&self) -> u32 {
        if self.bits.has(Bits::SACK) { 0 } else { u32::from(self.dup_acks.min(2)) * u32::from(self.snd_mss) }
    }

    fn signal_info(&self, cx: &Cx<'_>) -> SignalInfo {
        SignalInfo { now: cx.now, flight_size: self.flight(), mss: self.snd_mss.into() }
    }

    /// A duplicate acknowledgment, or SACK blocks with something new.
    pub(crate) fn on_duplicate_ack(&mut self, cx: &mut Cx<'_>) {
        cx.counters.duplicate_acks_in += 1;
        self.dup_acks = self.dup_acks.saturating_add(1);
        self.due |= Due::DATA;
        match self.phase() {
            Phase::Disorder => {}
            Phase::Fast => {
                let mss = u32::from(self.snd_mss);
                let flight = self.flight();
                let loss = self.loss();
                loss.inflation = (loss.inflation + mss).min(flight);
                return self.find_lost_retransmissions(cx);
            }
            Phase::Timeout | Phase::Resegment => return,
        }
        let mss = u32::from(self.snd_mss);
        let una = self.snd_una;
        let sack = self.bits.has(Bits::SACK);
        let lost = match &self.loss {
            Some(loss) if sack => loss.board.is_lost(una, mss),
            // RFC 6582, section 3.2, step 1: duplicates of what an earlier repair sent twice are no new loss.
            Some(loss) if una.at_or_before(loss.recover) => return,
            _ => false,
        };
        if lost || u32::from(self.dup_acks) >= DUP_THRESH {
            self.begin_fast_recovery(cx);
        }
    }

    fn begin_fast_recovery(&mut self, cx: &mut Cx<'_>) {
        cx.counters.fast_retransmits += 1;
        self.control.on_congestion(Signal::Loss, &self.signal_info(cx));
        let (una, nxt) = (self.snd_una, self.snd_nxt);
        let inflation = u32::from(self.dup_acks) * u32::from(self.snd_mss);
        let loss = self.loss();
        // The repair before may have sent this hole again already, though it lies behind where that one ended: once is
        // enough, and an acknowledgment of that transmission is no news about this repair.
        let again = loss.resend.after(una);
        if !again {
            loss.resend = una;
            loss.resent.clear();
        }
        loss.phase = Phase::Fast;
        loss.recover = nxt;
        loss.reduced = nxt;
        loss.inflation = inflation;
        loss.first_ts = None;
        loss.judged = again;
        loss.signal = Signal::Loss;
        loss.restarted = false;
        loss.urgent = !again;
        loss.rescued = false;
        self.bits.clear(Bits::TIMING);
        self.arm_rtx(cx);
    }

    /// What the latest SACK blocks tell about retransmissions; see [`Resent`].
    fn find_lost_retransmissions(&mut self, cx: &Cx<'_>) {
        let (una, nxt, mss) = (self.snd_una, self.snd_nxt, u32::from(self.snd_mss));
        let Some(loss) = &mut self.loss else { return };
        let board = &loss.board;
        let Some(mark) = loss.resent.find_lost(una, |mark| board.outdates(mark, mss)) else { return };
        // The repair now takes longer, and a timeout of the first retransmission would only disturb it.
        loss.first_ts = None;
        loss.judged = true;
        let news = mark.at_or_after(loss.reduced);
        if news {
            loss.recover = nxt;
            loss.reduced = nxt;
            let info = self.signal_info(cx);
            self.control.on_congestion(Signal::Loss, &info);
        }
        self.arm_rtx(cx);
    }

    /// The timer ran out; the policy knows. The peer may have reneged, so SACK starts from nothing (RFC 2018,
    /// section 8).
    pub(crate) fn begin_timeout_recovery(&mut self) {
        let nth = self.retries.into();
        self.send_again(Phase::Timeout);
        self.loss().signal = Signal::Timeout { nth };
    }

    /// Everything in flight is cut and sent anew.
    pub(crate) fn send_again(&mut self, phase: Phase) {
        let (una, nxt) = (self.snd_una, self.snd_nxt);
        let loss = self.loss();
        loss.board.clear();
        loss.phase = phase;
        loss.recover = nxt;
        loss.resend = una;
        loss.resent.clear();
        loss.inflation = 0;
        loss.first_ts = None;
        loss.judged = false;
        loss.urgent = true;
        loss.rescued = false;
        self.dup_acks = 0;
        self.bits.clear(Bits::TIMING);
        self.due |= Due::DATA;
    }

    /// Remembers when a repair began to send, for [`Connection::is_spurious`].
    pub(crate) fn note_first_retransmission(&mut self, cx: &Cx<'_>) {
        let ts = ts_value(cx.now, self.ts_offset);
        if let Some(loss) = self.loss.as_mut().filter(|loss| !loss.judged) {
            loss.first_ts.get_or_insert(ts);
        }
    }

    /// Does the acknowledgment answer the original transmission rather than the retransmission (RFC 3522)?
    /// Only the first one that moves SND.UNA can tell.
    fn is_spurious(&mut self, seg: &Segment<'_>) -> bool {
        let timestamps = self.bits.has(Bits::TIMESTAMPS);
        let Some(loss) = &mut self.loss else { return false };
        let repairing = matches!(loss.phase, Phase::Fast | Phase::Timeout);
        // After a second timeout in a row nobody knows which transmission an answer belongs to.
        let ambiguous = matches!(loss.signal, Signal::Timeout { nth: 2.. });
        let first = loss.first_ts.take();
        loss.judged |= first.is_some();
        match (first, seg.options.timestamps) {
            (Some(first), Some(ts)) if timestamps && repairing && !ambiguous => ts_before(ts.ecr, first),
            _ => false,
        }
    }

    /// SND.UNA has moved by `acked` octets; a repair may be over, go on, or have been a mistake.
    pub(crate) fn recovery_progress(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>, acked: u32) {
        if self.is_spurious(seg) {
            return self.undo(cx);
        }
        let (una, mss) = (self.snd_una, u32::from(self.snd_mss));
        let sack = self.bits.has(Bits::SACK);
        let Some(loss) = &mut self.loss else { return };
        loss.board.advance(una);
        if loss.phase == Phase::Disorder {
            self.dup_acks = 0;
        } else if una.at_or_after(loss.recover) {
            let ended = core::mem::replace(&mut loss.phase, Phase::Disorder);
            self.dup_acks = 0;
            if ended != Phase::Resegment {
                let info = self.signal_info(cx);
                self.control.on_recovery_end(&info);
            }
        } else if loss.phase == Phase::Fast && !sack {
            // RFC 6582, section 3.2, step 3: the next segment is missing too.
            loss.resend = una;
            loss.urgent = true;
            let back = if acked >= mss { mss } else { 0 };
            loss.inflation = loss.inflation.saturating_sub(acked) + back;
        }
        self.tidy_loss();
    }

    /// Should this acknowledgment restart the retransmission timer? During a recovery without SACK only the
    /// first partial one does: many holes are repaired faster by a timeout (RFC 6582, section 3.2).
    pub(crate) fn restarts_timer(&mut self) -> bool {
        let sack = self.bits.has(Bits::SACK);
        let Some(loss) = self.loss.as_mut().filter(|loss| loss.phase == Phase::Fast && !sack) else {
            return true;
        };
        !core::mem::replace(&mut loss.restarted, true)
    }

    /// Gives the memory back once nothing is amiss.
    pub(crate) fn tidy_loss(&mut self) {
        let Some(loss) = &self.loss else { return };
        let over = loss.phase == Phase::Disorder
            && loss.board.is_empty()
            && (self.bits.has(Bits::SACK) || self.snd_una.after(loss.recover) || self.flight() == 0);
        if over {
            self.loss = None;
        }
    }

    /// The repair was needless: the policy takes its window back, and what was not sent again yet need not
    /// be.
    fn undo(&mut self, cx: &mut Cx<'_>) {
        cx.counters.spurious_recoveries += 1;
        let una = self.snd_una;
        let loss = self.loss();
        let signal = loss.signal;
        loss.phase = Phase::Disorder;
        loss.resend = una;
        loss.resent.clear();
        loss.board.advance(una);
        self.dup_acks = 0;
        self.control.on_spurious(signal, cx.now);
        self.tidy_loss();
    }
}
