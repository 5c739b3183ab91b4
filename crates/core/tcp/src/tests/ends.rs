//! Two ends in one process, for the tests beside the modules: every segment passes through the test's hands.

use alloc::vec;
use alloc::vec::Vec;

use base::{Addr, Duration, Endpoint, FlowKey, Instant, Seq};
use cc::{Control, NewReno};
use wire::Ecn;
use wire::tcp::{Flags, Header, Segment};

use crate::{
    Config, Connection, Counters, Cx, Disposition, Events, Open, Pool, SocketOptions, Transmit, TxLimits,
};

pub(crate) const MTU: u16 = 1500;
/// Data bytes of a full segment with timestamps over IPv4 at [`MTU`].
pub(crate) const MSS: usize = 1448;

/// A segment on its way.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
    pub(crate) retransmit: bool,
}

impl Packet {
    pub(crate) fn segment(&self) -> Segment<'_> {
        Segment {
            seq: self.header.seq,
            ack: self.header.ack,
            flags: self.header.flags,
            window: self.header.window,
            urgent: 0,
            options: self.header.options,
            merged: 1,
            ecn: Ecn::NotCapable,
            payload: &self.payload,
            rest: None,
        }
    }

    pub(crate) fn flags(&self) -> Flags {
        self.header.flags
    }
}

/// One end: a connection and the core it lives on.
pub(crate) struct End {
    pub(crate) conn: Connection,
    pub(crate) config: Config,
    pub(crate) pool: Pool,
    pub(crate) counters: Counters,
    pub(crate) limits: TxLimits,
}

macro_rules! cx {
    ($end:expr, $now:expr) => {
        &mut Cx {
            now: $now,
            config: &$end.config,
            pool: &mut $end.pool,
            counters: &mut $end.counters,
            probe: None,
            frames: None,
        }
    };
}
pub(crate) use cx;

pub(crate) fn open(client: bool, options: SocketOptions) -> Open {
    let a = Endpoint::new(Addr::v4([10, 0, 0, 1]), 40_000);
    let b = Endpoint::new(Addr::v4([10, 0, 0, 2]), 80);
    let (key, isn) =
        if client { (FlowKey::new(a, b), 0xffff_ff00) } else { (FlowKey::new(b, a), 0x7fff_ff00) };
    Open {
        key,
        isn: Seq::new(isn),
        ts_offset: isn ^ 77,
        path_mtu: MTU,
        options,
        hint: crate::HostHint::default(),
    }
}

pub(crate) fn policy() -> Control {
    Control::NewReno(NewReno::new())
}

impl End {
    pub(crate) fn new(
        config: Config,
        begin: impl FnOnce(&mut Option<Connection>, &mut Cx<'_>),
        now: Instant,
    ) -> End {
        let (mut pool, mut counters) = (Pool::new(40_000), Counters::default());
        let cx = &mut Cx {
            now,
            config: &config,
            pool: &mut pool,
            counters: &mut counters,
            probe: None,
            frames: None,
        };
        let mut conn = None;
        begin(&mut conn, cx);
        let conn = conn.expect("it was begun");
        End { conn, config, pool, counters, limits: TxLimits { max_payload: MSS as u32 } }
    }

    pub(crate) fn connect(config: Config, options: SocketOptions, now: Instant) -> End {
        let begin = |place: &mut Option<Connection>, cx: &mut Cx<'_>| {
            Connection::connect(place, cx, &open(true, options), policy());
        };
        End::new(config, begin, now)
    }

    pub(crate) fn accept(config: Config, options: SocketOptions, now: Instant, syn: &Packet) -> End {
        let segment = syn.segment();
        let begin = |place: &mut Option<Connection>, cx: &mut Cx<'_>| {
            Connection::accept(place, cx, &open(false, options), policy(), &segment);
        };
        End::new(config, begin, now)
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Option<Packet> {
        let limits = self.limits;
        let tx = self.conn.poll_transmit(cx!(self, now), &limits)?;
        Some(self.packet(&tx))
    }

    pub(crate) fn packet(&self, tx: &Transmit) -> Packet {
        let mut payload = vec![0; tx.len as usize];
        self.conn.copy_payload(&self.pool, tx, &mut payload);
        Packet { header: tx.header, payload, retransmit: tx.retransmit }
    }

    /// All it wants to send now.
    pub(crate) fn drain(&mut self, now: Instant) -> Vec<Packet> {
        core::iter::from_fn(|| self.poll(now)).collect()
    }

    pub(crate) fn take(&mut self, now: Instant, packet: &Packet) -> Disposition {
        self.conn.on_segment(cx!(self, now), &packet.segment())
    }

    pub(crate) fn write(&mut self, now: Instant, data: &[u8]) -> usize {
        self.conn.write(cx!(self, now), data).unwrap_or(0)
    }

    pub(crate) fn read(&mut self, now: Instant) -> Vec<u8> {
        let mut into = vec![0; self.conn.readable() as usize];
        if into.is_empty() {
            return into;
        }
        let n = self.conn.read(cx!(self, now), &mut into).expect("readable");
        assert_eq!(n, into.len());
        into
    }

    pub(crate) fn close(&mut self, now: Instant) {
        self.conn.close(cx!(self, now));
    }

    pub(crate) fn timeout(&mut self, now: Instant) {
        self.conn.on_timeout(cx!(self, now));
    }

    pub(crate) fn events(&mut self) -> Events {
        self.conn.poll_event()
    }
}

/// Two ends and the time between them; segments are handed over at once unless the test takes them itself.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) a: End,
    pub(crate) b: End,
}

impl Pair {
    pub(crate) fn with(config: Config, options: SocketOptions) -> Pair {
        let now = Instant::from_secs(1000);
        let mut a = End::connect(config.clone(), options, now);
        let syn = a.poll(now).expect("SYN");
        let mut b = End::accept(config, options, now, &syn);
        let rtt = Duration::from_millis(10);
        let now = now + rtt;
        let syn_ack = b.poll(now).expect("SYN-ACK");
        a.take(now, &syn_ack);
        let ack = a.poll(now).expect("ACK");
        b.take(now + rtt, &ack);
        Pair { now: now + rtt, a, b }
    }

    /// Established.
    pub(crate) fn new() -> Pair {
        Pair::with(Config::default(), SocketOptions::default())
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Hands segments over, both ways, until neither end has any; how many there were.
    pub(crate) fn settle(&mut self) -> usize {
        let mut count = 0;
        loop {
            let (from_a, from_b) = (self.a.drain(self.now), self.b.drain(self.now));
            if from_a.is_empty() && from_b.is_empty() {
                return count;
            }
            count += from_a.len() + from_b.len();
            for packet in &from_a {
                self.b.take(self.now, packet);
            }
            for packet in &from_b {
                self.a.take(self.now, packet);
            }
        }
    }

    /// Lets the next timer of either end fire.
    pub(crate) fn fire(&mut self) {
        let next =
            Instant::earliest(self.a.conn.poll_timeout(), self.b.conn.poll_timeout()).expect("a timer");
        self.now = self.now.max(next);
        self.a.timeout(self.now);
        self.b.timeout(self.now);
    }
}
