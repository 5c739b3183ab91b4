//! Delivery rate samples from what quinn tells. Transmissions are known by when they left: quinn says no packet numbers
//! with acknowledgments.

use base::Instant;
use cc::{Deliveries, Departure, RateSample};
use std::collections::VecDeque;

/// Most transmissions remembered; the oldest is forgotten.
const MOST: usize = 8_192;

/// One connection's account.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    account: Deliveries,
    log: VecDeque<Departure>,
}

impl Rates {
    /// Something left at `now`, and `in_flight` bytes are in the network with it (OnPacketSent).
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        let left = self.account.on_sent(now, in_flight <= bytes, bytes_of(in_flight));
        match self.log.back_mut() {
            // Of one time, with nothing delivered in between: the same sample.
            Some(last) if last.at == now && last.delivered == left.delivered => {
                last.in_flight = left.in_flight
            }
            _ => {
                if self.log.len() == MOST {
                    self.log.pop_front();
                }
                self.log.push_back(left);
            }
        }
    }

    /// `bytes` were found lost.
    pub(crate) fn on_lost(&mut self, bytes: u64) {
        self.account.on_lost(bytes);
    }

    /// `bytes` arrived, of which what left at `newest` left last; `in_flight` are still under way. The sample, if what
    /// left then is still remembered.
    pub(crate) fn on_delivered(
        &mut self,
        now: Instant,
        bytes: u64,
        newest: Instant,
        app_limited: bool,
        in_flight: u64,
    ) -> Option<RateSample> {
        // What left before was acknowledged, or will be called lost, or comes too late to say anything about now.
        while self.log.pop_front_if(|left| left.at < newest).is_some() {}
        let left = self.log.front().filter(|left| left.at == newest);
        let sample = self.account.on_delivered(now, bytes, left);
        if app_limited {
            self.account.on_limited(in_flight);
        }
        sample
    }
}

/// A count as policies take it: no window is beyond 2^30.
pub(crate) fn bytes_of(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
