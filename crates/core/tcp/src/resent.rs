//! What was retransmitted, and what of that is lost again.

use alloc::collections::VecDeque;

use base::Seq;

use crate::rack::Left;

/// Most retransmissions remembered. What is forgotten is left to the timer.
const MOST: usize = 1024;

/// A stretch sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    start: Seq,
    end: Seq,
    /// When it left, microseconds, modulo 2^32.
    at: u32,
    /// SND.NXT when it left: whatever lies beyond was sent later.
    mark: Seq,
}

/// The retransmissions of a repair by SACK. RACK judges them by the time they left, like first transmissions (RFC
/// 8985); one that is lost is sent once more.
#[derive(Debug, Default)]
pub(crate) struct Resent {
    /// In the order of sending.
    log: VecDeque<Run>,
    /// Lost again and not sent since.
    lost: VecDeque<(Seq, Seq)>,
}

impl Resent {
    /// `start..end` leaves at `at` while SND.NXT is `mark`.
    /// RFC 8985, 5.1-1.
    pub(crate) fn push(&mut self, start: Seq, end: Seq, at: u32, mark: Seq) {
        let adjoins = |last: &&mut Run| last.end == start && last.at == at && last.mark == mark;
        if let Some(last) = self.log.back_mut().filter(adjoins) {
            last.end = end;
            return;
        }
        if self.log.len() >= MOST {
            self.log.pop_front();
        }
        self.log.push_back(Run { start, end, at, mark });
    }

    /// `from..` never left after all.
    pub(crate) fn cut(&mut self, from: Seq) {
        if let Some(last) = self.log.back_mut() {
            last.end = last.end.earlier(from).later(last.start);
        }
    }

    /// Is the octet at `seq` on its way a second time?
    pub(crate) fn covers(&self, seq: Seq) -> bool {
        self.log.iter().any(|run| run.start.at_or_before(seq) && seq.before(run.end))
    }

    /// Where what is on its way a second time, the octet at `seq` among it, begins.
    pub(crate) fn start_of(&self, seq: Seq) -> Option<Seq> {
        self.log.iter().find(|run| run.start.at_or_before(seq) && seq.before(run.end)).map(|run| run.start)
    }

    /// Forgets what has `arrived`; which of it left last.
    pub(crate) fn take_delivered(&mut self, arrived: impl Fn(Seq, Seq) -> bool) -> Option<Left> {
        let mut latest = None;
        self.log.retain(|run| {
            let gone = arrived(run.start, run.end);
            if gone && run.start != run.end {
                latest = Some(Left { at: run.at, end: run.end, again: true });
            }
            !gone
        });
        latest
    }

    /// Finds what is lost again. `remaining` tells for how many microseconds more a retransmission may be under
    /// way; `None` where nothing that left later has arrived. The latest mark of those lost, and how long the
    /// first of the others still has.
    pub(crate) fn find_lost(
        &mut self,
        una: Seq,
        remaining: impl Fn(Left) -> Option<u32>,
    ) -> (Option<Seq>, Option<u32>) {
        let mut latest = None;
        while let Some(run) = self.log.front().copied() {
            match remaining(Left { at: run.at, end: run.end, again: true }) {
                None => return (latest, None),
                Some(0) => {}
                wait => return (latest, wait),
            }
            self.log.pop_front();
            if run.end.after(una) {
                self.lost.push_back((run.start.later(una), run.end));
                latest = Some(run.mark);
            }
        }
        (latest, None)
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
    //! Goal: a retransmission counts as lost exactly when its time is over, and as delivered when it arrived.
    use super::*;

    fn seq(n: u32) -> Seq {
        Seq::new(n.wrapping_sub(500))
    }

    /// Everything that left before `at` is lost; what left by `at + 10` may still come.
    fn before(at: u32) -> impl Fn(Left) -> Option<u32> {
        move |left| (left.at < at + 10).then(|| left.at.saturating_sub(at - 1))
    }

    #[test]
    fn lost_when_its_time_is_over() {
        let mut resent = Resent::default();
        resent.push(seq(0), seq(100), 10, seq(1000));
        resent.push(seq(100), seq(200), 10, seq(1000));
        resent.push(seq(300), seq(400), 20, seq(1100));
        assert!(resent.covers(seq(150)) && !resent.covers(seq(250)));
        assert_eq!(resent.find_lost(seq(0), |_| None), (None, None));
        assert_eq!(resent.find_lost(seq(50), before(15)), (Some(seq(1000)), Some(6)));
        assert_eq!(resent.lost(seq(50)), Some((seq(50), seq(200))));
        resent.settle(seq(150));
        assert_eq!(resent.lost(seq(50)), Some((seq(150), seq(200))));
        assert_eq!(resent.find_lost(seq(160), before(21)), (Some(seq(1100)), None));
        assert_eq!(resent.lost_runs().count(), 2);
        assert_eq!(resent.lost(seq(200)), Some((seq(300), seq(400))));
        resent.settle(seq(400));
        assert_eq!(resent.lost(seq(200)), None);
        assert_eq!(resent.find_lost(seq(0), |_| Some(0)), (None, None));
    }

    /// RFC 8985, 5.1-1.
    #[test]
    fn what_arrived_is_forgotten_and_the_latest_told() {
        let mut resent = Resent::default();
        for i in 0..4 {
            resent.push(seq(200 * i), seq(200 * i + 100), 10 * i, seq(1000));
        }
        let latest = resent.take_delivered(|start, _| start == seq(0) || start == seq(400));
        assert_eq!(latest, Some(Left { at: 20, end: seq(500), again: true }));
        assert_eq!(resent.find_lost(seq(0), |_| Some(0)), (Some(seq(1000)), None));
        assert_eq!(resent.lost_runs().count(), 2);
    }

    #[test]
    fn memory_is_bounded() {
        let mut resent = Resent::default();
        for i in 0..5000 {
            resent.push(seq(3 * i), seq(3 * i + 1), i, seq(100_000 + i));
        }
        resent.find_lost(seq(0), |_| Some(0));
        assert_eq!(resent.lost_runs().count(), MOST);
        assert_eq!(resent.lost(seq(0)).map(|(start, _)| start), Some(seq(3 * (5000 - MOST as u32))));
    }
}
