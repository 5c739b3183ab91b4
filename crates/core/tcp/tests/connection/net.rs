//! Two hosts joined by a link that loses, delays, reorders, doubles and damages, in virtual time, from one seed.

use std::collections::BTreeMap;

use base::{Duration, Instant, Rng, Seq};
use tcp::{ReadError, State, WriteError};

use crate::host::{Host, Octets, flow, ms, parse};
use crate::police::{Police, octet};

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
    /// Octets a second; 0 is without limit.
    pub(crate) rate: u64,
    /// Octets that may wait for the rate; what exceeds them is lost.
    pub(crate) queue: u64,
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
        }
    }
}

/// What the application at one end does.
pub(crate) struct App {
    /// Octets to write, then close our half.
    pub(crate) total: u64,
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// Most octets it reads at once, and how long it rests afterwards.
    pub(crate) read_max: usize,
    pub(crate) rest: Duration,
    pub(crate) finished: bool,
    pub(crate) shut: bool,
    wake: Instant,
}

impl App {
    fn new(total: u64) -> Self {
        App {
            total,
            written: 0,
            read: 0,
            read_max: 30_000,
            rest: Duration::ZERO,
            finished: false,
            shut: false,
            wake: Instant::ZERO,
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
    flying: BTreeMap<(Instant, u64), (usize, Octets)>,
    serial: u64,
    pub(crate) lost: u64,
}

impl Net {
    /// Client 0 and listening server 1; `totals` octets go each way.
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
        }
    }

    /// The same link both ways.
    pub(crate) fn link(mut self, link: Link) -> Self {
        self.links = [link; 2];
        self
    }

    /// Opens, transfers, closes; panics if `limit` of virtual time is not enough.
    pub(crate) fn run(&mut self, limit: Duration) {
        self.hosts[0].connect(self.now);
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
        self.apps.iter().all(|app| app.finished && app.shut) && self.hosts.iter().all(done)
    }

    /// The next thing that happens, and what follows from it.
    pub(crate) fn step(&mut self, end: Instant) {
        self.flush();
        let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
        let due = (0..2).fold(arrival, |due, i| Instant::earliest(due, self.due(i)));
        let Some(at) = due.filter(|&at| at <= end) else { self.stalled(end) };
        self.now = self.now.max(at);
        if arrival == Some(at)
            && let Some((_, (to, octets))) = self.flying.pop_first()
        {
            self.hosts[to].receive(self.now, &parse(&octets));
        }
        for i in 0..2 {
            self.hosts[i].on_time(self.now);
            self.app(i);
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

    fn app(&mut self, i: usize) {
        if self.hosts[i].conn.is_none() || !self.hosts[i].events.any(tcp::Events::CONNECTED) {
            return;
        }
        self.write(i);
        if self.apps[i].wake <= self.now {
            self.read(i);
        }
    }

    fn write(&mut self, i: usize) {
        let now = self.now;
        while self.apps[i].written < self.apps[i].total {
            let app = &mut self.apps[i];
            let n = (1 + self.rng.below(20_000)).min(app.total - app.written);
            let data: Vec<u8> = (app.written..app.written + n).map(|at| octet(i, at)).collect();
            match self.hosts[i].with(now, |conn, cx| conn.write(cx, &data)) {
                Ok(took) => self.apps[i].written += took as u64,
                Err(WriteError::Full | WriteError::NoMemory) => return,
                Err(other) => panic!("seed {}: write: {other:?}", self.seed),
            }
        }
        if !self.apps[i].shut {
            self.apps[i].shut = true;
            self.hosts[i].with(now, |conn, cx| conn.shutdown(cx, tcp::Shutdown::Write));
        }
    }

    fn read(&mut self, i: usize) {
        let now = self.now;
        let mut into = [0; 65_536];
        while !self.apps[i].finished {
            let most = 1 + self.rng.below(self.apps[i].read_max as u64) as usize;
            match self.hosts[i].with(now, |conn, cx| conn.read(cx, &mut into[..most])) {
                Ok(n) => {
                    let app = &mut self.apps[i];
                    for (k, &got) in into[..n].iter().enumerate() {
                        let at = app.read + k as u64;
                        assert_eq!(got, octet(1 - i, at), "seed {}: octet {at} read by {i}", self.seed);
                    }
                    app.read += n as u64;
                    if app.rest > Duration::ZERO {
                        app.wake = now + app.rest;
                        return;
                    }
                }
                Err(ReadError::Empty) => return,
                Err(ReadError::Finished) => {
                    let sent = self.apps[1 - i].total;
                    assert_eq!(self.apps[i].read, sent, "seed {}: the end comes after all data", self.seed);
                    self.apps[i].finished = true;
                    self.hosts[i].with(now, |conn, cx| {
                        if conn.write_closed() {
                            conn.close(cx)
                        }
                    });
                }
                Err(other) => panic!("seed {}: read: {other:?}", self.seed),
            }
        }
    }

    /// What the hosts queued goes onto the link.
    pub(crate) fn flush(&mut self) {
        for i in 0..2 {
            let out = core::mem::take(&mut self.hosts[i].out);
            for octets in out {
                self.trace(i, &octets);
                let (one, two) = self.police.split_at_mut(1);
                let (own, other) = if i == 0 { (&mut one[0], &two[0]) } else { (&mut two[0], &one[0]) };
                let headers = if self.hosts[i].key.is_v4() { 20 } else { 40 };
                own.watch(other, &octets, usize::from(self.hosts[i].mtu), headers);
                self.launch(i, octets);
            }
        }
    }

    /// `TRACE=1 cargo test ... -- --nocapture name` prints every segment as it leaves.
    fn trace(&self, from: usize, octets: &Octets) {
        if std::env::var_os("TRACE").is_some() {
            let seg = parse(octets);
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

    fn launch(&mut self, from: usize, octets: Octets) {
        let link = self.links[from];
        let mut leaves = self.now;
        if link.rate > 0 {
            let waiting = self.busy_until[from].since(self.now);
            let queued = waiting.as_nanos() as u64 * link.rate / 1_000_000_000;
            if queued + octets.len() as u64 > link.queue {
                self.lost += 1;
                return;
            }
            let time = Duration::from_nanos((octets.len() as u64 + 40) * 1_000_000_000 / link.rate);
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
            self.serial += 1;
            self.flying
                .insert((leaves + link.delay + jitter + held, self.serial), (1 - from, octets.clone()));
        }
    }
}
