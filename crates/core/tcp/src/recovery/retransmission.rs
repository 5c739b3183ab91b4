//! Which bytes are sent again next.

use base::Seq;

use crate::Cx;
use crate::connection::{Bits, Connection};
use crate::recovery::Loss;
use crate::state::Phase;
use crate::transmit::SeqRange;

/// Next retransmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resend {
    /// This, now.
    Now(SeqRange),
    /// Something, once the window allows.
    Wait,
    /// Nothing.
    Nothing,
}

impl Connection {
    /// The range from `seq` on, at most `len` bytes of sequence space and one segment, cut at the end of
    /// what was sent and at the peer's window.
    /// RFC 9293, MUST-34 and SHLD-16; RFC 7323, 2.4-1.
    fn range(&self, seq: Seq, len: u32) -> Option<SeqRange> {
        let offset = seq.offset_from(self.snd.una());
        let data = self.snd.queued().saturating_sub(offset);
        let sent = self.snd.nxt().offset_from(seq);
        let window = self.snd.window().saturating_sub(offset);
        let mut len = len.min(sent).min(u32::from(self.snd.mss())).min(window);
        if self.bits.has(Bits::MARKED) {
            len = self.within_record(seq, len);
        }
        // Our FIN, if it was sent, is the byte behind the data.
        let fin = sent > data && len >= data;
        let range = SeqRange { seq, len: len.min(data), fin };
        (range.len > 0 || (fin && window > 0)).then_some(range)
    }

    /// Returns the next retransmission of the recovery under way: data lost again, then the next hole that is lost
    /// (NextSeg's rule 1 of RFC 6675, section 4), or the first hole of a peer without SACK. RFC 6675, 5-2 and 5-4.
    pub(crate) fn next_retransmission(&mut self, cx: &mut Cx<'_>) -> Resend {
        let (una, mss, sack) = (self.snd.una(), u32::from(self.snd.mss()), self.bits.has(Bits::SACK));
        let Some(loss) = &mut self.recovery.loss else { return Resend::Nothing };
        let urgent = loss.urgent;
        // What a timeout sends first never waits for the pace: it keeps the connection alive.
        let at_once = urgent && loss.phase == Phase::Timeout;
        let next = match loss.phase {
            Phase::Disorder | Phase::Reduced => None,
            Phase::Fast if urgent => Some((una, loss.board.next_hole(una, mss).map_or(mss, |(_, len)| len))),
            Phase::Fast if !sack => None,
            Phase::Timeout if loss.frto.holds_back() => None,
            _ => loss.lost_again(una, mss).or_else(|| loss.lost_hole(una, mss)),
        };
        cx.counters.list_steps += loss.resent.take_steps();
        let Some((seq, len)) = next else { return Resend::Nothing };
        let Some(range) = self.range(seq, len) else { return Resend::Nothing };
        if !urgent && self.congestion_room() < range.len {
            return Resend::Wait;
        }
        if self.bits.has(Bits::PACED) && !at_once && self.paced_room(cx, mss).is_none() {
            return Resend::Wait;
        }
        self.resent(cx, range);
        Resend::Now(range)
    }

    /// `range` leaves.
    pub(crate) fn resent(&mut self, cx: &mut Cx<'_>, range: SeqRange) {
        let (una, sack) = (self.snd.una(), self.bits.has(Bits::SACK));
        let bytes = range.len + u32::from(range.fin);
        let end = range.seq + bytes;
        // PRR counts data: the FIN's number shall not take a segment's place.
        self.count_repair(range.len);
        let loss = self.loss();
        if range.seq == una {
            loss.urgent = false;
        }
        loss.count_again(bytes);
        if sack {
            loss.resent.push(range.seq, end, cx.now.as_micros() as u32);
            cx.counters.list_steps += loss.resent.take_steps();
        }
        if loss.phase.repairs() {
            loss.resend = loss.resend.later(end);
        }
    }
}

impl Loss {
    /// The first hole of those whose retransmission was lost.
    fn lost_again(&mut self, una: Seq, mss: u32) -> Option<(Seq, u32)> {
        while let Some((start, end)) = self.resent.lost(una) {
            match self.board.next_hole(start, mss) {
                Some((seq, len)) if seq.before(end) => return Some((seq, len.min(end.offset_from(seq)))),
                // Arrived after all, or nothing above it did: then nothing says that it was lost.
                _ => self.resent.settle(start, end),
            }
        }
        None
    }

    /// The next hole below the edge of what is lost, at most `mss`.
    fn lost_hole(&self, una: Seq, mss: u32) -> Option<(Seq, u32)> {
        let from = self.resend.later(una);
        // Above the highest byte SACKed all is one hole.
        let tail = || (from.later(self.board.highest_sacked().unwrap_or(from)), mss);
        let (seq, len) = self.board.next_hole(from, mss).unwrap_or_else(tail);
        seq.before(self.rack.lost).then(|| (seq, len.min(self.rack.lost.offset_from(seq))))
    }
}
