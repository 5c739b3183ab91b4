//! The scoreboard against RFC 6675's definitions, byte by byte.

use alloc::vec;
use alloc::vec::Vec;

use base::Seq;

use super::Input;
use crate::recovery::scoreboard::{DUP_THRESH, SHORT_RUNS, Sacked, Scoreboard};

/// Most bytes in flight.
const FLIGHT: u32 = 500;

/// One bit for each byte in flight.
#[derive(Clone)]
pub(crate) struct Oracle {
    pub(crate) una: Seq,
    pub(crate) sacked: Vec<bool>,
}

impl Oracle {
    pub(crate) fn nxt(&self) -> Seq {
        self.una + self.sacked.len() as u32
    }

    pub(crate) fn advance(&mut self, n: usize) {
        self.sacked.drain(..n);
        self.una += n as u32;
    }

    /// Marks what the blocks say.
    pub(crate) fn update(&mut self, mss: u32, blocks: &[(Seq, Seq)]) -> Sacked {
        let mut told = Sacked::default();
        for (i, &(left, right)) in blocks.iter().enumerate() {
            let (l, r) = (left.distance_from(self.una), right.distance_from(self.una));
            if l >= r || r > self.sacked.len() as i32 {
                told.invalid += 1;
                continue;
            }
            let inside = blocks
                .get(1)
                .is_some_and(|&(a, b)| a.distance_from(self.una) <= l && r <= b.distance_from(self.una));
            if i == 0 && (r <= 0 || inside) {
                told.dsack = Some((left, right));
                continue;
            }
            if l <= 0 && r > 0 {
                told.invalid += 1;
                continue;
            }
            let (l, r) = (l.max(0), r.max(0));
            if self.is_one_run_too_many(l as usize, r as usize, mss) {
                continue;
            }
            for byte in l..r {
                if !core::mem::replace(&mut self.sacked[byte as usize], true) {
                    let seq = self.una + byte as u32;
                    told.newly += 1;
                    told.lowest = Some(told.lowest.map_or(seq, |lowest| lowest.earlier(seq)));
                }
            }
        }
        told
    }

    fn runs(&self) -> usize {
        let s = &self.sacked;
        (0..s.len()).filter(|&i| s[i] && (i == 0 || !s[i - 1])).count()
    }

    /// Is `l..r` a run of its own, shorter than a segment, where there are many already?
    fn is_one_run_too_many(&self, l: usize, r: usize, mss: u32) -> bool {
        let joins = self.sacked[l.saturating_sub(1)..(r + 1).min(self.sacked.len())].contains(&true);
        !joins && ((r - l) as u32) < mss && self.runs() >= SHORT_RUNS
    }

    pub(crate) fn highest(&self) -> Option<usize> {
        self.sacked.iter().rposition(|&s| s)
    }

    pub(crate) fn reaches_dup_thresh(&self, mss: u32) -> bool {
        let s = &self.sacked;
        let bytes = s.iter().filter(|&&s| s).count() as u32;
        self.runs() >= DUP_THRESH as usize || bytes > (DUP_THRESH - 1) * mss
    }

    pub(crate) fn pipe(&self, lost: usize, high_rxt: usize) -> u32 {
        let unsacked = (0..self.sacked.len()).filter(|&i| !self.sacked[i]);
        unsacked.map(|i| u32::from(i >= lost) + u32::from(i < high_rxt)).sum()
    }

    pub(crate) fn next_hole(&self, from: usize, mss: u32) -> Option<(usize, u32)> {
        let highest = self.highest()?;
        let start = (from..highest).find(|&i| !self.sacked[i])?;
        let len = (start..highest).take_while(|&i| !self.sacked[i]).count() as u32;
        Some((start, len.min(mss)))
    }
}

/// Model of `scoreboard`.
pub fn scoreboard(data: &[u8]) {
    let mut input = Input::new(data);
    let una = Seq::new(u32::MAX - input.below(1500));
    let mss = 1 + input.below(40);
    let mut real = Scoreboard::new();
    // In a flight that stays long there are more runs than may be short.
    let steady = input.below(3) == 0;
    let mut oracle = Oracle { una, sacked: vec![false; if steady { FLIGHT as usize } else { 100 }] };
    let longest = [3, 12, 12, 90];
    while !input.is_empty() {
        let flight = oracle.sacked.len() as u32;
        match input.u8() % 16 {
            0 => {
                let more = input.below(60).min(FLIGHT - flight);
                oracle.sacked.resize((flight + more) as usize, false);
            }
            1 | 2 if !steady || input.below(16) == 0 => {
                let n = input.below(flight + 1).min(input.below(80));
                oracle.advance(n as usize);
                real.advance(oracle.una);
            }
            3 if input.below(8) == 0 => {
                real.clear();
                oracle.sacked.fill(false);
            }
            op => {
                let blocks: Vec<(Seq, Seq)> = (0..1 + op % 3)
                    .map(|_| {
                        let left = oracle.una + input.below(flight + 40) - 20;
                        (
                            left,
                            left + input.below(if steady && op < 15 {
                                3
                            } else {
                                longest[usize::from(op / 4)]
                            }),
                        )
                    })
                    .collect();
                let expected = oracle.update(mss, &blocks);
                let got = real.update(oracle.una, oracle.nxt(), mss, &blocks);
                assert_eq!(got, expected, "{blocks:?}");
            }
        }
        check(&real, &oracle, mss, &mut input);
    }
}

fn check(real: &Scoreboard, oracle: &Oracle, mss: u32, input: &mut Input<'_>) {
    let flight = oracle.sacked.len();
    assert_eq!(real.is_empty(), oracle.highest().is_none());
    assert_eq!(real.sacked() as usize, oracle.sacked.iter().filter(|&&s| s).count());
    assert_eq!(real.highest_sacked(), oracle.highest().map(|i| oracle.una + i as u32 + 1));
    let at = input.below(flight.max(1) as u32) as usize;
    let seq = oracle.una + at as u32;
    if at < flight {
        assert_eq!(real.is_sacked(seq), oracle.sacked[at]);
    }
    assert_eq!(real.reaches_dup_thresh(mss), oracle.reaches_dup_thresh(mss));
    let edge = input.below(flight as u32 + 20);
    let lost = oracle.una + edge - 10;
    let expected = oracle.pipe(edge.saturating_sub(10) as usize, at);
    assert_eq!(real.pipe(oracle.una, oracle.nxt(), lost, seq), expected, "SetPipe");
    let hole = oracle.next_hole(at, mss).map(|(start, len)| (oracle.una + start as u32, len));
    assert_eq!(real.next_hole(seq, mss), hole, "NextSeg from {seq:?}");
}
