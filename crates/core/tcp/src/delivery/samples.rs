//! Transmissions remembered until they are delivered.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use base::{Instant, Rate, Seq};
use cc::{Deliveries, Departure};

use crate::recovery::scoreboard::Scoreboard;

/// Most transmissions remembered: what leaves beyond counts as part of the one before.
const MOST: usize = 8_192;
/// Most samples of retransmissions; the oldest is evicted.
const MOST_AGAIN: usize = 1_024;

/// A transmission, and how things stood when it left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) start: Seq,
    pub(super) end: Seq,
    pub(super) then: Departure,
}

/// One connection's account.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) account: Deliveries,
    /// First transmissions in flight, in order.
    pub(super) log: VecDeque<Left>,
    /// Retransmissions in flight, in the order of sending.
    pub(super) again: VecDeque<Left>,
    /// One past the highest byte delivered.
    pub(super) high: Seq,
    /// The last rate.
    pub(super) last: Option<Rate>,
}

/// The account, while `Bits::SAMPLED`.
#[derive(Default, Debug)]
pub(crate) struct Samples(pub(super) Option<Box<Delivery>>);

impl Delivery {
    pub(super) fn new(una: Seq) -> Delivery {
        Delivery {
            account: Deliveries::default(),
            log: VecDeque::new(),
            again: VecDeque::new(),
            high: una,
            last: None,
        }
    }

    /// `start..end` leaves at `now`, while `pipe` bytes are in the network (OnPacketSent).
    pub(super) fn on_sent(&mut self, now: Instant, (start, end): (Seq, Seq), again: bool, pipe: u32) {
        let then = self.account.on_sent(now, pipe == 0, pipe + end.offset_from(start));
        let left = Left { start, end, then };
        if again {
            if self.again.len() >= MOST_AGAIN {
                self.again.pop_front();
            }
            return self.again.push_back(left);
        }
        let full = self.log.len() >= MOST;
        match self.log.back_mut() {
            // Of one time, with nothing delivered in between: the same sample.
            Some(last) if full || (last.then.at == now && last.then.delivered == then.delivered) => {
                (last.end, last.then.in_flight) = (end, then.in_flight);
            }
            _ => self.log.push_back(left),
        }
    }

    /// Of all that is delivered now, what left last: SND.UNA is `una` (IsNewestPacket).
    pub(super) fn newest(&mut self, una: Seq, board: Option<&Scoreboard>) -> Option<Left> {
        let known = self.high;
        let (mut newest, mut older) = (None, None);
        let later = |newest: &mut Option<Left>, left: Left| {
            let date = |left: Left| (left.then.at, left.then.delivered);
            if newest.is_none_or(|known| date(left) >= date(known)) {
                *newest = Some(left);
            }
        };
        while let Some(left) = self.log.pop_front_if(|left| left.end.at_or_before(una)) {
            match left.end.after(known) {
                true => later(&mut newest, left),
                // Told of by SACK before, or a hole below what was.
                false => older = older.or(Some(left)),
            }
        }
        if let Some(front) = self.log.front_mut().filter(|front| front.start.before(una)) {
            front.start = una;
            later(&mut newest, *front);
        }
        let high = board.and_then(Scoreboard::highest_sacked).unwrap_or(una).later(una);
        if high.after(known) && high.after(una) {
            let at = self.log.partition_point(|left| left.end.before(high));
            if let Some(left) = self.log.get(at) {
                later(&mut newest, *left);
            }
        }
        self.high = known.later(high);
        let arrived = |left: &Left| {
            left.end.at_or_before(una)
                || board.is_some_and(|board| board.unsacked(left.start.later(una), left.end) == 0)
        };
        self.again.retain(|left| {
            let gone = arrived(left);
            if gone {
                later(&mut newest, *left);
            }
            !gone
        });
        newest.or(older)
    }
}
