//! Goal: what one connection learned of a host the next one begins with (RFC 9040), for as long as it is worth
//! something; who never completed a handshake teaches nothing; and switched off, nothing of it is seen on the wire.

mod common;

use base::{Duration, Endpoint, Instant};
use common::{CLIENT, CLIENT_V6, PORT, SERVER, SERVER_V6, World, config, connect, listen, read_all, stat};
use pio::{PacketIo, Pair, PairConfig, RxBatch, TxBatch, TxMeta, TxPacket, pair};
use stack::{ConnId, Core, ListenerId};
use tcp::State;

/// One way.
const DELAY: Duration = Duration::from_millis(50);

/// Two cores, and a wire between them on which everything takes [`DELAY`] and is written down.
struct Path {
    client: Core,
    server: Core,
    wires: [Pair; 2],
    listener: ListenerId,
    remote: Endpoint,
    now: Instant,
    log: Vec<(Instant, Vec<u8>)>,
    /// The client's packets are lost.
    cut: bool,
}

impl Path {
    fn new(remote: Endpoint, change: impl Fn(&mut tcp::Config)) -> Path {
        let link = PairConfig::default();
        // The client has the near end of its wire, the server the far end of its own: their link-layer addresses
        // differ.
        let (near, a) = pair(&link).unwrap();
        let mut c = config(1, CLIENT, CLIENT_V6);
        change(&mut c.tcp);
        let client = Core::new(c, Box::new(near));
        let (mut server, b) = World::alone(&link, |c| change(&mut c.tcp));
        let now = Instant::from_secs(1);
        let listener = server.listen(now, &listen(remote, 16)).unwrap().0;
        Path { client, server, wires: [a, b], listener, remote, now, log: Vec::new(), cut: false }
    }

    /// Carries packets from one wire to the other.
    fn carry(&mut self, from: usize, lost: bool) {
        let mut batch = RxBatch::new();
        while self.wires[from].rx(&mut batch).unwrap() > 0 {
            for packet in batch.drain(..) {
                let bytes = packet.frame.data().to_vec();
                self.wires[from].retire(packet.frame);
                if !lost {
                    let mut frame = self.wires[1 - from].take().expect("frames come back");
                    frame.set_range(0, bytes.len());
                    frame.data_mut().copy_from_slice(&bytes);
                    let mut out = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
                    self.wires[1 - from].tx(&mut out).unwrap();
                    out.into_iter().for_each(|packet| self.wires[1 - from].retire(packet.frame));
                }
                self.log.push((self.now, bytes));
            }
        }
    }

    /// A round trip.
    fn round(&mut self) {
        // What an owner was told of waits for its answer until the next turn.
        (0..2).for_each(|_| assert!(self.client.turn(self.now).is_ok()));
        self.carry(0, self.cut);
        self.now += DELAY;
        (0..2).for_each(|_| assert!(self.server.turn(self.now).is_ok()));
        self.carry(1, false);
        self.now += DELAY;
    }

    fn rounds(&mut self, n: u32) {
        (0..n).for_each(|_| self.round());
    }

    fn dial(&mut self) -> ConnId {
        self.client.connect(self.now, &connect(self.remote, 1)).unwrap()
    }

    /// A whole connection with a little data each way, closed by the client.
    fn visit(&mut self) {
        let client = self.dial();
        self.rounds(3);
        let server = self.server.accept(self.listener, 1).expect("the handshake completes");
        for _ in 0..4 {
            self.client.write(self.now, client, b"question").unwrap();
            self.rounds(2);
            read_all(&mut self.server, self.now, server, &mut Vec::new());
            self.server.write(self.now, server, b"answer").unwrap();
            self.rounds(2);
            read_all(&mut self.client, self.now, client, &mut Vec::new());
        }
        self.client.close(self.now, client);
        self.rounds(2);
        self.server.close(self.now, server);
        self.rounds(3);
    }

    /// The timeout with which a connection begins.
    fn first_timeout(&mut self) -> u128 {
        let id = self.dial();
        let rto = self.client.info(self.now, id).rto.as_millis();
        self.client.abort(self.now, id);
        rto
    }
}

fn ends() -> [Endpoint; 2] {
    [Endpoint::new(SERVER, PORT), Endpoint::new(SERVER_V6, PORT)]
}

#[test]
fn the_second_connection_begins_with_the_timeout_of_the_first() {
    for remote in ends() {
        let mut path = Path::new(remote, |_| {});
        assert_eq!(path.first_timeout(), 1_000);
        path.visit();
        let known: Vec<_> = path.client.hosts(path.now).collect();
        assert_eq!((known.len(), known[0].remote, known[0].memory.connections), (1, remote.addr, 1));
        let lesson = known[0].memory.lesson;
        let expected = (lesson.srtt_us + (4 * lesson.rttvar_us).max(200_000)) / 1_000;
        let told = path.first_timeout();
        assert!(told.abs_diff(expected.into()) <= 3 && (200..400).contains(&told), "{told} ms, {lesson:?}");
        // The server learned, too, and its SYN-ACKs wait no longer.
        assert_eq!((stat(&path.server, "hosts"), stat(&path.client, "hosts")), (1, 1));
        // A lost SYN goes again after that, and not after a second.
        path.cut = true;
        path.dial();
        let began = path.now;
        path.log.clear();
        path.rounds(9);
        let again = path.log.get(1).expect("the SYN went again").0.since(began);
        assert!(again < Duration::from_millis(500), "{again:?}");
        path.client.forget_hosts();
        assert_eq!(path.first_timeout(), 1_000);
    }
}

/// Half-way to its end a memory weighs half, and then nothing.
#[test]
fn a_memory_fades() {
    let age = Duration::from_secs(1_000);
    let mut path = Path::new(ends()[0], |config| config.host_cache_age = age);
    path.visit();
    let fresh = path.first_timeout();
    path.now += age / 2;
    let half = path.first_timeout();
    assert!(half.abs_diff((fresh + 1_000) / 2) <= 3, "{fresh} fades to {half}");
    path.now += age / 2;
    assert_eq!(path.first_timeout(), 1_000);
}

/// A SYN alone, from whomever, teaches nothing: neither the server that answered it, nor the client that got no answer.
#[test]
fn half_a_handshake_teaches_nothing() {
    let mut path = Path::new(ends()[0], |config| (config.synack_retries, config.syn_retries) = (1, 1));
    path.dial();
    path.client.turn(path.now).unwrap();
    path.carry(0, false);
    path.server.turn(path.now).unwrap();
    path.cut = true;
    let mut nobody = path.server;
    for _ in 0..200 {
        path.now += Duration::from_millis(100);
        nobody.turn(path.now).unwrap();
        path.client.turn(path.now).unwrap();
    }
    assert_eq!((stat(&nobody, "connections"), stat(&nobody, "hosts")), (0, 0));
    assert_eq!(stat(&path.client, "hosts"), 0);
}

/// Three visits and a lost SYN, byte by byte: with the memory switched off it is as if there never had been any.
#[test]
fn switched_off_nothing_of_it_is_seen() {
    let lived = |change: fn(&mut tcp::Config), forgets: bool| {
        let mut path = Path::new(ends()[0], change);
        for _ in 0..3 {
            if forgets {
                path.client.forget_hosts();
                path.server.forget_hosts();
            }
            path.visit();
        }
        if forgets {
            path.client.forget_hosts();
        }
        path.cut = true;
        path.dial();
        path.rounds(40);
        path.log
    };
    let off = lived(|config| config.host_cache = 0, false);
    assert_eq!(off, lived(|_| {}, true));
    assert_ne!(off, lived(|_| {}, false), "what is compared can differ");
}

/// A threshold that others found is where slow start ends, if the settings want it; the initial window is what it is.
#[test]
fn a_threshold_is_handed_on_where_it_is_wanted() {
    for wanted in [false, true] {
        let mut path = Path::new(ends()[0], |config| {
            config.host_ssthresh = wanted;
            config.tail_loss_probe = false;
        });
        let client = path.dial();
        path.rounds(3);
        let first = path.client.info(path.now, client).window;
        let server = path.server.accept(path.listener, 1).unwrap();
        path.client.write(path.now, client, &[1; 20_000]).unwrap();
        path.cut = true;
        path.rounds(1);
        path.cut = false;
        path.rounds(40);
        let reduced = path.client.info(path.now, client).window.ssthresh;
        assert!(reduced < u32::MAX, "a timeout reduced it");
        read_all(&mut path.server, path.now, server, &mut Vec::new());
        path.client.close(path.now, client);
        path.rounds(2);
        path.server.close(path.now, server);
        path.rounds(3);
        let next = path.dial();
        path.rounds(2);
        let info = path.client.info(path.now, next);
        assert_eq!(info.state, State::Established);
        assert_eq!(info.window.ssthresh, if wanted { reduced } else { u32::MAX });
        assert_eq!(info.window.cwnd, first.cwnd);
    }
}
