//! What was retransmitted, and what of that is lost again.

use alloc::collections::VecDeque;

use base::Seq;

/// Most retransmissions remembered. What is forgotten is left to the timer, as RFC 6675 leaves all of it.
const MOST: usize = 1024;

/// A stretch sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    start: Seq,
    end: Seq,
    /// SND.NXT when it left: whatever lies beyond was sent later.
    mark: Seq,
}

/// The retransmissions of a recovery by SACK. RFC 6675 cannot see that one is lost. But what was sent after
/// it and arrived tells as much about it as about any other segment; so a retransmission is lost if enough
/// was SACKed beyond its `mark`, and it was not. Then it is sent once more.
#[derive(Debug, Default)]
pub(crate) struct Resent {
    /// In the order of sending; `mark` never decreases.
    log: VecDeque<Run>,
    /// Lost again and not sent since.
    lost: VecDeque<(Seq, Seq)>,
}

impl Resent {
    /// `start..end` leaves while SND.NXT is `mark`.
    pub(crate) fn push(&mut self, start: Seq, end: Seq, mark: Seq) {
        if let Some(last) = self.log.back_mut().filter(|last| last.end == start && last.mark == mark) {
            last.end = end;
            return;
        }
        if self.log.len() >= MOST {
            self.log.pop_front();
        }
        self.log.push_back(Run { start, end, mark });
    }

    /// Finds what is lost again: what left at a mark that is `outdated`. The latest of those marks.
    pub(crate) fn find_lost(&mut self, una: Seq, outdated: impl Fn(Seq) -> bool) -> Option<Seq> {
        let mut latest = None;
        while let Some(run) = self.log.front().copied().filter(|run| outdated(run.mark)) {
            self.log.pop_front();
            if run.end.after(una) {
                self.lost.push_back((run.start.later(una), run.end));
                latest = Some(run.mark);
            }
        }
        latest
    }

    /// What is lost again and above `una`.
    pub(crate) fn lost(&mut self, una: Seq) -> Option<(Seq, Seq)> {
        while let Some(&(start, end)) = self.lost.front() {
            if end.after(una) {
                return Some((start.later(una), end));
            }
            self.lost.pop_front();
        }
        None
    }

    /// All that is lost again, for counting.
    pub(crate) fn lost_runs(&self) -> impl Iterator<Item = (Seq, Seq)> {
        self.lost.iter().copied()
    }

    /// The first of [`Resent::lost`] is settled below `seq`.
    pub(crate) fn settle(&mut self, seq: Seq) {
        if let Some(front) = self.lost.front_mut() {
            front.0 = seq;
            if seq.at_or_after(front.1) {
                self.lost.pop_front();
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.log.clear();
        self.lost.clear();
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a retransmission counts as lost exactly when loss has reached what was sent after it.
    use super::*;

    fn seq(n: u32) -> Seq {
        Seq::new(n.wrapping_sub(500))
    }

    #[test]
    fn lost_when_later_data_arrived() {
        let mut resent = Resent::default();
        resent.push(seq(0), seq(100), seq(1000));
        resent.push(seq(100), seq(200), seq(1000));
        resent.push(seq(300), seq(400), seq(1100));
        assert_eq!(resent.find_lost(seq(0), |mark| seq(1000).after(mark)), None);
        assert_eq!(resent.find_lost(seq(50), |mark| seq(1001).after(mark)), Some(seq(1000)));
        assert_eq!(resent.lost(seq(50)), Some((seq(50), seq(200))));
        resent.settle(seq(150));
        assert_eq!(resent.lost(seq(50)), Some((seq(150), seq(200))));
        assert_eq!(resent.find_lost(seq(160), |mark| seq(2000).after(mark)), Some(seq(1100)));
        assert_eq!(resent.lost_runs().count(), 2);
        assert_eq!(resent.lost(seq(200)), Some((seq(300), seq(400))));
        resent.settle(seq(400));
        assert_eq!(resent.lost(seq(200)), None);
        assert_eq!(resent.find_lost(seq(200), |_| true), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut resent = Resent::default();
        for i in 0..5000 {
            resent.push(seq(3 * i), seq(3 * i + 1), seq(100_000 + i));
        }
        resent.find_lost(seq(0), |_| true);
        assert_eq!(resent.lost_runs().count(), MOST);
        assert_eq!(resent.lost(seq(0)).map(|(start, _)| start), Some(seq(3 * (5000 - MOST as u32))));
    }
}
