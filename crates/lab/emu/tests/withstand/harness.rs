//! Two hosts and a path, seeds that print themselves, and sizes from the environment.

use crate::peer::{Peer, Plan};
use base::{Addr, Duration, Endpoint, Instant};
use emu::{App, CoreHost, HostId, Network, PipeConfig, PipeId, Piped, PortConfig, SimPort};
use pio::{Card, CardConfig, Lanes};
use stack::{Core, CoreConfig, OwnAddr};
use std::ops::Range;

/// A number from the environment, else `default`.
pub(crate) fn from_env(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text}: want a number")),
        Err(_) => default,
    }
}

/// Runs `test` with each of `seeds`. `MILLSTREAM_SEEDS` says how many instead, `MILLSTREAM_FROM` from where, and
/// `MILLSTREAM_SEED` names one alone. A failure says how to repeat it.
pub(crate) fn seeded(seeds: Range<u64>, test: impl Fn(u64)) {
    let count = from_env("MILLSTREAM_SEEDS", seeds.end - seeds.start);
    let start = from_env("MILLSTREAM_FROM", seeds.start);
    let mut seeds = start..start + count;
    if std::env::var("MILLSTREAM_SEED").is_ok() {
        let seed = from_env("MILLSTREAM_SEED", 0);
        seeds = seed..seed + 1;
    }
    for seed in seeds {
        let _replay = Replay(seed);
        test(seed);
    }
}

struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let name = std::thread::current().name().unwrap_or("").to_string();
            let seed = self.0;
            eprintln!("replay: MILLSTREAM_SEED={seed} cargo test -p millstream-emu --test withstand {name}");
        }
    }
}

/// Which family a run speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// Seeds take turns.
    pub(crate) fn of(seed: u64) -> Family {
        if seed & 1 == 0 { Family::V4 } else { Family::V6 }
    }

    /// The address of host `n` of the one network, 1 to 254.
    pub(crate) fn addr(self, n: u8) -> Addr {
        match self {
            Family::V4 => Addr::v4([10, 0, 0, n]),
            Family::V6 => Addr::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n]),
        }
    }

    pub(crate) fn own(self, n: u8) -> OwnAddr {
        OwnAddr { addr: self.addr(n), prefix: if self == Family::V4 { 24 } else { 64 } }
    }
}

/// The port servers listen on.
pub(crate) const PORT: u16 = 7000;

/// Returns the configuration of a core of host `n`.
pub(crate) fn core_config(seed: u64, family: Family, n: u8) -> CoreConfig {
    let seed = seed.wrapping_mul(0x9e37_79b9).wrapping_add(u64::from(n));
    CoreConfig { seed, addresses: vec![family.own(n)], ..CoreConfig::default() }
}

/// A client (host 1) and a server (host 2) on one link.
pub(crate) struct Pair {
    pub(crate) net: Network<CoreHost<Peer>>,
    pub(crate) client: HostId,
    pub(crate) server: HostId,
    pub(crate) there: PipeId,
    pub(crate) back: PipeId,
    pub(crate) family: Family,
    /// Frames that the client's side keeps at hand.
    ready: u64,
}

/// How to make a [`Pair`].
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) family: Family,
    pub(crate) there: PipeConfig,
    pub(crate) back: PipeConfig,
    pub(crate) port: PortConfig,
    pub(crate) client: CoreConfig,
    pub(crate) server: CoreConfig,
    /// The client's own stack stands on these pipes, of what comes and what goes.
    pub(crate) under: Option<[PipeConfig; 2]>,
    /// So many lanes make what the client sends; 0 is none, and its stack builds each segment.
    pub(crate) lanes: u16,
    /// The client's stack stands behind a card with so many receive workers; 0 is none.
    pub(crate) card: usize,
}

impl Setup {
    /// Makes a world with the same path both ways and defaults otherwise.
    pub(crate) fn new(seed: u64, family: Family, path: PipeConfig) -> Self {
        Setup {
            seed,
            family,
            there: path.clone(),
            back: path,
            port: PortConfig::default(),
            client: core_config(seed, family, 1),
            server: core_config(seed, family, 2),
            under: None,
            lanes: 0,
            card: 0,
        }
    }

    pub(crate) fn build(self) -> Pair {
        let mut net = Network::new(self.seed);
        let (a, b) = (net.port(&self.port), net.port(&self.port));
        let (pa, pb) = (a.id(), b.id());
        let port: Box<dyn pio::PacketIo> = match self.under {
            None => Box::new(a),
            Some(pipes) => {
                let clock = net.clock();
                Box::new(Piped::new(Box::new(a), pipes, self.seed, move || clock.now()).expect("Ethernet"))
            }
        };
        // A card keeps some ready to be sent in.
        let ready = if self.card > 0 { 1 + 64 + 8 } else { 1 };
        let port = match self.card {
            0 => port,
            receivers => {
                let (clock, mut config) = (net.clock(), CardConfig::new(receivers, self.seed));
                // Packets come one by one here, so who holds nothing merges nothing.
                let hold = Duration::from_micros(500 * (self.seed % 2));
                config.engine = Some(offload::Config { hold, ..offload::Config::default() });
                Box::new(Card::in_turns(port, &config, move || clock.now()).expect("memory"))
            }
        };
        let port = match self.lanes {
            0 => port,
            lanes => {
                let clock = net.clock();
                Lanes::over(port, lanes, "lane", move || clock.now(), |_| {}).expect("threads")
            }
        };
        let client = CoreHost::new(Core::new(self.client, port), Peer::new(self.seed));
        let client = net.add_host(client, &[pa]);
        let server = net.add_host(host(self.server, b, Peer::new(!self.seed)), &[pb]);
        let (there, back) = net.link(pa, pb, &self.there, &self.back);
        Pair { net, client, server, there, back, family: self.family, ready }
    }
}

impl Pair {
    /// Where the server listens.
    pub(crate) fn service(&self) -> Endpoint {
        Endpoint::new(self.family.addr(2), PORT)
    }

    /// The server listens, and follows `plan` with whatever connects.
    pub(crate) fn serve(&mut self, plan: Plan) {
        let (now, local) = (self.net.now(), self.service());
        let host = self.net.host_mut(self.server);
        host.app.listen(&mut host.core, now, local, plan);
    }

    /// The client connects and follows `plan`.
    pub(crate) fn connect(&mut self, plan: Plan) {
        let (now, remote) = (self.net.now(), self.service());
        let host = self.net.host_mut(self.client);
        host.app.connect(&mut host.core, now, remote, plan).expect("a connection and a port to spare");
    }

    pub(crate) fn client(&self) -> &CoreHost<Peer> {
        self.net.host(self.client)
    }

    pub(crate) fn server(&self) -> &CoreHost<Peer> {
        self.net.host(self.server)
    }

    /// Bytes that applications have read so far.
    pub(crate) fn moved(&self) -> u64 {
        self.client().app.tally.received + self.server().app.tally.received
    }

    /// Runs until neither application has a connection any more. Panics when `timeout` passes in which no
    /// byte moved and no connection ended.
    pub(crate) fn finish(&mut self, timeout: Duration) {
        loop {
            let before = (self.moved(), self.ended());
            let deadline = self.net.now() + timeout;
            let idle = |net: &Network<CoreHost<Peer>>, hosts: [HostId; 2]| {
                hosts.iter().all(|host| net.host(*host).app.is_idle())
            };
            let hosts = [self.client, self.server];
            if self.net.run(deadline, |net| idle(net, hosts)) {
                return;
            }
            assert_ne!((self.moved(), self.ended()), before, "stalled: {}", self.describe());
        }
    }

    fn ended(&self) -> u64 {
        self.client().app.tally.ended() + self.server().app.tally.ended()
    }

    /// Where everything stands, for a failure.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!("at {} ", self.net.now());
        for (name, host) in [("client", self.client()), ("server", self.server())] {
            text += &format!("\n{name}: {:?}", host.app);
            let mut left = 4;
            host.core.for_each(self.net.now(), &mut |row| {
                if let stack::Row::Connection(connection) = row
                    && left > 0
                {
                    left -= 1;
                    text += &format!("\n  {:?}", connection.info(self.net.now()));
                }
            });
        }
        for pipe in [self.there, self.back] {
            text += &format!("\npipe: {:?}", self.net.pipe(pipe).counters());
        }
        text
    }

    /// After all closed and TIME-WAIT passed, nothing may be left on either host.
    pub(crate) fn assert_clean(&mut self) {
        let rest = self.net.now() + Duration::from_secs(600);
        self.net.run_until(rest);
        assert_clean_but(&mut self.net.host_mut(self.client).core, self.ready);
        assert_clean(&mut self.net.host_mut(self.server).core);
    }
}

/// No connection, no TIME-WAIT entry, no chunk is left, and no frame but the one the core keeps at hand.
pub(crate) fn assert_clean(core: &mut Core) {
    assert_clean_but(core, 1);
}

/// Checks as `assert_clean`, with `ready` frames prepared.
fn assert_clean_but(core: &mut Core, ready: u64) {
    for name in ["connections", "time_wait", "flows", "chunks_used"] {
        assert_eq!(stat(core, name), 0, "{name} left over");
    }
    let frames =
        core.io().stats().into_iter().find(|(name, _)| *name == "frames_out").map(|(_, count)| count);
    assert!(frames.is_some_and(|out| out <= ready), "{frames:?} frames left over");
}

/// One of the stack's own counters.
pub(crate) fn stat(core: &Core, name: &str) -> u64 {
    let found = core.stats().into_iter().find(|(row, _)| *row == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}

/// A host of a core with its port and an application.
pub(crate) fn host<A: App>(config: CoreConfig, port: SimPort, app: A) -> CoreHost<A> {
    CoreHost::new(Core::new(config, Box::new(port)), app)
}

/// The first instant.
pub(crate) const START: Instant = Instant::ZERO;
