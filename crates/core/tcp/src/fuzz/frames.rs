//! Frames that hold adopted payloads, and a payload cut into pieces.

use alloc::vec::Vec;

use wire::tcp::Pieces;

use crate::Frames;

/// Data in pieces of `size` bytes.
pub(in crate::fuzz) struct Cut<'a> {
    pub(in crate::fuzz) data: &'a [u8],
    pub(in crate::fuzz) size: usize,
}

impl Pieces for Cut<'_> {
    fn len(&self) -> u32 {
        self.data.len() as u32
    }

    fn for_each(&self, each: &mut dyn FnMut(&[u8]) -> bool) {
        let _all = self.data.chunks(self.size).all(each);
    }
}

/// Payloads in frames, with what was consumed of each and the one behind it.
#[derive(Default)]
pub(in crate::fuzz) struct Store {
    pub(in crate::fuzz) payloads: Vec<(Vec<u8>, usize, Option<u32>)>,
    pub(in crate::fuzz) offered: Option<Vec<u8>>,
}

impl Store {
    /// Returns the data from a payload on, cut where payloads are.
    fn data(&self, first: u32) -> impl Iterator<Item = &[u8]> {
        let at = |number: u32| self.payloads.get(number as usize);
        core::iter::successors(at(first), move |payload| payload.2.and_then(at))
            .map(|payload| &payload.0[payload.1..])
    }
}

impl Frames for Store {
    fn adopt(&mut self, bytes: u32, last: Option<u32>) -> Option<u32> {
        let number = self.payloads.len() as u32;
        let offered = self.offered.take_if(|offered| offered.len() == bytes as usize)?;
        self.payloads.push((offered, 0, None));
        if let Some(last) = last {
            self.payloads[last as usize].2 = Some(number);
        }
        Some(number)
    }

    fn copy_out(&self, first: u32, into: &mut [u8]) -> usize {
        let all: Vec<u8> = self.data(first).flatten().copied().take(into.len()).collect();
        into[..all.len()].copy_from_slice(&all);
        all.len()
    }

    fn for_each(&self, first: u32, each: &mut dyn FnMut(&[u8]) -> bool) {
        let _all = self.data(first).flat_map(|data| data.chunks(700)).all(each);
    }

    fn consume(&mut self, first: u32, n: u32) -> u32 {
        let (mut number, mut left) = (first, n as usize);
        loop {
            let (data, done, next) = &mut self.payloads[number as usize];
            let here = left.min(data.len() - *done);
            (*done, left) = (*done + here, left - here);
            match *next {
                Some(next) if *done == data.len() => number = next,
                _ => return number,
            }
        }
    }
}
