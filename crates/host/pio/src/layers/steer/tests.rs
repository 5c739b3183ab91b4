//! Goal: whichever queue a card chooses, a packet reaches the core that has its port, whole and in order; predictions
//! are the card's choice, and end when they are not; a core that sleeps wakes.

use super::*;
use crate::tests::testnet::Wait;
use crate::{Pair, PairConfig, pair};
use base::Duration;
use base::{Addr, Rng, Seq};
use wire::packet::{Below, Checksum, Link};
use wire::tcp::{Header, Options};

const CORES: usize = 4;
const OWN: [u8; 4] = [10, 0, 0, 2];
const PEER: [u8; 4] = [10, 0, 0, 1];

/// A card of as many queues as cores, whose other side is in the test's hands.
struct Cable {
    cores: Vec<Steered<Pair>>,
    card: Vec<Pair>,
}

fn cable(rule: Option<&Rss>) -> Cable {
    let config = PairConfig { frames: 256, ..PairConfig::default() };
    let (ports, card) = (0..CORES).map(|_| pair(&config).expect("memory")).unzip();
    Cable { cores: steer(ports, rule).expect("descriptors"), card }
}

fn ephemeral(port: u16) -> PortClaim {
    PortClaim { addr: Addr::UNSPECIFIED_V4, port, reuse_port: false, ephemeral: true, v6_only: true }
}

fn listener(addr: Addr, port: u16, reuse_port: bool) -> PortClaim {
    PortClaim { addr, port, reuse_port, ephemeral: false, v6_only: false }
}

fn own(port: u16) -> Endpoint {
    Endpoint::new(Addr::v4(OWN), port)
}

fn peer(port: u16) -> Endpoint {
    Endpoint::new(Addr::v4(PEER), port)
}

/// A segment from `remote` to `local`.
fn segment(remote: Endpoint, local: Endpoint, flags: Flags, payload: &[u8]) -> Vec<u8> {
    let link = Some(Link { dst: [2; 6], src: [4; 6] });
    let below = Below { link, src: remote.addr, dst: local.addr, tos: 0, ttl: 64, label: 0 };
    let header = Header {
        src_port: remote.port,
        dst_port: local.port,
        seq: Seq::new(1),
        ack: Seq::new(2),
        flags,
        window: 100,
        options: Options::default(),
    };
    let mut bytes = vec![0; below.len() + header.len()];
    bytes.extend_from_slice(payload);
    below.emit_tcp(&header, payload.len(), Checksum::Full, &mut bytes);
    bytes
}

impl Cable {
    /// The card puts a frame into the queue of a core.
    fn put(&mut self, core: usize, bytes: &[u8]) {
        let card = &mut self.card[core];
        let mut frame = card.take().expect("a frame");
        frame.set_range(0, bytes.len());
        frame.data_mut().copy_from_slice(bytes);
        let mut batch = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
        assert_eq!(card.tx(&mut batch).expect("a live pair"), 1);
    }

    /// All that a core gets.
    fn got(&mut self, core: usize) -> Vec<Vec<u8>> {
        let (mut all, mut batch) = (Vec::new(), RxBatch::new());
        while self.cores[core].rx(&mut batch).expect("a live pair") > 0 {
            all.extend(batch.iter().map(|packet| packet.frame.data().to_vec()));
            self.cores[core].retire_all(&mut batch);
        }
        all
    }

    /// Counts the packets that each core gets, in two rounds: the second brings those that were handed over late.
    fn all(&mut self) -> Vec<usize> {
        let first: Vec<_> = (0..CORES).map(|core| self.got(core).len()).collect();
        (0..CORES).map(|core| first[core] + self.got(core).len()).collect()
    }

    fn stat(&self, core: usize, name: &str) -> u64 {
        let stats = self.cores[core].stats();
        stats.iter().find(|row| row.0 == name).unwrap_or_else(|| panic!("no {name}")).1
    }
}

fn rule(rng: &mut Rng, entries: usize) -> Rss {
    let mut key = vec![0; 40];
    rng.fill(&mut key);
    let table = (0..entries).map(|_| rng.below(CORES as u64) as u16).collect();
    Rss { key, table, v4: true, v6: true }
}

fn flow(rng: &mut Rng) -> FlowKey {
    let v4 = rng.chance(0.5);
    let mut end = || {
        let mut bytes = [0x20; 18];
        rng.fill(&mut bytes[2..]);
        let [_, _, a, b, c, d, .., e, f] = bytes;
        let addr = if v4 { Addr::v4([a, b, c, d]) } else { Addr::v6(*bytes.first_chunk().expect("16")) };
        Endpoint::new(addr, u16::from_be_bytes([e, f]))
    };
    FlowKey::new(end(), end())
}

#[test]
fn exactly_the_core_that_the_card_chooses_is_predicted() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let entries = 1 << rng.below(9);
        let rule = rule(&mut rng, entries);
        let cable = cable(Some(&rule));
        let hash = wire::rss::Toeplitz::new(&rule.key).expect("a key");
        for _ in 0..50 {
            let flow = flow(&mut rng);
            let chosen = rule.table[hash.received(&flow) as usize % rule.table.len()];
            for core in 0..CORES as u16 {
                // A core that the table does not name gets nothing by any choice of ports.
                let expected = core == chosen || !rule.table.contains(&core);
                let port = &cable.cores[usize::from(core)];
                assert_eq!(port.answers_here(&flow), expected, "seed {seed}, core {core}");
            }
        }
    }
}

#[test]
fn queues_belong_to_cores_in_turns() {
    let rule = Rss { key: vec![1; 40], table: vec![0, 1, 5, 7], v4: true, v6: true };
    assert_eq!(rule.for_cores(4).table, [0, 1, 1, 3]);
}

#[test]
fn rules_that_make_no_sense_predict_nothing() {
    let good = Rss { key: vec![7; 40], table: vec![0, 1, 2, 3], v4: true, v6: true };
    assert_eq!(cable(Some(&good)).stat(0, "rss_predicts"), 1);
    for bad in [
        Rss { key: vec![7; 39], ..good.clone() },
        Rss { table: vec![0, 1, 2], ..good.clone() },
        Rss { table: vec![0, 1, 2, 4], ..good.clone() },
        Rss { table: Vec::new(), ..good.clone() },
        Rss { v4: false, v6: false, ..good.clone() },
    ] {
        let cable = cable(Some(&bad));
        assert_eq!(cable.stat(0, "rss_predicts"), 0, "{bad:?}");
        assert!((0..CORES).all(|core| cable.cores[core].answers_here(&FlowKey::new(own(1), peer(2)))));
    }
    // A family that the card spreads by addresses alone is not predicted, the other one is.
    let v6_only = cable(Some(&Rss { v4: false, ..good }));
    let flow = FlowKey::new(own(1), peer(2));
    assert!((0..CORES).all(|core| v6_only.cores[core].answers_here(&flow)));
}

#[test]
fn packets_reach_the_core_that_claimed_their_port() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut cable = cable(None);
        let mut owner = std::collections::HashMap::new();
        for port in 0..32_u16 {
            let core = rng.below(CORES as u64) as usize;
            cable.cores[core].claim(&ephemeral(40_000 + port)).expect("granted");
            owner.insert(40_000 + port, core);
        }
        let mut expected = vec![Vec::new(); CORES];
        for number in 0..100_u32 {
            let port = 40_000 + rng.below(32) as u16;
            let mut payload = vec![number as u8; rng.below(1400) as usize];
            rng.fill(&mut payload);
            let frame = segment(peer(80), own(port), Flags::ACK, &payload);
            cable.put(rng.below(CORES as u64) as usize, &frame);
            expected[owner[&port]].push(frame);
        }
        let mut got: Vec<_> = (0..CORES).map(|core| cable.got(core)).collect();
        for (core, got) in got.iter_mut().enumerate() {
            got.extend(cable.got(core));
            got.sort();
            expected[core].sort();
            assert_eq!(*got, expected[core], "seed {seed}, core {core}");
        }
        let sum = |name| (0..CORES).map(|core| cable.stat(core, name)).sum::<u64>();
        assert!(sum("steered_out") > 0 && sum("steered_out") == sum("steered_in"));
        assert_eq!((sum("steered_lost"), sum("steered_no_frame")), (0, 0));
    }
}

#[test]
fn packets_of_a_flow_stay_in_order_and_whole() {
    let mut cable = cable(None);
    cable.cores[2].claim(&ephemeral(50_000)).expect("granted");
    let mut next = 0_u32;
    for round in 0..400_u32 {
        // More than a mailbox in all, never more than it at once.
        for number in 0..20 {
            let payload = (round * 20 + number).to_be_bytes().repeat(1 + 300 * (number as usize % 2));
            cable.put(1, &segment(peer(80), own(50_000), Flags::ACK, &payload));
        }
        assert!(cable.got(1).is_empty());
        for frame in cable.got(2) {
            assert_eq!(frame[54..58], next.to_be_bytes());
            assert_eq!(frame.len(), 54 + 4 * (1 + 300 * (next as usize % 2)));
            next += 1;
        }
    }
    assert_eq!((next, cable.stat(1, "steered_out"), cable.stat(2, "steered_in")), (8000, 8000, 8000));
}

#[test]
fn a_full_mailbox_drops_and_counts() {
    let mut cable = cable(None);
    cable.cores[3].claim(&ephemeral(50_000)).expect("granted");
    let frame = segment(peer(80), own(50_000), Flags::ACK, &[9; 1400]);
    let count = 256;
    for _ in 0..count {
        cable.put(0, &frame);
        assert!(cable.got(0).is_empty());
    }
    let (out, lost) = (cable.stat(0, "steered_out"), cable.stat(0, "steered_lost"));
    assert!(out > 100 && lost > 0 && out + lost == count, "{out} sent, {lost} lost");
    let got = cable.got(3);
    assert!(got.len() as u64 == out && got.iter().all(|got| *got == frame));
    cable.put(0, &frame);
    assert!(cable.got(0).is_empty() && cable.got(3) == [frame]);
}

#[test]
fn a_core_without_frames_leaves_its_mail_for_later() {
    let mut cable = cable(None);
    cable.cores[1].claim(&ephemeral(50_000)).expect("granted");
    let mut held: Vec<_> = std::iter::from_fn(|| cable.cores[1].take()).collect();
    let frame = segment(peer(80), own(50_000), Flags::ACK, b"late");
    cable.put(0, &frame);
    assert!(cable.got(0).is_empty() && cable.got(1).is_empty());
    assert!(cable.stat(1, "steered_no_frame") > 0);
    held.drain(..).for_each(|frame| cable.cores[1].retire(frame));
    assert_eq!(cable.got(1), [frame]);
}

#[test]
fn a_shared_listener_keeps_what_arrives_and_a_lone_one_gets_all() {
    let any = Addr::UNSPECIFIED_V6;
    let mut cable = cable(None);
    for core in 0..CORES {
        cable.cores[core].claim(&listener(any, 80, true)).expect("granted");
    }
    cable.cores[2].claim(&listener(any, 81, false)).expect("granted");
    for core in 0..CORES {
        cable.put(core, &segment(peer(1), own(80), Flags::SYN, b""));
        cable.put(core, &segment(peer(1), own(81), Flags::SYN, b""));
    }
    assert_eq!(cable.all(), [1, 1, 5, 1]);
    cable.cores[2].release(&listener(any, 81, false));
    for core in 0..CORES {
        cable.put(core, &segment(peer(1), own(81), Flags::SYN, b""));
    }
    assert_eq!(cable.all(), [1, 1, 1, 1], "the port is free");
}

#[test]
fn one_port_at_several_addresses_has_several_owners() {
    let mut cable = cable(None);
    let other = Endpoint::new(Addr::v4([10, 0, 0, 3]), 90);
    cable.cores[1].claim(&listener(Addr::v4(OWN), 90, false)).expect("granted");
    cable.cores[3].claim(&listener(other.addr, 90, false)).expect("granted");
    cable.put(0, &segment(peer(1), own(90), Flags::SYN, b""));
    cable.put(0, &segment(peer(1), other, Flags::SYN, b""));
    cable.put(0, &segment(peer(1), Endpoint::new(Addr::v4([10, 0, 0, 4]), 90), Flags::SYN, b""));
    assert_eq!(cable.all(), [1, 1, 0, 1]);
    // A claim of everything takes the rest.
    cable.cores[2].claim(&listener(Addr::UNSPECIFIED_V6, 90, false)).expect("granted");
    cable.put(0, &segment(peer(1), Endpoint::new(Addr::v4([10, 0, 0, 4]), 90), Flags::SYN, b""));
    assert_eq!(cable.all(), [0, 0, 1, 0]);
}

#[test]
fn errors_follow_the_packet_that_they_quote() {
    let mut cable = cable(None);
    cable.cores[2].claim(&ephemeral(50_000)).expect("granted");
    // Of a packet that went the other way.
    let sent = segment(own(50_000), peer(80), Flags::SYN, b"");
    let error = Message::TooBig { mtu: 1300, quote: &sent[14..42] };
    let (src, dst) = (Addr::v4(PEER), Addr::v4(OWN));
    let link = Some(Link { dst: [2; 6], src: [4; 6] });
    let below = Below { link, src, dst, tos: 0, ttl: 64, label: 0 };
    let mut frame = vec![0; below.len() + error.len()];
    let at = below.emit(protocol::ICMP, error.len(), &mut frame);
    error.emit(src, dst, &mut frame[at..]);
    cable.put(0, &frame);
    assert_eq!(cable.all(), [0, 0, 1, 0]);
}

#[test]
fn answers_of_neighbours_reach_all_cores_and_questions_one() {
    for (operation, expected) in [(Operation::Reply, [1; CORES]), (Operation::Request, [1, 0, 0, 0])] {
        let mut cable = cable(None);
        let mut frame = vec![0; 14 + wire::arp::LEN];
        let head = ethernet::Header { dst: [2; 6], src: [4; 6], ethertype: ethernet::ARP };
        let at = head.emit(&mut frame);
        let (sender, target) = (Addr::v4(PEER), Addr::v4(OWN));
        let arp = wire::arp::Packet { operation, sender_mac: [4; 6], sender, target_mac: [2; 6], target };
        arp.emit(&mut frame[at..]);
        cable.put(0, &frame);
        assert_eq!(cable.all(), expected, "{operation:?}");
    }
}

#[test]
fn an_answer_elsewhere_than_predicted_ends_prediction() {
    let mut rng = Rng::new(5);
    let rule = rule(&mut rng, 128);
    let mut cable = cable(Some(&rule));
    let port = (50_000..).find(|&port| cable.cores[1].answers_here(&FlowKey::new(own(port), peer(80))));
    let port = port.expect("a port of a quarter");
    cable.cores[1].claim(&ephemeral(port)).expect("granted");
    let answer = segment(peer(80), own(port), Flags::SYN | Flags::ACK, b"");
    // Where it was expected, and data anywhere: nothing is wrong.
    cable.put(1, &answer);
    cable.put(2, &segment(peer(80), own(port), Flags::ACK, b"data"));
    assert_eq!(cable.all(), [0, 2, 0, 0]);
    assert_eq!((cable.stat(0, "rss_predicts"), cable.stat(0, "rss_wrong")), (1, 0));
    // A port that was bound, not chosen: where the rule says, which is not at its owner.
    let bound = (50_000..).find(|&port| cable.cores[3].answers_here(&FlowKey::new(own(port), peer(80))));
    let bound = bound.expect("a port of a quarter");
    cable.cores[0].claim(&listener(Addr::UNSPECIFIED_V4, bound, false)).expect("granted");
    cable.put(3, &segment(peer(80), own(bound), Flags::SYN | Flags::ACK, b""));
    assert_eq!(cable.all(), [1, 0, 0, 0]);
    assert_eq!((cable.stat(0, "rss_predicts"), cable.stat(0, "rss_wrong")), (1, 0));

    cable.put(2, &answer);
    assert_eq!(cable.all(), [0, 1, 0, 0], "it is steered all the same");
    assert_eq!((cable.stat(3, "rss_predicts"), cable.stat(3, "rss_wrong")), (0, 1));
    assert!((0..CORES).all(|core| cable.cores[core].answers_here(&FlowKey::new(own(port), peer(80)))));
}

#[test]
fn mail_wakes_a_sleeper() {
    let mut cable = cable(None);
    cable.cores[1].claim(&ephemeral(50_000)).expect("granted");
    let frame = segment(peer(80), own(50_000), Flags::ACK, b"wake");
    let mut fds = Vec::new();
    assert!(cable.cores[1].arm(&mut fds).expect("a live pair"));
    assert_eq!(crate::sleep_on(&fds, Some(Duration::ZERO)).expect("descriptors"), Wake::Timeout);
    cable.put(0, &frame);
    assert!(cable.got(0).is_empty());
    assert_eq!(crate::sleep_on(&fds, None).expect("descriptors"), Wake::Ready);
    assert_eq!(cable.cores[1].wait(Some(Duration::ZERO)).expect("a live pair"), Wake::Ready);
    assert_eq!(cable.got(1), std::slice::from_ref(&frame));
    assert_eq!(crate::sleep_on(&fds, Some(Duration::ZERO)).expect("descriptors"), Wake::Timeout);

    // However the two meet.
    let mut sleeper = cable.cores.remove(1);
    let (ask, asked) = std::sync::mpsc::channel();
    let rounds = if cfg!(miri) { 5 } else { 500 };
    let thread = std::thread::spawn(move || {
        let mut batch = RxBatch::new();
        for _ in 0..rounds {
            ask.send(()).expect("the other side waits");
            while sleeper.rx(&mut batch).expect("a live pair") == 0 {
                let woken = sleeper.wait(Some(Duration::from_secs(60))).expect("a live pair");
                assert_ne!(woken, Wake::Timeout);
            }
            sleeper.retire_all(&mut batch);
        }
    });
    for _ in 0..rounds {
        asked.recv().expect("the sleeper lives");
        cable.put(0, &frame);
        assert!(cable.got(0).is_empty());
    }
    thread.join().expect("no panic");
}

/// A core that ends leaves its queue to the others: what arrives there finds the owner of its port, and a segment of no
/// flow the first core that lives. After the last core nothing is kept.
#[test]
fn the_queue_of_a_core_that_ended_is_served_by_the_others() {
    let config = PairConfig { frames: 256, beside_kernel: true, ..PairConfig::default() };
    let (ports, card) = (0..CORES).map(|_| pair(&config).expect("memory")).unzip();
    let mut cable = Cable { cores: steer(ports, None).expect("descriptors"), card };
    cable.cores[3].claim(&ephemeral(50_000)).expect("granted");
    cable.cores[3].claim(&listener(Addr::UNSPECIFIED_V4, 80, true)).expect("granted");
    // Cores 0 and 1 end; 2 and 3 are now the first ones in the list.
    drop(cable.cores.remove(0));
    drop(cable.cores.remove(0));
    let owned = segment(peer(80), own(50_000), Flags::ACK, b"owned");
    let opens = segment(peer(80), own(80), Flags::SYN, b"");
    for queue in [0, 1] {
        for (core, frame) in [(1, &owned), (0, &opens)] {
            cable.put(queue, frame);
            let mut got = Vec::new();
            while got.is_empty() {
                let woken = cable.cores[core].wait(Some(Duration::from_secs(60))).expect("a live pair");
                assert_ne!(woken, Wake::Timeout, "queue {queue} is not served");
                got = cable.got(core);
            }
            assert_eq!(got, std::slice::from_ref(frame));
        }
    }
    cable.cores.clear();
    let mut batch = RxBatch::new();
    for card in &mut cable.card {
        assert!(matches!(card.rx(&mut batch), Err(IoError::Gone)), "a program keeps a queue");
    }
}

/// Memory that a core writes for each packet, or at each sleep, shares no cache line with that of another core.
#[test]
fn cores_share_no_cache_lines() {
    const LINES: usize = 128;
    let aligned = [
        align_of::<crate::xdp::XdpPort>(),
        align_of::<Steered<crate::xdp::XdpPort>>(),
        align_of::<crate::packet::Packet>(),
    ];
    assert!(aligned.iter().all(|align| align % LINES == 0), "{aligned:?}");
}
