//! The account behind delivery rate samples (draft-ietf-ccwg-bbr, section 4.1; names of theirs in brackets). A
//! transport remembers a [`Departure`] for what it sends, and gives it back with what the acknowledgment delivered.

use base::Instant;

use crate::RateSample;

/// How things stood when something left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When it left.
    pub at: Instant,
    /// Bytes delivered until then (P.delivered).
    pub delivered: u64,
    /// Bytes in flight right after.
    pub in_flight: u32,
    /// When the last of `delivered` were (P.delivered_time).
    delivered_at: Instant,
    /// Send time of the segment whose acknowledgment began the send interval (P.first_send_time).
    first_at: Instant,
    app_limited: bool,
    lost: u64,
}

/// One connection's account.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    /// Bytes delivered (C.delivered), and when the last of them were (C.delivered_time).
    delivered: u64,
    delivered_at: Instant,
    /// When that left which was acknowledged last (C.first_send_time).
    first_at: Instant,
    /// Bytes found lost (C.lost), and how many of them the policy was told.
    lost: u64,
    lost_told: u64,
    /// Until so much is delivered, the application bounds what is in flight (C.app_limited).
    limited_until: u64,
}

impl Deliveries {
    /// Something leaves at `now`; `idle` says that nothing else is in the network, `in_flight` counts it
    /// (OnPacketSent).
    pub fn on_sent(&mut self, now: Instant, idle: bool, in_flight: u32) -> Departure {
        if idle {
            (self.first_at, self.delivered_at) = (now, now);
        }
        Departure {
            at: now,
            delivered: self.delivered,
            in_flight,
            delivered_at: self.delivered_at,
            first_at: self.first_at,
            app_limited: self.limited_until > 0,
            lost: self.lost,
        }
    }

    /// `bytes` were found lost.
    pub fn on_lost(&mut self, bytes: u64) {
        self.lost += bytes;
    }

    /// The application, not the window, bounds the `in_flight` bytes (CheckIfApplicationLimited).
    pub fn on_limited(&mut self, in_flight: u64) {
        self.limited_until = (self.delivered + in_flight).max(1);
    }

    /// `bytes` more are delivered; `newest` is what left last of them, if that is remembered. The sample
    /// (UpdateRateSample, GenerateRateSample).
    pub fn on_delivered(
        &mut self,
        now: Instant,
        bytes: u64,
        newest: Option<&Departure>,
    ) -> Option<RateSample> {
        self.delivered += bytes;
        self.delivered_at = now;
        if self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        let left = newest?;
        let sending = left.at.since(left.first_at);
        let acknowledging = now.since(left.delivered_at);
        self.first_at = left.at;
        let newly_lost = self.lost - core::mem::replace(&mut self.lost_told, self.lost);
        let bytes = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Some(RateSample {
            delivered: bytes(self.delivered - left.delivered),
            interval: sending.max(acknowledging),
            total: self.delivered,
            prior: left.delivered,
            app_limited: left.app_limited,
            in_flight: left.in_flight,
            lost: bytes(self.lost - left.lost),
            newly_lost: bytes(newly_lost),
        })
    }
}
