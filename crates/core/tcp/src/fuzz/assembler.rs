//! The assembler against a bitmap.

use alloc::vec;
use alloc::vec::Vec;

use base::Seq;

use super::Input;
use crate::receiver::assembler::{Assembler, Inserted};

/// Bytes beyond RCV.NXT that the bitmap covers.
const WINDOW: usize = 600;
/// Runs whose recency is kept.
const REMEMBERED: usize = 8;

/// One bit for each byte beyond RCV.NXT.
#[derive(Clone)]
pub(crate) struct Oracle {
    pub(crate) held: Vec<bool>,
    /// A byte of each run changed, latest first.
    pub(crate) recent: Vec<usize>,
}

impl Oracle {
    pub(crate) fn new(window: usize) -> Oracle {
        Oracle { held: vec![false; window], recent: Vec::new() }
    }

    pub(crate) fn front(&self) -> usize {
        self.held.iter().position(|&h| !h).unwrap_or(self.held.len())
    }

    /// The run around `at`.
    pub(crate) fn run(&self, at: usize) -> (usize, usize) {
        let start = self.held[..at].iter().rposition(|&h| !h).map_or(0, |i| i + 1);
        (start, at + self.held[at..].iter().position(|&h| !h).unwrap_or(self.held.len() - at))
    }

    /// All runs beyond the first hole.
    pub(crate) fn runs(&self) -> Vec<(usize, usize)> {
        let (mut at, mut runs) = (self.front(), Vec::new());
        while let Some(step) = self.held[at..].iter().position(|&h| h) {
            runs.push(self.run(at + step));
            at = self.run(at + step).1;
        }
        runs
    }

    pub(crate) fn overlap(&self, start: usize, end: usize) -> Option<(u32, u32)> {
        let left = start + self.held[start..end].iter().position(|&h| h)?;
        let right = self.held[left..end].iter().position(|&h| !h).map_or(end, |i| left + i);
        Some((left as u32, right as u32))
    }

    pub(crate) fn insert(&mut self, start: usize, end: usize, max: usize) -> Inserted {
        if self.held[start..end].iter().all(|&h| h) {
            if start > self.front() {
                self.recent.insert(0, start);
            }
            return Inserted::Duplicate;
        }
        let near = &self.held[start.saturating_sub(1)..(end + 1).min(self.held.len())];
        if start > self.front() && !near.contains(&true) && self.runs().len() >= max {
            return Inserted::Refused;
        }
        self.held[start..end].fill(true);
        self.recent.insert(0, start);
        Inserted::New
    }

    /// Keeps one byte for each of the eight runs changed last.
    pub(crate) fn trim(&mut self) {
        let (mut runs, mut kept) = (Vec::new(), Vec::new());
        for &at in self.recent.iter().filter(|&&at| at >= self.front()) {
            if !runs.contains(&self.run(at)) && runs.len() < REMEMBERED {
                runs.push(self.run(at));
                kept.push(at);
            }
        }
        self.recent = kept;
    }

    pub(crate) fn shift(&mut self, n: usize) {
        let window = self.held.len();
        self.held.drain(..n);
        self.held.resize(window, false);
        self.recent.retain(|&at| at >= n);
        self.recent.iter_mut().for_each(|at| *at -= n);
    }
}

/// Model of `assembler`.
pub fn assembler(data: &[u8]) {
    let mut input = Input::new(data);
    let mut rcv_nxt = Seq::new(u32::MAX - input.below(2000));
    let max = 1 + input.below(40) as usize;
    let mut real = Assembler::new();
    let mut oracle = Oracle::new(WINDOW);
    while !input.is_empty() {
        match input.u8() % 16 {
            0..=3 => {
                let n = real.advance() as usize;
                assert_eq!(n, oracle.front(), "what can be delivered");
                oracle.shift(n);
                rcv_nxt += n as u32;
            }
            op => {
                let start = if op == 4 { oracle.front() } else { input.below(WINDOW as u32 - 1) as usize };
                let end = (start + 1 + input.below(if op < 10 { 8 } else { 60 }) as usize).min(WINDOW);
                if start < end {
                    assert_eq!(real.overlap(start as u32, end as u32), oracle.overlap(start, end));
                    let admitted = real.admits(start as u32, end as u32, max);
                    let got = real.insert(start as u32, end as u32, max);
                    assert!(admitted || got != Inserted::New, "{start}..{end} is told to be too much");
                    assert!(got != Inserted::Refused || !admitted, "{start}..{end} is told to be welcome");
                    assert_eq!(got, oracle.insert(start, end, max), "{start}..{end}");
                }
            }
        }
        oracle.trim();
        check(&real, &oracle, rcv_nxt, &mut input);
    }
}

fn check(real: &Assembler, oracle: &Oracle, rcv_nxt: Seq, input: &mut Input<'_>) {
    let runs = oracle.runs();
    assert_eq!(usize::from(real.runs()), runs.len());
    assert_eq!(real.bytes() as usize, runs.iter().map(|(start, end)| end - start).sum::<usize>());
    assert_eq!(real.reach() as usize, runs.last().map_or(oracle.front(), |run| run.1));
    let (max, with_dsack) = (3 + input.below(2) as usize, input.below(4) == 0);
    let dsack = with_dsack.then(|| (rcv_nxt - 9, rcv_nxt - 4));
    let blocks = real.sack_blocks(rcv_nxt, dsack, max);
    let mut blocks = blocks.as_slice();
    if with_dsack {
        assert_eq!(blocks[0], (rcv_nxt - 9, rcv_nxt - 4), "a duplicate is reported first");
        blocks = &blocks[1..];
    }
    assert_eq!(blocks.len(), runs.len().min(max - usize::from(with_dsack)), "as many runs as fit");
    let seen: Vec<(usize, usize)> = blocks
        .iter()
        .map(|(left, right)| (left.offset_from(rcv_nxt) as usize, right.offset_from(rcv_nxt) as usize))
        .collect();
    assert!(seen.iter().all(|run| runs.contains(run)), "{seen:?} are whole runs of {runs:?}");
    assert!(seen.iter().enumerate().all(|(i, run)| !seen[..i].contains(run)), "each run once");
    let recent: Vec<(usize, usize)> = oracle.recent.iter().map(|&at| oracle.run(at)).collect();
    let n = seen.len().min(recent.len());
    assert_eq!(seen[..n], recent[..n], "latest change first");
}
