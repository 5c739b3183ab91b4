//! Goal: a host that is not on the path of a connection learns nothing about it from what it can send and count.

mod common;

use base::{Addr, Duration, Endpoint, Instant, Rng, Seq};
use common::*;
use pio::{PacketIo, Pair, PairConfig, RxBatch, TxBatch, TxMeta, TxPacket};
use stack::{Core, ListenerId};
use wire::icmp::{Message, Unreachable};
use wire::packet::{Below, Checksum, Content, Link, parse_frame};
use wire::protocol;
use wire::tcp::{Flags, Header, Options, Segment};

const HTTP: Endpoint = Endpoint::new(SERVER, PORT);
const VICTIM: Endpoint = Endpoint::new(Addr::v4([10, 0, 0, 50]), 40_000);
const ATTACKER: Addr = Addr::v4([10, 0, 0, 66]);
/// Segments sent in the victim's name, and then in the attacker's own: more than any budget.
const VOLLEY: u16 = 400;

/// A server alone on a wire, and what others send to it.
struct Scene {
    core: Core,
    listener: ListenerId,
    wire: Pair,
    now: Instant,
}

impl Scene {
    fn new(seed: u64) -> Scene {
        let (mut core, wire) = World::alone(&PairConfig::default(), |c| c.seed = seed);
        let now = Instant::from_secs(1);
        let (listener, _) = core.listen(now, &listen(HTTP, 32)).unwrap();
        Scene { core, listener, wire, now }
    }

    fn send(&mut self, from: Endpoint, flags: Flags, seq: u32, ack: u32) {
        self.send_data(from, flags, seq, ack, &[]);
    }

    fn send_data(&mut self, from: Endpoint, flags: Flags, seq: u32, ack: u32, data: &[u8]) {
        let link = Some(Link { dst: self.core.io().caps().mac, src: self.wire.caps().mac });
        let below = Below { link, src: from.addr, dst: SERVER, tos: 0, ttl: 64, label: 0 };
        let header = Header {
            src_port: from.port,
            dst_port: PORT,
            seq: Seq::new(seq),
            ack: Seq::new(ack),
            flags,
            window: 1000,
            options: Options::default(),
        };
        self.frame(|into| {
            let at = below.len() + header.len();
            into[at..at + data.len()].copy_from_slice(data);
            below.emit_tcp(&header, data.len(), Checksum::Full, into)
        });
    }

    /// Sends an ICMP error about a segment of the server's to the victim, in the attacker's name.
    fn error(&mut self, seq: u32, message: impl Fn(&[u8]) -> Message<'_>) {
        let link = Some(Link { dst: self.core.io().caps().mac, src: self.wire.caps().mac });
        let below = |link, src, dst| Below { link, src, dst, tos: 0, ttl: 64, label: 0 };
        let mut quote = [0; 40];
        let at = below(None, SERVER, VICTIM.addr).emit(protocol::TCP, 1_400, &mut quote);
        quote[at..at + 2].copy_from_slice(&PORT.to_be_bytes());
        quote[at + 2..at + 4].copy_from_slice(&VICTIM.port.to_be_bytes());
        quote[at + 4..at + 8].copy_from_slice(&seq.to_be_bytes());
        let message = message(&quote);
        self.frame(|into| {
            let at = below(link, ATTACKER, SERVER).emit(protocol::ICMP, message.len(), into);
            at + message.emit(ATTACKER, SERVER, &mut into[at..])
        });
    }

    fn frame(&mut self, build: impl FnOnce(&mut [u8]) -> usize) {
        let mut frame = self.wire.take().expect("frames come back");
        frame.set_range(0, 256);
        let len = build(frame.data_mut());
        frame.set_range(0, len);
        let mut batch = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
        self.wire.tx(&mut batch).unwrap();
        batch.into_iter().for_each(|packet| self.wire.retire(packet.frame));
    }

    /// One turn; calls `each` with every segment that leaves.
    fn turn(&mut self, mut each: impl FnMut(Addr, &Segment<'_>)) {
        self.core.turn(self.now).unwrap();
        let mut batch = RxBatch::new();
        while self.wire.rx(&mut batch).unwrap() > 0 {
            for packet in batch.drain(..) {
                let frame = packet.frame.data();
                if let Ok(Content::Ip(ip)) = parse_frame(frame, frame.len()).map(|read| read.content)
                    && let Ok((_, _, segment)) = wire::tcp::parse(ip.upper(frame))
                {
                    each(ip.dst, &segment);
                }
                self.wire.retire(packet.frame);
            }
        }
    }

    /// The victim's connection; the attacker sees nothing of it. Returns the server's first number.
    fn connect_victim(&mut self) -> u32 {
        self.send(VICTIM, Flags::SYN, 1_000, 0);
        let mut isn = None;
        self.turn(|_, segment| isn = Some(segment.seq.raw()));
        let isn = isn.expect("the SYN is answered");
        self.send(VICTIM, Flags::ACK, 1_001, isn.wrapping_add(1));
        self.turn(|_, _| {});
        assert_eq!(stat(&self.core, "connections"), 1);
        isn
    }

    /// The attack: a volley in the victim's name from `guess`, then one of the attacker's own. Returns how many of the
    /// attacker's own segments were answered by RST.
    fn attack(&mut self, guess: u16) -> usize {
        let mut resets = 0;
        for volley in [Endpoint::new(VICTIM.addr, guess), Endpoint::new(ATTACKER, 50_000)] {
            for nth in 0..VOLLEY {
                self.send(volley, Flags::ACK, 77, 99);
                if nth % 16 == 15 {
                    self.turn(|to, segment| {
                        resets += usize::from(to == ATTACKER && segment.flags.has(Flags::RST));
                    });
                }
            }
        }
        resets
    }
}

/// The first stage of CVE-2016-5696 (RFC 5961's shared budget; here that of RSTs): does a guessed port belong to a
/// connection of the victim? In both worlds each segment of the attacker has its answer, for there is no budget. A
/// client that is refused often does not wait either.
#[test]
fn the_number_of_resets_does_not_tell_whether_a_guessed_port_is_in_use() {
    let (mut right, mut wrong) = (Scene::new(7), Scene::new(7));
    right.connect_victim();
    wrong.connect_victim();
    for _ in 0..10 {
        let counted = (right.attack(VICTIM.port), wrong.attack(VICTIM.port + 1));
        assert_eq!(counted, (VOLLEY.into(), VOLLEY.into()));
        (right.now, wrong.now) =
            (right.now + Duration::from_millis(100), wrong.now + Duration::from_millis(100));
    }
}

/// The challenge ACKs of one connection are bounded by that connection's own clock (RFC 5961, section 7, as Linux and
/// FreeBSD after CVE-2016-5696): what comes for another connection does not use them up.
/// RFC 5961, 7-1.
#[test]
fn challenges_of_one_connection_do_not_use_up_those_of_another() {
    let mut scene = Scene::new(7);
    scene.connect_victim();
    let own = Endpoint::new(ATTACKER, 50_000);
    scene.send(own, Flags::SYN, 5_000, 0);
    let mut isn = 0;
    scene.turn(|_, segment| isn = segment.seq.raw());
    scene.send(own, Flags::ACK, 5_001, isn.wrapping_add(1));
    scene.turn(|_, _| {});
    for _ in 0..16 {
        scene.send(VICTIM, Flags::SYN, 9, 0);
    }
    scene.send(own, Flags::SYN, 5_010, 0);
    let (mut victims, mut own) = (0, 0);
    scene.turn(|to, _| *(if to == ATTACKER { &mut own } else { &mut victims }) += 1);
    assert_eq!((victims, own), (1, 1));
}

/// An attacker that knows addresses and ports, and no numbers: resets inside the window and outside, SYNs, data, errors
/// that end or shrink. The connection stays what it was, and the victim gets a handful of challenge ACKs.
/// RFC 5961, sections 3 to 5 and 7; RFC 5927, section 4.
#[test]
fn a_storm_of_forged_segments_and_errors_changes_nothing() {
    let mut scene = Scene::new(7);
    let isn = scene.connect_victim();
    let id = scene.core.accept(scene.listener, 5).expect("it is open");
    scene.core.write(scene.now, id, &[7; 900]).expect("there is room");
    scene.turn(|_, _| {});
    let before = scene.core.connection(id).info(scene.now).path_mtu;
    let (mut rng, mut answers) = (Rng::new(1), 0);
    for nth in 0..60_000 {
        let (seq, ack) = (rng.next_u32(), rng.next_u32());
        // Not exactly what is expected, which nobody guesses.
        let inside = 1_002 + rng.below(30_000) as u32;
        // Not what is in flight.
        let quoted = isn.wrapping_add(2_000).wrapping_add(seq >> 1);
        match nth % 8 {
            0 => scene.send(VICTIM, Flags::RST, seq | 1 << 31, 0),
            1 => scene.send(VICTIM, Flags::RST, inside, 0),
            2 => scene.send(VICTIM, Flags::SYN, seq, 0),
            3 => scene.send_data(VICTIM, Flags::ACK, inside, ack, b"forged"),
            4 => scene.send(VICTIM, Flags::ACK, 1_001, ack),
            5 => scene.send(VICTIM, Flags::SYN | Flags::ACK, seq, ack),
            6 => scene.error(quoted, |quote| Message::TooBig { mtu: 68, quote }),
            _ => scene.error(quoted, |quote| Message::Unreachable { why: Unreachable::Port, quote }),
        }
        if nth % 16 == 15 {
            scene.now += Duration::from_micros(100);
            scene.turn(|to, segment| {
                assert!(to == VICTIM.addr && !segment.flags.has(Flags::RST), "{segment:?}");
                answers += 1;
            });
        }
    }
    let connection = scene.core.connection(id);
    assert_eq!(connection.state(), tcp::State::Established);
    assert_eq!((connection.readable(), connection.info(scene.now).path_mtu), (0, before));
    assert!(answers < 20, "{answers} segments to the victim");
    scene.send_data(VICTIM, Flags::ACK, 1_001, isn.wrapping_add(901), b"hello");
    scene.turn(|_, _| {});
    let mut got = Vec::new();
    read_all(&mut scene.core, scene.now, id, &mut got);
    assert_eq!(got, b"hello");
}
