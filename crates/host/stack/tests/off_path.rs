//! Goal: a host that is not on the path of a connection learns nothing about it from what it can send and count.

mod common;

use base::{Addr, Duration, Endpoint, Instant, Seq};
use common::*;
use pio::{PacketIo, Pair, PairConfig, RxBatch, TxBatch, TxMeta, TxPacket};
use stack::Core;
use wire::packet::{Below, Checksum, Content, Link, parse_frame};
use wire::tcp::{Flags, Header, Options, Segment};

const HTTP: Endpoint = Endpoint::new(SERVER, PORT);
const VICTIM: Endpoint = Endpoint::new(Addr::v4([10, 0, 0, 50]), 40_000);
const ATTACKER: Addr = Addr::v4([10, 0, 0, 66]);
/// Segments sent in the victim's name, and then in the attacker's own: more than any budget.
const VOLLEY: u16 = 400;

/// A server alone on a wire, and what others send to it.
struct Scene {
    core: Core,
    wire: Pair,
    now: Instant,
}

impl Scene {
    fn new(seed: u64) -> Scene {
        let (mut core, wire) = World::alone(&PairConfig::default(), |c| c.seed = seed);
        let now = Instant::from_secs(1);
        core.listen(now, &listen(HTTP, 32)).unwrap();
        Scene { core, wire, now }
    }

    fn send(&mut self, from: Endpoint, flags: Flags, seq: u32, ack: u32) {
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
        let mut frame = self.wire.take().expect("frames come back");
        frame.set_range(0, below.len() + header.len());
        below.emit_tcp(&header, 0, Checksum::Full, frame.data_mut());
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

    /// The victim's connection; the attacker sees nothing of it.
    fn connect_victim(&mut self) {
        self.send(VICTIM, Flags::SYN, 1_000, 0);
        let mut isn = None;
        self.turn(|_, segment| isn = Some(segment.seq.raw()));
        let isn = isn.expect("the SYN is answered");
        self.send(VICTIM, Flags::ACK, 1_001, isn.wrapping_add(1));
        self.turn(|_, _| {});
        assert_eq!(stat(&self.core, "connections"), 1);
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
