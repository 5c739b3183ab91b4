//! Goal: a pipe does to packets exactly what its configuration says, no more and no less, and the same again
//! from the same seed.
use super::*;
use base::Rate;

/// A frame of `len` bytes that carries its number, as IPv4 as far as a pipe looks.
fn frame(number: u32, len: usize) -> Packet {
    let mut bytes = vec![0; len.max(18)];
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    Packet { bytes, ..Packet::default() }
}

fn number(packet: &Packet) -> u32 {
    u32::from_be_bytes(*packet.bytes[14..].first_chunk().unwrap())
}

/// Everything that comes out, with its date.
fn drain(pipe: &mut Pipe) -> Vec<(Instant, Packet)> {
    let mut out = Vec::new();
    while let Some(at) = pipe.due() {
        out.extend(pipe.leave(at).map(|packet| (at, packet)));
    }
    out
}

fn conserved(pipe: &Pipe) {
    let c = pipe.counters();
    let gone = c.delivered + c.down + c.listed + c.lost + c.managed + c.full + pipe.under_way() as u64;
    assert_eq!(c.arrived + c.duplicated, gone, "{c:?}");
}

const LEN: usize = 1_000;

/// Sends `n` frames at once through a pipe with `config`.
fn burst(config: PipeConfig, n: u32) -> (Pipe, Vec<(Instant, Packet)>) {
    let mut pipe = Pipe::new(config, 1);
    for i in 0..n {
        let _ = pipe.enter(Instant::ZERO, frame(i, LEN), &mut Vec::new());
    }
    conserved(&pipe);
    let out = drain(&mut pipe);
    conserved(&pipe);
    (pipe, out)
}

/// A megabyte a second: a frame of 1,000 bytes takes a millisecond.
fn slow() -> PipeConfig {
    PipeConfig { rate: Some(Rate::from_bytes_per_sec(1_000_000)), ..PipeConfig::default() }
}

#[test]
fn every_so_many_th_vanishes() {
    let (pipe, out) = burst(PipeConfig { every: 4, ..slow() }, 10);
    let survivors: Vec<u32> = out.iter().map(|(_, packet)| number(packet)).collect();
    assert_eq!(survivors, [0, 1, 2, 4, 5, 6, 8, 9]);
    assert_eq!(pipe.counters().lost, 2);
}

#[test]
fn serialisation_then_delay() {
    let (_, out) = burst(PipeConfig { delay: Duration::from_millis(5), ..slow() }, 3);
    let dates: Vec<u64> = out.iter().map(|(at, _)| at.as_micros()).collect();
    assert_eq!(dates, [6_000, 7_000, 8_000]);
    let (_, out) = burst(PipeConfig { overhead: 24, ..slow() }, 2);
    assert_eq!(out[1].0.as_micros(), 2_048);
}

#[test]
fn queue_limits_on_both_sides() {
    let delivered = |queue| burst(PipeConfig { queue, ..slow() }, 10).1.len();
    assert_eq!(delivered(Queue::Unlimited), 10);
    assert_eq!(delivered(Queue::Slots(4)), 4);
    assert_eq!(delivered(Queue::Strict(3_999)), 3);
    assert_eq!(delivered(Queue::Strict(4_000)), 4);
    assert_eq!(delivered(Queue::Loose(3_000)), 3);
    assert_eq!(delivered(Queue::Loose(3_001)), 4);
}

/// The plainest possible queue: a list of packets with the dates they leave.
#[test]
fn the_queue_agrees_with_a_list() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let queue = match rng.below(4) {
            0 => Queue::Unlimited,
            1 => Queue::Slots(rng.below(8) as u32),
            2 => Queue::Strict(rng.below(6_000)),
            _ => Queue::Loose(rng.below(6_000)),
        };
        let mut pipe = Pipe::new(PipeConfig { queue, ..slow() }, seed);
        let mut list: Vec<(u64, u64)> = Vec::new();
        let (mut now, mut free) = (0, 0);
        for step in 0..200 {
            now += rng.below(2_000);
            let len = 18 + rng.below(1_400);
            let waiting: Vec<u64> = list.iter().filter(|(off, _)| *off > now * 1_000).map(|p| p.1).collect();
            let bytes: u64 = waiting.iter().sum();
            let room = match queue {
                Queue::Unlimited => true,
                Queue::Slots(n) => waiting.len() < n as usize,
                Queue::Strict(n) => bytes + len <= n,
                Queue::Loose(n) => bytes < n,
            };
            let at = Instant::from_micros(now);
            assert_eq!(pipe.queue(at), (waiting.len(), bytes), "seed {seed} step {step}");
            let entered = pipe.enter(at, frame(step, len as usize), &mut Vec::new());
            assert_eq!(entered, if room { Ok(()) } else { Err(DropReason::Full) }, "seed {seed} step {step}");
            if room {
                free = (now * 1_000).max(free) + len * 1_000;
                list.push((free, len));
            }
        }
        let dates: Vec<u64> = drain(&mut pipe).iter().map(|(at, _)| at.as_nanos()).collect();
        assert_eq!(dates, list.iter().map(|p| p.0).collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn named_positions_are_dropped_and_counted_from_the_last_change() {
    let discard: Named = "1,5-10,30".parse().unwrap();
    let config = PipeConfig { discard, ..PipeConfig::default() };
    let (mut pipe, out) = burst(config.clone(), 40);
    assert_eq!((out.len(), pipe.counters().listed), (32, 8));
    assert_eq!(number(&out[0].1), 1);
    pipe.set_config(config);
    assert_eq!(pipe.enter(Instant::ZERO, frame(0, 60), &mut Vec::new()), Err(DropReason::Listed));
}

#[test]
fn reasons_come_in_their_order_and_every_arrival_counts() {
    let mut config = PipeConfig {
        discard: "1".parse().unwrap(),
        loss: 1.0,
        aqm: Aqm::Red(Red { min: 0, max: 0, most: 1.0, weight: 1.0, gentle: false, ecn: false }),
        queue: Queue::Strict(0),
        ..slow()
    };
    let fate =
        |config: &PipeConfig| Pipe::new(config.clone(), 1).enter(Instant::ZERO, frame(0, LEN), &mut vec![]);
    assert_eq!(fate(&PipeConfig { down: true, ..config.clone() }), Err(DropReason::Down));
    assert_eq!(fate(&config), Err(DropReason::Listed));
    config.discard = "none".parse().unwrap();
    assert_eq!(fate(&config), Err(DropReason::Lost));
    config.loss = 0.0;
    assert_eq!(fate(&config), Err(DropReason::Managed));
    config.aqm = Aqm::None;
    assert_eq!(fate(&config), Err(DropReason::Full));
    config.queue = Queue::Slots(1);
    assert_eq!(fate(&config), Ok(()));
    // Two fit; of the ten that are dropped for other reasons each has its number.
    let queue = Queue::Slots(2);
    let (pipe, out) = burst(PipeConfig { queue, discard: "12-13".parse().unwrap(), ..slow() }, 14);
    assert_eq!((out.len(), pipe.counters().full, pipe.counters().listed), (2, 10, 2));
}

/// A TCP segment over IPv4 with so much data, and SACK blocks or not.
fn segment(data: usize, sack: bool) -> Packet {
    let mut options = wire::tcp::Options::NONE;
    if sack {
        options.sack.push(base::Seq::new(1), base::Seq::new(2));
    }
    let (src, dst) = (base::Addr::v4([10, 0, 0, 1]), base::Addr::v4([10, 0, 0, 2]));
    let header = wire::tcp::Header {
        src_port: 1,
        dst_port: 2,
        seq: base::Seq::new(0),
        ack: base::Seq::new(0),
        flags: wire::tcp::Flags::ACK,
        window: 0,
        options,
    };
    let mut bytes = vec![0; 14 + 20 + header.len() + data];
    bytes[12..14].copy_from_slice(&[8, 0]);
    let ip = wire::ipv4::Header {
        src,
        dst,
        protocol: wire::protocol::TCP,
        tos: 0,
        ttl: 64,
        id: 0,
        dont_fragment: true,
        payload_len: (header.len() + data) as u16,
    };
    let at = 14 + ip.emit(&mut bytes[14..]);
    header.emit(&mut bytes[at..]);
    Packet { bytes, ..Packet::default() }
}

#[test]
fn positions_may_be_those_of_data_or_of_reports() {
    let config = PipeConfig {
        discard: "data 2".parse().unwrap(),
        hold: "sack 1".parse().unwrap(),
        hold_by: Duration::from_millis(7),
        ..PipeConfig::default()
    };
    let mut pipe = Pipe::new(config, 1);
    let mut pass = |packet| pipe.enter(Instant::ZERO, packet, &mut vec![]).is_ok();
    let fates = [(0, false), (100, false), (0, true), (100, false), (0, true), (100, false)];
    let fates: Vec<bool> = fates.map(|(data, sack)| pass(segment(data, sack))).into();
    assert_eq!(fates, [true, true, true, false, true, true]);
    let dates: Vec<u64> = drain(&mut pipe).iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect();
    assert_eq!(dates, [0, 0, 0, 0, 7]);
    assert_eq!((pipe.counters().listed, pipe.counters().reordered), (1, 1));
    conserved(&pipe);
}

#[test]
fn positions_may_be_those_of_each_flow() {
    let config = PipeConfig { discard: "per-flow 2".parse().unwrap(), ..PipeConfig::default() };
    let mut pipe = Pipe::new(config.clone(), 1);
    let pass = |pipe: &mut Pipe, v6| pipe.enter(Instant::ZERO, ip_frame(v6, 0), &mut vec![]).is_ok();
    let fates: Vec<bool> = [false, true, false, false, true, true].map(|v6| pass(&mut pipe, v6)).into();
    assert_eq!(fates, [true, true, false, true, false, true]);
    pipe.set_config(config);
    assert!(pass(&mut pipe, false) && !pass(&mut pipe, false), "counted from the last change");
}

#[test]
fn a_bound_holds_what_waits_and_travels() {
    let config = PipeConfig { holds: Some(3), delay: Duration::from_secs(1), ..PipeConfig::default() };
    let (pipe, out) = burst(config, 5);
    assert_eq!((out.len(), pipe.counters().full), (3, 2));
}

#[test]
fn chances_are_as_asked() {
    let many = 100_000;
    let ill = |config: PipeConfig| burst(config, many).0.counters().clone();
    let near = |count: u64, p: f64| {
        let (mean, deviation) = (f64::from(many) * p, (f64::from(many) * p * (1.0 - p)).sqrt());
        assert!((count as f64 - mean).abs() < 5.0 * deviation, "{count} of {many} at {p}");
    };
    for p in [0.001, 0.05, 0.5] {
        let plain = PipeConfig::default;
        near(ill(PipeConfig { loss: p, ..plain() }).lost, p);
        near(ill(PipeConfig { duplicate: p, ..plain() }).duplicated, p);
        near(ill(PipeConfig { corrupt: p, ..plain() }).corrupted, p);
        near(ill(PipeConfig { reorder: p, ..plain() }).reordered, p);
    }
    assert_eq!(ill(PipeConfig { down: true, ..PipeConfig::default() }).down, u64::from(many));
}

#[test]
fn jitter_keeps_order_and_reordering_breaks_it() {
    let spread = Duration::from_millis(10);
    let mut pipe = Pipe::new(PipeConfig { jitter: spread, ..PipeConfig::default() }, 3);
    let mut late = Pipe::new(PipeConfig { reorder: 0.1, reorder_by: spread, ..PipeConfig::default() }, 3);
    for i in 0..1_000u32 {
        let now = Instant::from_micros(u64::from(i) * 100);
        for pipe in [&mut pipe, &mut late] {
            assert_eq!(pipe.enter(now, frame(i, 60), &mut Vec::new()), Ok(()));
        }
    }
    let order =
        |pipe: &mut Pipe| -> Vec<u32> { drain(pipe).iter().map(|(_, packet)| number(packet)).collect() };
    assert_eq!(order(&mut pipe), (0..1_000).collect::<Vec<_>>());
    let mut mixed = order(&mut late);
    let overtaken = mixed.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!((50..150).contains(&overtaken), "{overtaken}");
    mixed.sort_unstable();
    assert_eq!(mixed, (0..1_000).collect::<Vec<_>>());
}

#[test]
fn corruption_is_one_bit_inside_ip() {
    let (_, out) = burst(PipeConfig { corrupt: 1.0, ..PipeConfig::default() }, 200);
    for (i, (_, packet)) in out.iter().enumerate() {
        let flipped: Vec<usize> = packet
            .bytes
            .iter()
            .zip(frame(i as u32, LEN).bytes)
            .enumerate()
            .filter(|(_, (a, b))| *a != b)
            .map(|(at, (a, b))| {
                assert_eq!((a ^ b).count_ones(), 1);
                at
            })
            .collect();
        assert!(matches!(flipped[..], [at] if at >= 14), "{flipped:?}");
    }
    let mut arp = frame(0, 60);
    arp.bytes[13] = 6;
    assert!(!flip_a_bit(&mut Rng::new(0), &mut arp.bytes));
    // What nothing could notice does not happen.
    let mut pipe = Pipe::new(PipeConfig { corrupt: 1.0, ..PipeConfig::default() }, 1);
    let mut open = frame(7, LEN);
    open.meta.partial = true;
    assert_eq!(pipe.enter(Instant::ZERO, open.clone(), &mut Vec::new()), Ok(()));
    assert_eq!(drain(&mut pipe), [(Instant::ZERO, open)]);
}

#[test]
fn the_seed_decides_everything() {
    let run = |seed| {
        let config = PipeConfig {
            jitter: Duration::from_millis(3),
            loss: 0.1,
            duplicate: 0.1,
            corrupt: 0.1,
            reorder: 0.1,
            reorder_by: Duration::from_millis(9),
            ..slow()
        };
        let mut pipe = Pipe::new(config, seed);
        for i in 0..500 {
            let _ = pipe.enter(Instant::from_micros(u64::from(i) * 50), frame(i, 100), &mut Vec::new());
        }
        drain(&mut pipe)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn neighbours_can_be_spared() {
    let mut arp = frame(0, 60);
    arp.bytes[13] = 6;
    let mut ask = frame(0, 100);
    ask.bytes[12..14].copy_from_slice(&[0x86, 0xdd]);
    (ask.bytes[20], ask.bytes[54]) = (58, 135);
    let mut echo = ask.clone();
    echo.bytes[54] = 128;
    let awful = PipeConfig { loss: 1.0, spares_neighbours: true, ..PipeConfig::default() };
    let mut pipe = Pipe::new(awful.clone(), 1);
    for (packet, passes) in [(arp, true), (ask, true), (echo, false), (frame(0, 60), false)] {
        assert_eq!(pipe.enter(Instant::ZERO, packet, &mut Vec::new()).is_ok(), passes);
    }
    pipe.set_config(PipeConfig { spares_neighbours: false, ..awful });
    assert!(pipe.enter(Instant::ZERO, pipe.in_order[0].packet.clone(), &mut Vec::new()).is_err());
}

/// The log's rows are consistent: each packet enters once or is dropped, leaves in order, and the bytes are those
/// of the packets inside.
#[test]
fn the_log_conserves_packets_and_bytes() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let aqm = match rng.below(4) {
            0 => Aqm::None,
            1 => Aqm::Step(rng.below(5_000)),
            2 => Aqm::CoDel(CoDel {
                target: Duration::from_millis(3),
                interval: Duration::from_millis(20),
                ecn: false,
            }),
            _ => Aqm::Red(Red { min: 1_000, max: 4_000, most: 0.5, weight: 0.1, gentle: true, ecn: false }),
        };
        let config = PipeConfig {
            queue: Queue::Slots(12),
            loss: 0.05,
            bursts: Some(GilbertElliott::bursts(0.05, 3.0)),
            discard: "3,7-9".parse().unwrap(),
            aqm,
            ..slow()
        };
        let rows = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut pipe = Pipe::new(config, seed);
        let sink = rows.clone();
        pipe.log(move |row| sink.lock().unwrap().push(*row));
        let mut now = Instant::ZERO;
        for i in 0..300 {
            now += Duration::from_micros(rng.below(1_500));
            let _ = pipe.enter(now, frame(i, 200 + rng.below(1_200) as usize), &mut Vec::new());
        }
        conserved(&pipe);
        pipe.queue(now + Duration::from_secs(10));
        check_log(&rows.lock().unwrap(), &pipe, seed);
    }
}

pub(crate) fn check_log(rows: &[LogRow], pipe: &Pipe, seed: u64) {
    let mut inside = VecDeque::new();
    let mut bytes = 0;
    let (mut entered, mut refused, mut managed) = (0, 0, 0);
    assert!(rows.windows(2).all(|pair| pair[0].at <= pair[1].at), "seed {seed}: in the order of time");
    for row in rows {
        let PacketName { nth, len, .. } = row.packet;
        let leaves = match row.event {
            PipeEvent::Enqueued => {
                inside.push_back(nth);
                (entered, bytes) = (entered + 1, bytes + u64::from(len));
                false
            }
            PipeEvent::Dequeued => true,
            PipeEvent::Dropped(reason) => {
                managed += u64::from(reason == DropReason::Managed);
                let at_head = inside.contains(&nth);
                refused += u64::from(!at_head);
                at_head
            }
        };
        if leaves {
            assert_eq!(inside.pop_front(), Some(nth), "seed {seed}: first in, first out");
            bytes -= u64::from(len);
        }
        assert_eq!((row.packets, row.bytes), (inside.len(), bytes), "seed {seed}: {row}");
    }
    let c = pipe.counters();
    assert_eq!((entered + refused, inside.len(), managed), (c.arrived, 0, c.managed), "seed {seed}");
}

#[test]
fn a_row_of_the_log_reads_as_its_header_says() {
    let packet = PacketName { nth: 7, len: 54, ip: None, ports: None, segment: None };
    let dropped = PipeEvent::Dropped(DropReason::Full);
    let at = Instant::from_micros(1_500);
    let mut row = LogRow { at, pipe: 1, event: dropped, packet, packets: 2, bytes: 108 };
    assert_eq!(row.to_string(), "1500,1,drop,full,7,54,,,,,,2,108,,");
    let (src, dst) = (base::Addr::v4([10, 0, 0, 1]), base::Addr::v4([10, 0, 0, 2]));
    row.packet.ip = Some((6, src, dst));
    row.packet.ports = Some((80, 1024));
    row.packet.segment = Some((77, 1448));
    row.event = PipeEvent::Enqueued;
    assert_eq!(row.to_string(), "1500,1,enq,,7,54,6,10.0.0.1,80,10.0.0.2,1024,2,108,77,1448");
    assert_eq!(row.to_string().split(',').count(), LogRow::HEADER.split(',').count());
}

/// An IPv4 or IPv6 frame with these ECN bits.
fn ip_frame(v6: bool, ecn: u8) -> Packet {
    let mut bytes = vec![0; 14 + if v6 { 40 } else { 20 }];
    bytes[12..14].copy_from_slice(if v6 { &[0x86, 0xdd] } else { &[8, 0] });
    if v6 {
        bytes[14..16].copy_from_slice(&[0x60, ecn << 4]);
    } else {
        bytes[14..18].copy_from_slice(&[0x45, ecn, 0, 20]);
        let sum = wire::checksum::Sum::of(&bytes[14..34]).checksum();
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    Packet { bytes, ..Packet::default() }
}

#[test]
fn marks_go_to_those_who_hear_them_and_checksums_follow() {
    for v6 in [false, true] {
        for ecn in 0..4 {
            let mut pipe = Pipe::new(PipeConfig { aqm: Aqm::Step(0), ..slow() }, 1);
            let _ = pipe.enter(Instant::ZERO, frame(0, LEN), &mut Vec::new());
            pipe.enter(Instant::ZERO, ip_frame(v6, ecn), &mut Vec::new()).unwrap();
            let out = drain(&mut pipe).remove(1).1.bytes;
            let seen = if v6 { out[15] >> 4 } else { out[15] & 3 };
            assert_eq!(seen, if ecn == 0 { 0 } else { 3 }, "IPv6 {v6}, ECN {ecn}");
            assert_eq!(pipe.counters().marked, u64::from(ecn != 0));
            assert!(v6 || wire::checksum::Sum::of(&out[14..34]).is_valid());
        }
    }
}

#[test]
fn codel_keeps_a_standing_queue_short() {
    let aqm = Aqm::CoDel(CoDel::default());
    let longest = |aqm| {
        let mut pipe = Pipe::new(PipeConfig { aqm, queue: Queue::Slots(1_000), ..slow() }, 1);
        // Ten seconds at 5 % above the line's rate.
        for i in 0..10_000u32 {
            let now = Instant::from_micros(u64::from(i) * 952);
            let _ = pipe.enter(now, frame(i, LEN), &mut Vec::new());
        }
        conserved(&pipe);
        pipe.queue(Instant::from_micros(9_999 * 952)).0
    };
    assert!(longest(Aqm::None) > 400, "{}", longest(Aqm::None));
    assert!(longest(aqm) < 150, "{}", longest(aqm));
}
