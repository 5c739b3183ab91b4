//! Delivery rate samples, for policies that ask for them (draft-ietf-ccwg-bbr, section 4.1, which took in
//! draft-cheng-iccrg-delivery-rate-estimation; names of theirs in brackets). Every transmission remembers what had been
//! delivered when it left; its acknowledgment tells what was delivered since, and in which time. Taking the longer of
//! the time to send and the time to acknowledge, neither bursts nor acknowledgments that were held back make a path
//! look faster than it is.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use base::{Instant, Rate, Seq};
use cc::{AckSample, Controller, RateSample};

use crate::Cx;
use crate::connection::{Bits, Connection};
use crate::scoreboard::Scoreboard;

/// Most transmissions remembered: what leaves beyond counts as part of the one before.
const MOST: usize = 8_192;
/// The same for retransmissions; the oldest is forgotten.
const MOST_AGAIN: usize = 1_024;

/// A transmission, and how things stood when it left.
#[derive(Clone, Copy, Debug)]
struct Left {
    start: Seq,
    end: Seq,
    at: Instant,
    /// Octets delivered until then, and when the last of them were (P.delivered, P.delivered_time).
    delivered: u64,
    delivered_at: Instant,
    /// When that left whose acknowledgment began the time of sending (P.first_send_time).
    first_at: Instant,
    app_limited: bool,
    in_flight: u32,
    lost: u64,
}

/// One connection's account.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// Octets delivered (C.delivered), and when the last of them were (C.delivered_time).
    delivered: u64,
    delivered_at: Instant,
    /// When that left which was acknowledged last (C.first_send_time).
    first_at: Instant,
    /// Octets found lost (C.lost), and how many of them the policy was told.
    lost: u64,
    lost_told: u64,
    /// Until so much is delivered, the application bounds what is in flight (C.app_limited).
    limited_until: u64,
    /// First transmissions in flight, in order.
    log: VecDeque<Left>,
    /// Retransmissions in flight, in the order of sending.
    again: VecDeque<Left>,
    /// One past the highest octet delivered.
    high: Seq,
    /// The last rate.
    last: Option<Rate>,
}

impl Delivery {
    fn new(una: Seq) -> Delivery {
        Delivery {
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_at: Instant::ZERO,
            lost: 0,
            lost_told: 0,
            limited_until: 0,
            log: VecDeque::new(),
            again: VecDeque::new(),
            high: una,
            last: None,
        }
    }

    /// `start..end` leaves at `now`, while `pipe` octets are in the network (OnPacketSent).
    fn on_sent(&mut self, now: Instant, (start, end): (Seq, Seq), again: bool, pipe: u32) {
        if pipe == 0 {
            (self.first_at, self.delivered_at) = (now, now);
        }
        let left = Left {
            start,
            end,
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_at: self.first_at,
            app_limited: self.limited_until > 0,
            in_flight: pipe + end.offset_from(start),
            lost: self.lost,
        };
        if again {
            if self.again.len() >= MOST_AGAIN {
                self.again.pop_front();
            }
            return self.again.push_back(left);
        }
        let full = self.log.len() >= MOST;
        match self.log.back_mut() {
            // Of one time, with nothing delivered in between: the same sample.
            Some(last) if full || (last.at == now && last.delivered == self.delivered) => {
                (last.end, last.in_flight) = (end, left.in_flight);
            }
            _ => self.log.push_back(left),
        }
    }

    /// What begins at `seq` never left.
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
            if newest.is_none_or(|known: Left| (left.at, left.delivered) >= (known.at, known.delivered)) {
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

    /// `octets` more are delivered (UpdateRateSample, GenerateRateSample).
    fn on_delivered(&mut self, now: Instant, octets: u32, newest: Option<Left>) -> Option<RateSample> {
        self.delivered += u64::from(octets);
        self.delivered_at = now;
        if self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        let left = newest?;
        let sending = left.at.since(left.first_at);
        let acknowledging = now.since(left.delivered_at);
        self.first_at = left.at;
        let newly_lost = self.lost - core::mem::replace(&mut self.lost_told, self.lost);
        let octets = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Some(RateSample {
            delivered: octets(self.delivered - left.delivered),
            interval: sending.max(acknowledging),
            total: self.delivered,
            prior: left.delivered,
            app_limited: left.app_limited,
            in_flight: left.in_flight,
            lost: octets(self.lost - left.lost),
            newly_lost: octets(newly_lost),
        })
    }
}

impl Connection {
    /// The policy wants samples, or does not any more.
    #[cold]
    pub(crate) fn switch_sampling(&mut self, on: bool) {
        self.bits.put(Bits::SAMPLED, on);
        let una = self.snd_una;
        self.rare_mut().delivery = on.then(|| Box::new(Delivery::new(una)));
    }

    fn delivery_mut(&mut self) -> Option<&mut Delivery> {
        self.rare_mut().delivery.as_deref_mut()
    }

    /// `start..end` leaves, `again` or for the first time; SND.NXT counts it already. Where that was all there is and
    /// the window would let more go, the application is what bounds the flight from now on (CheckIfApplicationLimited).
    #[cold]
    pub(crate) fn note_sampled(&mut self, cx: &Cx<'_>, start: Seq, end: Seq, again: bool) {
        let new = if again { 0 } else { end.offset_from(start) };
        let pipe = self.pipe();
        let limited = self.unsent() == 0 && pipe < self.control.window().cwnd;
        let Some(delivery) = self.delivery_mut() else { return };
        delivery.on_sent(cx.now, (start, end), again, pipe.saturating_sub(new));
        if limited {
            delivery.limited_until = (delivery.delivered + u64::from(pipe)).max(1);
        }
    }

    /// What began at `seq` did not leave.
    #[cold]
    pub(crate) fn take_back_sample(&mut self, seq: Seq, again: bool) {
        if let Some(delivery) = self.delivery_mut() {
            delivery.take_back(seq, again);
        }
    }

    /// `octets` were found lost.
    #[cold]
    pub(crate) fn note_lost(&mut self, octets: u32) {
        if let Some(delivery) = self.delivery_mut() {
            delivery.lost += u64::from(octets);
        }
    }

    /// An acknowledgment delivered `octets`: the sample. One over less than the smallest round trip is none: something
    /// was acknowledged before it can have arrived, or the clock is too coarse.
    fn sample_delivery(&mut self, cx: &Cx<'_>, octets: u32) -> Option<RateSample> {
        let (una, min_rtt) = (self.snd_una, self.rtt.min_rtt());
        let mut delivery = self.rare_mut().delivery.take()?;
        let newest = delivery.newest(una, self.loss.as_ref().map(|loss| &loss.board));
        let sample = delivery.on_delivered(cx.now, octets, newest);
        let sample = sample.filter(|sample| !sample.interval.is_zero() && sample.interval >= min_rtt);
        if let Some(sample) = &sample {
            let rate = sample.rate();
            // One that the application bounded tells only if it is no less.
            if !sample.app_limited || delivery.last.is_none_or(|last| rate >= last) {
                delivery.last = Some(rate);
            }
        }
        self.rare_mut().delivery = Some(delivery);
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
        self.rare()?.delivery.as_ref()?.last
    }
}
