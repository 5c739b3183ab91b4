//! Two cores joined in memory, in virtual time.
#![allow(dead_code, unreachable_pub, reason = "each test file uses what it needs")]

use base::{Addr, Duration, Endpoint, Instant};
use pio::{Pair, PairConfig, pair};
use stack::{ConnId, Connect, Core, CoreConfig, Listen, ListenerId, Notice, OwnAddr};
use tcp::{Events, ReadError, SocketOptions};

/// Addresses of the two hosts, both families.
pub const CLIENT: Addr = Addr::v4([10, 0, 0, 2]);
pub const SERVER: Addr = Addr::v4([10, 0, 0, 1]);
pub const CLIENT_V6: Addr = Addr::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
pub const SERVER_V6: Addr = Addr::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
pub const PORT: u16 = 80;
/// Owner of listeners in these tests.
pub const LISTENER: u32 = 1 << 30;

/// Returns the configuration of a core.
pub fn config(seed: u64, v4: Addr, v6: Addr) -> CoreConfig {
    CoreConfig {
        max_connections: 20_000,
        max_time_wait: 20_000,
        max_chunks: 40_000,
        seed,
        addresses: vec![OwnAddr { addr: v4, prefix: 24 }, OwnAddr { addr: v6, prefix: 64 }],
        ..CoreConfig::default()
    }
}

/// Two hosts on one wire.
pub struct World {
    pub client: Core,
    pub server: Core,
    pub now: Instant,
    pub client_notices: Vec<Notice>,
    pub server_notices: Vec<Notice>,
}

impl World {
    pub fn new(link: &PairConfig) -> World {
        World::with(link, |_, _| {})
    }

    /// With the two configurations (client, server) changed.
    pub fn with(link: &PairConfig, change: impl FnOnce(&mut CoreConfig, &mut CoreConfig)) -> World {
        let (a, b) = pair(link).unwrap();
        let (mut c, mut s) = (config(1, CLIENT, CLIENT_V6), config(2, SERVER, SERVER_V6));
        change(&mut c, &mut s);
        World::of(Core::new(c, Box::new(a)), Core::new(s, Box::new(b)))
    }

    pub fn of(client: Core, server: Core) -> World {
        World { client, server, now: Instant::from_secs(1), client_notices: vec![], server_notices: vec![] }
    }

    /// A core alone, and the other end of its wire.
    pub fn alone(link: &PairConfig, change: impl FnOnce(&mut CoreConfig)) -> (Core, Pair) {
        let (a, b) = pair(link).unwrap();
        let mut s = config(2, SERVER, SERVER_V6);
        change(&mut s);
        (Core::new(s, Box::new(b)), a)
    }

    pub fn listen(&mut self, local: Endpoint, backlog: u32) -> ListenerId {
        self.server.listen(self.now, &listen(local, backlog)).unwrap().0
    }

    pub fn connect(&mut self, remote: Endpoint, owner: u32) -> ConnId {
        self.client.connect(self.now, &connect(remote, owner)).unwrap()
    }

    /// One turn of each; true if anything happened.
    pub fn step(&mut self) -> bool {
        let a = self.client.turn(self.now).unwrap();
        let b = self.server.turn(self.now).unwrap();
        let before = self.client_notices.len() + self.server_notices.len();
        self.client.notices(&mut self.client_notices);
        self.server.notices(&mut self.server_notices);
        let noticed = self.client_notices.len() + self.server_notices.len() > before;
        let busy = |t: stack::Turn| t.received > 0 || t.sent > 0 || t.timers > 0 || t.more;
        noticed || busy(a) || busy(b)
    }

    /// Turns until nothing moves at this instant.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the two never come to rest");
    }

    /// When something will happen by itself.
    pub fn next(&self) -> Option<Instant> {
        Instant::earliest(self.client.next_timeout(), self.server.next_timeout())
    }

    /// Lets `span` pass, with everything that happens meanwhile.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.settle();
            match self.next() {
                Some(at) if at <= end => self.now = at.max(self.now + Duration::from_nanos(1)),
                _ => break,
            }
        }
        self.now = end;
        self.settle();
    }

    /// An established connection: the client's end and the server's.
    pub fn establish(&mut self, listener: ListenerId, remote: Endpoint, owner: u32) -> (ConnId, ConnId) {
        let client = self.connect(remote, owner);
        self.settle();
        let server = self.server.accept(listener, owner).expect("the handshake completes");
        (client, server)
    }
}

pub fn listen(local: Endpoint, backlog: u32) -> Listen {
    Listen {
        local,
        backlog,
        reuse_port: false,
        v6_only: false,
        options: SocketOptions::default(),
        control: None,
        owner: LISTENER,
        keys: None,
    }
}

pub fn connect(remote: Endpoint, owner: u32) -> Connect {
    let any = if remote.addr.is_v4() { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 };
    Connect {
        local: Endpoint::new(any, 0),
        remote,
        reuse_addr: false,
        options: SocketOptions::default(),
        control: None,
        owner,
        keys: None,
    }
}

/// Reads everything there is; true if the peer is done too.
pub fn read_all(core: &mut Core, now: Instant, id: ConnId, into: &mut Vec<u8>) -> bool {
    let mut buf = [0; 4096];
    loop {
        match core.read(now, id, &mut buf) {
            Ok(n) => into.extend_from_slice(&buf[..n]),
            Err(ReadError::Empty) => return false,
            Err(ReadError::Finished) => return true,
            Err(error) => panic!("read: {error:?}"),
        }
    }
}

/// The events told to `owner`, all together.
pub fn told(notices: &[Notice], owner: u32) -> Events {
    Events(notices.iter().filter(|n| n.owner == owner).fold(0, |all, n| all | n.events.0))
}

/// A row of [`Core::stats`].
pub fn stat(core: &Core, name: &str) -> u64 {
    core.stats().iter().find(|row| row.0 == name).unwrap_or_else(|| panic!("no row {name}")).1
}
