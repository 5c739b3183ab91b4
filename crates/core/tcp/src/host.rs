//! Knowledge of a host that outlives a connection (RFC 9040, section 6: temporal sharing).
//!
//! Shared are the round-trip time, which decides how long a SYN or SYN-ACK waits for its answer, and, if the settings
//! want it, the threshold at which slow start ends. The first sample of a connection's own replaces what it was told
//! of the round trip. The congestion window is remembered for display, but no connection begins with it: what
//! the path had room for then says too little about now, and the initial window needs no permission (RFC 9040,
//! section 6.1, allows it at most).

use crate::Config;
use crate::timers::rtt::Rtt;

/// A closed connection's measurements of its path. It has proven that the peer is where its address says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostLesson {
    /// SRTT, microseconds.
    pub srtt_us: u32,
    /// RTTVAR, microseconds.
    pub rttvar_us: u32,
    /// Slow start threshold, bytes; 0 if the window was never reduced.
    pub ssthresh: u32,
    /// Congestion window, bytes.
    pub cwnd: u32,
}

/// Knowledge of the path for a new connection; empty by default.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HostHint {
    /// Retransmission timeout before the first sample, microseconds; 0 for that of the settings.
    pub rto_us: u32,
    /// Slow start threshold, bytes; 0 for none.
    pub ssthresh: u32,
}

/// Memory of one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostMemory {
    /// Measurements by connections to it.
    pub lesson: HostLesson,
    /// How many they were.
    pub connections: u32,
    /// The timeout that follows from it, microseconds.
    rto_us: u32,
}

impl HostMemory {
    /// After the first connection.
    pub fn new(config: &Config, lesson: HostLesson) -> HostMemory {
        HostMemory { lesson, connections: 1, rto_us: timeout_us(config, &lesson) }
    }

    /// After one more. A longer round trip is believed at once, a shorter one by and by, so that what is told is rather
    /// too long; the variation covers how far apart two connections were.
    pub fn learn(&mut self, config: &Config, new: &HostLesson) {
        let old = &mut self.lesson;
        let apart = old.srtt_us.abs_diff(new.srtt_us).max(new.rttvar_us);
        old.srtt_us = follow(old.srtt_us, new.srtt_us, 8);
        old.rttvar_us = follow(old.rttvar_us, apart, 4);
        old.ssthresh = match new.ssthresh {
            // It has grown beyond what was too much then.
            0 if old.ssthresh > 0 => old.ssthresh.max(new.cwnd),
            0 => 0,
            found if old.ssthresh > 0 => old.ssthresh / 2 + found / 2,
            found => found,
        };
        old.cwnd = new.cwnd;
        self.connections = self.connections.saturating_add(1);
        self.rto_us = timeout_us(config, &self.lesson);
    }

    /// Returns the hint for a new connection when the memory is `age` seconds old: less and less with age, and
    /// nothing in the end.
    #[inline]
    pub fn hint(&self, config: &Config, age: u32) -> HostHint {
        let ssthresh = if config.host_ssthresh { self.lesson.ssthresh } else { 0 };
        if age == 0 { HostHint { rto_us: self.rto_us, ssthresh } } else { self.faded(config, age, ssthresh) }
    }

    #[inline(never)]
    fn faded(&self, config: &Config, age: u32, ssthresh: u32) -> HostHint {
        let (age, limit) = (u64::from(age), config.host_cache_age.as_secs());
        if age >= limit {
            return HostHint::default();
        }
        let usual = Rtt::new().rto_nanos(config) / 1_000;
        let rto = (u64::from(self.rto_us) * (limit - age) + usual * age) / limit;
        HostHint { rto_us: rto as u32, ssthresh }
    }
}

fn timeout_us(config: &Config, lesson: &HostLesson) -> u32 {
    (Rtt::of(lesson.srtt_us, lesson.rttvar_us).rto_nanos(config) / 1_000) as u32
}

/// `old`, if `new` is below it moved towards it by a part of the way.
fn follow(old: u32, new: u32, part: u32) -> u32 {
    if new >= old { new } else { old - (old - new) / part }
}

#[cfg(test)]
mod tests;
