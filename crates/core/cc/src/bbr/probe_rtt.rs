//! Looking for the round trip without a queue (draft-ietf-ccwg-bbr, section 5.3.4).

use base::{Duration, Instant};

use super::{Bbr, State};

/// BBR.ProbeRTTDuration.
const DURATION: Duration = Duration::from_millis(200);

/// One look.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Look {
    /// Little enough is in flight: until then, and for a round at least, it stays so.
    until: Option<Instant>,
    round_done: bool,
    /// Delivered count up to which transmissions are no samples of bandwidth (MarkConnectionAppLimited).
    pub(super) muted: Option<u64>,
}

impl Bbr {
    /// CheckProbeRTT.
    pub(super) fn check_probe_rtt(&mut self, now: Instant) {
        if self.state != State::ProbeRtt && self.min_rtt.expired && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.look.until = None;
            self.cycle.stop();
            self.rounds.begin();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(now);
        }
    }

    fn handle_probe_rtt(&mut self, now: Instant) {
        self.look.muted = Some(self.rounds.delivered + u64::from(self.inflight));
        if self.look.until.is_none() {
            if self.inflight <= self.probe_rtt_cwnd() {
                self.look.until = Some(now + DURATION);
                self.look.round_done = false;
                self.rounds.begin();
            }
            return;
        }
        self.look.round_done |= self.rounds.start;
        if self.look.round_done {
            self.check_probe_rtt_done(now);
        }
    }

    /// CheckProbeRTTDone.
    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.look.until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt.looked(now);
        self.restore_cwnd();
        // ExitProbeRTT: what was met in between tells nothing, and no probe follows at once.
        self.bounds.forget_short();
        if self.full.reached {
            self.start_down(now);
            self.start_cruise();
        } else {
            self.state = State::Startup;
        }
    }

    /// ProbeRTTCwnd.
    pub(super) fn probe_rtt_cwnd(&self) -> u32 {
        self.bdp(self.bw(), State::ProbeRtt.cwnd_gain()).max(self.min_pipe())
    }
}
