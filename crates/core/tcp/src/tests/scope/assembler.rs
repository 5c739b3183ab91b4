//! The queue of out-of-order data: every set of bytes in a window of a few, in every order of arrival.

use alloc::vec::Vec;

use base::Seq;

use super::{Universe, explore, large};
use crate::fuzz::assembler::Oracle;
use crate::receiver::assembler::Assembler;

/// Where RCV.NXT is; that the circle looks alike everywhere is `base::Seq`'s affair.
const RCV_NXT: Seq = Seq::new(u32::MAX - 3);

#[derive(Clone)]
struct World {
    real: Assembler,
    oracle: Oracle,
    /// Most runs held.
    max: usize,
}

#[derive(Clone, Copy)]
enum Step {
    Insert(usize, usize),
    Advance,
}

impl Universe for World {
    type State = (Vec<bool>, Vec<(usize, usize)>, Vec<u32>);
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let window = self.oracle.held.len();
        let inserts =
            (0..window).flat_map(|start| (start + 1..=window).map(move |end| Step::Insert(start, end)));
        inserts.chain([Step::Advance]).collect()
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Insert(start, end) => {
                let got = self.real.insert(start as u32, end as u32, self.max);
                assert_eq!(got, self.oracle.insert(start, end, self.max), "{start}..{end}");
            }
            Step::Advance => {
                let n = self.real.advance() as usize;
                assert_eq!(n, self.oracle.front(), "what can be delivered");
                self.oracle.shift(n);
            }
        }
        self.oracle.trim();
    }

    fn compare(&self) {
        let runs = self.oracle.runs();
        assert_eq!(usize::from(self.real.runs()), runs.len());
        let window = self.oracle.held.len();
        for (start, end) in (0..window).flat_map(|start| (start + 1..=window).map(move |end| (start, end))) {
            let got = self.real.overlap(start as u32, end as u32);
            assert_eq!(got, self.oracle.overlap(start, end), "{start}..{end} of {runs:?}");
        }
        let duplicate = (RCV_NXT - 9, RCV_NXT - 4);
        for max in 1..=4 {
            let told = self.told(max, None);
            assert_eq!(told.len(), runs.len().min(max), "as many runs as fit");
            let recent: Vec<_> = self.oracle.recent.iter().map(|&at| self.oracle.run(at)).collect();
            let n = told.len().min(recent.len());
            assert_eq!(told[..n], recent[..n], "latest change first");
            let distinct =
                told.iter().enumerate().all(|(i, run)| runs.contains(run) && !told[..i].contains(run));
            assert!(distinct, "{told:?} are whole runs of {runs:?}, each once");
            let blocks = self.real.sack_blocks(RCV_NXT, Some(duplicate), max);
            assert_eq!(blocks.as_slice()[0], duplicate, "a duplicate is told first");
            assert_eq!(self.told(max, Some(duplicate))[1..], told[..told.len().min(max - 1)]);
        }
    }

    fn state(&self) -> Self::State {
        let (runs, recent) = self.real.state();
        let runs = runs.into_iter().map(|(start, end)| (start as usize, end as usize)).collect();
        (self.oracle.held.clone(), runs, recent)
    }
}

impl World {
    fn told(&self, max: usize, duplicate: Option<(Seq, Seq)>) -> Vec<(usize, usize)> {
        let blocks = self.real.sack_blocks(RCV_NXT, duplicate, max);
        let offset = |seq: Seq| seq.offset_from(RCV_NXT) as usize;
        blocks.as_slice().iter().map(|&(left, right)| (offset(left), offset(right))).collect()
    }
}

#[test]
fn every_order_of_arrival() {
    let widest = if large() { 13 } else { 9 };
    for (window, max) in [(widest - 2, 1), (widest - 1, 2), (widest, 3), (widest, 100)] {
        let start = World { real: Assembler::new(), oracle: Oracle::new(window), max };
        let explored = explore(&alloc::format!("assembler, {window} bytes, {max} runs at most"), start);
        assert!(explored.states > 4 * window && explored.depth > max.min(3), "{} states", explored.states);
    }
}
