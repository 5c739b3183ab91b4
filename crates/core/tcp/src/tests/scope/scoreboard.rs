//! The SACK scoreboard: every flight of a few bytes, every acknowledgment and every pair of blocks around it.

use alloc::vec;
use alloc::vec::Vec;

use base::Seq;

use super::{Universe, explore, large};
use crate::fuzz::scoreboard::Oracle;
use crate::recovery::scoreboard::Scoreboard;

#[derive(Clone)]
struct World {
    real: Scoreboard,
    oracle: Oracle,
    /// Most bytes in flight.
    most: usize,
}

/// Blocks are offsets from one byte below SND.UNA, so that old and new ones occur.
#[derive(Clone, Copy)]
enum Step {
    Send(usize),
    Acknowledge(usize),
    Clear,
    Sack(u32, u32),
    SackTwo((u32, u32), (u32, u32)),
}

impl Universe for World {
    type State = (Vec<bool>, Vec<(u32, u32, u32)>);
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let flight = self.oracle.sacked.len();
        let edge = flight as u32 + 3;
        let blocks: Vec<(u32, u32)> = (0..edge).flat_map(|l| (l..edge).map(move |r| (l, r))).collect();
        let mut steps = vec![Step::Clear];
        steps.extend((1..=self.most - flight).map(Step::Send));
        steps.extend((1..=flight).map(Step::Acknowledge));
        steps.extend(blocks.iter().map(|&(l, r)| Step::Sack(l, r)));
        steps.extend(blocks.iter().flat_map(|&a| blocks.iter().map(move |&b| Step::SackTwo(a, b))));
        steps
    }

    fn take(&mut self, step: Step) {
        let low = self.oracle.una - 1;
        match step {
            Step::Send(n) => self.oracle.sacked.resize(self.oracle.sacked.len() + n, false),
            Step::Acknowledge(n) => {
                self.oracle.advance(n);
                self.real.advance(self.oracle.una);
            }
            Step::Clear => {
                self.real.clear();
                self.oracle.sacked.fill(false);
            }
            Step::Sack(l, r) => self.sack(&[(low + l, low + r)]),
            Step::SackTwo(a, b) => self.sack(&[(low + a.0, low + a.1), (low + b.0, low + b.1)]),
        }
    }

    fn compare(&self) {
        let World { real, oracle, .. } = self;
        let (una, nxt, flight) = (oracle.una, oracle.nxt(), oracle.sacked.len());
        assert_eq!(real.is_empty(), oracle.highest().is_none());
        assert_eq!(real.sacked() as usize, oracle.sacked.iter().filter(|&&sacked| sacked).count());
        assert_eq!(real.highest_sacked(), oracle.highest().map(|i| una + i as u32 + 1));
        for at in 0..flight {
            assert_eq!(real.is_sacked(una + at as u32), oracle.sacked[at]);
        }
        for mss in 1..=3 {
            assert_eq!(real.reaches_dup_thresh(mss), oracle.reaches_dup_thresh(mss));
            for at in 0..flight {
                let hole = oracle.next_hole(at, mss).map(|(start, len)| (una + start as u32, len));
                assert_eq!(real.next_hole(una + at as u32, mss), hole, "NextSeg from {at}");
            }
        }
        for (lost, resent) in (0..=flight).flat_map(|lost| (0..=flight).map(move |resent| (lost, resent))) {
            let got = real.pipe(una, nxt, una + lost as u32, una + resent as u32);
            assert_eq!(got, oracle.pipe(lost, resent), "SetPipe of {lost} and {resent}");
        }
    }

    fn state(&self) -> Self::State {
        (self.oracle.sacked.clone(), self.real.state(self.oracle.una))
    }
}

impl World {
    fn sack(&mut self, blocks: &[(Seq, Seq)]) {
        // Runs are too few here for their length to matter.
        let expected = self.oracle.update(1, blocks);
        assert_eq!(self.real.update(self.oracle.una, self.oracle.nxt(), 1, blocks), expected, "{blocks:?}");
    }
}

#[test]
fn every_pair_of_blocks() {
    let most = if large() { 9 } else { 6 };
    // Before, at and after the places where the circle's numbers wrap or change their sign.
    for una in [0, u32::MAX - 2, (1 << 31) - 3] {
        let oracle = Oracle { una: Seq::new(una), sacked: Vec::new() };
        let start = World { real: Scoreboard::new(), oracle, most };
        let explored = explore(&alloc::format!("scoreboard, {most} bytes from {una}"), start);
        // The first byte of a flight is not SACKed unless what lay before it is acknowledged.
        assert_eq!(explored.states, (1 << (most + 1)) - 1, "every set of every flight");
    }
}
