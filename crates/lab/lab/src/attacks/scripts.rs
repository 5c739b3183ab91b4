//! The attackers' segments.

use super::raw::{Part, Script, Wire};
use base::{Addr, Duration, Endpoint, Instant, Seq};
use std::collections::HashMap;
use wire::protocol;
use wire::tcp::{Flags, SackBlocks, Segment};

/// The time between two sendings of a script.
const TICK: Duration = Duration::from_millis(1);

/// SYNs in the names of hosts that do not exist.
pub(super) struct Syns {
    pub(super) target: Endpoint,
    /// SYNs a millisecond.
    pub(super) rate: u32,
    /// The address of the next host.
    pub(super) host: fn(&mut base::Rng) -> Addr,
    /// The gateway that leads to them; it answers.
    pub(super) gateway: Option<Addr>,
}

impl Script for Syns {
    fn answers_for(&self, addr: Addr, _now: Instant) -> bool {
        Some(addr) == self.gateway
    }

    fn act(&mut self, now: Instant, wire: &mut Wire) -> Option<Instant> {
        for _ in 0..self.rate {
            let (host, bits) = ((self.host)(&mut wire.rng), wire.rng.next_u64());
            let from = Endpoint::new(host, 1024 + (bits >> 48) as u16 % 60_000);
            wire.syn(from, self.target, Seq::new(bits as u32));
        }
        Some(now + TICK)
    }
}

/// Connections of a script, made a few each millisecond.
struct Sessions {
    target: Endpoint,
    /// Those to be made.
    want: usize,
    /// Each a millisecond.
    rate: usize,
    name: fn(usize) -> Endpoint,
    by_name: HashMap<Endpoint, usize>,
    all: Vec<Session>,
}

#[derive(Clone, Copy)]
struct Session {
    name: Endpoint,
    /// Next sequence number to send.
    seq: Seq,
    /// Next sequence number expected; `None` before the server has answered.
    expected: Option<Seq>,
    /// Up to where everything was acknowledged.
    acked: Seq,
    /// The server's window, bytes.
    window: u32,
    /// Of the server's windows, as it said in its SYN.
    scale: u8,
    /// The largest segment that came, bytes.
    mss: u32,
}

impl Sessions {
    fn new(target: Endpoint, want: usize, rate: usize, name: fn(usize) -> Endpoint) -> Sessions {
        Sessions { target, want, rate, name, by_name: HashMap::new(), all: Vec::new() }
    }

    /// Opens some more.
    fn open(&mut self, wire: &mut Wire) {
        for _ in 0..self.rate.min(self.want - self.all.len()) {
            let (name, isn) = ((self.name)(self.all.len()), Seq::new(wire.rng.next_u32()));
            self.by_name.insert(name, self.all.len());
            let (seq, expected, acked) = (isn + 1, None, Seq::new(0));
            self.all.push(Session { name, seq, expected, acked, window: 0, scale: 0, mss: 1 });
            wire.syn(name, self.target, isn);
        }
    }

    /// Takes in a segment, and completes the handshake: the session if it has been answered.
    fn take(&mut self, to: Endpoint, segment: &Segment<'_>, wire: &mut Wire) -> Option<usize> {
        let at = *self.by_name.get(&to)?;
        let session = &mut self.all[at];
        if segment.flags.has(Flags::SYN) {
            session.scale = segment.options.window_scale.unwrap_or(0);
            session.window = segment.window.into();
            let expected = *session.expected.get_or_insert(segment.seq + 1);
            session.acked = expected;
            wire.segment(to, self.target, Part::ack(session.seq, expected), &[]);
            return Some(at);
        }
        session.window = u32::from(segment.window) << session.scale;
        session.mss = session.mss.max(segment.payload.len() as u32);
        let end = segment.seq + segment.payload.len() as u32;
        session.expected = session.expected.map(|expected| expected.later(end));
        Some(at)
    }

    /// Acknowledges all that came.
    fn acknowledge(&mut self, at: usize, wire: &mut Wire) {
        let session = &mut self.all[at];
        let Some(expected) = session.expected else { return };
        session.acked = expected;
        wire.segment(session.name, self.target, Part::ack(session.seq, expected), &[]);
    }

    /// The next of those that were answered, in turns.
    fn next(&self, turn: &mut usize) -> Option<Session> {
        *turn = (*turn + 1) % self.all.len().max(1);
        self.all.get(*turn).copied().filter(|session| session.expected.is_some())
    }
}

/// Connections that are opened and then never used.
pub(super) struct Idle(Sessions);

impl Idle {
    pub(super) fn new(target: Endpoint, sessions: usize, name: fn(usize) -> Endpoint) -> Idle {
        Idle(Sessions::new(target, sessions, 100, name))
    }
}

impl Script for Idle {
    fn answers_for(&self, addr: Addr, _now: Instant) -> bool {
        addr == (self.0.name)(0).addr
    }

    fn take(&mut self, to: Endpoint, segment: &Segment<'_>, wire: &mut Wire) {
        let Some(at) = self.0.take(to, segment, wire) else { return };
        let session = &mut self.0.all[at];
        if segment.flags.has(Flags::FIN) {
            session.expected = Some(segment.seq + segment.payload.len() as u32 + 1);
        }
        if !segment.flags.has(Flags::SYN) {
            self.0.acknowledge(at, wire);
        }
    }

    fn act(&mut self, now: Instant, wire: &mut Wire) -> Option<Instant> {
        self.0.open(wire);
        (self.0.all.len() < self.0.want).then_some(now + TICK)
    }
}

/// Lie of a client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lie {
    /// It acknowledges what has not come yet, and what was not sent yet.
    Early,
    /// It acknowledges each segment in twenty pieces.
    Divided,
    /// Its SACKs are crafted: every other segment of the flight, every other byte of it, or anything.
    Sacks,
    /// It uploads one byte at the far edge of the window, and single bytes anywhere in it.
    FarEdge,
}

/// Clients that lie.
pub(super) struct Liar {
    sessions: Sessions,
    lie: Lie,
    turn: usize,
    /// Lies a millisecond.
    rate: usize,
    /// Where the next blocks of a SACK lie, counted in segments from the end of the flight.
    place: u32,
    /// It acknowledges all that comes, and does not lie meanwhile.
    acks: bool,
    begun: Option<Instant>,
}

impl Liar {
    /// `want` connections, of which `open` are opened each millisecond.
    pub(super) fn new(target: Endpoint, want: usize, open: usize, rate: usize, lie: Lie) -> Liar {
        let sessions = Sessions::new(target, want, open, super::port_of);
        Liar { sessions, lie, turn: 0, rate, place: 1, acks: lie == Lie::Sacks, begun: None }
    }

    fn blocks(&mut self, session: &Session, high: Seq, wire: &mut Wire) -> SackBlocks {
        let mut blocks = SackBlocks::none();
        for _ in 0..4 {
            let (mss, most) = (session.mss, high.offset_from(session.acked) / session.mss);
            let left = high - (self.place + 1).min(most) * mss;
            let len = match wire.rng.below(4) {
                0 => 1,
                1 => 1 + wire.rng.below(mss.into()) as u32,
                _ => mss,
            };
            blocks.push(left, left + len);
            self.place = if self.place >= most || wire.rng.chance(0.005) { 1 } else { self.place + 2 };
        }
        blocks
    }

    fn lie(&mut self, session: Session, expected: Seq, wire: &mut Wire) {
        let at = self.turn % self.sessions.all.len();
        let (part, data): (_, &[u8]) = match self.lie {
            Lie::Early => {
                let most = if wire.rng.chance(0.5) { 64 << 10 } else { 16 << 20 };
                (Part::ack(session.seq, expected + wire.rng.below(most) as u32), &[])
            }
            Lie::Divided => {
                let step = expected.offset_from(session.acked).min(session.mss.div_ceil(20));
                self.sessions.all[at].acked += step;
                (Part::ack(session.seq, session.acked + step), &[])
            }
            Lie::Sacks => {
                let blocks = self.blocks(&session, expected, wire);
                (Part::ack(session.seq, session.acked).with_sack(blocks), &[])
            }
            Lie::FarEdge if session.window > 1 => {
                let edge = session.window - 1;
                let far = wire.rng.chance(0.5);
                let at = if far { edge } else { 1 + wire.rng.below(edge.into()) as u32 };
                (Part::ack(session.seq + at, expected), &[0])
            }
            Lie::FarEdge => return,
        };
        wire.segment(session.name, self.sessions.target, part, data);
    }
}

impl Script for Liar {
    fn answers_for(&self, addr: Addr, _now: Instant) -> bool {
        addr == (self.sessions.name)(0).addr
    }

    fn take(&mut self, to: Endpoint, segment: &Segment<'_>, wire: &mut Wire) {
        let Some(at) = self.sessions.take(to, segment, wire) else { return };
        if self.acks && !segment.payload.is_empty() {
            self.sessions.acknowledge(at, wire);
        }
    }

    /// A fifth of the time a download acknowledges what came, so that the server sends more.
    fn act(&mut self, now: Instant, wire: &mut Wire) -> Option<Instant> {
        self.sessions.open(wire);
        let age = now.since(*self.begun.get_or_insert(now)).as_millis() as u64;
        match self.lie {
            Lie::Sacks => self.acks = age < 300 || age % 250 < 50,
            Lie::Early | Lie::Divided if age % 50 < 10 => {
                (0..self.sessions.all.len()).for_each(|at| self.sessions.acknowledge(at, wire));
            }
            _ => {}
        }
        for _ in 0..if self.acks { 0 } else { self.rate } {
            let Some(session) = self.sessions.next(&mut self.turn) else { continue };
            let Some(expected) = session.expected else { continue };
            self.lie(session, expected, wire);
        }
        Some(now + TICK)
    }
}

/// Downloads, each of another host of the link, whose packets are said to be too big, by one byte more each time.
pub(super) struct TooBig {
    sessions: Sessions,
    /// Messages so far about each of them.
    told: Vec<u32>,
    turn: usize,
    /// Messages a millisecond.
    rate: usize,
    begun: Option<Instant>,
}

impl TooBig {
    pub(super) fn new(target: Endpoint, sessions: usize, rate: usize, name: fn(usize) -> Endpoint) -> TooBig {
        let told = vec![0; sessions];
        TooBig { sessions: Sessions::new(target, sessions, 1, name), told, turn: 0, rate, begun: None }
    }
}

impl Script for TooBig {
    fn answers_for(&self, addr: Addr, _now: Instant) -> bool {
        self.sessions.all.iter().any(|session| session.name.addr == addr)
    }

    fn take(&mut self, to: Endpoint, segment: &Segment<'_>, wire: &mut Wire) {
        self.sessions.take(to, segment, wire);
    }

    /// A fifth of the time it acknowledges what came, so that the server sends more.
    fn act(&mut self, now: Instant, wire: &mut Wire) -> Option<Instant> {
        self.sessions.open(wire);
        let age = now.since(*self.begun.get_or_insert(now)).as_millis() as u64;
        if age < 200 || age % 50 < 10 {
            (0..self.sessions.all.len()).for_each(|at| self.sessions.acknowledge(at, wire));
            return Some(now + TICK);
        }
        for _ in 0..self.rate {
            let Some(session) = self.sessions.next(&mut self.turn) else { continue };
            self.told[self.turn] += 1;
            let mtu = 1_500_u32.saturating_sub(self.told[self.turn]);
            wire.too_big(self.sessions.target, session.name, session.acked, mtu);
        }
        Some(now + TICK)
    }
}

/// Packets that hold no whole segment: IPv4 fragments, or IPv6 extension headers in chains.
pub(super) struct Odd {
    pub(super) target: Endpoint,
    /// In whose name.
    pub(super) name: Addr,
    /// Packets a millisecond.
    pub(super) rate: u32,
}

impl Odd {
    /// Destination options of eight bytes each (RFC 8200, section 4.6) before a SYN; at times a fragment header.
    fn chain(&self, wire: &mut Wire) -> [u8; 160] {
        const PADDING: u8 = 1;
        let mut upper = [0; 160];
        let headers = 1 + wire.rng.below(17) as usize;
        for nth in 0..headers {
            let last = nth + 1 == headers;
            let next = if last { protocol::TCP } else { [60, 0, 44][wire.rng.below(3) as usize] };
            upper[8 * nth..8 * nth + 4].copy_from_slice(&[next, 0, PADDING, 4]);
        }
        let at = 8 * headers;
        upper[at + 2..at + 4].copy_from_slice(&self.target.port.to_be_bytes());
        upper[at + 12..at + 14].copy_from_slice(&[0x50, 0x02]);
        upper
    }
}

impl Script for Odd {
    fn act(&mut self, now: Instant, wire: &mut Wire) -> Option<Instant> {
        for _ in 0..self.rate {
            let to = self.target.addr;
            if to.is_v4() {
                wire.fragment(self.name, to);
            } else {
                let upper = self.chain(wire);
                wire.packet(self.name, to, 60, &upper);
            }
        }
        Some(now + TICK)
    }
}

/// Hosts on the link that ask for much, and then answer nothing: neither segments nor questions for their address.
pub(super) struct Silent {
    sessions: Sessions,
    until: Instant,
    silent: bool,
}

impl Silent {
    pub(super) fn new(target: Endpoint, hosts: usize, name: fn(usize) -> Endpoint, until: Instant) -> Silent {
        Silent { sessions: Sessions::new(target, hosts, 10, name), until, silent: false }
    }
}

impl Script for Silent {
    fn answers_for(&self, addr: Addr, now: Instant) -> bool {
        now < self.until && self.sessions.all.iter().any(|session| session.name.addr == addr)
    }

    fn take(&mut self, to: Endpoint, segment: &Segment<'_>, wire: &mut Wire) {
        let Some(at) = self.sessions.take(to, segment, wire) else { return };
        if !self.silent && !segment.payload.is_empty() {
            self.sessions.acknowledge(at, wire);
        }
    }

    fn act(&mut self, now: Instant, wire: &mut Wire) -> Option<Instant> {
        self.sessions.open(wire);
        self.silent = now >= self.until;
        (!self.silent).then_some(now + TICK)
    }
}
