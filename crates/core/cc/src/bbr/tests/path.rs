//! One bottleneck with a queue before it, and one sender that always has more: enough of a network to see what the
//! model makes of it. Segments arrive in order, so whatever is overtaken is lost.

extern crate std;
use std::collections::VecDeque;

use base::{Duration, Instant, Rng};

use super::super::Bbr;
use crate::{AckSample, Controller, HyStartLimits, PathInfo, RateSample, Signal, SignalInfo};

pub(super) const MSS: u32 = 1_000;

/// A segment under way, and how things stood when it left.
struct Left {
    at: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_at: Instant,
    in_flight: u32,
    lost: u64,
    nth: u64,
    /// When its acknowledgment comes, if it does.
    back: Option<Instant>,
}

pub(super) struct Path {
    pub(super) bbr: Bbr,
    pub(super) now: Instant,
    /// Bytes a second.
    pub(super) rate: u64,
    /// Both ways, without a queue.
    pub(super) rtt: Duration,
    /// Bytes that wait at most.
    pub(super) buffer: u64,
    pub(super) loss: f64,
    rng: Rng,
    free: Instant,
    next: Instant,
    flying: VecDeque<Left>,
    pub(super) in_flight: u32,
    pub(super) delivered: u64,
    delivered_at: Instant,
    first_at: Instant,
    lost: u64,
    told: u64,
    sent: u64,
    recover: Option<u64>,
}

impl Path {
    /// Ten segments to begin with, and a buffer of twice what the path holds.
    pub(super) fn new(rate: u64, rtt_ms: u64) -> Path {
        let now = Instant::from_secs(10);
        let rtt = Duration::from_millis(rtt_ms);
        let mut bbr = Bbr::new();
        bbr.on_established(&PathInfo { mss: MSS, srtt: Some(rtt), initial_window: 10 * MSS, ssthresh: None });
        Path {
            bbr,
            now,
            rate,
            rtt,
            buffer: 2 * rate * rtt_ms / 1000,
            loss: 0.0,
            rng: Rng::new(1),
            free: now,
            next: now,
            flying: VecDeque::new(),
            in_flight: 0,
            delivered: 0,
            delivered_at: now,
            first_at: now,
            lost: 0,
            told: 0,
            sent: 0,
            recover: None,
        }
    }

    /// Returns the bytes that the path holds without a queue.
    pub(super) fn bdp(&self) -> u64 {
        self.rate * self.rtt.as_micros() as u64 / 1_000_000
    }

    /// Bytes that wait.
    pub(super) fn queue(&self) -> u64 {
        self.rate * self.free.since(self.now).as_micros() as u64 / 1_000_000
    }

    /// Goes on for `time`; `see` looks after every acknowledgment.
    pub(super) fn run(&mut self, time: Duration, mut see: impl FnMut(&Path)) {
        let end = self.now + time;
        loop {
            let send = (self.in_flight + MSS <= self.bbr.window().cwnd).then(|| self.next.max(self.now));
            let ack = self.flying.iter().find_map(|left| left.back);
            match (send, ack) {
                (Some(at), ack) if at <= end && ack.is_none_or(|ack| at < ack) => self.send(at),
                (_, Some(at)) if at <= end => {
                    self.acknowledge(at);
                    see(self);
                }
                (None, None) => panic!("everything is lost, and no timeout is waited for here"),
                _ => break,
            }
        }
        self.now = end;
    }

    fn send(&mut self, at: Instant) {
        self.now = at;
        if self.in_flight == 0 {
            (self.first_at, self.delivered_at) = (at, at);
        }
        let dropped = self.queue() > self.buffer || self.rng.chance(self.loss);
        let back = (!dropped).then(|| {
            self.free = self.free.max(at) + Duration::from_nanos(u64::from(MSS) * 1_000_000_000 / self.rate);
            self.free + self.rtt
        });
        self.in_flight += MSS;
        self.flying.push_back(Left {
            at,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_at: self.first_at,
            in_flight: self.in_flight,
            lost: self.lost,
            nth: self.sent,
            back,
        });
        self.sent += 1;
        self.bbr.on_sent(at, MSS, self.in_flight);
        let gap = self.bbr.window().pacing.map_or(Duration::ZERO, |rate| rate.spacing(MSS.into()));
        self.next = self.next.max(at) + gap;
    }

    fn acknowledge(&mut self, at: Instant) {
        self.now = at;
        while self.flying.front().is_some_and(|left| left.back.is_none()) {
            self.flying.pop_front();
            self.lost += u64::from(MSS);
            self.in_flight -= MSS;
        }
        let Some(left) = self.flying.pop_front() else { return };
        self.delivered += u64::from(MSS);
        self.delivered_at = at;
        self.first_at = left.at;
        let newly_lost = (self.lost - core::mem::replace(&mut self.told, self.lost)) as u32;
        let info =
            SignalInfo { now: at, flight_size: self.in_flight, mss: MSS, metered: false, after_mark: false };
        if newly_lost > 0 && self.recover.is_none() {
            self.recover = Some(self.sent);
            self.bbr.on_congestion(Signal::Loss, &info);
        } else if self.recover.is_some_and(|recover| left.nth >= recover) {
            self.recover = None;
            self.bbr.on_recovery_end(&info);
        }
        let sample = RateSample {
            delivered: (self.delivered - left.delivered) as u32,
            interval: left.at.since(left.first_at).max(at.since(left.delivered_at)),
            total: self.delivered,
            prior: left.delivered,
            app_limited: false,
            in_flight: left.in_flight,
            lost: (self.lost - left.lost) as u32,
            newly_lost,
        };
        let rtt = at.since(left.at);
        let ack = AckSample {
            now: at,
            bytes: MSS,
            sacked: 0,
            segments: 1,
            in_flight: self.in_flight,
            rtt: Some(rtt),
            srtt: rtt,
            min_rtt: self.rtt,
            rate: Some(&sample),
            window_limited: true,
            in_recovery: self.recover.is_some(),
            paced: false,
            hystart: &HyStartLimits::STANDARD,
        };
        self.bbr.on_ack(&ack);
        self.in_flight -= MSS;
    }
}
