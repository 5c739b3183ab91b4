//! Delivery rate samples, for policies that ask for them (draft-ietf-ccwg-bbr, section 4.1, which took in
//! draft-cheng-iccrg-delivery-rate-estimation; names of theirs in brackets). Every transmission remembers what had been
//! delivered when it left; its acknowledgment tells what was delivered since, and in which time. Taking the longer of
//! the time to send and the time to acknowledge, neither bursts nor acknowledgments that were held back make a path
//! look faster than it is.

pub(crate) mod samples;

use alloc::boxed::Box;

use base::{Rate, Seq};
use cc::{AckSample, Controller, RateSample};

use crate::Cx;
use crate::connection::{Bits, Connection};
use crate::delivery::samples::Delivery;

crate::bits::writer!(SAMPLED);

impl Connection {
    /// The policy wants samples, or does not any more.
    #[cold]
    pub(crate) fn switch_sampling(&mut self, on: bool) {
        self.bits.put(Bits::SAMPLED, on, WRITER);
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
