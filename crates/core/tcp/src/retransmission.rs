//! Which octets are sent again next.

use base::Seq;
use cc::Controller;

use crate::connection::{Bits, Connection};
use crate::output::data::Stretch;
use crate::recovery::{Loss, Phase};

/// What there is to send again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resend {
    /// This, now.
    Now(Stretch),
    /// Something, once the window allows.
    Wait,
    /// Nothing.
    Nothing,
}

impl Connection {
    /// The stretch from `seq` on, at most `len` octets of sequence space and one segment, cut at the end of
    /// what was sent and at the peer's window.
    fn stretch(&self, seq: Seq, len: u32) -> Option<Stretch> {
        let offset = seq.offset_from(self.snd_una);
        let data = self.tx.len().saturating_sub(offset);
        let sent = self.snd_nxt.offset_from(seq);
        let window = self.snd_wnd.saturating_sub(offset);
        let len = len.min(sent).min(u32::from(self.snd_mss)).min(window);
        // Our FIN, if it was sent, is the octet behind the data.
        let fin = sent > data && len >= data;
        let stretch = Stretch { seq, len: len.min(data), fin };
        (stretch.len > 0 || (fin && window > 0)).then_some(stretch)
    }

    fn congestion_space(&self) -> u32 {
        self.control.window().cwnd.saturating_sub(self.pipe())
    }

    /// What the repair under way sends next: what was lost again, NextSeg's rule 1 (RFC 6675, section 4), the
    /// first hole of a peer without SACK, or the next stretch after a timeout.
    pub(crate) fn next_retransmission(&mut self) -> Resend {
        let (una, mss, sack) = (self.snd_una, u32::from(self.snd_mss), self.bits.has(Bits::SACK));
        let Some(loss) = &mut self.loss else { return Resend::Nothing };
        let urgent = loss.urgent;
        let next = match loss.phase {
            Phase::Disorder => None,
            Phase::Fast if urgent => Some((una, loss.board.next_hole(una, mss).map_or(mss, |(_, len)| len))),
            Phase::Fast if sack => loss.lost_again(una, mss).or_else(|| {
                loss.board.next_hole(loss.resend, mss).filter(|&(seq, _)| loss.board.is_lost(seq, mss))
            }),
            Phase::Fast => None,
            Phase::Timeout | Phase::Resegment => {
                let from = loss.resend.later(una);
                let hole = loss.board.next_hole(from, mss);
                let tail = || (from.later(loss.board.highest_sacked().unwrap_or(from)), mss);
                Some(hole.unwrap_or_else(tail)).filter(|&(seq, _)| seq.before(loss.recover))
            }
        };
        let Some((seq, len)) = next else { return Resend::Nothing };
        let Some(stretch) = self.stretch(seq, len) else { return Resend::Nothing };
        if !urgent && self.congestion_space() < stretch.len {
            return Resend::Wait;
        }
        self.resent(stretch);
        Resend::Now(stretch)
    }

    /// NextSeg's rules 3 and 4: a hole that is not lost for sure; once per recovery, the last segment of all,
    /// so that its loss shows.
    pub(crate) fn next_rescue(&mut self) -> Option<Stretch> {
        let loss = self.loss.as_ref().filter(|loss| loss.phase == Phase::Fast)?;
        let mss = u32::from(self.snd_mss);
        if !self.bits.has(Bits::SACK) || self.congestion_space() < mss {
            return None;
        }
        if let Some((seq, len)) = loss.board.next_hole(loss.resend, mss) {
            let stretch = self.stretch(seq, len)?;
            self.resent(stretch);
            return Some(stretch);
        }
        // What was sent since the repair began will tell by itself.
        let from = loss.board.highest_sacked()?.later(loss.resend).later(self.snd_nxt - mss);
        if loss.rescued || self.snd_nxt != loss.recover || !from.before(self.snd_nxt) {
            return None;
        }
        let stretch = self.stretch(from, mss)?;
        self.loss().rescued = true;
        Some(stretch)
    }

    /// `stretch` leaves.
    fn resent(&mut self, stretch: Stretch) {
        let (una, nxt, sack) = (self.snd_una, self.snd_nxt, self.bits.has(Bits::SACK));
        let end = stretch.seq + stretch.len + u32::from(stretch.fin);
        let loss = self.loss();
        if stretch.seq == una {
            loss.urgent = false;
        }
        if sack && loss.phase == Phase::Fast {
            if end.at_or_before(loss.resend) {
                loss.resent.settle(end);
            }
            loss.resent.push(stretch.seq, end, nxt);
        }
        loss.resend = loss.resend.later(end);
    }

    /// The retransmission that began at `seq` never left.
    pub(crate) fn retransmission_failed(&mut self, seq: Seq) {
        let una = self.snd_una;
        if let Some(loss) = &mut self.loss {
            loss.resend = loss.resend.earlier(seq);
            loss.urgent |= seq.at_or_before(una);
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
                _ => self.resent.settle(end),
            }
        }
        None
    }
}
