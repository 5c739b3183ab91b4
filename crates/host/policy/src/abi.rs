//! The table of `include/millstream_cc.h`, which says what each field means and in which unit. A test compiles the
//! header and compares.

use std::ffi::{c_char, c_int, c_void};

/// `MILLSTREAM_CC_ABI`.
pub const ABI: u32 = 1;
/// `MILLSTREAM_CC_NO_SSTHRESH`.
pub const NO_SSTHRESH: u32 = u32::MAX;
/// The symbol that the stack looks for.
pub const SYMBOL: &str = "millstream_cc_policy";
/// Most bytes of a state.
pub const STATE_MAX: usize = 65_536;
/// Greatest alignment of a state.
pub const ALIGN_MAX: usize = 4_096;
/// Most tunables.
pub const TUNABLES_MAX: u32 = 64;
/// Most bytes of a name (TCP_CA_NAME_MAX less its end).
pub const NAME_MAX: usize = 15;

/// `MILLSTREAM_CC_WINDOW_LIMITED`.
pub const WINDOW_LIMITED: u32 = 1;
/// `MILLSTREAM_CC_IN_RECOVERY`.
pub const IN_RECOVERY: u32 = 2;
/// `MILLSTREAM_CC_PACED`.
pub const PACED: u32 = 4;

/// `MILLSTREAM_CC_LOSS`.
pub const LOSS: u32 = 1;
/// `MILLSTREAM_CC_ECN`.
pub const ECN: u32 = 2;
/// `MILLSTREAM_CC_TIMEOUT`.
pub const TIMEOUT: u32 = 3;

/// `MILLSTREAM_CC_NEEDS_PACING`.
pub const NEEDS_PACING: u32 = 1;
/// `MILLSTREAM_CC_NEEDS_RATES`.
pub const NEEDS_RATES: u32 = 2;
/// `MILLSTREAM_CC_NEEDS_UNMETERED`.
pub const NEEDS_UNMETERED: u32 = 4;
/// `MILLSTREAM_CC_NEEDS_ECHOES`.
pub const NEEDS_ECHOES: u32 = 8;
/// `MILLSTREAM_CC_NEEDS_LOSSES_AFTER_MARKS`.
pub const NEEDS_LOSSES_AFTER_MARKS: u32 = 16;

/// A struct of the header, with its name there and the offsets of its fields, for the test that compares.
macro_rules! mirror {
    ($($c:literal $name:ident { $($field:ident: $kind:ty,)+ })+) => {
        $(
            #[doc = concat!("`struct ", $c, "`.")]
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            #[allow(missing_docs, reason = "the header says it")]
            pub struct $name { $(pub $field: $kind,)+ }
        )+

        /// Every struct: its name in the header, its size, and its fields' names and offsets.
        pub const LAYOUT: &[(&str, usize, &[(&str, usize)])] = &[
            $(($c, size_of::<$name>(), &[$((stringify!($field), std::mem::offset_of!($name, $field))),+])),+
        ];
    };
}

mirror! {
    "millstream_cc_window" Window {
        cwnd: u32,
        ssthresh: u32,
        pacing_rate: u64,
    }
    "millstream_cc_path" Path {
        srtt_ns: u64,
        mss: u32,
        initial_window: u32,
        ssthresh: u32,
        reserved: u32,
    }
    "millstream_cc_rate" Rate {
        interval_ns: u64,
        total: u64,
        prior: u64,
        delivered: u32,
        in_flight: u32,
        lost: u32,
        newly_lost: u32,
        app_limited: u32,
        reserved: u32,
    }
    "millstream_cc_hystart" HyStart {
        minrtt_thresh_us: u32,
        maxrtt_thresh_us: u32,
        n_rttsamples: u32,
        css_growth_div: u32,
        css_rounds: u32,
        reserved: u32,
    }
    "millstream_cc_ack" Ack {
        now_ns: u64,
        rtt_ns: u64,
        srtt_ns: u64,
        min_rtt_ns: u64,
        rate: *const Rate,
        bytes: u32,
        sacked: u32,
        in_flight: u32,
        segments: u32,
        mss: u32,
        flags: u32,
        hystart: *const HyStart,
    }
    "millstream_cc_ecn" Ecn {
        now_ns: u64,
        segments: u32,
        marked_segments: u32,
        bytes: u32,
        marked_bytes: u32,
    }
    "millstream_cc_congestion" Congestion {
        now_ns: u64,
        signal: u32,
        nth: u32,
        flight_size: u32,
        mss: u32,
        metered: u32,
        after_mark: u32,
    }
    "millstream_cc_tunable" Tunable {
        name: *const c_char,
        help: *const c_char,
        min: i64,
        max: i64,
    }
    "millstream_cc" Table {
        abi: u32,
        size: u32,
        name: *const c_char,
        state_size: usize,
        state_align: usize,
        tunables: *const Tunable,
        tunables_len: u32,
        needs: u32,
        init: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
        destroy: Option<unsafe extern "C" fn(*mut c_void)>,
        get_tunable: Option<unsafe extern "C" fn(*const c_void, u32) -> i64>,
        set_tunable: Option<unsafe extern "C" fn(*mut c_void, u32, i64)>,
        established: Option<unsafe extern "C" fn(*mut c_void, *mut Window, *const Path)>,
        sent: Option<unsafe extern "C" fn(*mut c_void, *mut Window, u64, u32, u32)>,
        ack: Option<unsafe extern "C" fn(*mut c_void, *mut Window, *const Ack)>,
        ecn: Option<unsafe extern "C" fn(*mut c_void, *mut Window, *const Ecn)>,
        wants_ect1: Option<unsafe extern "C" fn(*const c_void) -> c_int>,
        congestion: Option<unsafe extern "C" fn(*mut c_void, *mut Window, *const Congestion)>,
        recovery_end: Option<unsafe extern "C" fn(*mut c_void, *mut Window, *const Congestion)>,
        spurious: Option<unsafe extern "C" fn(*mut c_void, *mut Window, u32, u64)>,
        idle_restart: Option<unsafe extern "C" fn(*mut c_void, *mut Window, u64, u64, *const Path)>,
        mss_change: Option<unsafe extern "C" fn(*mut c_void, *mut Window, u32)>,
    }
}

impl Table {
    /// A policy that does nothing but have a name.
    pub const fn new(name: *const c_char) -> Table {
        Table {
            abi: ABI,
            size: size_of::<Table>() as u32,
            name,
            state_size: 0,
            state_align: 0,
            tunables: std::ptr::null(),
            tunables_len: 0,
            needs: 0,
            init: None,
            destroy: None,
            get_tunable: None,
            set_tunable: None,
            established: None,
            sent: None,
            ack: None,
            ecn: None,
            wants_ect1: None,
            congestion: None,
            recovery_end: None,
            spurious: None,
            idle_restart: None,
            mss_change: None,
        }
    }
}

// SAFETY: what it points to is read while the loader looks at it and never written; hooks may be called from any thread
// (the header says so).
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}
