//! Connections to peers met before, and to others, with the handshake cache and without: two stacks in memory,
//! and between them a translation of addresses that makes one client as many peers as wanted.
//!
//! A packet of the client to the peer `n` reaches the server as one of the peer `n`, and back. Both stacks' own
//! addresses have the same checksum, so nothing but eight bytes changes.

use crate::memory::options;
use crate::now;
use base::{Addr, Duration, Endpoint, Instant, Rng};
use pio::{IoError, Layer, PacketIo, PairConfig, RxBatch, TxBatch, pair};
use stack::{ConnId, Connect, Core, CoreConfig, Listen, ListenerId, Notice, OwnAddr};
use tcp::{Events, ReadError, WriteError};

const CLIENT: [u8; 4] = [10, 1, 0, 2];
const SERVER: [u8; 4] = [10, 2, 0, 1];
const PORT: u16 = 80;
/// The network of the peers that come again, and that of those who come once.
const AGAIN: u8 = 11;
const ONCE: u8 = 12;
/// Virtual time between two steps: the same work is done in every run.
const STEP: Duration = Duration::from_micros(50);

/// Case of the benchmark: the work, its count and its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Is the handshake cache on?
    pub handshake_cache: bool,
    /// Bytes of a request, and of its answer.
    pub size: usize,
    /// Of a hundred connections, how many are to peers that come again; the others are to peers that never do.
    pub percent: u8,
    /// Peers that come again.
    pub peers: u32,
    /// Connections at a time.
    pub in_flight: u32,
    /// Requests on one connection, and whether it then ends.
    pub ends: bool,
}

impl Case {
    /// `on`, `off` or `keep` (requests on a connection that stays), size, percent and peers, with colons between them.
    pub fn parse(text: &str, in_flight: u32) -> Option<Case> {
        let mut words = text.split(':');
        let way = words.next()?;
        let mut number = || words.next()?.parse::<u32>().ok();
        let (size, percent, peers) = (number()? as usize, number()?, number()?);
        let sound = ["on", "off", "keep"].contains(&way) && size > 0 && percent <= 100 && peers > 0;
        let case = Case {
            handshake_cache: way != "off",
            size,
            percent: percent as u8,
            peers,
            in_flight: in_flight.max(1),
            ends: way != "keep",
        };
        (sound && words.next().is_none()).then_some(case)
    }
}

/// The client's port, which makes its peers look as many.
struct Many<P>(P);

/// The two addresses of an IPv4 packet in a frame, if its destination is one of the peers.
fn addresses(frame: &mut [u8]) -> Option<&mut [u8; 8]> {
    let ip = frame.get_mut(12..34)?;
    let of_peer = ip[..2] == [8, 0] && (ip[18] == AGAIN || ip[18] == ONCE);
    if of_peer { ip[14..].first_chunk_mut() } else { None }
}

impl<P: PacketIo> Layer for Many<P> {
    type Below = P;

    fn below(&self) -> &P {
        &self.0
    }

    fn below_mut(&mut self) -> &mut P {
        &mut self.0
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let count = self.0.rx(batch)?;
        for packet in batch.iter_mut() {
            if let Some(both) = addresses(packet.frame.data_mut()) {
                both.copy_within(4.., 0);
                both[4..].copy_from_slice(&CLIENT);
            }
        }
        Ok(count)
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        for packet in batch.iter_mut() {
            if let Some(both) = addresses(packet.frame.data_mut()) {
                both.copy_within(4.., 0);
                both[4..].copy_from_slice(&SERVER);
            }
        }
        self.0.tx(batch)
    }
}

/// One end's view of a connection.
#[derive(Clone, Copy, Default)]
struct End {
    conn: Option<ConnId>,
    /// Bytes of this message that were written, and read.
    written: usize,
    read: usize,
}

/// The two stacks, and what goes on between them.
pub struct Bed {
    case: Case,
    client: Core,
    server: Core,
    listener: ListenerId,
    at: Instant,
    rng: Rng,
    notices: Vec<Notice>,
    clients: Vec<End>,
    servers: Vec<End>,
    free: Vec<u32>,
    message: Vec<u8>,
    scratch: Vec<u8>,
    /// Peers that came once, so far.
    once: u32,
    /// Requests answered.
    pub done: u64,
}

fn core(case: &Case, seed: u64, addr: [u8; 4], gateway: [u8; 4], port: impl PacketIo + 'static) -> Core {
    let tcp = tcp::Config { handshake_cache: case.handshake_cache, ..tcp::Config::default() };
    let config = CoreConfig {
        tcp,
        max_connections: case.in_flight * 2 + 1_024,
        max_time_wait: 262_144,
        seed,
        addresses: vec![OwnAddr { addr: Addr::v4(addr), prefix: 8 }],
        gateways: vec![Addr::v4(gateway)],
        ..CoreConfig::default()
    };
    Core::new(config, Box::new(port))
}

impl Bed {
    /// A server that listens and a client that is about to connect.
    ///
    /// # Panics
    /// Without memory for frames.
    pub fn new(case: Case) -> Bed {
        let (near, far) = pair(&PairConfig { frames: 4_096, depth: 2_048, ..PairConfig::default() })
            .expect("memory for frames");
        let client = core(&case, 1, CLIENT, SERVER, Many(near));
        let mut server = core(&case, 2, SERVER, CLIENT, far);
        let at = Instant::from_secs(1);
        let local = Endpoint::new(Addr::v4(SERVER), PORT);
        let listen = Listen { options: options(), ..Listen::new(local, 65_535, u32::MAX) };
        let (listener, _) = server.listen(at, &listen).expect("a fresh stack listens");
        let mut bed = Bed {
            case,
            client,
            server,
            listener,
            at,
            rng: Rng::new(7),
            notices: Vec::with_capacity(4_096),
            clients: Vec::new(),
            servers: Vec::new(),
            free: Vec::new(),
            message: vec![0x51; case.size],
            scratch: vec![0; case.size.max(4_096)],
            once: 0,
            done: 0,
        };
        for owner in 0..case.in_flight {
            bed.clients.push(End::default());
            bed.connect(owner);
        }
        bed
    }

    /// Whom the next connection is to.
    fn peer(&mut self) -> Addr {
        let again = self.rng.below(100) < u64::from(self.case.percent);
        let (network, nth) = if again {
            (AGAIN, self.rng.below(self.case.peers.into()) as u32)
        } else {
            self.once = (self.once + 1) % (1 << 22);
            (ONCE, self.once)
        };
        let [_, b, c, d] = (4 * nth + 1).to_be_bytes();
        Addr::v4([network, b, c, d])
    }

    fn connect(&mut self, owner: u32) {
        let (local, remote) = (Endpoint::new(Addr::UNSPECIFIED_V4, 0), Endpoint::new(self.peer(), PORT));
        let request = Connect { options: options(), ..Connect::new(local, remote, owner) };
        let conn = self.client.connect(self.at, &request).expect("ports and memory suffice");
        self.clients[owner as usize] = End { conn: Some(conn), ..End::default() };
    }

    /// One turn of each side, and what their applications do with it.
    pub fn step(&mut self) {
        self.at += STEP;
        let mut notices = std::mem::take(&mut self.notices);
        self.client.turn(self.at).expect("memory never fails");
        self.client.notices(&mut notices);
        for notice in notices.drain(..) {
            self.ask(notice);
        }
        self.client.flush(self.at).expect("memory never fails");
        self.server.turn(self.at).expect("memory never fails");
        self.server.notices(&mut notices);
        for notice in notices.drain(..) {
            self.answer(notice);
        }
        self.server.flush(self.at).expect("memory never fails");
        self.notices = notices;
    }

    /// The client: writes its request, reads the answer, and again; or the server closes, and it connects anew.
    fn ask(&mut self, notice: Notice) {
        let mut end = self.clients[notice.owner as usize];
        let Some(conn) = end.conn else { return };
        if notice.events.any(Events::CONNECTED | Events::WRITABLE) {
            write(&mut self.client, self.at, conn, &mut end, &self.message);
        }
        loop {
            match self.client.read(self.at, conn, &mut self.scratch) {
                Ok(n) => end.read += n,
                Err(ReadError::Empty) => break,
                Err(ReadError::Finished) => {
                    assert_eq!(end.read, self.case.size, "an answer arrives whole");
                    self.client.close(self.at, conn);
                    self.done += 1;
                    return self.connect(notice.owner);
                }
                Err(e) => panic!("client read: {e:?}"),
            }
            if end.read == self.case.size && !self.case.ends {
                self.done += 1;
                end = End { conn: end.conn, ..End::default() };
                write(&mut self.client, self.at, conn, &mut end, &self.message);
            }
        }
        self.clients[notice.owner as usize] = end;
    }

    /// The server: reads a request, answers with as much, and closes.
    fn answer(&mut self, notice: Notice) {
        if notice.owner != u32::MAX {
            return self.serve(notice.owner);
        }
        while self.server.acceptable(self.listener) > 0 {
            let owner = self.free.pop().unwrap_or(self.servers.len() as u32);
            let conn = self.server.accept(self.listener, owner);
            if owner as usize == self.servers.len() {
                self.servers.push(End::default());
            }
            self.servers[owner as usize] = End { conn, ..End::default() };
            self.serve(owner);
        }
    }

    fn serve(&mut self, owner: u32) {
        let mut end = self.servers[owner as usize];
        let Some(conn) = end.conn else { return };
        while end.read < self.case.size {
            match self.server.read(self.at, conn, &mut self.scratch) {
                Ok(n) => end.read += n,
                Err(ReadError::Empty) => break,
                Err(e) => panic!("server read: {e:?}"),
            }
        }
        if end.read == self.case.size {
            write(&mut self.server, self.at, conn, &mut end, &self.message);
            if end.written == self.case.size {
                if self.case.ends {
                    self.server.close(self.at, conn);
                    self.free.push(owner);
                }
                end = End { conn: end.conn.filter(|_| !self.case.ends), ..End::default() };
            }
        }
        self.servers[owner as usize] = end;
    }

    /// Counters of both stacks under this name.
    pub fn stat(&self, name: &str) -> [u64; 2] {
        [&self.client, &self.server]
            .map(|core| core.stats().iter().find(|(row, _)| *row == name).map_or(0, |(_, value)| *value))
    }
}

/// Writes what is left of a message, as far as there is room.
fn write(core: &mut Core, at: Instant, conn: ConnId, end: &mut End, message: &[u8]) {
    while end.written < message.len() {
        match core.write(at, conn, &message[end.written..]) {
            Ok(n) => end.written += n,
            Err(WriteError::Full) => return,
            Err(e) => panic!("write: {e:?}"),
        }
    }
}

/// Connections a second, one after the other, of 64 bytes there and back, to `peers` that were all met before.
pub(crate) fn rate(handshake_cache: bool, peers: u32, seconds: f64) -> f64 {
    let case = Case { handshake_cache, size: 64, percent: 100, peers, in_flight: 1, ends: true };
    let mut bed = exactly(case, 1_000 + u64::from(peers) * 4);
    let (done, begin) = (bed.done, now());
    while begin.elapsed().as_secs_f64() < seconds {
        (0..64).for_each(|_| bed.step());
    }
    (bed.done - done) as f64 / begin.elapsed().as_secs_f64()
}

/// Exactly `count` requests, for instruction counts.
pub fn exactly(case: Case, count: u64) -> Bed {
    let mut bed = Bed::new(case);
    while bed.done < count {
        bed.step();
    }
    bed
}
