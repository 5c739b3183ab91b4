//! The other way round: a [`Controller`] as a table, for policies in Rust that are loaded from a library of their own.

use crate::abi;
use base::{Duration, Instant};
use cc::{
    AckSample, Controller, EcnFeedback, HyStartLimits, PathInfo, RateSample, Signal, SignalInfo, Tunable,
    TunableError,
};
use std::ffi::{CString, c_int, c_void};

/// Exports a policy from a `cdylib` crate: its name, its type, and what makes a fresh one.
///
/// ```
/// use cc::{AckSample, Classical, Law, Reno};
///
/// #[derive(Clone, Debug, Default)]
/// struct Twice;
///
/// impl Law for Twice {
///     const NAME: &'static str = "twice";
///     fn avoid(&mut self, reno: &mut Reno, bytes: u32, ack: &AckSample) {
///         reno.add_per_window(2 * Reno::ONE, bytes, ack);
///     }
/// }
///
/// policy::export!("twice", Classical<Twice>, Classical::<Twice>::new);
/// ```
///
/// A panic in a hook ends the process: there is no way to unwind through C.
#[macro_export]
macro_rules! export {
    ($name:expr, $policy:ty, $make:expr) => {
        struct MillstreamExport;

        impl $crate::export::Export for MillstreamExport {
            type Policy = $policy;
            const NAME: &'static str = $name;
            fn make() -> $policy {
                $make()
            }
        }

        /// Symbol that the stack looks up.
        #[unsafe(no_mangle)]
        pub extern "C" fn millstream_cc_policy() -> *const $crate::abi::Table {
            static TABLE: std::sync::OnceLock<$crate::abi::Table> = std::sync::OnceLock::new();
            TABLE.get_or_init($crate::export::table::<MillstreamExport>)
        }
    };
}

/// Description of a policy by [`export!`](crate::export!).
pub trait Export {
    /// The policy.
    type Policy: Controller;
    /// The name it is registered under; [`Controller::name`] is not asked.
    const NAME: &'static str;
    /// A fresh one.
    fn make() -> Self::Policy;
}

/// The table of a policy. Its strings are kept for good: make it once.
///
/// # Panics
/// If a name contains a zero.
pub fn table<E: Export>() -> abi::Table {
    let fresh = E::make();
    let needs = fresh.needs();
    let bit = |on: bool, bit: u32| if on { bit } else { 0 };
    let keep =
        |text: &str| CString::new(text).expect("no zero in a name or a sentence").into_raw().cast_const();
    let row = |row: &Tunable| abi::Tunable {
        name: keep(row.name),
        help: keep(row.help),
        min: row.min,
        max: row.max,
    };
    let tunables: Vec<_> = rows(&fresh).map(row).collect();
    let tunables = tunables.leak();
    abi::Table {
        state_size: size_of::<E::Policy>(),
        state_align: align_of::<E::Policy>(),
        tunables_len: tunables.len() as u32,
        tunables: tunables.as_ptr(),
        needs: bit(needs.pacing, abi::NEEDS_PACING)
            | bit(needs.rates, abi::NEEDS_RATES)
            | bit(needs.unmetered, abi::NEEDS_UNMETERED)
            | bit(needs.echoes, abi::NEEDS_ECHOES)
            | bit(needs.losses_after_marks, abi::NEEDS_LOSSES_AFTER_MARKS),
        init: Some(init::<E>),
        destroy: Some(destroy::<E>),
        get_tunable: Some(get_tunable::<E>),
        set_tunable: Some(set_tunable::<E>),
        established: Some(established::<E>),
        sent: Some(sent::<E>),
        ack: Some(ack::<E>),
        ecn: Some(ecn::<E>),
        wants_ect1: Some(wants_ect1::<E>),
        congestion: Some(congestion::<E>),
        recovery_end: Some(recovery_end::<E>),
        spurious: Some(spurious::<E>),
        idle_restart: Some(idle_restart::<E>),
        mss_change: Some(mss_change::<E>),
        ..abi::Table::new(keep(E::NAME))
    }
}

fn rows(policy: &impl Controller) -> impl Iterator<Item = &'static Tunable> {
    policy.tunables().into_iter().flatten()
}

/// # Safety
/// `state` is one that `init` has filled and nothing else uses now.
unsafe fn policy<'a, E: Export>(state: *mut c_void) -> &'a mut E::Policy {
    // SAFETY: the stack gives each hook a state of the declared size and alignment, one call at a time.
    unsafe { &mut *state.cast::<E::Policy>() }
}

/// Calls the policy and tells what it wants.
///
/// # Safety
/// As for [`policy`]; `window` can be written.
unsafe fn call<E: Export>(state: *mut c_void, window: *mut abi::Window, call: impl FnOnce(&mut E::Policy)) {
    // SAFETY: the caller's promise.
    let policy = unsafe { policy::<E>(state) };
    call(policy);
    let wanted = policy.window();
    let pacing_rate = wanted.pacing.map_or(0, |rate| rate.bytes_per_sec());
    // SAFETY: the caller's promise.
    unsafe { window.write(abi::Window { cwnd: wanted.cwnd, ssthresh: wanted.ssthresh, pacing_rate }) };
}

fn path_of(path: &abi::Path) -> PathInfo {
    PathInfo {
        mss: path.mss,
        srtt: (path.srtt_ns > 0).then(|| Duration::from_nanos(path.srtt_ns)),
        initial_window: path.initial_window,
        ssthresh: (path.ssthresh != abi::NO_SSTHRESH).then_some(path.ssthresh),
    }
}

fn limits_of(told: Option<&abi::HyStart>) -> HyStartLimits {
    told.map_or(HyStartLimits::STANDARD, |told| {
        HyStartLimits::clamped([
            told.minrtt_thresh_us,
            told.maxrtt_thresh_us,
            told.n_rttsamples,
            told.css_growth_div,
            told.css_rounds,
        ])
    })
}

fn info_of(told: &abi::Congestion) -> SignalInfo {
    SignalInfo {
        now: Instant::from_nanos(told.now_ns),
        flight_size: told.flight_size,
        mss: told.mss,
        metered: told.metered != 0,
        after_mark: told.after_mark != 0,
    }
}

fn ecn_of(told: &abi::Ecn) -> EcnFeedback {
    EcnFeedback {
        now: Instant::from_nanos(told.now_ns),
        segments: told.segments,
        marked_segments: told.marked_segments,
        bytes: told.bytes,
        marked_bytes: told.marked_bytes,
    }
}

fn signal_of(number: u32, nth: u32) -> Signal {
    match number {
        abi::ECN => Signal::Ecn,
        abi::TIMEOUT => Signal::Timeout { nth },
        _ => Signal::Loss,
    }
}

unsafe extern "C" fn init<E: Export>(state: *mut c_void) -> c_int {
    // SAFETY: the place is of the declared size and alignment, and nothing lives there yet.
    unsafe { state.cast::<E::Policy>().write(E::make()) };
    0
}

unsafe extern "C" fn destroy<E: Export>(state: *mut c_void) {
    // SAFETY: `init` put it there, and this is the last call.
    unsafe { state.cast::<E::Policy>().drop_in_place() };
}

unsafe extern "C" fn get_tunable<E: Export>(state: *const c_void, index: u32) -> i64 {
    // SAFETY: see `policy`; shared here, for nothing is changed.
    let policy = unsafe { &*state.cast::<E::Policy>() };
    let row = rows(policy).nth(index as usize);
    row.and_then(|row| policy.tunable(row.name)).unwrap_or_default()
}

unsafe extern "C" fn set_tunable<E: Export>(state: *mut c_void, index: u32, value: i64) {
    // SAFETY: see `policy`.
    let policy = unsafe { policy::<E>(state) };
    let row = rows(policy).nth(index as usize);
    let set = row.map_or(Err(TunableError::Unknown), |row| policy.set_tunable(row.name, value));
    debug_assert_eq!(set, Ok(()), "the loader checks index and range");
}

/// Hooks that tell the policy something: what comes behind state and window, and the call.
macro_rules! hooks {
    ($($name:ident($($arg:ident: $kind:ty),*): |$policy:ident| $call:expr;)+) => {$(
        unsafe extern "C" fn $name<E: Export>(state: *mut c_void, window: *mut abi::Window, $($arg: $kind),*) {
            // SAFETY: what the pointers lead to lives until this returns.
            unsafe { call::<E>(state, window, |$policy| $call) };
        }
    )+};
}

hooks! {
    established(path: *const abi::Path): |policy| policy.on_established(&path_of(&*path));
    sent(now: u64, bytes: u32, in_flight: u32):
        |policy| policy.on_sent(Instant::from_nanos(now), bytes, in_flight);
    ecn(told: *const abi::Ecn): |policy| policy.on_ecn(&ecn_of(&*told));
    congestion(told: *const abi::Congestion):
        |policy| policy.on_congestion(signal_of((*told).signal, (*told).nth), &info_of(&*told));
    recovery_end(told: *const abi::Congestion): |policy| policy.on_recovery_end(&info_of(&*told));
    spurious(signal: u32, now: u64):
        |policy| policy.on_spurious(signal_of(signal, 1), Instant::from_nanos(now));
    idle_restart(now: u64, idle: u64, path: *const abi::Path): |policy| policy.on_idle_restart(
        Instant::from_nanos(now),
        Duration::from_nanos(idle),
        &path_of(&*path),
    );
    mss_change(mss: u32): |policy| policy.on_mss_change(mss);
}

unsafe extern "C" fn ack<E: Export>(state: *mut c_void, window: *mut abi::Window, ack: *const abi::Ack) {
    // SAFETY: as in `hooks`; rate and limits are null or live as long.
    let (told, rate, hystart) = unsafe { (&*ack, (*ack).rate.as_ref(), (*ack).hystart.as_ref()) };
    let hystart = limits_of(hystart);
    let rate = rate.map(|rate| RateSample {
        delivered: rate.delivered,
        interval: Duration::from_nanos(rate.interval_ns),
        total: rate.total,
        prior: rate.prior,
        app_limited: rate.app_limited != 0,
        in_flight: rate.in_flight,
        lost: rate.lost,
        newly_lost: rate.newly_lost,
    });
    let sample = AckSample {
        now: Instant::from_nanos(told.now_ns),
        bytes: told.bytes,
        sacked: told.sacked,
        segments: u16::try_from(told.segments).unwrap_or(u16::MAX),
        in_flight: told.in_flight,
        rtt: (told.rtt_ns > 0).then(|| Duration::from_nanos(told.rtt_ns)),
        srtt: Duration::from_nanos(told.srtt_ns),
        min_rtt: Duration::from_nanos(told.min_rtt_ns),
        rate: rate.as_ref(),
        window_limited: told.flags & abi::WINDOW_LIMITED != 0,
        in_recovery: told.flags & abi::IN_RECOVERY != 0,
        paced: told.flags & abi::PACED != 0,
        hystart: &hystart,
    };
    // SAFETY: as in `hooks`.
    unsafe { call::<E>(state, window, |policy| policy.on_ack(&sample)) };
}

unsafe extern "C" fn wants_ect1<E: Export>(state: *const c_void) -> c_int {
    // SAFETY: see `policy`; shared here, for nothing is changed.
    unsafe { &*state.cast::<E::Policy>() }.wants_ect1().into()
}
