//! A connection's policy whose laws are in a library: the stack's words on one side, the table's on the other, and a
//! window that is believed only as far as it makes sense.

use crate::abi;
use crate::library::Library;
use base::{Duration, Instant, Rate};
use cc::{
    AckSample, Controller, EcnFeedback, HyStartLimits, Needs, PathInfo, RateSample, Signal, SignalInfo,
    Tunable, TunableError, Window,
};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

/// Greatest window: no scaled receive window can offer more (RFC 7323, section 2.3).
pub(crate) const WINDOW_MAX: u32 = 1 << 30;

/// A connection's state, as the table declares it.
struct State {
    place: NonNull<u8>,
    layout: Layout,
}

impl State {
    /// Zeroed. `None` if there is no memory.
    fn new(layout: Layout) -> Option<State> {
        let place = match layout.size() {
            // Nothing to hold: any aligned address will do.
            0 => NonNull::new(std::ptr::without_provenance_mut(layout.align())),
            // SAFETY: the layout is not empty.
            _ => NonNull::new(unsafe { alloc_zeroed(layout) }),
        };
        place.map(|place| State { place, layout })
    }

    fn get(&self) -> *mut c_void {
        self.place.as_ptr().cast()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: it came from `alloc_zeroed` with this very layout, and nothing has it any more.
            unsafe { dealloc(self.place.as_ptr(), self.layout) };
        }
    }
}

/// A policy from a [`Library`].
pub struct Loaded {
    state: State,
    window: abi::Window,
    mss: u32,
    /// Dropped last: the hooks are in it.
    library: Arc<Library>,
}

// SAFETY: the table's contract lets a state move between threads as long as calls for it come one at a time, which
// `&mut self` sees to (for `wants_ect1` and `get_tunable`, `&self` of a value that is not Sync).
unsafe impl Send for Loaded {}

/// Calls a hook with the state, the window and what else there is; then what it wrote is looked at. Skipped if null.
macro_rules! hook {
    ($self:ident.$hook:ident($($arg:expr),*)) => {
        if let Some(hook) = $self.library.table.$hook {
            let mut window = $self.window;
            // SAFETY: the loader checked the table's version, the state is of the declared size and alignment and was
            // initialised, and what the pointers lead to lives until the hook returns.
            unsafe { hook($self.state.get(), &mut window $(, $arg)*) };
            $self.window = window;
            $self.settle();
        }
    };
}

impl Loaded {
    /// A state of its own, initialised. `None` if there is no memory or the library refuses.
    pub(crate) fn new(library: &Arc<Library>) -> Option<Loaded> {
        let state = State::new(library.layout)?;
        if let Some(init) = library.table.init {
            // SAFETY: the state is zeroed and of the declared size and alignment.
            let refused = unsafe { init(state.get()) } != 0;
            if refused {
                return None;
            }
        }
        let window = abi::Window { cwnd: 5_360, ssthresh: abi::NO_SSTHRESH, pacing_rate: 0 };
        Some(Loaded { state, window, mss: 536, library: library.clone() })
    }

    /// Takes over the library's outputs, within their bounds.
    fn settle(&mut self) {
        let wanted = (self.window.cwnd, self.window.ssthresh);
        self.window.cwnd = wanted.0.clamp(self.mss, WINDOW_MAX);
        self.window.ssthresh = wanted.1.max(2 * self.mss);
        if (self.window.cwnd, self.window.ssthresh) != wanted {
            self.library.count_correction();
        }
    }

    fn begin(&mut self, path: &PathInfo) {
        self.mss = path.mss.clamp(1, u32::from(u16::MAX));
        let least = 2 * self.mss;
        self.window = abi::Window {
            cwnd: path.initial_window.clamp(self.mss, WINDOW_MAX),
            ssthresh: path.ssthresh.map_or(abi::NO_SSTHRESH, |ssthresh| ssthresh.max(least)),
            pacing_rate: 0,
        };
        hook!(self.established(&path_of(path)));
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Some(destroy) = self.library.table.destroy {
            // SAFETY: the state was initialised, and this is the last call for it.
            unsafe { destroy(self.state.get()) };
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn path_of(path: &PathInfo) -> abi::Path {
    abi::Path {
        srtt_ns: path.srtt.map_or(0, nanos),
        mss: path.mss,
        initial_window: path.initial_window,
        ssthresh: path.ssthresh.unwrap_or(abi::NO_SSTHRESH),
        reserved: 0,
    }
}

fn rate_of(rate: &RateSample) -> abi::Rate {
    abi::Rate {
        interval_ns: nanos(rate.interval),
        total: rate.total,
        prior: rate.prior,
        delivered: rate.delivered,
        in_flight: rate.in_flight,
        lost: rate.lost,
        newly_lost: rate.newly_lost,
        app_limited: rate.app_limited.into(),
        reserved: 0,
    }
}

fn hystart_of(limits: &HyStartLimits) -> abi::HyStart {
    let [least, most, samples, slower, rounds] = limits.numbers().map(|number| number as u32);
    abi::HyStart {
        minrtt_thresh_us: least,
        maxrtt_thresh_us: most,
        n_rttsamples: samples,
        css_growth_div: slower,
        css_rounds: rounds,
        reserved: 0,
    }
}

fn congestion_of(signal: Option<Signal>, info: &SignalInfo) -> abi::Congestion {
    let nth = if let Some(Signal::Timeout { nth }) = signal { nth } else { 0 };
    abi::Congestion {
        now_ns: info.now.as_nanos(),
        signal: signal.map_or(0, number),
        nth,
        flight_size: info.flight_size,
        mss: info.mss,
        metered: info.metered.into(),
        after_mark: info.after_mark.into(),
    }
}

fn number(signal: Signal) -> u32 {
    match signal {
        Signal::Loss => abi::LOSS,
        Signal::Ecn => abi::ECN,
        Signal::Timeout { .. } => abi::TIMEOUT,
    }
}

impl Controller for Loaded {
    fn name(&self) -> &'static str {
        self.library.name()
    }

    fn needs(&self) -> Needs {
        let has = |bit| self.library.table.needs & bit != 0;
        Needs {
            pacing: has(abi::NEEDS_PACING),
            rates: has(abi::NEEDS_RATES),
            unmetered: has(abi::NEEDS_UNMETERED),
            echoes: has(abi::NEEDS_ECHOES),
            losses_after_marks: has(abi::NEEDS_LOSSES_AFTER_MARKS),
        }
    }

    fn on_established(&mut self, path: &PathInfo) {
        self.begin(path);
    }

    fn on_sent(&mut self, now: Instant, bytes: u32, in_flight: u32) {
        hook!(self.sent(now.as_nanos(), bytes, in_flight));
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let rate = ack.rate.map(rate_of);
        let hystart = hystart_of(ack.hystart);
        let limited = if ack.window_limited { abi::WINDOW_LIMITED } else { 0 };
        let recovery = if ack.in_recovery { abi::IN_RECOVERY } else { 0 };
        let paced = if ack.paced { abi::PACED } else { 0 };
        let sample = abi::Ack {
            now_ns: ack.now.as_nanos(),
            rtt_ns: ack.rtt.map_or(0, nanos),
            srtt_ns: nanos(ack.srtt),
            min_rtt_ns: nanos(ack.min_rtt),
            rate: rate.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            bytes: ack.bytes,
            sacked: ack.sacked,
            in_flight: ack.in_flight,
            segments: ack.segments.max(1).into(),
            mss: self.mss,
            flags: limited | recovery | paced,
            hystart: &hystart,
        };
        hook!(self.ack(&sample));
    }

    fn on_ecn(&mut self, feedback: &EcnFeedback) {
        let told = abi::Ecn {
            now_ns: feedback.now.as_nanos(),
            segments: feedback.segments,
            marked_segments: feedback.marked_segments,
            bytes: feedback.bytes,
            marked_bytes: feedback.marked_bytes,
        };
        hook!(self.ecn(&told));
    }

    fn wants_ect1(&self) -> bool {
        // SAFETY: as in `hook!`.
        self.library.table.wants_ect1.is_some_and(|hook| unsafe { hook(self.state.get()) } != 0)
    }

    /// RFC 5681, section 3.1: after a timeout the window is one segment, whatever the library knows about it.
    fn on_congestion(&mut self, signal: Signal, info: &SignalInfo) {
        let told = congestion_of(Some(signal), info);
        if let Signal::Timeout { .. } = signal {
            self.window.cwnd = self.mss;
        }
        hook!(self.congestion(&told));
    }

    fn on_recovery_end(&mut self, info: &SignalInfo) {
        let told = congestion_of(None, info);
        hook!(self.recovery_end(&told));
    }

    fn on_spurious(&mut self, signal: Signal, now: Instant) {
        hook!(self.spurious(number(signal), now.as_nanos()));
    }

    fn on_idle_restart(&mut self, now: Instant, idle: Duration, path: &PathInfo) {
        hook!(self.idle_restart(now.as_nanos(), nanos(idle), &path_of(path)));
    }

    fn on_mss_change(&mut self, mss: u32) {
        self.mss = mss.clamp(1, u32::from(u16::MAX));
        self.window.cwnd = self.window.cwnd.max(self.mss);
        self.window.ssthresh = self.window.ssthresh.max(2 * self.mss);
        hook!(self.mss_change(mss));
    }

    fn window(&self) -> Window {
        let pacing = (self.window.pacing_rate > 0).then(|| Rate::from_bytes_per_sec(self.window.pacing_rate));
        Window { cwnd: self.window.cwnd, ssthresh: self.window.ssthresh, pacing }
    }

    fn tunables(&self) -> [&'static [Tunable]; 2] {
        [self.library.tunables, &[]]
    }

    fn tunable(&self, name: &str) -> Option<i64> {
        let index = self.library.tunables.iter().position(|row| row.name == name)?;
        let hook = self.library.table.get_tunable?;
        // SAFETY: as in `hook!`; the index is one of the table's.
        Some(unsafe { hook(self.state.get(), index as u32) })
    }

    fn set_tunable(&mut self, name: &str, value: i64) -> Result<(), TunableError> {
        let rows = self.library.tunables;
        let index = rows.iter().position(|row| row.name == name).ok_or(TunableError::Unknown)?;
        let value = rows[index].checked(value)?;
        let hook = self.library.table.set_tunable.ok_or(TunableError::Unknown)?;
        // SAFETY: as in `hook!`; the index is one of the table's.
        unsafe { hook(self.state.get(), index as u32, value) };
        Ok(())
    }
}
