//! Objects behind descriptors. A connected socket costs little: everything rare is boxed.

use crate::Errno;
use crate::sockets::{Family, Ready};
use crate::watch::NO_WATCH;
use base::{Duration, Endpoint};
use stack::{ConnId, FastOpenListen, ListenerId};
use std::collections::VecDeque;
use std::sync::Arc;
use tcp::SocketOptions;
use tcp::auth::Keyring;

/// An open file description: what `dup` shares.
pub(crate) struct Object {
    pub(crate) kind: Kind,
    /// First of the epoll watches on this object.
    pub(crate) watches: u32,
    /// Descriptors that stand for it.
    pub(crate) refs: u32,
    pub(crate) nonblocking: bool,
    /// Calls and room to send that woke whatever slept on it, modulo 256.
    pub(crate) wakes: u8,
}

impl Object {
    pub(crate) fn new(kind: Kind) -> Self {
        Object { kind, watches: NO_WATCH, refs: 1, nonblocking: false, wakes: 0 }
    }

    /// Takes note of edges: as on Linux, room to send wakes whatever sleeps. Returns the first of the watches.
    pub(crate) fn woken_by(&mut self, edges: Ready) -> u32 {
        self.wakes = self.wakes.wrapping_add(edges.any(Ready::OUT).into());
        self.watches
    }
}

/// The kinds of object.
pub(crate) enum Kind {
    /// A socket that neither listens nor connects yet.
    Fresh(Box<Settings>),
    Listener(Box<Listener>),
    Stream(Stream),
    /// Index of the epoll set.
    Epoll(u32),
    /// Index of the pipe.
    PipeRead(u32),
    /// Index of the pipe.
    PipeWrite(u32),
}

/// A connected, connecting or once connected socket.
pub(crate) struct Stream {
    pub(crate) conn: ConnId,
    /// Of an IPv6 socket, whatever the addresses are.
    pub(crate) v6: bool,
    /// A connect has not been reported yet.
    pub(crate) connecting: bool,
    /// shutdown(SHUT_RD) was called.
    pub(crate) read_shut: bool,
    /// It was shut after a connect that has failed: another one is EINVAL.
    pub(crate) given_up: bool,
    /// Options about binding, which a connection keeps and reports: bits of [`Settings::binding`].
    pub(crate) binding: u8,
    /// Rare options, if any of them was ever set.
    pub(crate) extras: Option<Box<Extras>>,
    /// Settings for another connect that the connection does not tell, if there are any.
    pub(crate) again: Option<Box<Again>>,
}

impl Stream {
    /// The family of the socket that the connection has.
    pub(crate) fn family(&self) -> Family {
        if self.v6 { Family::V6 } else { Family::V4 }
    }

    /// Returns the address that the socket was bound to when its connection was over, and has by itself.
    pub(crate) fn held(&self) -> Option<Endpoint> {
        self.again.as_ref().and_then(|again| again.bound.filter(|_| again.is_held))
    }
}

/// Settings for another connect that a connection does not tell.
#[derive(Default)]
pub(crate) struct Again {
    pub(crate) bound: Option<Endpoint>,
    /// The reservation of `bound` is the socket's, not the connection's.
    is_held: bool,
    tuned: Vec<(String, i64)>,
    fast_open: FastOpen,
    keys: Option<Arc<Keyring>>,
}

impl Again {
    /// Returns those of a socket; nothing, where none was set.
    pub(crate) fn of(settings: &Settings) -> Option<Box<Again>> {
        let Settings { bound, tuned, fast_open, keys, .. } = settings.clone();
        let rare = bound.is_some() || !tuned.is_empty() || keys.is_some() || fast_open != FastOpen::default();
        rare.then(|| Box::new(Again { bound, is_held: false, tuned, fast_open, keys }))
    }

    /// The socket is bound, its connection being over.
    pub(crate) fn bind(&mut self, bound: Endpoint) {
        (self.bound, self.is_held) = (Some(bound), true);
    }
}

/// Rare options of a socket.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    /// SO_RCVTIMEO; `None` waits for ever.
    pub(crate) recv: Option<Duration>,
    /// SO_SNDTIMEO.
    pub(crate) send: Option<Duration>,
    /// SO_RCVLOWAT less 1: what a read that waits does not return with.
    pub(crate) too_few: u32,
    /// TCP_INQ: tell how much is left to read.
    pub(crate) inq: bool,
    /// SO_ZEROCOPY: MSG_ZEROCOPY means something.
    pub(crate) zero_copy: bool,
    pub(crate) dates: Dates,
    /// SO_MARK.
    pub(crate) mark: u32,
    /// SO_PRIORITY.
    pub(crate) priority: i32,
    /// SO_LINGER: the seconds that were set last, while it is off or they are more than a connection keeps.
    pub(crate) lingered: u32,
    /// SO_PEEK_OFF: how far behind what is read next a peek begins; `None` is off.
    pub(crate) peek_offset: Option<u32>,
    /// TCP_DEFER_ACCEPT, in timeouts ([`tcp::defer`]).
    pub(crate) defer_accept: u8,
    /// TCP_MAXSEG that was set when the connection had agreed on its segments: told when the connection is over.
    pub(crate) max_seg: Option<u16>,
    /// Largest segment that was told when TCP_MAXSEG was set on a socket that connects: as on Linux, what is told while
    /// it does.
    pub(crate) told_mss: Option<u16>,
    /// IP_MTU_DISCOVER or IPV6_MTU_DISCOVER.
    pub(crate) discover: Discover,
    /// Of an IPv6 socket, the options for packets of the family that it does not send: IPv4, unless its connection is
    /// one over IPv4.
    pub(crate) other: OtherFamily,
    /// Options that Linux's TCP keeps and does nothing by, one bit each.
    pub(crate) kept: u32,
}

/// Options that an IPv6 socket has twice, for IPv6 and for IPv4.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OtherFamily {
    /// IP_TOS or IPV6_TCLASS.
    pub(crate) tos: u8,
    /// IP_TTL or IPV6_UNICAST_HOPS.
    pub(crate) ttl: Option<u8>,
    /// IP_MTU_DISCOVER or IPV6_MTU_DISCOVER.
    pub(crate) discover: Discover,
}

/// How a socket wants its path's MTU found (IP_MTU_DISCOVER, IPV6_MTU_DISCOVER). It is always found.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Discover {
    /// IP_PMTUDISC_DONT.
    Dont,
    /// IP_PMTUDISC_WANT.
    #[default]
    Want,
    /// IP_PMTUDISC_DO.
    Do,
    /// IP_PMTUDISC_PROBE.
    Probe,
    /// IP_PMTUDISC_INTERFACE.
    Interface,
    /// IP_PMTUDISC_OMIT.
    Omit,
}

impl Discover {
    /// Every way, in the order of Linux's numbers.
    const ALL: [Discover; 6] =
        [Discover::Dont, Discover::Want, Discover::Do, Discover::Probe, Discover::Interface, Discover::Omit];

    /// Returns the way of this number.
    ///
    /// # Errors
    /// EINVAL if there is none.
    pub(crate) fn of(number: i32) -> Result<Discover, Errno> {
        usize::try_from(number).ok().and_then(|at| Self::ALL.get(at)).copied().ok_or(Errno::EINVAL)
    }

    /// Returns true if the MTU is found by ICMP messages; the others do without.
    pub(crate) fn heeds_icmp(self) -> bool {
        matches!(self, Discover::Want | Discover::Do)
    }
}

impl Extras {
    /// Exchanges the options for packets of IPv6 with those for IPv4.
    pub(crate) fn change_family(&mut self, options: &mut SocketOptions) {
        std::mem::swap(&mut options.tos, &mut self.other.tos);
        std::mem::swap(&mut options.ttl, &mut self.other.ttl);
        std::mem::swap(&mut self.discover, &mut self.other.discover);
        options.black_holes = !self.discover.heeds_icmp();
    }

    /// As a stream keeps them: nothing, where nothing was ever set.
    pub(crate) fn boxed(self) -> Option<Box<Extras>> {
        (self != Extras::default()).then(|| Box::new(self))
    }
}

/// Timestamps that a socket asked for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Dates {
    /// SO_TIMESTAMP.
    pub(crate) micros: bool,
    /// SO_TIMESTAMPNS.
    pub(crate) nanos: bool,
    /// SOF_TIMESTAMPING_* bits of SO_TIMESTAMPING.
    pub(crate) stamping: u32,
    /// The byte of the stream that SOF_TIMESTAMPING_OPT_ID counts from, modulo 2^32.
    pub(crate) first: u32,
}

/// A listening socket.
pub(crate) struct Listener {
    pub(crate) id: ListenerId,
    pub(crate) local: Endpoint,
    pub(crate) settings: Settings,
    /// SO_REUSEPORT as it was when it began to listen.
    pub(crate) shares_port: bool,
    /// Connections accepted so far.
    pub(crate) accepted: u64,
    /// Options as they were when connections came that are not accepted yet, oldest first.
    pub(crate) earlier: VecDeque<Earlier>,
}

/// Options of a listener that have changed since. As on Linux, a connection has those that its listener had when it
/// came.
pub(crate) struct Earlier {
    /// Number of the first connection, counted from the listener's first one, that does not have them.
    pub(crate) until: u64,
    pub(crate) extras: Extras,
    pub(crate) binding: u8,
}

impl Listener {
    /// Returns the options, and [`Settings::binding`], of the connection that is accepted next.
    pub(crate) fn inherited(&self) -> (Extras, u8) {
        let earlier = self.earlier.iter().find(|earlier| self.accepted < earlier.until);
        let now = || (self.settings.extras, self.settings.binding());
        let (extras, binding) = earlier.map_or_else(now, |earlier| (earlier.extras, earlier.binding));
        (Extras { defer_accept: 0, priority: 0, ..extras }, binding)
    }

    /// Counts a connection that was accepted.
    pub(crate) fn has_accepted(&mut self) {
        self.accepted += 1;
        while self.earlier.front().is_some_and(|earlier| earlier.until <= self.accepted) {
            self.earlier.pop_front();
        }
    }

    /// Keeps the options for the connections that have come, of which `queued` wait: the options change from now on.
    pub(crate) fn keep_earlier(&mut self, queued: u32) {
        let until = self.accepted + u64::from(queued);
        if queued > 0 && self.earlier.back().is_none_or(|last| last.until < until) {
            let (extras, binding) = (self.settings.extras, self.settings.binding());
            self.earlier.push_back(Earlier { until, extras, binding });
        }
    }
}

/// Options of a socket without a connection.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) family: Family,
    pub(crate) options: SocketOptions,
    pub(crate) control: Option<&'static str>,
    /// Tunables of `control` that connections begin with (TCP_CCALGOOPT).
    pub(crate) tuned: Vec<(String, i64)>,
    pub(crate) reuse_addr: bool,
    pub(crate) reuse_port: bool,
    pub(crate) v6_only: bool,
    /// IP_FREEBIND.
    pub(crate) free_bind: bool,
    pub(crate) bound: Option<Endpoint>,
    pub(crate) extras: Extras,
    pub(crate) fast_open: FastOpen,
    /// The peer that the first write connects to: connect has left it to that.
    pub(crate) deferred: Option<Endpoint>,
    /// Keys that segments are signed with, if there are any.
    pub(crate) keys: Option<Arc<Keyring>>,
    pub(crate) left: Left,
}

/// State that a connection which was taken apart leaves to its socket, until it connects or listens.
#[derive(Clone, Copy, Default)]
pub(crate) struct Left {
    /// The pending error.
    pub(crate) error: Option<Errno>,
    /// The receiving side was shut while there was no connection: so it is of the next one.
    pub(crate) read_shut: bool,
    /// The connection was disconnected by a call, of which threads that sleep have to hear.
    pub(crate) disconnected: bool,
    /// The port that the connection had, which getsockname(2) goes on telling.
    pub(crate) port: u16,
    /// Largest segment that the connection sent, which TCP_MAXSEG goes on telling; 0 without a connection.
    pub(crate) mss: u16,
}

impl Left {
    /// Returns the readiness of a socket that neither connects nor listens.
    pub(crate) fn readiness(&self) -> Ready {
        let mut ready = Ready::OUT | Ready::HUP;
        if self.error.is_some() {
            ready |= Ready::ERR;
        }
        if self.read_shut {
            ready |= Ready::IN | Ready::RDHUP;
        }
        ready
    }
}

/// Fast Open options of a socket.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FastOpen {
    /// TCP_FASTOPEN_CONNECT.
    pub(crate) connect: bool,
    /// TCP_FASTOPEN_NO_COOKIE.
    pub(crate) no_cookie: bool,
    /// TCP_FASTOPEN and TCP_FASTOPEN_KEY.
    pub(crate) listen: FastOpenListen,
}

impl Settings {
    /// The bit of IPV6_V6ONLY in [`Settings::binding`].
    pub(crate) const V6_ONLY: u8 = 1 << 3;

    /// SO_REUSEADDR, SO_REUSEPORT, IP_FREEBIND and IPV6_V6ONLY, a bit each.
    pub(crate) fn binding(&self) -> u8 {
        u8::from(self.reuse_addr)
            | u8::from(self.reuse_port) << 1
            | u8::from(self.free_bind) << 2
            | u8::from(self.v6_only) << 3
    }

    /// Returns the options that [`Settings::binding`] has bits of, in its order.
    pub(crate) fn of_binding(bits: u8) -> [bool; 4] {
        std::array::from_fn(|bit| bits & 1 << bit != 0)
    }

    /// Settings of a socket whose connection came to nothing, with that connection's `options` and `control`.
    pub(crate) fn again(stream: &mut Stream, options: SocketOptions, control: &'static str) -> Self {
        let [reuse_addr, reuse_port, free_bind, v6_only] = Settings::of_binding(stream.binding);
        let family = stream.family();
        let mut settings = Settings {
            control: Some(control),
            reuse_addr,
            reuse_port,
            free_bind,
            v6_only,
            extras: stream.extras.as_deref().copied().unwrap_or_default(),
            ..Settings::new(family, options)
        };
        if let Some(again) = stream.again.take() {
            let Again { bound, tuned, fast_open, keys, .. } = *again;
            settings = Settings { bound, tuned, fast_open, keys, ..settings };
        }
        settings
    }

    /// Another policy has other tunables.
    pub(crate) fn choose_control(&mut self, name: &'static str) {
        if self.control != Some(name) {
            self.tuned.clear();
        }
        self.control = Some(name);
    }

    pub(crate) fn new(family: Family, options: SocketOptions) -> Self {
        Settings {
            family,
            options,
            control: None,
            tuned: Vec::new(),
            reuse_addr: false,
            reuse_port: false,
            v6_only: false,
            free_bind: false,
            bound: None,
            extras: Extras::default(),
            fast_open: FastOpen::default(),
            deferred: None,
            keys: None,
            left: Left::default(),
        }
    }
}
