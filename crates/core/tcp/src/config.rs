//! A stack's settings, one table row each: the struct, its defaults, bounds, help and parser come from the
//! row.

use alloc::format;
use alloc::string::{String, ToString};

use base::Duration;
use cc::HyStartLimits;

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
            "Least time that the retransmission timeout lies above the round trip, or least timeout (rto_above_srtt). \
             RFC 6298 says one second; the peers of today delay their acknowledgments 40 to 200 ms.";
        rto_above_srtt: bool = true, false => true,
            "Is rto_min added to the round trip, as on Linux, so that a steady path has a margin, too? Off, it is the \
             floor of the sum.";
        rto_max: Duration = Duration::from_secs(120), Duration::from_secs(1) => Duration::from_secs(3600),
            "Ceiling of the retransmission timeout (RFC 6298, rule 2.5: at least 60 s).";
        rto_initial: Duration = Duration::from_secs(1), Duration::from_millis(10) => Duration::from_secs(60),
            "Retransmission timeout before the first RTT sample (RFC 6298, rule 2.1).";
        delayed_ack: Duration = Duration::from_millis(40), Duration::ZERO => Duration::from_millis(499),
            "Longest an acknowledgment is delayed (RFC 9293, MUST-40: less than 0.5 s).";
        timestamps: bool = true, false => true,
            "Offer and accept timestamps (RFC 7323).";
        usec_timestamps: bool = false, false => true,
            "Do timestamps count microseconds and not milliseconds (Linux's route feature tcp_usec_ts)? It is not \
             negotiated: turn it on where the peers have it on, too.";
        window_scaling: bool = true, false => true,
            "Offer and accept window scaling (RFC 7323).";
        sack: bool = true, false => true,
            "Offer and accept selective acknowledgments (RFC 2018).";
        ecn: EcnPolicy = EcnPolicy::PassiveAccurate, EcnPolicy::Off => EcnPolicy::PassiveAccurate,
            "Explicit congestion notification: off, on (ask for it, RFC 3168), passive (agree when asked), accurate \
             (ask for exact feedback and agree to it, RFC 9768), on-accurate and passive-accurate (as on and passive, \
             and agree to exact feedback); or Linux's numbers 0, 1, 2, 3, 4, 5.";
        ecn_fallback: bool = true, false => true,
            "Do connections go on without ECN where something on the way dislikes or changes it?";
        ecn_option: u8 = 1, 0 => 3,
            "When accurate feedback sends counters of bytes: 0 never, 1 when they changed, 2 on every segment with \
             room, 3 even if such segments seem to be lost.";
        ecn_option_beacon: u8 = 3, 0 => 63,
            "How often in a round trip it sends them at least, where 1 would be silent.";
        accecn_linux: bool = false, false => true,
            "Accurate ECN as Linux has it: acknowledgments, retransmissions and FINs may be marked too, counters are \
             sent only to peers that send theirs, and ECT(1)'s comes first.";
        frto: bool = true, false => true,
            "Find out whether a timeout was needless before more is sent again (RFC 5682).";
        fastopen: u32 = 1, 0 => 0x607,
            "TCP Fast Open (RFC 7413), a sum: 1 connects may use it, 2 listeners may take data with a SYN, 4 connects \
             send data without a cookie, 512 listeners take data without a cookie, 1024 every listener takes data.";
        fastopen_key: Option<FastOpenKeys> = None, None => None,
            "Keys of the cookies that listeners give, as `none` for keys of the stack's own, or like \
             01234567-89abcdef-01234567-89abcdef; a second one, still believed, behind a comma.";
        fastopen_pause: Duration = Duration::from_secs(3600), Duration::ZERO => Duration::from_secs(86_400),
            "How long connects to a destination do without Fast Open after a SYN with it was not answered; twice as \
             long each further time.";
        tail_loss_probe: bool = true, false => true,
            "Probe the end of a flight before the retransmission timeout (RFC 8985, section 7).";
        syn_retries: u8 = 7, 0 => 127,
            "SYN retransmissions before ETIMEDOUT: with 7 a connect takes four minutes to fail, and the least is \
             three (RFC 9293, MUST-23).";
        synack_retries: u8 = 5, 0 => 127,
            "SYN-ACK retransmissions before a half-open connection is forgotten.";
        data_retries: u8 = 15, 1 => 127,
            "Data retransmissions before ETIMEDOUT, if no user timeout is set: R2 (RFC 9293, SHLD-11).";
        orphan_retries: u8 = 8, 0 => 127,
            "Retransmissions of an orphan, a connection that the application has closed.";
        max_orphans: u32 = 16_384, 0 => 1 << 20,
            "Most connections of a core that the application has closed while data is still to be sent; further ones \
             are reset (Linux's tcp_max_orphans).";
        time_wait: Duration = Duration::from_secs(60), Duration::ZERO => Duration::from_secs(240),
            "How long TIME-WAIT lasts: 2 MSL with an MSL of 30 s, where RFC 9293 assumes 2 minutes.";
        time_wait_reset: bool = false, false => true,
            "Does an exact RST end TIME-WAIT early? Off, as RFC 1337 advises.";
        time_wait_reuse: bool = true, false => true,
            "May a connect take over a local port in TIME-WAIT to the same destination, where timestamps keep the \
             connections apart (RFC 6191; Linux's tcp_tw_reuse)?";
        time_wait_reuse_after: Duration = Duration::from_secs(1), Duration::from_millis(1) => Duration::from_secs(240),
            "How long the port stays in TIME-WAIT before that (Linux's tcp_tw_reuse_delay): the timestamp clock must \
             have ticked.";
        fin_wait2: Duration = Duration::from_secs(60), Duration::from_millis(1) => Duration::from_secs(3600),
            "How long an orphan waits in FIN-WAIT-2 for the peer's FIN.";
        rcvbuf: (u32, u32) = (128 << 10, 16 * MIB), (2048, 2048) => (1 << 30, 1 << 30),
            "Receive buffer, bytes: at first, and at most when it tunes itself. 16 MiB fill 1 Gbit/s at 134 ms.";
        sndbuf: (u32, u32) = (128 << 10, 32 * MIB), (2048, 2048) => (1 << 30, 1 << 30),
            "Send buffer, bytes: at first, and at most when it follows twice the congestion window.";
        host_cache: u32 = 1024, 0 => 65_536,
            "Peers of which a core remembers what ended connections learned, for those to come (RFC 9040): \
             the round-trip time, from which the timeout of a SYN and SYN-ACK is made. 0: none.";
        host_cache_age: Duration = Duration::from_secs(3600), Duration::from_secs(1) => Duration::from_secs(86_400),
            "How long that is believed, less and less.";
        host_ssthresh: bool = false, false => true,
            "Is the slow start threshold remembered, too? Linux did so once, FreeBSD does. What congestion there was \
             then may be over, and the connection slow for nothing.";
        archive: bool = true, false => true,
            "Do connections begin with what is known of the beginning of one like them: settings worked through, \
             options agreed on (if the SYN says the same again), headers? Whether they do shows in how much work they \
             are, never on the wire.";
        archive_kinds: u32 = 32, 1 => 256,
            "Kinds of connections of which a core keeps that, each with its options, and the peer's, and the port that \
             accepts: about a third of a kilobyte each.";
        archive_age: Duration = Duration::from_secs(600), Duration::from_secs(1) => Duration::from_secs(86_400),
            "How long a kind is remembered that is not seen again.";
        reassembly_runs: u16 = 1024, 1 => 8192,
            "Most separate runs of out-of-order data that one connection holds; fewer where its window has \
             no room for as many full segments.";
        reassembly_share: u8 = 50, 1 => 100,
            "Most of the pool of a core, in percent, that the out-of-order data of all its connections takes, with the \
             memory of the holes before it.";
        min_burst: u8 = 2, 1 => 64,
            "Least segments of a super-segment that is bounded by the pace, and of what leaves at once where \
             departures are paced (Linux's tcp_min_tso_segs).";
        mtu_probing: u8 = 0, 0 => 2,
            "Find the path's MTU without ICMP (RFC 4821, RFC 8899): 0 never, 1 where a path swallows full segments, 2 \
             always, beginning with the base size (Linux's tcp_mtu_probing).";
        base_mss: u16 = 1024, 48 => 32_767,
            "Bytes of data in a segment that every path is thought to carry (Linux's tcp_base_mss).";
        mtu_probe_floor: u16 = 48, 48 => 32_767,
            "Where a path swallows everything, segments shrink to this and no further (Linux's tcp_mtu_probe_floor).";
        mtu_probes: u8 = 3, 1 => 10,
            "Probes of one size that are lost in a row before it counts as too large (MAX_PROBES of RFC 8899; 1 on \
             Linux).";
        probe_interval: Duration = Duration::from_secs(600), Duration::from_secs(1) => Duration::from_secs(86_400),
            "How long after a search its end is put in question again (RFC 8899's PMTU_RAISE_TIMER, Linux's \
             tcp_probe_interval).";
        probe_threshold: u16 = 8, 1 => 9000,
            "The search ends when fewer bytes than this are open (Linux's tcp_probe_threshold).";
        pacing: bool = false, false => true,
            "Spread departures over the round trip, whatever the policy. Without it those are paced whose policy asks \
             for it or who set SO_MAX_PACING_RATE.";
        pace_slow_start: bool = true, false => true,
            "Spread departures of slow start over the round trip, where that is 2 ms or more, while more waits than \
             the window lets go.";
        autosize: bool = true, false => true,
            "Bound super-segments to a millisecond of the pace where the round trip is 2 ms or more, so that receivers \
             count many packets (Linux's TSO autosizing).";
        pacing_ss_ratio: u16 = 200, 1 => 1000,
            "Pacing rate in slow start, percent of the window in a round trip (Linux's tcp_pacing_ss_ratio).";
        pacing_ca_ratio: u16 = 120, 1 => 1000,
            "The same in congestion avoidance (Linux's tcp_pacing_ca_ratio).";
        abc_limit: u8 = ABC_LIMIT, 0 => 255,
            "Segments by which slow start may grow for one acknowledgment: L of RFC 3465, which says 2. 8 is \
             RFC 9406's, which holds where departures are not paced; 255 is no limit, as on Linux; 0 counts \
             acknowledgments, not bytes.";
        hystart: u8 = HYSTART, 0 => 2,
            "When the first slow start ends without a loss: 0 never, 1 by RFC 9406, 2 as in Linux, whose Reno has no \
             such rule and whose CUBIC stops at once, without RFC 9406's rounds of slower growth.";
        hystart_limits: HyStartLimits = HyStartLimits::STANDARD, HyStartLimits::LEAST => HyStartLimits::MOST,
            "The numbers of RFC 9406: least and greatest growth of the round trip that counts, microseconds; samples \
             of a round; how much slower the window grows in doubt; rounds of that. The same as those of \
             net.inet.tcp.cc.hystartplusplus.";
        reduce_from_window: bool = false, false => true,
            "Is the threshold after congestion taken from the congestion window, as Linux does and RFC 9438, section \
             4.6, allows, and not from what was in flight?";
        steady_repair: bool = true, false => true,
            "Does every partial acknowledgment of a recovery without SACK restart the retransmission timer, as in \
             Linux and FreeBSD (RFC 6582's slow but steady variant)? Off, only the first one does (the impatient one), \
             and many losses in one window end in a timeout.";
        reduce_again: bool = true, false => true,
            "Is the loss of a retransmission a reason to reduce once more in the same recovery (RFC 8985, section \
             6.3)? Linux finds it is not.";
        idle_restart: bool = true, false => true,
            "Does the congestion window begin anew after an idle time (RFC 5681, section 4.1)?";
        rack: u8 = 1, 0 => 7,
            "How losses are told, a sum: 1 by time (RFC 8985; by counting alone without it, RFC 6675), 2 with a \
             window for reordering that does not adapt, 4 with one even where three segments were SACKed.";
        whole_sacks: bool = true, false => true,
            "Does a SACK of part of a full segment say nothing, as in Linux, and not that its bytes arrived? Off, a \
             peer may have a flight sent again in pieces of one byte.";
        dsack: bool = true, false => true,
            "Report duplicates to the peer (RFC 2883).";
        quick_acks: u8 = 16, 0 => 255,
            "Acknowledgments that are not delayed when a connection begins or has been idle, while the peer is in slow \
             start.";
        drop_synfin: bool = true, false => true,
            "Is a SYN that carries a FIN and acknowledges nothing dropped where it could begin a connection? No honest \
             peer of today sends it.";
        tolerate_missing_timestamps: bool = false, false => true,
            "Is a segment taken that lacks the timestamp that was agreed on, as Linux takes it, where RFC 7323, \
             section 3.2, says to drop it?";
        keep_idle: Duration = Duration::from_secs(7200), Duration::from_secs(1) => Duration::from_secs(32_767),
            "TCP_KEEPIDLE of sockets that do not set it: idleness before the first keepalive probe (RFC 9293, MUST-28; \
             Linux's tcp_keepalive_time).";
        keep_interval: Duration = Duration::from_secs(75), Duration::from_secs(1) => Duration::from_secs(32_767),
            "TCP_KEEPINTVL of sockets that do not set it: the time between keepalive probes (Linux's \
             tcp_keepalive_intvl).";
        keep_count: u8 = 9, 1 => 127,
            "TCP_KEEPCNT of sockets that do not set it: keepalive probes without an answer that end a connection \
             (Linux's tcp_keepalive_probes).";
        notsent_lowat: u32 = u32::MAX, 1 => u32::MAX,
            "TCP_NOTSENT_LOWAT of sockets that do not set it: bytes not sent below which a connection counts as \
             writable.";
        rehash: bool = true, false => true,
            "Does a retransmission timeout change the IPv6 flow label, so that routers that choose among paths by it \
             choose another (RFC 6438)?";
        abort_on_overflow: bool = false, false => true,
            "Is a client reset whose handshake ends while the accept queue is full? Off, its ACK is ignored, and it \
             tries again.";
        ao_without_key: bool = true, false => true,
            "Are segments with TCP-AO taken by connections that have no key for the peer? RFC 5925, section 7.3, says \
             yes, Linux no. Those with MD5 never are.";
        challenge_ack_limit: u32 = 10, 1 => 1000,
            "Challenge ACKs a second and connection (RFC 5961, section 7). Per connection, not per stack: a \
             budget that all share tells an off-path attacker which connections exist (CVE-2016-5696).";
    }
}

impl Config {
    /// Returns the most steps that one segment adds to the counter `list_steps`: what its SACKs or its out-of-order
    /// data cost, and what a search for lost retransmissions costs where all that are remembered are lost at once.
    pub fn list_steps_max(&self) -> u64 {
        let board = crate::scoreboard::STEPS_MAX + crate::resent::STEPS_MAX + crate::resent::LOST_STEPS_MAX;
        board + crate::assembler::steps_max(self.reassembly_runs)
    }

    /// Returns the times of sockets that choose none.
    pub fn times(&self) -> Times {
        Times { rto_min: self.rto_min, delayed_ack: self.delayed_ack, fin_wait2: Some(self.fin_wait2) }
    }

    /// Returns the options that a new socket begins with.
    pub fn socket_options(&self) -> SocketOptions {
        let Config { keep_idle, keep_interval, keep_count, .. } = *self;
        SocketOptions { keep_idle, keep_interval, keep_count, ..SocketOptions::default() }
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
mod tests {
    //! Goal: every row's default lies within its bounds and survives being shown and set.
    use super::*;

    /// RFC 5961, 7-2.
    #[test]
    fn rows_agree_with_themselves() {
        let mut config = Config::default();
        for row in Config::ROWS {
            let default = (row.default)();
            assert_eq!(config.show(row.name), Some(default.clone()));
            assert_eq!(config.set(row.name, &default), Ok(()), "{}", row.name);
            let (min, max) = (row.bounds)();
            let mut other = config.clone();
            assert_eq!(other.set(row.name, &min), Ok(()), "{}", row.name);
            assert_eq!(other.set(row.name, &max), Ok(()), "{}", row.name);
        }
        assert_eq!(config, Config::default());
    }

    #[test]
    fn a_socket_begins_with_the_defaults_of_both_tables() {
        let config = Config::default();
        assert_eq!(config.socket_options(), SocketOptions::default());
        let (keep_idle, keep_interval) = (Duration::from_secs(60), Duration::from_secs(5));
        let config = Config { keep_idle, keep_interval, keep_count: 3, ..config };
        let options = config.socket_options();
        assert_eq!(
            (options.keep_idle, options.keep_interval, options.keep_count),
            (keep_idle, keep_interval, 3)
        );
    }

    #[test]
    fn bad_values_are_refused() {
        let mut config = Config::default();
        assert_eq!(config.set("no_such", "1"), Err(SettingError::Unknown));
        assert_eq!(config.set("rto_min", "200"), Err(SettingError::Malformed));
        assert_eq!(config.set("rto_min", "200h"), Err(SettingError::Malformed));
        assert_eq!(config.set("rto_min", "2hours"), Err(SettingError::Malformed));
        assert_eq!(config.set("rto_min", "0ms"), Err(SettingError::OutOfRange));
        assert_eq!(config.set("rcvbuf", "65536,4096"), Err(SettingError::OutOfRange));
        assert_eq!(config.set("sack", "maybe"), Err(SettingError::Malformed));
        assert_eq!(config, Config::default());
        assert_eq!(config.set("delayed_ack", "1500us"), Ok(()));
        assert_eq!(config.show("delayed_ack").as_deref(), Some("1500us"));
    }
}
