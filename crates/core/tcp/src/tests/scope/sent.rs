//! The log of departures: every way to send, take back, acknowledge and ask about a few bytes at a few times.

use alloc::vec;
use alloc::vec::Vec;

use base::Seq;

use super::{Universe, explore, large};
use crate::buffers::sent::{Cursor, Sent, TxTimes};

/// Enough that memory never runs out: that case has a test of its own.
const MOST: u32 = 1000;

#[derive(Clone)]
struct World {
    log: TxTimes,
    sent: Sent,
    cursor: Cursor,
    una: Seq,
    now: u32,
    /// When each byte in flight left.
    oracle: Vec<u32>,
    /// The cursor was last asked for this byte: it never goes back.
    asked: Seq,
    /// When the last transmission left, if it may still turn out not to have.
    last: Option<u32>,
    /// Most bytes in flight.
    most: usize,
}

#[derive(Clone, Copy)]
enum Step {
    Pass,
    Send(usize),
    TakeBack(usize),
    Acknowledge(usize),
    Ask(u32),
}

impl Universe for World {
    /// All places from SND.UNA, all times by their rank.
    type State = (Vec<u8>, Vec<(i32, u8)>, usize, i32, Option<u8>, u8);
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let flight = self.oracle.len();
        let mut steps = vec![Step::Pass];
        steps.extend((1..=self.most - flight).map(Step::Send));
        steps.extend((1..=self.unsure()).map(Step::TakeBack));
        steps.extend((1..=flight).map(Step::Acknowledge));
        let from = self.asked.later(self.una);
        let ahead = self.nxt().offset_from(from);
        steps.extend((0..ahead).map(Step::Ask));
        steps
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Pass => self.now = self.now.wrapping_add(1),
            Step::Send(n) => {
                self.oracle.extend(vec![self.now; n]);
                self.sent.push(&mut self.log, self.una, self.una + self.oracle.len() as u32, self.now);
                self.last = Some(self.now);
            }
            Step::TakeBack(n) => {
                self.oracle.truncate(self.oracle.len() - n);
                self.sent.cut(self.nxt());
                self.asked = self.asked.earlier(self.nxt());
                self.cursor = self.sent.cursor();
            }
            Step::Acknowledge(n) => {
                let last = self.oracle.drain(..n).next_back();
                self.una += n as u32;
                let cursors = core::slice::from_mut(&mut self.cursor);
                let left = self.sent.retire_with(&mut self.log, self.una, cursors);
                assert_eq!(left, last, "when the byte before {:?} left", self.una);
            }
            Step::Ask(ahead) => {
                let seq = self.asked.later(self.una) + ahead;
                let at = self.oracle[seq.offset_from(self.una) as usize];
                let found = self.cursor.seek(&self.sent, &self.log, seq);
                assert_eq!(found.map(|(_, at)| at), Some(at), "when {seq:?} left");
                self.asked = seq;
            }
        }
    }

    fn compare(&self) {
        for (place, &at) in (0..).zip(&self.oracle) {
            let found = self.sent.cursor().seek(&self.sent, &self.log, self.una + place);
            assert_eq!(found.map(|(_, at)| at), Some(at), "when byte {place} left");
        }
        let mut empty = self.clone();
        empty.sent.release(&mut empty.log);
        assert_eq!(empty.log.used(), 0, "every departure came back");
    }

    fn state(&self) -> Self::State {
        let (tx_times, at_cursor) = self.sent.state(&self.log, self.cursor);
        let mut times: Vec<u32> = tx_times.iter().map(|&(_, at)| at).chain(self.oracle.clone()).collect();
        times.extend(self.last.into_iter().chain([self.now]));
        let age = |at: u32| self.now.wrapping_sub(at);
        times.sort_unstable_by_key(|&at| age(at));
        times.dedup();
        let rank = |at: u32| times.iter().position(|&other| other == at).unwrap_or(usize::MAX) as u8;
        (
            self.oracle.iter().map(|&at| rank(at)).collect(),
            tx_times.iter().map(|&(end, at)| (end.distance_from(self.una), rank(at))).collect(),
            at_cursor,
            self.asked.distance_from(self.una).max(0),
            self.last.map(rank),
            rank(self.now),
        )
    }
}

impl World {
    fn nxt(&self) -> Seq {
        self.una + self.oracle.len() as u32
    }

    /// Bytes of the last transmission that may be taken back.
    fn unsure(&self) -> usize {
        let Some(last) = self.last else { return 0 };
        self.oracle.iter().rev().take_while(|&&at| at == last).count()
    }
}

#[test]
fn every_departure() {
    let most = if large() { 10 } else { 7 };
    let una = Seq::new(u32::MAX - 2);
    let sent = Sent::new(una);
    let (oracle, cursor) = (Vec::new(), sent.cursor());
    let log = TxTimes::new(MOST);
    let start = World { log, sent, cursor, una, now: u32::MAX - 1, oracle, asked: una, last: None, most };
    let explored = explore(&alloc::format!("tx_times, {most} bytes in flight"), start);
    assert!(explored.states > 500 && explored.transitions > 5000, "{} states", explored.states);
}
