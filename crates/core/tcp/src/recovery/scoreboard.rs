//! The sender's scoreboard: data that the peer holds beyond SND.UNA (RFC 2018, RFC 6675).

use alloc::boxed::Box;
use alloc::vec::Vec;

use base::Seq;

/// Discontiguous SACKed sequences, or duplicate acknowledgments, that make a loss (RFC 6675, section 2).
pub(crate) const DUP_THRESH: u32 = 3;

/// Most runs remembered. A block that would need one more is ignored: its bytes count as not SACKed, which
/// at worst sends them again.
pub(crate) const MAX_RUNS: usize = 1024;
/// So many of them may be shorter than a segment.
pub(crate) const SHORT_RUNS: usize = 64;
/// Most steps of an acknowledgment with four blocks: for each a search, and what lies behind it; SND.UNA is a fifth.
pub(crate) const STEPS_MAX: u64 =
    5 * (2 * (usize::BITS - MAX_RUNS.leading_zeros()) as u64 + 2 * MAX_RUNS as u64 + 1);

/// Result of one acknowledgment's SACK blocks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Sacked {
    /// Bytes SACKed for the first time.
    pub(crate) newly: u32,
    /// The lowest of them.
    pub(crate) lowest: Option<Seq>,
    /// The duplicate the receiver reported (RFC 2883), if the first block did.
    pub(crate) dsack: Option<(Seq, Seq)>,
    /// Blocks that made no sense and were ignored.
    pub(crate) invalid: u8,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    start: Seq,
    end: Seq,
    /// Bytes SACKed below this run, counted since the board was made: differences are what matters, so that
    /// advancing touches no run.
    below: u32,
}

impl Run {
    fn len(&self) -> u32 {
        self.end.offset_from(self.start)
    }

    fn through(&self) -> u32 {
        self.below.wrapping_add(self.len())
    }
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct Board {
    una: Seq,
    /// In sequence order, disjoint, not adjacent, all above `una`. Never empty.
    runs: Vec<Run>,
    /// Runs compared, moved or counted anew since [`Scoreboard::take_steps`] was called.
    steps: u64,
}

/// The sender's view of what the peer holds out of order. Nothing is allocated while nothing is SACKed.
///
/// ```text
///  SND.UNA                                              highest        SND.NXT
///   |   hole   |xx run xx|   hole   |xx run xx|  hole  |xx run xx|  in flight  |
/// ```
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Scoreboard {
    board: Option<Box<Board>>,
}

const _: () = assert!(size_of::<Scoreboard>() <= 16);

impl Scoreboard {
    /// Nothing SACKed.
    pub(crate) const fn new() -> Self {
        Scoreboard { board: None }
    }

    /// Is nothing SACKed?
    pub(crate) fn is_empty(&self) -> bool {
        self.board.is_none()
    }

    /// Returns the steps taken since this was last called.
    pub(crate) fn take_steps(&mut self) -> u64 {
        self.board.as_mut().map_or(0, |board| core::mem::take(&mut board.steps))
    }

    /// Bytes SACKed now.
    pub(crate) fn sacked(&self) -> u32 {
        self.board.as_ref().map_or(0, |board| board.total())
    }

    /// Takes in the blocks of an acknowledgment. `snd_una` is SND.UNA after that acknowledgment; blocks that
    /// do not lie within `snd_una..snd_nxt` are ignored, except that a first block below it, or within the
    /// second, reports a duplicate (RFC 2883, section 4). Once there are [`SHORT_RUNS`] runs, a block makes another one
    /// only if it is `mss` bytes or longer.
    /// RFC 2018, 5-1; RFC 2883, 5-1; RFC 6675, 3-1.
    pub(crate) fn update(&mut self, snd_una: Seq, snd_nxt: Seq, mss: u32, blocks: &[(Seq, Seq)]) -> Sacked {
        let mut result = Sacked::default();
        self.advance(snd_una);
        let flight = snd_nxt.offset_from(snd_una);
        for (i, &(left, right)) in blocks.iter().enumerate() {
            if !left.before(right) || right.after(snd_nxt) {
                result.invalid += 1;
            } else if i == 0 && is_dsack(snd_una, left, right, blocks.get(1)) {
                result.dsack = Some((left, right));
            } else if right.after(snd_una) {
                if left.at_or_before(snd_una) {
                    // The peer would acknowledge what it holds from there on (RFC 2018, section 4).
                    result.invalid += 1;
                    continue;
                }
                debug_assert!(right.offset_from(snd_una) <= flight);
                let newly = self.insert(snd_una, mss, (left, right), &mut result.lowest);
                result.newly += newly;
            }
        }
        result
    }

    fn insert(&mut self, una: Seq, mss: u32, (left, right): (Seq, Seq), lowest: &mut Option<Seq>) -> u32 {
        let fresh = self.next_unsacked(left);
        let newly = match &mut self.board {
            Some(board) => board.insert(mss, left, right),
            empty => {
                let run = Run { start: left, end: right, below: 0 };
                *empty = Some(Box::new(Board { una, runs: alloc::vec![run], steps: 0 }));
                run.len()
            }
        };
        if newly > 0 {
            *lowest = Some(lowest.map_or(fresh, |lowest| lowest.earlier(fresh)));
        }
        newly
    }

    /// The first byte at or after `seq` that is not SACKed.
    pub(crate) fn next_unsacked(&self, seq: Seq) -> Seq {
        let Some(board) = &self.board else { return seq };
        let i = board.runs.partition_point(|run| run.end.at_or_before(seq));
        board.runs.get(i).filter(|run| run.start.at_or_before(seq)).map_or(seq, |run| run.end)
    }

    /// SND.UNA is now `una`: what lies below is forgotten.
    pub(crate) fn advance(&mut self, una: Seq) {
        let Some(board) = &mut self.board else { return };
        board.advance(una);
        if board.runs.is_empty() {
            self.board = None;
        }
    }

    /// Forgets everything: the peer may renege, so a timeout starts from nothing (RFC 2018, section 8).
    pub(crate) fn clear(&mut self) {
        self.board = None;
    }

    /// Has the byte at `seq` been SACKed?
    pub(crate) fn is_sacked(&self, seq: Seq) -> bool {
        self.board.as_ref().is_some_and(|board| {
            let i = board.runs.partition_point(|run| run.end.at_or_before(seq));
            board.runs.get(i).is_some_and(|run| run.start.at_or_before(seq))
        })
    }

    /// One past the highest byte SACKed.
    pub(crate) fn highest_sacked(&self) -> Option<Seq> {
        self.board.as_ref().and_then(|board| board.runs.last()).map(|run| run.end)
    }

    /// Has so much been SACKed that counting alone would call the oldest hole lost (RFC 6675, section 4:
    /// DupThresh discontiguous runs, or more than DupThresh - 1 segments)?
    pub(crate) fn reaches_dup_thresh(&self, mss: u32) -> bool {
        self.board.as_ref().is_some_and(|board| {
            board.runs.len() >= DUP_THRESH as usize || board.total() > (DUP_THRESH - 1).saturating_mul(mss)
        })
    }

    /// SetPipe (RFC 6675, section 4): bytes thought to be in the network. What lies below `lost` and is not
    /// SACKed is lost; `high_rxt` is one past the highest byte retransmitted (SND.UNA if none was).
    /// RFC 6675, 4-1; RFC 8985, 9.2-1.
    pub(crate) fn pipe(&self, snd_una: Seq, snd_nxt: Seq, lost: Seq, high_rxt: Seq) -> u32 {
        let clamp = |seq: Seq| seq.later(snd_una).earlier(snd_nxt);
        self.unsacked(clamp(lost), snd_nxt) + self.unsacked(snd_una, clamp(high_rxt))
    }

    /// Bytes of `from..to` that are not SACKed.
    pub(crate) fn unsacked(&self, from: Seq, to: Seq) -> u32 {
        let sacked = self.board.as_ref().map_or(0, |b| b.sacked_below(to).wrapping_sub(b.sacked_below(from)));
        to.offset_from(from) - sacked
    }

    /// The first bytes at or after `from` that are not SACKed although something above them is (NextSeg of
    /// RFC 6675): where they start and how many, at most `mss`.
    pub(crate) fn next_hole(&self, from: Seq, mss: u32) -> Option<(Seq, u32)> {
        let board = self.board.as_ref()?;
        let mut from = from.later(board.una);
        let mut i = board.runs.partition_point(|run| run.end.at_or_before(from));
        if board.runs.get(i)?.start.at_or_before(from) {
            from = board.runs[i].end;
            i += 1;
        }
        Some((from, board.runs.get(i)?.start.offset_from(from).min(mss)))
    }
}

/// Does the first block report a duplicate (RFC 2883, section 4)?
fn is_dsack(una: Seq, left: Seq, right: Seq, second: Option<&(Seq, Seq)>) -> bool {
    right.at_or_before(una) || second.is_some_and(|&(l, r)| l.at_or_before(left) && right.at_or_before(r))
}

#[cfg(test)]
impl Scoreboard {
    /// Returns the state that decides all later answers: the runs as offsets from `una`, with the amount below
    /// each.
    pub(crate) fn state(&self, una: Seq) -> Vec<(u32, u32, u32)> {
        let Some(board) = &self.board else { return Vec::new() };
        let first = board.runs.first().map_or(0, |run| run.below);
        let of =
            |run: &Run| (run.start.offset_from(una), run.end.offset_from(una), run.below.wrapping_sub(first));
        board.runs.iter().map(of).collect()
    }
}

impl Board {
    /// Count of bytes SACKed below the first byte not known to be.
    fn end(&self) -> u32 {
        self.runs.last().map_or(0, Run::through)
    }

    fn total(&self) -> u32 {
        self.end().wrapping_sub(self.runs.first().map_or(0, |run| run.below))
    }

    /// Count of bytes SACKed below `seq`.
    fn sacked_below(&self, seq: Seq) -> u32 {
        let i = self.runs.partition_point(|run| run.end.at_or_before(seq));
        match self.runs.get(i) {
            Some(run) if run.start.before(seq) => run.below.wrapping_add(seq.offset_from(run.start)),
            Some(run) => run.below,
            None => self.end(),
        }
    }

    fn insert(&mut self, mss: u32, left: Seq, right: Seq) -> u32 {
        // The runs that overlap or touch left..right are `first..last`.
        let first = self.runs.partition_point(|run| run.end.before(left));
        let last = first + self.runs[first..].partition_point(|run| run.start.at_or_before(right));
        self.count_steps(first);
        if first == last {
            let most = if right.offset_from(left) < mss { SHORT_RUNS } else { MAX_RUNS };
            if self.runs.len() >= most {
                return 0;
            }
            let below = self.runs.get(first).map_or_else(|| self.end(), |run| run.below);
            self.runs.insert(first, Run { start: left, end: right, below });
            return self.lift(first + 1, right.offset_from(left));
        }
        let (low, high) = (self.runs[first], self.runs[last - 1]);
        let run = Run { start: left.earlier(low.start), end: right.later(high.end), below: low.below };
        let newly = run.len() - high.through().wrapping_sub(low.below);
        if newly == 0 {
            return 0;
        }
        self.runs[first] = run;
        self.runs.drain(first + 1..last);
        self.lift(first + 1, newly)
    }

    /// A search compares a few runs; those from `first` on are moved and counted anew.
    fn count_steps(&mut self, first: usize) {
        let search = u64::from(usize::BITS - self.runs.len().leading_zeros());
        self.steps += 2 * search + 2 * (self.runs.len() - first) as u64 + 1;
    }

    /// `newly` bytes were SACKed below the runs from `first` on.
    fn lift(&mut self, first: usize, newly: u32) -> u32 {
        for run in &mut self.runs[first..] {
            run.below = run.below.wrapping_add(newly);
        }
        newly
    }

    fn advance(&mut self, una: Seq) {
        if una.at_or_before(self.una) {
            return;
        }
        self.una = una;
        self.count_steps(0);
        let gone = self.runs.partition_point(|run| run.end.at_or_before(una));
        self.runs.drain(..gone);
        if let Some(run) = self.runs.first_mut().filter(|run| run.start.before(una)) {
            run.below = run.below.wrapping_add(una.offset_from(run.start));
            run.start = una;
        }
    }
}

#[cfg(test)]
mod tests;
