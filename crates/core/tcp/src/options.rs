//! Options that an application can set on one socket, and their compact form in a connection.

use base::{Duration, Rate};

/// Options of one socket; `connect` and `accept` start from them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketOptions {
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// TCP_CORK.
    pub cork: bool,
    /// TCP_QUICKACK: every segment is acknowledged at once, or none of the first ones is. `None`: never set, so only
    /// the first acknowledgments are quick.
    pub quickack: Option<bool>,
    /// SO_KEEPALIVE.
    pub keepalive: bool,
    /// TCP_KEEPIDLE; kept to the millisecond, like the other times here.
    pub keep_idle: Duration,
    /// TCP_KEEPINTVL.
    pub keep_interval: Duration,
    /// TCP_KEEPCNT.
    pub keep_count: u8,
    /// TCP_USER_TIMEOUT; zero means the default.
    pub user_timeout: Duration,
    /// SO_LINGER.
    pub linger: Option<Duration>,
    /// TCP_MAXSEG; 0 means the path's.
    pub max_seg: u16,
    /// SO_RCVBUF fixed by the user (no autotuning then); 0 means autotuned.
    pub rcvbuf: u32,
    /// SO_SNDBUF fixed by the user; 0 means autotuned.
    pub sndbuf: u32,
    /// TCP_NOTSENT_LOWAT; 0 means none.
    pub notsent_lowat: u32,
    /// TCP_WINDOW_CLAMP; 0 means none.
    pub window_clamp: u32,
    /// SO_RCVLOWAT.
    pub rcv_lowat: u32,
    /// TCP_SYNCNT; 0 means the default.
    pub syn_count: u8,
    /// IP_TOS / IPV6_TCLASS (DSCP part).
    pub tos: u8,
    /// IP_TTL / hop limit; `None` means the default (64).
    pub ttl: Option<u8>,
    /// Remember when data arrived (SO_TIMESTAMP, SOF_TIMESTAMPING_RX_SOFTWARE).
    pub dated: bool,
    /// SO_MAX_PACING_RATE; `None` means no limit.
    pub max_pacing: Option<Rate>,
    /// IP_PMTUDISC_DONT, PROBE, INTERFACE or OMIT, which do without ICMP: where full segments vanish, the path's MTU
    /// is searched for whatever `mtu_probing` says.
    pub black_holes: bool,
    /// TCP_DEFER_ACCEPT of a listener: timeouts that what is half-open waits for data ([`crate::defer`]); 0 means none.
    pub defer_accept: u8,
    /// SO_INCOMING_CPU of a listener: among those that share its port, it is for the connections of this CPU.
    pub incoming_cpu: Option<u32>,
    /// Times of its own.
    pub times: Times,
}

/// Times that one socket may choose otherwise than the stack's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// TCP_RTO_MIN_US, the floor of the retransmission timeout; zero means the stack's.
    pub rto_min: Duration,
    /// TCP_DELACK_MAX_US, the longest delay of an acknowledgment; zero means the stack's.
    pub delayed_ack: Duration,
    /// TCP_LINGER2, the time that an orphan waits in FIN-WAIT-2; `None` means the stack's, zero that it does not wait.
    pub fin_wait2: Option<Duration>,
}

impl Times {
    /// Returns true if nothing is chosen.
    pub(crate) fn is_predicted(&self) -> bool {
        self.rto_min.is_zero() && self.delayed_ack.is_zero() && self.fin_wait2.is_none()
    }
}

impl Default for SocketOptions {
    fn default() -> Self {
        SocketOptions {
            nodelay: false,
            cork: false,
            quickack: None,
            keepalive: false,                     // RFC 9293, MUST-25
            keep_idle: Duration::from_secs(7200), // RFC 9293, MUST-28
            keep_interval: Duration::from_secs(75),
            keep_count: 9,
            user_timeout: Duration::ZERO,
            linger: None,
            max_seg: 0,
            rcvbuf: 0,
            sndbuf: 0,
            notsent_lowat: 0,
            window_clamp: 0,
            rcv_lowat: 1,
            syn_count: 0,
            tos: 0,
            ttl: None,
            dated: false,
            max_pacing: None,
            black_holes: false,
            defer_accept: 0,
            incoming_cpu: None,
            times: Times::default(),
        }
    }
}

/// Options that are on or off, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Switch(u16);

impl Switch {
    pub(crate) const NODELAY: Switch = Switch(1);
    pub(crate) const CORK: Switch = Switch(2);
    pub(crate) const QUICKACK: Switch = Switch(4);
    pub(crate) const KEEPALIVE: Switch = Switch(8);
    pub(crate) const DATED: Switch = Switch(16);
    /// TCP_NOTSENT_LOWAT is the stack's, not the socket's own.
    const DEFAULT_LOWAT: Switch = Switch(32);
    /// TCP_QUICKACK was set to zero.
    pub(crate) const NO_QUICKACK: Switch = Switch(64);
    /// [`SocketOptions::black_holes`].
    pub(crate) const BLACK_HOLES: Switch = Switch(128);
    /// The socket has [`Times`] of its own.
    pub(crate) const OWN_TIMES: Switch = Switch(256);
    /// [`Quirks::ack_second_segment`](crate::Quirks::ack_second_segment), not the socket's own.
    const ACK_SECOND: Switch = Switch(512);
    /// IP_TTL is the default, not the socket's own.
    const DEFAULT_TTL: Switch = Switch(1024);
    /// Data may be acknowledged sooner than usual.
    pub(crate) const HURRIED: Switch = Switch(Switch::QUICKACK.0 | Switch::ACK_SECOND.0);

    /// Its bit, or none.
    const fn if_on(self, on: bool) -> u16 {
        self.0 * on as u16
    }
}

/// Socket options packed into 44 bytes, as a connection keeps them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedOptions {
    keep_idle_ms: u32,
    keep_interval_ms: u32,
    user_timeout_ms: u32,
    /// `u32::MAX` means no linger.
    linger_ms: u32,
    rcvbuf: u32,
    sndbuf: u32,
    notsent_lowat: u32,
    /// `u32::MAX` means none.
    window_clamp: u32,
    rcv_lowat: u32,
    max_seg: u16,
    keep_count: u8,
    syn_count: u8,
    tos: u8,
    ttl: u8,
    on: Switch,
}

const _: () = assert!(size_of::<PackedOptions>() <= 44);

/// Default IP TTL and hop limit (RFC 1700).
const DEFAULT_TTL: u8 = 64;

fn millis(time: Duration) -> u32 {
    // Without the detour over 128 bits.
    let millis = time.as_secs().saturating_mul(1_000).saturating_add(time.subsec_millis().into());
    millis.min(u64::from(u32::MAX - 1)) as u32
}

impl From<&SocketOptions> for PackedOptions {
    fn from(o: &SocketOptions) -> Self {
        PackedOptions {
            keep_idle_ms: millis(o.keep_idle),
            keep_interval_ms: millis(o.keep_interval),
            user_timeout_ms: millis(o.user_timeout),
            linger_ms: o.linger.map_or(u32::MAX, millis),
            rcvbuf: o.rcvbuf,
            sndbuf: o.sndbuf,
            notsent_lowat: o.notsent_lowat,
            window_clamp: if o.window_clamp == 0 { u32::MAX } else { o.window_clamp },
            rcv_lowat: o.rcv_lowat,
            max_seg: o.max_seg,
            keep_count: o.keep_count,
            syn_count: o.syn_count,
            tos: o.tos,
            ttl: o.ttl.unwrap_or(DEFAULT_TTL),
            on: Switch(
                Switch::NODELAY.if_on(o.nodelay)
                    | Switch::CORK.if_on(o.cork)
                    | Switch::QUICKACK.if_on(o.quickack == Some(true))
                    | Switch::NO_QUICKACK.if_on(o.quickack == Some(false))
                    | Switch::KEEPALIVE.if_on(o.keepalive)
                    | Switch::DATED.if_on(o.dated)
                    | Switch::BLACK_HOLES.if_on(o.black_holes)
                    | Switch::DEFAULT_TTL.if_on(o.ttl.is_none())
                    | Switch::OWN_TIMES.if_on(!o.times.is_predicted()),
            ),
        }
    }
}

impl PackedOptions {
    /// Is this one on?
    #[inline]
    pub(crate) fn has(&self, switch: Switch) -> bool {
        self.on.0 & switch.0 != 0
    }

    /// Bytes not sent below which the connection counts as writable.
    #[inline]
    pub(crate) fn lowat(&self) -> u32 {
        if self.notsent_lowat == 0 { u32::MAX } else { self.notsent_lowat }
    }

    /// The stack's mark holds where the socket has none of its own, and its profile's way with acknowledgments.
    pub(crate) fn set_defaults(&mut self, mark: u32, ack_second: bool) {
        self.on.0 |= Switch::ACK_SECOND.if_on(ack_second);
        if self.notsent_lowat == 0 && mark != u32::MAX {
            self.notsent_lowat = mark;
            self.on.0 |= Switch::DEFAULT_LOWAT.0;
        }
    }

    /// TCP_WINDOW_CLAMP as a bound.
    #[inline]
    pub(crate) fn clamp(&self) -> u32 {
        self.window_clamp
    }

    /// Do both show alike in a SYN?
    #[inline]
    pub(crate) fn opens_as(&self, other: &PackedOptions) -> bool {
        self.max_seg == other.max_seg && (self.tos, self.ttl) == (other.tos, other.ttl)
    }

    pub(crate) fn unpack(&self) -> SocketOptions {
        SocketOptions {
            nodelay: self.has(Switch::NODELAY),
            cork: self.has(Switch::CORK),
            quickack: match (self.has(Switch::QUICKACK), self.has(Switch::NO_QUICKACK)) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            },
            keepalive: self.has(Switch::KEEPALIVE),
            keep_idle: self.keep_idle(),
            keep_interval: self.keep_interval(),
            keep_count: self.keep_count,
            user_timeout: self.user_timeout(),
            linger: self.linger(),
            max_seg: self.max_seg,
            rcvbuf: self.rcvbuf,
            sndbuf: self.sndbuf,
            notsent_lowat: if self.has(Switch::DEFAULT_LOWAT) { 0 } else { self.notsent_lowat },
            window_clamp: if self.window_clamp == u32::MAX { 0 } else { self.window_clamp },
            rcv_lowat: self.rcv_lowat,
            syn_count: self.syn_count,
            tos: self.tos,
            ttl: (!self.has(Switch::DEFAULT_TTL)).then_some(self.ttl),
            dated: self.has(Switch::DATED),
            // Kept where pacing is.
            max_pacing: None,
            black_holes: self.has(Switch::BLACK_HOLES),
            // The listener's alone.
            defer_accept: 0,
            incoming_cpu: None,
            // Kept with what is rare.
            times: Times::default(),
        }
    }

    pub(crate) fn keep_idle(&self) -> Duration {
        Duration::from_millis(self.keep_idle_ms.into())
    }

    pub(crate) fn keep_interval(&self) -> Duration {
        Duration::from_millis(self.keep_interval_ms.into())
    }

    pub(crate) fn user_timeout(&self) -> Duration {
        Duration::from_millis(self.user_timeout_ms.into())
    }

    pub(crate) fn has_user_timeout(&self) -> bool {
        self.user_timeout_ms != 0
    }

    pub(crate) fn linger(&self) -> Option<Duration> {
        (self.linger_ms != u32::MAX).then(|| Duration::from_millis(self.linger_ms.into()))
    }

    /// SO_LINGER of zero seconds.
    pub(crate) fn lingers_no_time(&self) -> bool {
        self.linger_ms == 0
    }

    /// SO_RCVBUF, bytes; 0 means autotuned.
    #[inline(always)]
    pub(crate) fn rcvbuf(&self) -> u32 {
        self.rcvbuf
    }

    /// SO_SNDBUF, bytes; 0 means autotuned.
    #[inline(always)]
    pub(crate) fn sndbuf(&self) -> u32 {
        self.sndbuf
    }

    /// SO_RCVLOWAT, bytes.
    #[inline(always)]
    pub(crate) fn rcv_lowat(&self) -> u32 {
        self.rcv_lowat
    }

    /// TCP_MAXSEG, bytes; 0 means the path's.
    #[inline(always)]
    pub(crate) fn max_seg(&self) -> u16 {
        self.max_seg
    }

    /// TCP_KEEPCNT.
    #[inline(always)]
    pub(crate) fn keep_count(&self) -> u8 {
        self.keep_count
    }

    /// TCP_SYNCNT; 0 means the default.
    #[inline(always)]
    pub(crate) fn syn_count(&self) -> u8 {
        self.syn_count
    }

    /// IP_TOS.
    #[inline(always)]
    pub(crate) fn tos(&self) -> u8 {
        self.tos
    }

    pub(crate) fn ttl(&self) -> u8 {
        self.ttl
    }
}

#[cfg(test)]
mod tests;
