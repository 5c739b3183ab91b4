//! One connection's policy, told what quinn tells.

use crate::Policies;
use crate::rates::{Rates, bytes_of};
use base::{Duration, Instant};
use cc::{
    AckSample, Control, Controller, EcnFeedback, HyStartLimits, Needs, PathInfo, Signal, SignalInfo, Window,
};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{self, ControllerMetrics};
use std::any::Any;
use std::sync::{Mutex, PoisonError};
use std::time;

/// Packets that one acknowledgment frame covers, until it is read to its end.
#[derive(Clone, Copy, Default)]
struct Batch {
    bytes: u64,
    packets: u16,
    /// When that left which left last of what is acknowledged.
    newest: Option<Instant>,
    srtt: Duration,
    min_rtt: Duration,
}

/// A policy of ours as quinn's controller. One reduction answers all losses of a round trip (RFC 9002, section 7.3.2):
/// what was sent before it says nothing new.
pub struct Adapter {
    policies: Policies,
    /// quinn shares its controllers between threads, policies only move: the lock is never waited for.
    control: Mutex<Control>,
    needs: Needs,
    window: Window,
    initial_window: u32,
    mtu: u16,
    /// Our clock starts here.
    origin: time::Instant,
    batch: Batch,
    /// Bytes acknowledged by the last frame, in case quinn says next that they were marked.
    last_acked: u64,
    in_flight: u64,
    /// When the window was last reduced; what was sent later ends the recovery.
    reduced_at: Option<Instant>,
    in_recovery: bool,
    /// It was a mark that this recovery answers, and no loss since.
    after_mark: bool,
    /// A round trip was measured: before, what quinn tells of it is a guess.
    measured: bool,
    rates: Option<Rates>,
    hystart: HyStartLimits,
}

impl Adapter {
    /// A policy called `name` for a connection that begins at `now` with packets of at most `mtu` bytes.
    pub(crate) fn begin(policies: Policies, name: &str, now: time::Instant, mtu: u16) -> Self {
        let initial_window = initial_window(mtu);
        let path = PathInfo { mss: mtu.into(), srtt: None, initial_window, ssthresh: None };
        Adapter::with(policies, name, now, path)
    }

    fn with(policies: Policies, name: &str, origin: time::Instant, path: PathInfo) -> Self {
        let mut control = policies.create(name);
        control.on_established(&path);
        let needs = control.needs();
        Adapter {
            hystart: policies.hystart(),
            policies,
            window: control.window(),
            control: Mutex::new(control),
            needs,
            initial_window: path.initial_window,
            mtu: path.mss as u16,
            origin,
            batch: Batch::default(),
            last_acked: 0,
            in_flight: 0,
            reduced_at: None,
            in_recovery: false,
            after_mark: false,
            measured: false,
            rates: needs.rates.then(Rates::default),
        }
    }

    /// The policy's name.
    pub fn name(&self) -> &'static str {
        self.control.lock().unwrap_or_else(PoisonError::into_inner).name()
    }

    /// Cwnd, ssthresh, pacing, as the policy has them.
    pub fn window(&self) -> Window {
        self.window
    }

    /// quinn's time as ours.
    fn date(&self, at: time::Instant) -> Instant {
        Instant::ZERO + at.saturating_duration_since(self.origin)
    }

    /// Tells the policy something and takes its window.
    fn tell(&mut self, tell: impl FnOnce(&mut Control)) {
        let control = self.control.get_mut().unwrap_or_else(PoisonError::into_inner);
        tell(control);
        self.window = control.window();
    }

    fn info(&self, now: Instant) -> SignalInfo {
        SignalInfo {
            now,
            flight_size: bytes_of(self.in_flight),
            mss: self.mtu.into(),
            // quinn sends what the window leaves room for, paced: nothing leaves in a burst.
            metered: true,
            after_mark: false,
        }
    }

    /// `marked` of `bytes` newly arrived bytes came with CE.
    fn tell_marks(&mut self, now: Instant, bytes: u64, marked: u64) {
        let segments = |bytes: u64| bytes_of(bytes.div_ceil(self.mtu.into()));
        let feedback = EcnFeedback {
            now,
            segments: segments(bytes),
            marked_segments: segments(marked),
            bytes: bytes_of(bytes),
            marked_bytes: bytes_of(marked),
        };
        self.tell(|control| control.on_ecn(&feedback));
    }

    /// Is what was sent at `sent` older than the reduction that is being answered?
    fn answered(&self, sent: Instant) -> bool {
        self.reduced_at.is_some_and(|reduced| sent <= reduced)
    }
}

impl congestion::Controller for Adapter {
    fn on_sent(&mut self, now: time::Instant, bytes: u64, _last_packet_number: u64) {
        let now = self.date(now);
        self.in_flight += bytes;
        if let Some(rates) = &mut self.rates {
            rates.on_sent(now, bytes, self.in_flight);
        }
        let (bytes, in_flight) = (bytes_of(bytes), bytes_of(self.in_flight));
        self.tell(|control| control.on_sent(now, bytes, in_flight));
    }

    fn on_ack(
        &mut self,
        now: time::Instant,
        sent: time::Instant,
        bytes: u64,
        _app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let (now, sent) = (self.date(now), self.date(sent));
        if self.in_recovery && !self.answered(sent) {
            self.in_recovery = false;
            let info = self.info(now);
            self.tell(|control| control.on_recovery_end(&info));
        }
        self.batch = Batch {
            bytes: self.batch.bytes + bytes,
            packets: self.batch.packets.saturating_add(1),
            newest: self.batch.newest.max(Some(sent)),
            srtt: rtt.get(),
            min_rtt: rtt.min(),
        };
    }

    fn on_end_acks(
        &mut self,
        now: time::Instant,
        in_flight: u64,
        app_limited: bool,
        _largest_packet_num_acked: Option<u64>,
    ) {
        let now = self.date(now);
        let batch = std::mem::take(&mut self.batch);
        self.in_flight = in_flight;
        // Nothing but acknowledgments was acknowledged.
        let Some(newest) = batch.newest else { return };
        self.last_acked = batch.bytes;
        if self.needs.echoes {
            self.tell_marks(now, batch.bytes, 0);
        }
        let rtt = now.since(newest);
        let (srtt, min_rtt) = if self.measured { (batch.srtt, batch.min_rtt.min(rtt)) } else { (rtt, rtt) };
        self.measured = true;
        let rate = self
            .rates
            .as_mut()
            .and_then(|rates| rates.on_delivered(now, batch.bytes, newest, app_limited, in_flight))
            // Over less than the smallest round trip: the clock is too coarse.
            .filter(|sample| !sample.interval.is_zero() && sample.interval >= min_rtt);
        let limits = self.hystart;
        let sample = AckSample {
            now,
            bytes: bytes_of(batch.bytes),
            sacked: 0,
            segments: batch.packets,
            in_flight: bytes_of(in_flight + batch.bytes),
            rtt: Some(rtt),
            srtt,
            min_rtt,
            rate: rate.as_ref(),
            window_limited: !app_limited,
            in_recovery: self.in_recovery,
            paced: false,
            hystart: &limits,
        };
        self.tell(|control| control.on_ack(&sample));
    }

    fn on_congestion_event(
        &mut self,
        now: time::Instant,
        sent: time::Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let (now, sent) = (self.date(now), self.date(sent));
        let marks = lost_bytes == 0;
        if marks && self.needs.echoes {
            let marked = self.last_acked;
            self.tell_marks(now, 0, marked);
        }
        if let Some(rates) = &mut self.rates {
            rates.on_lost(lost_bytes);
        }
        let signal = match marks {
            true => Signal::Ecn,
            false if is_persistent_congestion => Signal::Timeout { nth: 1 },
            false => Signal::Loss,
        };
        let mut info = self.info(now);
        self.in_flight = self.in_flight.saturating_sub(lost_bytes);
        if self.answered(sent) && !is_persistent_congestion {
            info.after_mark = self.after_mark && !marks && self.needs.losses_after_marks;
            if !info.after_mark {
                return;
            }
        }
        self.after_mark = marks;
        // A timeout is answered by slow start: nothing to wait for.
        (self.reduced_at, self.in_recovery) = (Some(now), !is_persistent_congestion);
        self.tell(|control| control.on_congestion(signal, &info));
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.tell(|control| control.on_mss_change(new_mtu.into()));
    }

    fn window(&self) -> u64 {
        self.window.cwnd.into()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window.cwnd.into();
        metrics.ssthresh = (self.window.ssthresh != u32::MAX).then_some(self.window.ssthresh.into());
        metrics.pacing_rate = self.window.pacing.map(|rate| rate.bits_per_sec());
        metrics
    }

    /// A path that only changed its port keeps the window; the rest of what a policy knows it learns again, as when
    /// one replaces another.
    fn clone_box(&self) -> Box<dyn congestion::Controller> {
        let path = PathInfo {
            mss: self.mtu.into(),
            srtt: None,
            initial_window: self.window.cwnd,
            ssthresh: (self.window.ssthresh != u32::MAX).then_some(self.window.ssthresh),
        };
        let mut copy = Adapter::with(self.policies.clone(), self.name(), self.origin, path);
        copy.initial_window = self.initial_window;
        Box::new(copy)
    }

    fn initial_window(&self) -> u64 {
        self.initial_window.into()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.policies.retire(self.name());
    }
}

/// Ten packets, but not much beyond what ten of the smallest are (RFC 9002, section 7.2).
fn initial_window(mtu: u16) -> u32 {
    let mtu = u32::from(mtu);
    (10 * mtu).min((2 * mtu).max(14_720))
}
