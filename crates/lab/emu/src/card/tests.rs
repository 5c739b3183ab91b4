//! Goal: what goes up is what came, in order and at the time that the costs say; small packets pass big ones; a ring
//! that is full drops and counts.

use super::*;
use crate::{Network, PipeConfig};
use base::{Addr, Seq};
use std::cell::RefCell;
use std::rc::Rc;
use wire::packet::{Below, Checksum, Link};
use wire::tcp::{Flags, Header};

const SIZE: usize = 1000;

/// A segment of a flow from `port`, bytes from `seq` on.
fn segment(v4: bool, port: u16, seq: u32, len: usize, flags: Flags) -> Vec<u8> {
    let link = Link { dst: [2, 0, 0, 0, 0, 1], src: [2, 0, 0, 0, 0, 2] };
    let end = |last: u8| match v4 {
        true => Addr::v4([192, 0, 2, last]),
        false => Addr::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
    };
    let below = Below { link: Some(link), src: end(1), dst: end(2), tos: 0, ttl: 64, label: 0 };
    let header = Header {
        src_port: port,
        dst_port: 80,
        seq: Seq::new(seq),
        ack: Seq::new(7),
        flags,
        window: 1000,
        options: Default::default(),
    };
    let mut packet: Vec<u8> = vec![0; below.len() + header.len()];
    packet.extend((0..len as u32).map(|at| (seq + at) as u8));
    below.emit_tcp(&header, len, Checksum::Full, &mut packet);
    packet
}

/// Packets that the host took: time, bytes, and the size of the segments in it.
type Taken = Rc<RefCell<Vec<(Instant, Vec<u8>, u16)>>>;

enum Node {
    Card(Box<Card>),
    Host(Box<SimPort>, Taken),
}

impl Host for Node {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Node::Card(card) => card.step(now),
            Node::Host(port, taken) => {
                let mut batch = RxBatch::new();
                while take(port, &mut batch) > 0 {
                    for packet in batch.drain(..) {
                        taken.borrow_mut().push((now, packet.frame.data().to_vec(), packet.meta.gso_size));
                        port.retire(packet.frame);
                    }
                }
                None
            }
        }
    }
}

fn config() -> CardConfig {
    CardConfig {
        workers: 4,
        cores: 2,
        ring: 100,
        per_packet: Duration::from_micros(10),
        merging: Merging::None,
        dma: None,
        descriptors: 100,
        per_delivery: Duration::from_micros(20),
        seed: 1,
    }
}

/// Lets packets that arrive at once pass through a card; what the host took, and what was counted.
fn pass(config: CardConfig, packets: &[Vec<u8>]) -> (Vec<(Instant, Vec<u8>, u16)>, CardCounters) {
    let mut net = Network::new(1);
    let [up, host] = Card::line(1500).map(|port| net.port(&port));
    let (outside, wire) = (net.port(&PortConfig::default()), net.port(&PortConfig::default()));
    let (outside_id, wire_id, up_id, host_id) = (outside.id(), wire.id(), up.id(), host.id());
    let taken = Taken::default();
    let card = net.add_host(Node::Card(Box::new(Card::new(config, wire, up))), &[wire_id, up_id]);
    net.add_host(Node::Host(Box::new(host), taken.clone()), &[host_id]);
    let line = PipeConfig::default();
    net.link(up_id, host_id, &line, &line);
    let (there, _) = net.link(outside_id, wire_id, &line, &line);
    packets.iter().for_each(|packet| net.inject(there, packet));
    net.run_until(Instant::from_secs(1));
    let Node::Card(card) = net.host(card) else { unreachable!("it was added as one") };
    let counters = card.counters().clone();
    let taken = taken.borrow().clone();
    (taken, counters)
}

fn micros(taken: &[(Instant, Vec<u8>, u16)]) -> Vec<u128> {
    taken.iter().map(|(at, ..)| at.since(Instant::ZERO).as_micros()).collect()
}

#[test]
fn each_step_takes_its_time() {
    let packets: Vec<_> = (0..4).map(|nth| segment(true, 5, nth * 1000, SIZE, Flags::ACK)).collect();
    let (taken, _) = pass(config(), &packets);
    assert_eq!(
        taken.iter().map(|(_, bytes, _)| bytes).collect::<Vec<_>>(),
        packets.iter().collect::<Vec<_>>()
    );
    // The host is the slowest: 10 for the first to be looked at, and 20 each.
    assert_eq!(micros(&taken), [30, 50, 70, 90]);
    let slow = CardConfig { per_delivery: Duration::from_micros(1), ..config() };
    assert_eq!(micros(&pass(slow.clone(), &packets).0), [11, 21, 31, 41]);
    // 1,054 bytes at 8 Mbit/s are 1,054 us each.
    let line = CardConfig { dma: Some(Rate::from_bits_per_sec(8_000_000)), ..slow };
    assert_eq!(micros(&pass(line, &packets).0), [1065, 2119, 3173, 4227]);
}

#[test]
fn flows_of_other_cores_do_not_wait() {
    let ports: Vec<u16> = (1..40).collect();
    let packets: Vec<_> = ports.iter().map(|port| segment(true, *port, 0, SIZE, Flags::ACK)).collect();
    let free = CardConfig { per_delivery: Duration::ZERO, ..config() };
    let last = |cores| {
        *micros(&pass(CardConfig { cores, workers: 4 * cores, ..free.clone() }, &packets).0).last().unwrap()
    };
    assert_eq!(last(1), 390);
    assert!((100..250).contains(&last(4)), "{}", last(4));
}

#[test]
fn what_belongs_together_goes_up_as_one() {
    for v4 in [true, false] {
        let flags = |nth| if nth == 5 { Flags::ACK | Flags::PSH } else { Flags::ACK };
        let packets: Vec<_> = (0..6).map(|nth| segment(v4, 5, nth * 1000, SIZE, flags(nth))).collect();
        let hold = offload::Config { hold: Duration::from_micros(500), ..Default::default() };
        let (taken, counters) = pass(CardConfig { merging: Merging::Engine(hold), ..config() }, &packets);
        // Until it is known that more follows, none waits.
        let [(_, first, 0), (_, second, 0), (_, whole, 1000)] = &taken[..] else {
            panic!("{} packets", taken.len())
        };
        assert_eq!((counters.delivered, counters.segments), (3, 6));
        assert_eq!([first, second], [&packets[0], &packets[1]]);
        let expected = segment(v4, 5, 2000, 4 * SIZE, Flags::ACK | Flags::PSH);
        let sum = ethernet::HEADER_LEN + if v4 { 20 } else { 40 } + 16;
        assert_eq!(whole[..sum], expected[..sum]);
        assert_eq!(whole[sum + 2..], expected[sum + 2..]);
    }
}

#[test]
fn what_carries_no_data_goes_first() {
    let mut packets: Vec<_> = (0..8).map(|nth| segment(true, 5, nth * 1000, SIZE, Flags::ACK)).collect();
    packets.push(segment(true, 5, 8000, 0, Flags::ACK));
    let slow = CardConfig {
        cores: 1,
        per_packet: Duration::from_micros(1),
        per_delivery: Duration::ZERO,
        dma: Some(Rate::from_bits_per_sec(8_000_000)),
        ..config()
    };
    let (taken, counters) = pass(slow, &packets);
    let nth = taken.iter().position(|(_, bytes, _)| *bytes == packets[8]);
    assert_eq!((nth, counters.control), (Some(1), 1));
}

#[test]
fn a_full_ring_drops() {
    let packets: Vec<_> = (0..50).map(|nth| segment(true, 5, nth * 1000, SIZE, Flags::ACK)).collect();
    let (taken, counters) = pass(CardConfig { ring: 10, ..config() }, &packets);
    assert_eq!((taken.len(), counters.received, counters.dropped), (10, 50, 40));
}

#[test]
fn the_published_card_waits_for_the_late() {
    let packets: Vec<_> = (0..6).map(|nth| segment(true, 5, nth * 1000, SIZE, Flags::ACK)).collect();
    let (taken, counters) = pass(CardConfig { merging: Merging::Patient, ..config() }, &packets);
    // The first is late at once: nothing is known of the time between two.
    assert_eq!((counters.delivered, counters.segments), (2, 6));
    // They come each 10 us; of the averages, which begin at zero, the last is 9.6875 us.
    assert_eq!(taken[1].0, Instant::from_nanos(60_000 + 96_870 + 20_000));
}
