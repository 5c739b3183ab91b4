//! The trait, and what flows through it.

use base::{Duration, Instant, Rate};

use crate::hystart_limits::HyStartLimits;
use crate::tunable::{Tunable, TunableError};

/// Information on the path for a policy when it starts and restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathInfo {
    /// Sender maximum segment size, bytes of payload.
    pub mss: u32,
    /// Smoothed round-trip time, once there is one.
    pub srtt: Option<Duration>,
    /// Initial window in bytes (RFC 6928, unless configured otherwise).
    pub initial_window: u32,
    /// Slow-start threshold remembered from an earlier connection, if any (RFC 9040).
    pub ssthresh: Option<u32>,
}

/// One acknowledgment, as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckSample<'a> {
    /// When it arrived.
    pub now: Instant,
    /// Bytes newly acknowledged cumulatively.
    pub bytes: u32,
    /// Bytes newly acknowledged selectively.
    pub sacked: u32,
    /// Wire segments this acknowledgment stands for when receive offload merged several (never 0).
    pub segments: u16,
    /// Bytes in flight before this acknowledgment (RFC 6675's pipe).
    pub in_flight: u32,
    /// Round-trip time measured by this acknowledgment, if it gave a valid sample.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Smallest round-trip time seen.
    pub min_rtt: Duration,
    /// Delivery rate sample, if the policy asked for them ([`Needs`]) and this acknowledgment gave one.
    pub rate: Option<&'a RateSample>,
    /// The sender filled the window before this acknowledgment: the window may grow only then
    /// (RFC 9293, RFC 7661).
    pub window_limited: bool,
    /// The connection is in fast recovery: NewReno and CUBIC hold the window.
    pub in_recovery: bool,
    /// Departures are spread by a pace, so slow start needs no limit on what one acknowledgment adds (RFC 9406, section
    /// 4.3).
    pub paced: bool,
    /// Limits for the end of the first slow start.
    pub hystart: &'a HyStartLimits,
}

/// Requirements of a policy beside acknowledgments.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Departures are spread by [`Window::pacing`], or where that says nothing by the window and the round trip.
    pub pacing: bool,
    /// Delivery rate samples come with acknowledgments.
    pub rates: bool,
    /// A recovery by SACK sends what [`Window::cwnd`] leaves room for in the network, instead of approaching it by
    /// proportional rate reduction (RFC 9937): the policy answers losses itself, and at every acknowledgment.
    pub unmetered: bool,
    /// Where ECN's feedback is RFC 3168's, [`Controller::on_ecn`] hears of every acknowledgment, echo or not.
    pub echoes: bool,
    /// [`Signal::Loss`] comes also for losses of the window of data in which a mark has reduced already, with
    /// [`SignalInfo::after_mark`]; as a rule the mark has told of that congestion. Asked whenever there is one.
    pub losses_after_marks: bool,
}

/// How fast the path delivered what an acknowledgment is about (draft-ietf-ccwg-bbr, section 4.1.2, and the draft on
/// delivery rate estimation before it; names of theirs in brackets). Of all that was newly delivered, the sample is
/// about the transmission that left last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes delivered in `interval` (RS.delivered).
    pub delivered: u32,
    /// The longer of the time that sending them took and the time their acknowledgments took (RS.interval).
    pub interval: Duration,
    /// Bytes ever delivered, this acknowledgment's included (C.delivered).
    pub total: u64,
    /// `total` when the transmission left (P.delivered): a round trip has passed once this reaches an earlier
    /// `total`.
    pub prior: u64,
    /// The application, not the network, bounded what was in flight when the transmission left (P.is_app_limited).
    pub app_limited: bool,
    /// Bytes in flight right after the transmission had left (P.tx_in_flight).
    pub in_flight: u32,
    /// Bytes found lost since it left (RS.lost).
    pub lost: u32,
    /// Bytes found lost since the acknowledgment before (RS.newly_lost).
    pub newly_lost: u32,
}

impl RateSample {
    /// RS.delivery_rate.
    pub fn rate(&self) -> Rate {
        Rate::over(self.delivered.into(), self.interval)
    }
}

/// ECN feedback of one acknowledgment: of the data newly known to have arrived, the part that arrived marked. Exact
/// with accurate feedback (RFC 9768); where echoes are RFC 3168's, all that one of them acknowledges counts as
/// marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnFeedback {
    /// When the acknowledgment came.
    pub now: Instant,
    /// Segments newly known to have arrived; estimated from bytes.
    pub segments: u32,
    /// Packets newly known to have arrived with CE, control packets among them.
    pub marked_segments: u32,
    /// Bytes newly known to have arrived.
    pub bytes: u32,
    /// Bytes of payload newly known to have arrived with CE; estimated where the peer counts packets only.
    pub marked_bytes: u32,
}

/// Cause of a congestion signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Loss found by duplicate acknowledgments or SACK; once per recovery episode.
    Loss,
    /// ECN echo; once per window.
    Ecn,
    /// The retransmission timer fired, for the `nth` time in a row for the same data (1 is the first).
    Timeout {
        /// 1 for the first.
        nth: u32,
    },
}

/// Numbers that go with a [`Signal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalInfo {
    /// When.
    pub now: Instant,
    /// Bytes sent and not yet acknowledged (FlightSize of RFC 5681).
    pub flight_size: u32,
    /// Sender maximum segment size.
    pub mss: u32,
    /// Sending was metered by what arrived (RFC 9937): at a recovery's end the window may be the threshold at once,
    /// for nothing waits to leave in a burst.
    pub metered: bool,
    /// A mark has reduced the window, and what was in flight then is not acknowledged yet.
    pub after_mark: bool,
}

/// The only way out of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window, bytes; never below one segment.
    pub cwnd: u32,
    /// Slow-start threshold, bytes; [`u32::MAX`] until the first congestion.
    pub ssthresh: u32,
    /// Rate to pace at, if the policy wants pacing.
    pub pacing: Option<Rate>,
}

/// A congestion control policy for one connection.
///
/// Calls arrive in the order of the connection's life: `on_established`, then any of the others. During fast
/// recovery the connection calls `on_ack` with `in_recovery` set; on its end `on_recovery_end`.
pub trait Controller: Send {
    /// The name it was registered under.
    fn name(&self) -> &'static str;
    /// Returns the policy's requirements; called once, when a connection begins with it.
    fn needs(&self) -> Needs {
        Needs::default()
    }
    /// The connection is established (conn_init of 2009). A policy that replaces another on a live connection
    /// gets the old window here, as `initial_window` and `ssthresh`.
    fn on_established(&mut self, path: &PathInfo) {
        let _ = path;
    }
    /// `bytes` of new data left; `in_flight` includes them.
    fn on_sent(&mut self, now: Instant, bytes: u32, in_flight: u32) {
        let _ = (now, bytes, in_flight);
    }
    /// An acknowledgment of something new arrived.
    fn on_ack(&mut self, ack: &AckSample);
    /// Notes an acknowledgment to a sender that did not use its window. Returns true if the policy needs no more of
    /// it: then [`on_ack`](Controller::on_ack) is not called, and the sample is not computed.
    fn on_unlimited(&mut self, now: Instant) -> bool {
        let _ = now;
        false
    }
    /// ECN feedback; before `on_ack` and `on_congestion` for the same acknowledgment, also where nothing was marked.
    /// Without the peer's agreement to RFC 9768 only a policy that [`Needs`] echoes is called; marks show as
    /// [`Signal::Ecn`].
    fn on_ecn(&mut self, feedback: &EcnFeedback) {
        let _ = feedback;
    }
    /// Does the policy answer marks as RFC 9331 asks, so that what it sends may say ECT(1)? Asked on connections with
    /// accurate feedback.
    fn wants_ect1(&self) -> bool {
        false
    }
    /// Congestion: reduce.
    fn on_congestion(&mut self, signal: Signal, info: &SignalInfo);
    /// Fast recovery is over: the cumulative acknowledgment passed the recovery point.
    fn on_recovery_end(&mut self, info: &SignalInfo);
    /// The last `signal` was a mistake: restore what it took away.
    fn on_spurious(&mut self, signal: Signal, now: Instant) {
        let _ = (signal, now);
    }
    /// Sending resumes after `idle` without transmission, longer than the RTO (RFC 5681, section 4.1).
    fn on_idle_restart(&mut self, now: Instant, idle: Duration, path: &PathInfo);
    /// The path's MSS changed: express the window in the new unit (it never shrinks below one segment).
    fn on_mss_change(&mut self, mss: u32);
    /// Cwnd, ssthresh, pacing.
    fn window(&self) -> Window;
    /// Returns the policy's tunables: rows of its own, and rows that it shares with other policies.
    fn tunables(&self) -> [&'static [Tunable]; 2] {
        [&[], &[]]
    }
    /// The value of a tunable; `None` if there is none of that name.
    fn tunable(&self, name: &str) -> Option<i64> {
        let _ = name;
        None
    }
    /// Change a tunable of this connection's policy.
    fn set_tunable(&mut self, name: &str, value: i64) -> Result<(), TunableError> {
        let _ = (name, value);
        Err(TunableError::Unknown)
    }
}
