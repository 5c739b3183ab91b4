//! Messages between applications and stack thread, and the byte rings that they exchange.
//!
//! A connection has one name on the way between the two, given by the side that began it:
//!
//! * by the application (connect): the index of its own record. The stack thread says [`Event::Released`] when it has
//!   forgotten the name; only then is it given again.
//! * by the stack thread (accept): [`BY_STACK`] and the index of its own record. It forgets the name when it hears
//!   [`Command::Close`], and the application says nothing more about it after that.
//!
//! Queues keep order, so neither side ever hears of a name's new bearer before it let go of the old one.

use super::blocks::{Blocks, Received};
use crate::Errno;
use base::{Endpoint, Instant};
use cc::TunableError;
use ring::bytes::{ByteConsumer, ByteProducer, bytes};
use stack::{Connect, FastOpenListen, Listen, OpError};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use tcp::auth::{AoReport, KeyChange, KeyError, Keyring};
use tcp::{Events, FastOpenKeys, Hints, Info, LENT_MIN, Report, Shutdown, SocketOptions, State};

/// Marks names that the stack thread gave.
pub(super) const BY_STACK: u32 = 1 << 31;

/// From an application to the stack thread.
pub(super) enum Command {
    /// A question or an order whose answer the application waits for.
    Call(Box<Call>),
    /// Start connecting; [`Event::Started`] follows.
    Connect { id: u32, request: Box<Connect> },
    /// Bytes to send wait in this ring, now and later: up to `upto`.
    Ring { id: u32, ring: ByteConsumer, upto: u32 },
    /// Our end of the ring for sending, as the stack thread asked ([`Event::Wanted`]); nothing is in it.
    Unused { id: u32, ring: ByteProducer },
    /// More bytes wait in the ring, up to `upto`. What lies behind is not to be taken before it was told of: a
    /// [`Mark`] may be on its way.
    Written { id: u32, upto: u32 },
    /// The first [`Command::Lent`] follows: at most `window` bytes of them wait at a time.
    Window { id: u32, window: u32, taken: Arc<AtomicU32> },
    /// More bytes wait, up to `upto`: `len` of `bytes` from `start` on, which the connection refers to until they were
    /// acknowledged.
    Lent { id: u32, bytes: Arc<[u8]>, start: usize, len: u32, upto: u32 },
    /// Something about bytes that follow: comes before they do.
    Mark { id: u32, mark: Mark },
    /// Sends data that is held back, up to the announced end, as soon as the connection has taken all of it.
    Push { id: u32 },
    /// The ring is full: say when half of it is free.
    WantRoom { id: u32 },
    /// There was no room for received bytes, and there is again.
    Taken { id: u32 },
    /// The receive ring, empty; many are about. [`Event::Home`] or [`Event::Ring`] follows.
    GiveBack { id: u32, ring: ByteConsumer },
    /// Close one half or both, after what the ring holds.
    Shutdown { id: u32, how: Shutdown },
    /// Replace the options.
    Options { id: u32, options: Box<SocketOptions> },
    /// The application lets go. `unread`: it leaves bytes unread, which asks for a RST (RFC 2525, section 2.17).
    Close { id: u32, rings: Rings, unread: bool },
    /// `count` more connections may be accepted on behalf of a listener.
    Credit { listener: u32, count: u32 },
    /// Something about a listener changes.
    Listener { listener: u32, change: Box<Change> },
    /// A reservation is not needed.
    Unbind(Endpoint),
}

/// Change of a listener.
pub(super) enum Change {
    Backlog(u32),
    Park(bool),
    Options(SocketOptions),
    Control(&'static str),
    FastOpen(FastOpenListen),
    Keys(Option<Arc<Keyring>>),
}

/// A [`Command`] that is answered.
pub(super) enum Call {
    Bind {
        local: Endpoint,
        reuse_addr: bool,
        reuse_port: bool,
        v6_only: bool,
        /// The address need not be ours.
        free: bool,
    },
    /// Do connections use this address?
    IsUsed {
        local: Endpoint,
        v6_only: bool,
    },
    /// `credit` connections may be accepted before the first [`Command::Credit`].
    Listen {
        request: Listen,
        credit: u32,
    },
    /// Start connecting with data in the SYN, if it takes any.
    ConnectFast {
        id: u32,
        request: Box<Connect>,
        no_cookie: bool,
        data: Vec<u8>,
    },
    /// Would it take any?
    MaySend {
        request: Box<Connect>,
        no_cookie: bool,
    },
    FastOpenKeys,
    ChangeKeys {
        id: u32,
        change: KeyChange,
    },
    AoReport {
        id: u32,
    },
    CloseListener {
        listener: u32,
    },
    Control {
        id: u32,
        name: &'static str,
    },
    Tune {
        id: u32,
        name: String,
        value: Option<i64>,
    },
    WouldTune {
        policy: &'static str,
        name: String,
        value: Option<i64>,
    },
    FindControl(String),
    ControlName {
        id: u32,
    },
    Unsent {
        id: u32,
    },
    /// The CPU that the stack thread runs on.
    Cpu,
    Info {
        id: u32,
    },
}

/// The answer to a [`Call`].
pub(super) enum Reply {
    /// Where it is bound or listens.
    Local(Result<Endpoint, OpError>),
    Done(Result<(), OpError>),
    /// The local end, and bytes in the SYN.
    Begun(Result<(Endpoint, usize), OpError>),
    IsUsed(bool),
    MaySend(bool),
    Keys(FastOpenKeys),
    Keyed(Result<(), KeyError>),
    AoReport(Option<Box<AoReport>>),
    Name(Option<&'static str>),
    Found(Result<&'static str, OpError>),
    Tuned(Result<i64, TunableError>),
    Unsent(u32, u32),
    Cpu(Option<u32>),
    Info(Option<Box<Info>>),
}

/// From the stack thread to an application.
pub(super) enum Event {
    Reply(Reply),
    /// A connect is on its way from this local end, or failed at once.
    Started {
        id: u32,
        request: Box<Connect>,
        result: Result<Endpoint, OpError>,
    },
    /// A connection was accepted for a listener.
    Accepted {
        listener: u32,
        id: u32,
        local: Endpoint,
        remote: Endpoint,
    },
    /// Received bytes wait in this ring, now and later.
    Ring {
        id: u32,
        ring: ByteConsumer,
    },
    /// The first [`Event::Lent`] follows: of them at most `window` bytes wait in blocks at a time.
    Window {
        id: u32,
        window: u32,
        taken: Arc<AtomicU32>,
    },
    /// Received bytes, up to `upto`: the first `len` of `bytes`.
    Lent {
        id: u32,
        bytes: Received,
        len: u32,
        upto: u32,
    },
    /// The ring that was given back ([`Command::GiveBack`]) was empty and stays at home.
    Home {
        id: u32,
    },
    /// The ring for sending is empty, and many are about: [`Command::Unused`] follows, unless more was written. The
    /// stack thread keeps its end meanwhile: an application that calls nothing any more has still sent and closed.
    Wanted {
        id: u32,
    },
    /// A ring for sending that was not used comes home.
    Unused {
        ring: RingPair,
    },
    /// Something that the application asked to hear of.
    Report {
        id: u32,
        report: Report,
    },
    /// The byte before `end`, counted from the first ever received, arrived at this time.
    Arrived {
        id: u32,
        end: u32,
        at: Instant,
    },
    /// Something happened to a connection: what, and where it stands now.
    Notice {
        id: u32,
        edges: Events,
        status: Status,
    },
    /// The name may be given again; the ring for sending comes home.
    Released {
        id: u32,
        ring: Option<RingPair>,
    },
}

const _: () = assert!(size_of::<Command>() <= 64 && size_of::<Event>() <= 64);

/// Mark of a call on its bytes, which are counted from the first ever written, modulo 2^32.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub(super) start: u32,
    /// One past the last.
    pub(super) end: u32,
    pub(super) hints: Hints,
}

/// Where a connection stands.
#[derive(Clone, Copy)]
pub(super) struct Status {
    pub(super) state: State,
    /// An error that the application has not been told.
    pub(super) error: Option<tcp::Error>,
    /// Nothing more will come after what the ring holds.
    pub(super) ended: bool,
    /// More waits than there is room for: say [`Command::Taken`] when half of the room is free.
    pub(super) more: bool,
    /// Not before all lent bytes are read, after which the ring may be used.
    pub(super) lent_first: bool,
}

/// Failure of a connection, or of the attempt to begin it.
#[derive(Clone, Copy)]
pub(super) enum Failure {
    Tcp(tcp::Error),
    Op(OpError),
    /// The stack thread is gone.
    Gone,
}

impl From<Failure> for Errno {
    fn from(failure: Failure) -> Errno {
        match failure {
            Failure::Tcp(e) => e.into(),
            Failure::Op(e) => e.into(),
            Failure::Gone => Errno::ENETDOWN,
        }
    }
}

/// Both ends of one ring, which is at home.
pub(super) struct RingPair {
    pub(super) tx: ByteProducer,
    pub(super) rx: ByteConsumer,
}

/// Rings that an application hands back with a connection.
#[derive(Default)]
pub(super) struct Rings {
    /// Its end of the receive ring.
    pub(super) receive: Option<ByteConsumer>,
    /// Its end of the ring for sending.
    pub(super) send: Option<ByteProducer>,
}

/// Rings at home, for the next connections: after warm-up none is made anew.
pub(super) struct RingPool {
    pairs: Vec<RingPair>,
    bytes: usize,
    keep: usize,
    /// Rings that are with connections.
    out: usize,
}

impl RingPool {
    /// Rings of `bytes` each; at most `keep` idle ones are kept.
    pub(super) fn new(bytes: usize, keep: usize) -> Self {
        RingPool { pairs: Vec::new(), bytes, keep, out: 0 }
    }

    pub(super) fn take(&mut self) -> RingPair {
        self.out += 1;
        self.pairs.pop().unwrap_or_else(|| {
            let (tx, rx) = bytes(self.bytes);
            RingPair { tx, rx }
        })
    }

    /// Returns how many bytes may wait in lent memory for a connection: some calls' worth, so that a turn moves as many
    /// as in direct mode, but no more than the buffer that the application chose, if it did (0: not).
    pub(super) fn window(&self, chosen: u32) -> u32 {
        let most = (16 * self.bytes).max(2 * LENT_MIN) as u32;
        if chosen == 0 { most } else { most.min(chosen.max(2 * LENT_MIN as u32)) }
    }

    /// Makes blocks for as many bytes as the rings that are kept have.
    pub(super) fn blocks(&self) -> Blocks {
        Blocks::new(self.bytes.saturating_mul(self.keep))
    }

    /// Bytes of a ring at home.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn put(&mut self, mut pair: RingPair) {
        self.out -= 1;
        if self.pairs.len() < self.keep {
            let rest = pair.rx.len();
            pair.rx.consume(rest);
            self.pairs.push(pair);
        }
    }

    /// An end of a ring was dropped on the way: that ring does not come home.
    pub(super) fn lost(&mut self) {
        self.out -= 1;
    }

    /// So many rings are with connections that an idle connection had better give its own back.
    pub(super) fn scarce(&self) -> bool {
        self.out > self.keep
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.out == 0
    }
}
