//! Delivery rate samples, for policies that ask for them (draft-ietf-ccwg-bbr, section 4.1, which took in
//! draft-cheng-iccrg-delivery-rate-estimation; names of theirs in brackets). Every transmission remembers what had been
//! delivered when it left; its acknowledgment tells what was delivered since, and in which time. Taking the longer of
//! the time to send and the time to acknowledge, neither bursts nor acknowledgments that were held back make a path
//! look faster than it is.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use base::{Instant, Rate, Seq};
use cc::{AckSample, Controller, Deliveries, Departure, RateSample};

use crate::Cx;
use crate::connection::{Bits, Connection};
use crate::recovery::scoreboard::Scoreboard;

/// Most transmissions remembered: what leaves beyond counts as part of the one before.
const MOST: usize = 8_192;
/// Most samples of retransmissions; the oldest is evicted.
const MOST_AGAIN: usize = 1_024;

/// A transmission, and how things stood when it left.
#[derive(Clone, Copy, Debug)]
struct Left {
    start: Seq,
    end: Seq,
    then: Departure,
}

/// One connection's account.
#[derive(Debug)]
struct Delivery {
    account: Deliveries,
    /// First transmissions in flight, in order.
    log: VecDeque<Left>,
    /// Retransmissions in flight, in the order of sending.
    again: VecDeque<Left>,
    /// One past the highest byte delivered.
    high: Seq,
    /// The last rate.
    last: Option<Rate>,
}

/// The account, while [`Bits::SAMPLED`].
#[derive(Default, Debug)]
pub(crate) struct Samples(Option<Box<Delivery>>);

impl Delivery {
    fn new(una: Seq) -> Delivery {
        Delivery {
            account: Deliveries::default(),
            log: VecDeque::new(),
            again: VecDeque::new(),
            high: una,
            last: None,
        }
    }

    /// `start..end` leaves at `now`, while `pipe` bytes are in the network (OnPacketSent).
    fn on_sent(&mut self, now: Instant, (start, end): (Seq, Seq), again: bool, pipe: u32) {
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

    /// Takes back the sample of the segment at `seq`, which never left.
    fn take_back(&mut self, seq: Seq, again: bool) {
        if again {
            self.again.pop_back_if(|left| left.start == seq);
        } else if let Some(last) = self.log.back_mut() {
            last.end = last.end.earlier(seq);
            self.log.pop_back_if(|left| left.start.at_or_after(left.end));
        }
    }

    /// Of all that is delivered now, what left last: SND.UNA is `una` (IsNewestPacket).
    fn newest(&mut self, una: Seq, board: Option<&Scoreboard>) -> Option<Left> {
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

impl Connection {
    /// The policy wants samples, or does not any more.
    #[cold]
    pub(crate) fn switch_sampling(&mut self, on: bool) {
        self.bits.put(Bits::SAMPLED, on);
        let una = self.snd.una();
        self.cold_mut().delivery.0 = on.then(|| Box::new(Delivery::new(una)));
    }

    fn delivery_mut(&mut self) -> Option<&mut Delivery> {
        self.cold_mut().delivery.0.as_deref_mut()
    }

    /// `start..end` leaves, `again` or for the first time; SND.NXT counts it already. Where that was all there is and
    /// the window would let more go, the application is what bounds the flight from now on (CheckIfApplicationLimited).
    #[cold]
    pub(crate) fn note_sampled(&mut self, cx: &Cx<'_>, start: Seq, end: Seq, again: bool) {
        let new = if again { 0 } else { end.offset_from(start) };
        let pipe = self.pipe();
        let limited = self.snd.unsent() == 0 && pipe < self.control.window().cwnd;
        let Some(delivery) = self.delivery_mut() else { return };
        delivery.on_sent(cx.now, (start, end), again, pipe.saturating_sub(new));
        if limited {
            delivery.account.on_limited(pipe.into());
        }
    }

    /// Takes back the sample of the segment at `seq`, which did not leave.
    #[cold]
    pub(crate) fn take_back_sample(&mut self, seq: Seq, again: bool) {
        if let Some(delivery) = self.delivery_mut() {
            delivery.take_back(seq, again);
        }
    }

    /// `bytes` were found lost.
    #[cold]
    pub(crate) fn note_lost(&mut self, bytes: u32) {
        if let Some(delivery) = self.delivery_mut() {
            delivery.account.on_lost(bytes.into());
        }
    }

    /// An acknowledgment delivered `bytes`: the sample. One over less than the smallest round trip is none: something
    /// was acknowledged before it can have arrived, or the clock is too coarse.
    fn sample_delivery(&mut self, cx: &Cx<'_>, bytes: u32) -> Option<RateSample> {
        let (una, min_rtt) = (self.snd.una(), self.timers.rtt().min_rtt());
        let mut delivery = self.cold_mut().delivery.0.take()?;
        let newest = delivery.newest(una, self.recovery.scoreboard());
        let then = newest.as_ref().map(|left| &left.then);
        let sample = delivery.account.on_delivered(cx.now, bytes.into(), then);
        let sample = sample.filter(|sample| !sample.interval.is_zero() && sample.interval >= min_rtt);
        if let Some(sample) = &sample {
            let rate = sample.rate();
            // One that the application bounded tells only if it is no less.
            if !sample.app_limited || delivery.last.is_none_or(|last| rate >= last) {
                delivery.last = Some(rate);
            }
        }
        self.cold_mut().delivery.0 = Some(delivery);
        sample
    }

    /// The policy gets a rate with the acknowledgment, if there is one.
    #[cold]
    pub(crate) fn inform_of_rate(&mut self, cx: &Cx<'_>, ack: &AckSample<'_>) {
        let rate = self.sample_delivery(cx, ack.bytes.max(ack.sacked));
        self.control.on_ack(&AckSample { rate: rate.as_ref(), ..*ack });
    }

    /// The last rate that was sampled.
    pub(crate) fn sampled_rate(&self) -> Option<Rate> {
        self.cold()?.delivery.0.as_ref()?.last
    }
}
