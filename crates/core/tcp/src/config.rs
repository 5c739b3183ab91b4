//! A stack's settings, one table row each: the struct, its defaults, bounds, help and parser come from the
//! row.

use alloc::format;
use alloc::string::{String, ToString};

use base::Duration;
use cc::HyStartLimits;

use crate::bits::Bits;
use crate::{EcnPolicy, FastOpenKeys, Quirks, SocketOptions, Times};

const MIB: u32 = 1 << 20;
/// Default limit of growth per acknowledgment, in segments (L of RFC 9406, section 4.3).
pub(crate) const ABC_LIMIT: u8 = 8;
/// The end of slow start that policies look for unless they are told otherwise: RFC 9406.
pub(crate) const HYSTART: u8 = 1;

/// A row of the table, as shown to people.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in files, on the command line and in [`Config::set`].
    pub name: &'static str,
    /// One sentence on what it does.
    pub help: &'static str,
    /// Default, in the notation that [`Config::set`] reads.
    pub default: fn() -> String,
    /// Least and greatest value, in the same notation.
    pub bounds: fn() -> (String, String),
}

/// A setting could not be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettingError {
    /// No setting has this name.
    Unknown,
    /// The text is not a value of its kind.
    Malformed,
    /// The value lies outside the bounds of its row.
    OutOfRange,
}

/// A kind of value that settings have.
pub(crate) trait Value: Copy {
    fn parse(text: &str) -> Option<Self>;
    fn show(self) -> String;
    fn within(self, min: Self, max: Self) -> bool;
}

macro_rules! integer {
    ($($kind:ty),+) => {$(
        impl Value for $kind {
            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
            fn show(self) -> String {
                self.to_string()
            }
            fn within(self, min: Self, max: Self) -> bool {
                (min..=max).contains(&self)
            }
        }
    )+};
}
integer!(u8, u16, u32);

impl Value for bool {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "true" | "on" | "1" => Some(true),
            "false" | "off" | "0" => Some(false),
            _ => None,
        }
    }
    fn show(self) -> String {
        self.to_string()
    }
    fn within(self, _: Self, _: Self) -> bool {
        true
    }
}

impl Value for Option<FastOpenKeys> {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "none" => Some(None),
            keys => FastOpenKeys::parse(keys).map(Some),
        }
    }
    fn show(self) -> String {
        self.map_or("none".into(), |keys| keys.show())
    }
    fn within(self, _: Self, _: Self) -> bool {
        true
    }
}

/// A number and a unit: `200ms`, `60s`, `500us`.
impl Value for Duration {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = text[..digits].parse().ok()?;
        match &text[digits..] {
            "us" => Some(Duration::from_micros(number)),
            "ms" => Some(Duration::from_millis(number)),
            "s" => Some(Duration::from_secs(number)),
            _ => None,
        }
    }
    fn show(self) -> String {
        let micros = self.as_micros();
        match (micros % 1_000, micros % 1_000_000) {
            (_, 0) => format!("{}s", micros / 1_000_000),
            (0, _) => format!("{}ms", micros / 1_000),
            _ => format!("{micros}us"),
        }
    }
    fn within(self, min: Self, max: Self) -> bool {
        (min..=max).contains(&self)
    }
}

/// Initial and greatest size: `131072,16777216`.
impl Value for (u32, u32) {
    fn parse(text: &str) -> Option<Self> {
        let (initial, greatest) = text.split_once(',')?;
        Some((initial.trim().parse().ok()?, greatest.trim().parse().ok()?))
    }
    fn show(self) -> String {
        format!("{},{}", self.0, self.1)
    }
    fn within(self, min: Self, max: Self) -> bool {
        self.0 <= self.1 && self.0.within(min.0, max.0) && self.1.within(min.1, max.1)
    }
}

/// In the order of its rows: `4000,16000,8,4,5`.
impl Value for HyStartLimits {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = [0; 5];
        let mut parts = text.split(',');
        for number in &mut numbers {
            *number = parts.next()?.trim().parse().ok()?;
        }
        match parts.next() {
            None => HyStartLimits::from_numbers(numbers).ok(),
            Some(_) => None,
        }
    }
    fn show(self) -> String {
        self.numbers().map(|number| number.to_string()).join(",")
    }
    fn within(self, min: Self, max: Self) -> bool {
        let ends = min.numbers().into_iter().zip(max.numbers());
        self.numbers().into_iter().zip(ends).all(|(number, (min, max))| (min..=max).contains(&number))
    }
}

macro_rules! settings {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($field:ident : $kind:ty = $default:expr, $min:expr => $max:expr, $help:literal;)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $(#[doc = $help] pub $field: $kind,)+
            /// Behaviour of another system that a profile imitates. No row sets it.
            pub quirks: Quirks,
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)+ quirks: Quirks::default() }
            }
        }

        impl $name {
            /// Every setting, in declaration order.
            pub const ROWS: &'static [Setting] = &[$(Setting {
                name: stringify!($field),
                help: $help,
                default: || { let value: $kind = $default; value.show() },
                bounds: || { let (min, max): ($kind, $kind) = ($min, $max); (min.show(), max.show()) },
            }),+];

            /// Sets one by name from text: integers, `on`/`off`, durations such as `200ms`, and sizes as
            /// `initial,greatest`.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
                match name {
                    $(stringify!($field) => {
                        let value = <$kind>::parse(text).ok_or(SettingError::Malformed)?;
                        if !value.within($min, $max) {
                            return Err(SettingError::OutOfRange);
                        }
                        self.$field = value;
                    })+
                    _ => return Err(SettingError::Unknown),
                }
                Ok(())
            }

            /// One by name, in the notation that [`Self::set`] reads.
            pub fn show(&self, name: &str) -> Option<String> {
                match name {
                    $(stringify!($field) => Some(self.$field.show()),)+
                    _ => None,
                }
            }
        }
    };
}

settings! {
    /// Defaults of a stack. Per-socket options are [`SocketOptions`].
    pub struct Config {
        initial_window: u32 = 10, 1 => 1024,
            "Initial congestion window in segments (RFC 6928).";
        rto_min: Duration = Duration::from_millis(200), Duration::from_millis(1) => Duration::from_secs(60),
            "Least retransmission timeout, or its least margin above the smoothed round-trip time (rto_above_srtt). \
             RFC 6298 has 1 s; today's peers delay acknowledgments by 40 to 200 ms.";
        rto_above_srtt: bool = true, false => true,
            "Adds rto_min to the smoothed round-trip time, as Linux does, so that a steady path keeps a margin. When \
             off, rto_min is the floor of the timeout.";
        rto_max: Duration = Duration::from_secs(120), Duration::from_secs(1) => Duration::from_secs(3600),
            "Largest retransmission timeout (RFC 6298, rule 2.5: at least 60 s).";
        rto_initial: Duration = Duration::from_secs(1), Duration::from_millis(10) => Duration::from_secs(60),
            "Retransmission timeout before the first round-trip sample (RFC 6298, rule 2.1).";
        delayed_ack: Duration = Duration::from_millis(40), Duration::ZERO => Duration::from_millis(499),
            "Longest delay of an acknowledgment (RFC 9293, MUST-40: less than 0.5 s).";
        timestamps: bool = true, false => true,
            "Offers and accepts timestamps (RFC 7323).";
        usec_timestamps: bool = false, false => true,
            "Sends timestamps in microseconds instead of milliseconds (Linux's route feature tcp_usec_ts). The unit is \
             not negotiated: turn it on only where the peers use microseconds, too.";
        window_scaling: bool = true, false => true,
            "Offers and accepts window scaling (RFC 7323).";
        sack: bool = true, false => true,
            "Offers and accepts selective acknowledgments (RFC 2018).";
        ecn: EcnPolicy = EcnPolicy::PassiveAccurate, EcnPolicy::Off => EcnPolicy::PassiveAccurate,
            "Explicit congestion notification: off; on requests it (RFC 3168); passive accepts it; accurate requests \
             and accepts AccECN (RFC 9768); on-accurate and passive-accurate are on and passive that also accept \
             AccECN. Linux's numbers 0 to 5 are taken as well.";
        ecn_fallback: bool = true, false => true,
            "Continues a connection without ECN where the path drops or changes ECN packets.";
        ecn_option: u8 = 1, 0 => 3,
            "When AccECN byte counters are sent: 0 never, 1 when they changed, 2 on every segment with room, 3 the \
             same even if such segments seem to be lost.";
        ecn_option_beacon: u8 = 3, 0 => 63,
            "Least number of AccECN options sent in a round-trip time when ecn_option is 1.";
        accecn_linux: bool = false, false => true,
            "AccECN as in Linux: marks acknowledgments, retransmissions and FINs, sends counters only to peers that \
             send theirs, and puts ECT(1)'s first.";
        frto: bool = true, false => true,
            "Detects spurious retransmission timeouts before more data is retransmitted (F-RTO, RFC 5682).";
        fastopen: u32 = 1, 0 => 0x607,
            "TCP Fast Open (RFC 7413), a sum of Linux's bits: 1 client, 2 server, 4 client sends data without a \
             cookie, 512 server takes data without a cookie, 1024 all listeners.";
        fastopen_key: Option<FastOpenKeys> = None, None => None,
            "Keys of Fast Open cookies, like 01234567-89abcdef-01234567-89abcdef. A second key behind a comma is \
             accepted but not issued; `none` generates keys.";
        fastopen_pause: Duration = Duration::from_secs(3600), Duration::ZERO => Duration::from_secs(86_400),
            "Time without Fast Open to a destination after a SYN with it was not answered. It doubles with each \
             further failure.";
        tail_loss_probe: bool = true, false => true,
            "Sends a tail loss probe before the retransmission timeout (RFC 8985, section 7).";
        syn_retries: u8 = 7, 0 => 127,
            "Number of SYN retransmissions before connect fails with ETIMEDOUT: 7 take four minutes, and RFC 9293 \
             (MUST-23) wants at least three minutes.";
        synack_retries: u8 = 5, 0 => 127,
            "Number of SYN-ACK retransmissions before a half-open connection is dropped.";
        data_retries: u8 = 15, 1 => 127,
            "Number of data retransmissions before ETIMEDOUT where no user timeout is set: R2 of RFC 9293 (SHLD-11).";
        orphan_retries: u8 = 8, 0 => 127,
            "Number of retransmissions of an orphan, a connection that the application has closed.";
        max_orphans: u32 = 16_384, 0 => 1 << 20,
            "Largest number of orphans per core, connections closed by the application with data still to be sent. \
             Further ones are reset (Linux's tcp_max_orphans).";
        time_wait: Duration = Duration::from_secs(60), Duration::ZERO => Duration::from_secs(240),
            "Duration of TIME-WAIT: 2 MSL with an MSL of 30 s, where RFC 9293 has 2 minutes. Lower it on clients that \
             run out of ports.";
        time_wait_reset: bool = true, false => true,
            "Lets an RST with the exact sequence number end TIME-WAIT early, as Linux does (tcp_rfc1337 = 0): a client \
             that restarted gets in at once. When off, only time ends it, as RFC 1337 advises against old duplicates.";
        time_wait_reuse: bool = true, false => true,
            "Lets a connect reuse a local port in TIME-WAIT to the same destination where timestamps tell the \
             connections apart (RFC 6191; Linux's tcp_tw_reuse).";
        time_wait_reuse_after: Duration = Duration::from_secs(1), Duration::from_millis(1) => Duration::from_secs(240),
            "Least age of a TIME-WAIT entry before its port is reused (Linux's tcp_tw_reuse_delay). The timestamp \
             clock must have advanced.";
        fin_wait2: Duration = Duration::from_secs(60), Duration::from_millis(1) => Duration::from_secs(3600),
            "Longest time that an orphan waits in FIN-WAIT-2 for the peer's FIN.";
        rcvbuf: (u32, u32) = (128 << 10, 16 * MIB), (2048, 2048) => (1 << 30, 1 << 30),
            "Receive buffer in bytes: initial size, and largest size of automatic tuning. 16 MiB fill 1 Gbit/s at 134 \
             ms; raise it for longer or faster paths.";
        sndbuf: (u32, u32) = (128 << 10, 32 * MIB), (2048, 2048) => (1 << 30, 1 << 30),
            "Send buffer in bytes: initial size, and largest size of automatic tuning, which follows twice the \
             congestion window.";
        host_cache: u32 = 1024, 0 => 65_536,
            "Number of peers per core whose round-trip time is kept for later connections (RFC 9040); it sets the \
             timeout of SYN and SYN-ACK. 0 keeps none.";
        host_cache_age: Duration = Duration::from_secs(3600), Duration::from_secs(1) => Duration::from_secs(86_400),
            "Lifetime of a host cache entry. Its weight falls with age.";
        host_ssthresh: bool = false, false => true,
            "Keeps the slow start threshold in the host cache, too, as FreeBSD does. A threshold from past congestion \
             can slow a connection without need.";
        handshake_cache: bool = true, false => true,
            "Caches handshakes: a connection like an earlier one reuses its settings, agreed options (if the SYN \
             offers the same) and headers. The peer sees the same bytes with and without it.";
        handshake_cache_entries: u32 = 32, 1 => 256,
            "Number of handshake cache entries per core, about a third of a KiB each. An entry stands for one \
             combination of local options, peer's options and listening port.";
        handshake_cache_age: Duration = Duration::from_secs(600), Duration::from_secs(1) => Duration::from_secs(86_400),
            "Lifetime of a handshake cache entry that is not used.";
        reassembly_runs: u16 = 1024, 1 => 8192,
            "Largest number of separate out-of-order byte ranges per connection. It is lower where the window has no \
             room for as many full segments.";
        reassembly_share: u8 = 50, 1 => 100,
            "Largest share of a core's buffer memory, in percent, for out-of-order data of all connections and the \
             gaps before it.";
        min_burst: u8 = 2, 1 => 64,
            "Least number of segments in a super-segment that is limited by the pacing rate, and in a paced burst \
             (Linux's tcp_min_tso_segs).";
        mtu_probing: u8 = 0, 0 => 2,
            "Path MTU discovery without ICMP (RFC 4821, RFC 8899): 0 never, 1 after a path drops full segments, 2 \
             always, starting with base_mss (Linux's tcp_mtu_probing).";
        base_mss: u16 = 1024, 48 => 32_767,
            "Segment size in bytes that every path is assumed to carry; the MTU search starts here (Linux's \
             tcp_base_mss).";
        mtu_probe_floor: u16 = 48, 48 => 32_767,
            "Least segment size in bytes to which the MTU search falls where a path drops everything (Linux's \
             tcp_mtu_probe_floor).";
        mtu_probes: u8 = 3, 1 => 10,
            "Number of consecutive lost probes of one size after which that size counts as too large (MAX_PROBES of \
             RFC 8899; 1 on Linux).";
        probe_interval: Duration = Duration::from_secs(600), Duration::from_secs(1) => Duration::from_secs(86_400),
            "Time after an MTU search until a larger MTU is probed again (PMTU_RAISE_TIMER of RFC 8899, Linux's \
             tcp_probe_interval).";
        probe_threshold: u16 = 8, 1 => 9000,
            "Resolution of the MTU search in bytes: it ends when the range is smaller (Linux's tcp_probe_threshold).";
        pacing: bool = false, false => true,
            "Paces every connection. When off, only connections are paced whose congestion control asks for it or that \
             set SO_MAX_PACING_RATE.";
        pace_slow_start: bool = true, false => true,
            "Paces slow start where the round-trip time is 2 ms or more and more data is queued than the window \
             allows.";
        autosize: bool = true, false => true,
            "Limits super-segments to 1 ms of the pacing rate where the round-trip time is 2 ms or more (Linux's TSO \
             autosizing). Receivers then see bursts of fewer packets.";
        pacing_ss_ratio: u16 = 200, 1 => 1000,
            "Pacing rate in slow start, in percent of one window per round-trip time (Linux's tcp_pacing_ss_ratio).";
        pacing_ca_ratio: u16 = 120, 1 => 1000,
            "Pacing rate in congestion avoidance, in percent of one window per round-trip time (Linux's \
             tcp_pacing_ca_ratio).";
        abc_limit: u8 = ABC_LIMIT, 0 => 255,
            "Largest growth of the window per acknowledgment in slow start, in segments: L of RFC 9406 (8) and RFC \
             3465 (2). 255 is no limit, as on Linux; 0 counts acknowledgments instead of bytes.";
        hystart: u8 = HYSTART, 0 => 2,
            "Exit from the first slow start without a loss: 0 never, 1 HyStart++ (RFC 9406), 2 as Linux: Reno has no \
             such rule, and CUBIC stops at once.";
        hystart_limits: HyStartLimits = HyStartLimits::STANDARD, HyStartLimits::LEAST => HyStartLimits::MOST,
            "Constants of RFC 9406: least and largest round-trip increase in microseconds, samples per round, growth \
             divisor in conservative slow start, and its rounds. Same as net.inet.tcp.cc.hystartplusplus.";
        reduce_from_window: bool = false, false => true,
            "Computes the slow start threshold from the congestion window, as Linux does and RFC 9438, section 4.6, \
             allows. When off, it is computed from the bytes in flight.";
        steady_repair: bool = true, false => true,
            "Restarts the retransmission timer on every partial acknowledgment without SACK, as Linux and FreeBSD do \
             (RFC 6582's slow but steady variant). When off, only on the first (impatient variant).";
        reduce_again: bool = true, false => true,
            "Reduces the window once more when a retransmission is lost in the same recovery (RFC 8985, section 6.3). \
             Linux does not.";
        idle_restart: bool = true, false => true,
            "Returns the congestion window to its restart value after an idle time (RFC 5681, section 4.1).";
        rack: u8 = 1, 0 => 7,
            "Loss detection, a sum: 1 RACK by time (RFC 8985; without it by counting, RFC 6675), 2 keeps the \
             reordering window static, 4 keeps it even after three SACKed segments.";
        whole_sacks: bool = true, false => true,
            "Ignores a SACK of part of a full segment, as Linux does. When off, a peer can have a flight retransmitted \
             in pieces of one byte.";
        dsack: bool = true, false => true,
            "Reports duplicate segments to the peer (DSACK, RFC 2883).";
        quick_acks: u8 = 16, 0 => 255,
            "Number of acknowledgments without delay at the start of a connection and after an idle time, while the \
             peer is in slow start.";
        drop_synfin: bool = true, false => true,
            "Drops a segment with SYN and FIN but without ACK where it could open a connection. Legitimate peers do \
             not send it.";
        tolerate_missing_timestamps: bool = true, false => true,
            "Accepts segments without the negotiated timestamp, as Linux does: some peers and middleboxes leave it \
             out. When off, they are dropped, as RFC 7323, section 3.2, recommends.";
        keep_idle: Duration = Duration::from_secs(7200), Duration::from_secs(1) => Duration::from_secs(32_767),
            "Idle time before the first keepalive probe, where a socket does not set TCP_KEEPIDLE (RFC 9293, MUST-28; \
             Linux's tcp_keepalive_time).";
        keep_interval: Duration = Duration::from_secs(75), Duration::from_secs(1) => Duration::from_secs(32_767),
            "Time between keepalive probes, where a socket does not set TCP_KEEPINTVL (Linux's tcp_keepalive_intvl).";
        keep_count: u8 = 9, 1 => 127,
            "Number of unanswered keepalive probes that end a connection, where a socket does not set TCP_KEEPCNT \
             (Linux's tcp_keepalive_probes).";
        notsent_lowat: u32 = u32::MAX, 1 => u32::MAX,
            "Number of unsent bytes below which a socket is writable, where it does not set TCP_NOTSENT_LOWAT.";
        rehash: bool = true, false => true,
            "Changes the IPv6 flow label on a retransmission timeout, so that routers with several paths choose \
             another (RFC 6438).";
        abort_on_overflow: bool = false, false => true,
            "Resets a client whose handshake completes while the accept queue is full. When off, the ACK is dropped \
             and the client retries.";
        ao_without_key: bool = true, false => true,
            "Accepts segments with TCP-AO on connections without a key for the peer, as RFC 5925, section 7.3, says; \
             Linux drops them. Segments with MD5 are always dropped.";
        challenge_ack_limit: u32 = 10, 1 => 1000,
            "Largest number of challenge ACKs per second and connection (RFC 5961, section 7). A limit shared by \
             connections would reveal to an off-path attacker which exist (CVE-2016-5696).";
    }
}

impl Config {
    /// Returns the times of sockets that choose none.
    pub fn times(&self) -> Times {
        Times { rto_min: self.rto_min, delayed_ack: self.delayed_ack, fin_wait2: Some(self.fin_wait2) }
    }

    /// Returns the options that a new socket begins with.
    pub fn socket_options(&self) -> SocketOptions {
        let Config { keep_idle, keep_interval, keep_count, .. } = *self;
        SocketOptions { keep_idle, keep_interval, keep_count, ..SocketOptions::default() }
    }

    /// Returns the options of TCP that connections offer to every peer.
    #[inline(always)]
    pub(crate) fn offered(&self) -> Bits {
        let (stamps, micros) = (self.timestamps, self.usec_timestamps);
        let stamps = Bits::MICROS.when(stamps && micros) | Bits::MILLIS.when(stamps && !micros);
        self.quirks.bits() | stamps | Bits::SACK.when(self.sack) | Bits::SCALING.when(self.window_scaling)
    }

    /// The order of options in a SYN.
    pub(crate) fn syn_layout(&self) -> wire::tcp::SynLayout {
        match self.quirks.bsd_syn {
            true => wire::tcp::SynLayout::Bsd,
            false => wire::tcp::SynLayout::Linux,
        }
    }
}

#[cfg(test)]
mod tests;
