//! Two hosts joined by a link that loses, delays, reorders, doubles and damages, in virtual time, from one
//! seed.

use std::collections::BTreeMap;

use base::{Duration, Instant, Rng, Seq};
use tcp::State;
use wire::tcp::{Flags, Segment};

use crate::app::App;
use crate::host::{Bytes, Host, flow, ms, parse};
use crate::police::Police;

/// One direction of the link.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    pub(crate) delay: Duration,
    /// Up to this much more, at random: reorders when it exceeds the gap between segments.
    pub(crate) jitter: Duration,
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    /// This share of segments is held back by `delay` once more.
    pub(crate) reorder: f64,
    /// Bytes a second; 0 is without limit.
    pub(crate) rate: u64,
    /// Bytes that may wait for the rate; what exceeds them is lost.
    pub(crate) queue: u64,
    /// Packets longer than this are dropped, and ICMP says so; 0 is without limit.
    pub(crate) mtu: u16,
    /// Nothing says so.
    pub(crate) silent: bool,
}

/// Packet on the link.
enum Cargo {
    Segment(Bytes),
    /// "Packet too big" about our segment at this number.
    TooBig {
        mtu: u16,
        seq: Seq,
    },
}

impl Default for Link {
    fn default() -> Self {
        Link {
            delay: ms(10),
            jitter: Duration::ZERO,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            rate: 0,
            queue: 0,
            mtu: 0,
            silent: false,
        }
    }
}

pub(crate) struct Net {
    pub(crate) hosts: [Host; 2],
    pub(crate) apps: [App; 2],
    /// `links[i]` carries what host `i` sends.
    pub(crate) links: [Link; 2],
    pub(crate) police: [Police; 2],
    pub(crate) now: Instant,
    pub(crate) rng: Rng,
    pub(crate) seed: u64,
    busy_until: [Instant; 2],
    flying: BTreeMap<(Instant, u64), (usize, Cargo)>,
    serial: u64,
    pub(crate) lost: u64,
    /// Segments in a row that arrive within this time reach the host as one, as offload merges them.
    pub(crate) merge: Duration,
    /// The application at this end is killed at that time.
    pub(crate) kill: Option<(usize, Instant)>,
    /// Both ends open at once.
    pub(crate) cross: bool,
}

impl Net {
    /// Client 0 and listening server 1; `totals` bytes go each way.
    pub(crate) fn new(seed: u64, v4: bool, totals: [u64; 2]) -> Self {
        let mut rng = Rng::new(seed);
        // Half of the runs wrap soon after the start.
        let mut isn = || match rng.chance(0.5) {
            true => Seq::new(rng.next_u32()),
            false => Seq::new(u32::MAX - rng.below(100_000) as u32),
        };
        let mut hosts = [Host::new(flow(v4), isn()), Host::new(flow(v4).reversed(), isn())];
        hosts[1].listens = true;
        Net {
            hosts,
            apps: totals.map(App::new),
            links: [Link::default(); 2],
            police: [Police::new(0), Police::new(1)],
            now: Instant::from_secs(10),
            rng,
            seed,
            busy_until: [Instant::ZERO; 2],
            flying: BTreeMap::new(),
            serial: 0,
            lost: 0,
            merge: Duration::ZERO,
            kill: None,
            cross: false,
        }
    }

    /// Sets the same link for both directions.
    pub(crate) fn link(mut self, link: Link) -> Self {
        self.links = [link; 2];
        self
    }

    /// Opens, transfers, closes; panics if `limit` of virtual time is not enough.
    pub(crate) fn run(&mut self, limit: Duration) {
        self.hosts[0].connect(self.now);
        if self.cross {
            self.hosts[1].connect(self.now);
        }
        self.resume(limit);
    }

    /// Goes on until both connections are gone.
    pub(crate) fn resume(&mut self, limit: Duration) {
        let end = self.now + limit;
        while !self.is_over() {
            self.step(end);
        }
        for host in &mut self.hosts {
            host.finish();
        }
    }

    /// Both applications have everything and both connections are gone.
    fn is_over(&self) -> bool {
        let done = |host: &Host| {
            let closed = host.conn.as_ref().is_some_and(|conn| conn.state() == State::Closed);
            host.wait.is_none() && (closed || host.events.any(tcp::Events::CLOSED))
        };
        let served = self.apps.iter().all(|app| app.finished && app.shut);
        (served || self.kill.is_some_and(|(_, at)| at <= self.now)) && self.hosts.iter().all(done)
    }

    /// The next thing that happens, and what follows from it.
    pub(crate) fn step(&mut self, end: Instant) {
        self.flush();
        let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
        let due = (0..2).fold(arrival, |due, i| Instant::earliest(due, self.due(i)));
        let due = Instant::earliest(due, self.kill.map(|(_, at)| at).filter(|&at| at > self.now));
        let Some(at) = due.filter(|&at| at <= end) else { self.stalled(end) };
        self.now = self.now.max(at);
        if arrival == Some(at) {
            self.arrive();
        }
        for i in 0..2 {
            self.hosts[i].on_time(self.now);
            if self.kill.is_some_and(|(who, at)| who == i && at <= self.now) {
                self.killed(i);
            }
            self.app(i);
        }
    }

    fn arrive(&mut self) {
        let Some((_, (to, cargo))) = self.flying.pop_first() else { return };
        let bytes = match cargo {
            Cargo::Segment(bytes) => bytes,
            Cargo::TooBig { mtu, seq } => {
                if self.hosts[to].conn.is_some() {
                    let kind = tcp::IcmpError::TooBig { mtu };
                    self.hosts[to].with(self.now, |conn, cx| conn.on_icmp(cx, kind, seq));
                }
                return;
            }
        };
        let mut seg = parse(&bytes);
        let mut payload = seg.payload.to_vec();
        while let Some(bytes) = self.next_of_row(to, &seg, payload.len()) {
            let next = parse(&bytes);
            payload.extend(next.payload);
            seg.flags = seg.flags | next.flags;
            (seg.window, seg.merged) = (next.window, seg.merged + 1);
        }
        seg.payload = &payload;
        self.hosts[to].receive(self.now, &seg);
    }

    /// The next segment, if receive offload would put it behind `seg`, which holds `len` bytes by now.
    fn next_of_row(&mut self, to: usize, seg: &Segment<'_>, len: usize) -> Option<Bytes> {
        let first = self.flying.first_entry()?;
        let soon = self.merge > Duration::ZERO && first.key().0 <= self.now + self.merge;
        let (target, Cargo::Segment(bytes)) = first.get() else { return None };
        let next = parse(bytes);
        let plain = |flags: Flags| flags.0 & !(Flags::ACK | Flags::PSH).0 == 0;
        let follows = next.seq == seg.seq + len as u32 && !next.payload.is_empty() && len > 0;
        let same =
            next.ack == seg.ack && next.options == seg.options && plain(seg.flags) && plain(next.flags);
        if !soon || *target != to || !follows || !same || len + next.payload.len() > 65_000 {
            return None;
        }
        match first.remove().1 {
            Cargo::Segment(bytes) => Some(bytes),
            Cargo::TooBig { .. } => None,
        }
    }

    fn due(&self, i: usize) -> Option<Instant> {
        let app = &self.apps[i];
        let waits = app.wake > self.now && self.hosts[i].conn.is_some() && !app.finished;
        Instant::earliest(self.hosts[i].timeout(), waits.then_some(app.wake))
    }

    fn stalled(&self, end: Instant) -> ! {
        for (host, app) in self.hosts.iter().zip(&self.apps) {
            eprintln!("{:#?}", host.conn.as_ref().map(|conn| (conn.info(self.now), conn.poll_timeout())));
            eprintln!("written {} of {}, read {}, {:?}", app.written, app.total, app.read, host.counters);
        }
        panic!(
            "seed {}: not over at {end:?}, now {:?}, {} in flight",
            self.seed,
            self.now,
            self.flying.len()
        );
    }

    /// Puts the packets that the hosts queued onto the link.
    pub(crate) fn flush(&mut self) {
        for i in 0..2 {
            let out = core::mem::take(&mut self.hosts[i].out);
            for bytes in out {
                self.trace(i, &bytes);
                let (one, two) = self.police.split_at_mut(1);
                let (own, other) = if i == 0 { (&mut one[0], &two[0]) } else { (&mut two[0], &one[0]) };
                let headers = if self.hosts[i].key.is_v4() { 20 } else { 40 };
                own.watch(other, &bytes, usize::from(self.hosts[i].mtu), headers);
                self.launch(i, bytes);
            }
        }
    }

    /// `TRACE=1 cargo test ... -- --nocapture name` prints every segment as it leaves.
    fn trace(&self, from: usize, bytes: &Bytes) {
        if std::env::var_os("TRACE").is_some() {
            let seg = parse(bytes);
            let len = seg.payload.len();
            let sack = seg.options.sack;
            eprintln!(
                "{} {from}> {:?} {:?}+{len} ack {:?} win {} {:?}",
                self.now,
                seg.flags,
                seg.seq,
                seg.ack,
                seg.window,
                sack.as_slice()
            );
        }
    }

    fn launch(&mut self, from: usize, bytes: Bytes) {
        let link = self.links[from];
        let mut leaves = self.now;
        let headers = if self.hosts[from].key.is_v4() { 20 } else { 40 };
        if link.mtu > 0 && bytes.len() + headers > usize::from(link.mtu) {
            if link.silent {
                return;
            }
            let seq = parse(&bytes).seq;
            return self.fly(from, leaves + link.delay, Cargo::TooBig { mtu: link.mtu, seq });
        }
        if link.rate > 0 {
            let waiting = self.busy_until[from].since(self.now);
            let queued = waiting.as_nanos() as u64 * link.rate / 1_000_000_000;
            if queued + bytes.len() as u64 > link.queue {
                self.lost += 1;
                return;
            }
            let time = Duration::from_nanos((bytes.len() as u64 + 40) * 1_000_000_000 / link.rate);
            leaves = self.busy_until[from].max(self.now) + time;
            self.busy_until[from] = leaves;
        }
        if self.rng.chance(link.loss) {
            self.lost += 1;
            return;
        }
        let copies = 1 + u32::from(self.rng.chance(link.duplicate));
        for _ in 0..copies {
            let jitter = Duration::from_nanos(self.rng.below(link.jitter.as_nanos() as u64 + 1));
            let held = if self.rng.chance(link.reorder) { link.delay } else { Duration::ZERO };
            self.fly(1 - from, leaves + link.delay + jitter + held, Cargo::Segment(bytes.clone()));
        }
    }

    fn fly(&mut self, to: usize, at: Instant, cargo: Cargo) {
        self.serial += 1;
        self.flying.insert((at, self.serial), (to, cargo));
    }
}
