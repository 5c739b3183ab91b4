//! Two connections' departures in one small log, against one time per byte.

use alloc::vec::Vec;

use base::Seq;

use super::Input;
use crate::buffers::sent::{Cursor, Sent, TxTimes};

/// Enough that memory never runs out here; that case has its own test.
const MOST: u32 = 4_000;

struct Pair {
    sent: Sent,
    cursor: Cursor,
    una: Seq,
    /// When each byte in flight left.
    oracle: Vec<u32>,
    /// The cursor was last asked for this byte: it never goes back.
    asked: Seq,
    /// When the last transmission left, if it may still turn out not to have.
    last: Option<u32>,
}

impl Pair {
    fn new(una: Seq) -> Pair {
        let sent = Sent::new(una);
        Pair { cursor: sent.cursor(), sent, una, oracle: Vec::new(), asked: una, last: None }
    }

    fn nxt(&self) -> Seq {
        self.una + self.oracle.len() as u32
    }

    /// Distinct times among the bytes in flight: at least so many departures are needed.
    fn times(&self) -> usize {
        let mut times = self.oracle.clone();
        times.dedup();
        times.len()
    }
}

/// Model of `sent`.
pub fn sent(data: &[u8]) {
    let mut input = Input::new(data);
    let mut log = TxTimes::new(MOST);
    let mut pairs = [0, 1].map(|i| Pair::new(Seq::new(u32::MAX - input.below(900) * (i + 1))));
    let mut now = u32::MAX - input.below(300);
    while !input.is_empty() {
        let op = input.u8();
        let pair = &mut pairs[usize::from(op >> 7)];
        match op % 8 {
            0..=2 => {
                let len = 1 + input.below(40);
                pair.oracle.extend((0..len).map(|_| now));
                pair.sent.push(&mut log, pair.una, pair.nxt(), now);
                pair.last = Some(now);
            }
            3 => now = now.wrapping_add(input.below(20)),
            4 => {
                // The segment that left last never left.
                if let Some(last) = pair.last {
                    let same = pair.oracle.iter().rev().take_while(|&&at| at == last).count() as u32;
                    let len = input.below(same + 1);
                    let keep = pair.oracle.len() - len as usize;
                    pair.oracle.truncate(keep);
                    pair.sent.cut(pair.nxt());
                    pair.asked = pair.asked.earlier(pair.nxt());
                    pair.cursor = pair.sent.cursor();
                }
            }
            5 => {
                let len = input.below(pair.oracle.len() as u32 + 1);
                let last = pair.oracle.drain(..len as usize).next_back();
                pair.una += len;
                let left = pair.sent.retire_with(&mut log, pair.una, core::slice::from_mut(&mut pair.cursor));
                if last.is_some() {
                    assert_eq!(left, last, "when the byte before {:?} left", pair.una);
                }
            }
            6 if input.below(16) == 0 => {
                pair.una = pair.nxt();
                pair.last = None;
                pair.oracle.clear();
                pair.sent.release(&mut log);
                pair.sent = Sent::new(pair.una);
                pair.cursor = pair.sent.cursor();
            }
            _ => {
                let from = pair.asked.later(pair.una);
                let ahead = pair.nxt().offset_from(from);
                if ahead > 0 {
                    let seq = from + input.below(ahead);
                    let at = pair.oracle[seq.offset_from(pair.una) as usize];
                    let found = pair.cursor.seek(&pair.sent, &log, seq);
                    assert_eq!(found.map(|(_, at)| at), Some(at), "when {seq:?} left");
                    pair.asked = seq;
                }
            }
        }
        let least: usize = pairs.iter().map(|pair| pair.times().saturating_sub(1)).sum();
        assert!(log.used() as usize >= least, "{} tx_times, {least} times", log.used());
    }
    for mut pair in pairs {
        pair.sent.release(&mut log);
    }
    assert_eq!(log.used(), 0, "every departure came back");
}
