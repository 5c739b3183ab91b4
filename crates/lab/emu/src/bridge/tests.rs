//! Goal: what arrives leaves as the pipe says, however late its owner calls; the wire's sizes and sums are right;
//! memory is bounded; the forensic log adds up.
use super::*;
use crate::nic;
use crate::pipe::check_log;
use crate::{DropReason, LogRow, Queue};
use base::{Addr, Rate};
use pio::{Pair, PairConfig, RxPacket, pair};
use std::sync::{Arc, Mutex};
use wire::packet::{Below, Checked, Checksum, Content, Link, parse_frame};
use wire::tcp::{Flags, Header, Options};

/// A bridge with the far end of each cable.
fn bridge(cables: &PairConfig, pipes: [PipeConfig; 2]) -> (Bridge, Pair, Pair) {
    let (left, near) = pair(cables).unwrap();
    let (right, far) = pair(cables).unwrap();
    (Bridge::new([Box::new(near), Box::new(far)], pipes, 1), left, right)
}

fn send(port: &mut Pair, bytes: &[u8], meta: TxMeta) {
    let mut frame = port.take().unwrap();
    let start = frame.headroom();
    frame.set_range(start, bytes.len());
    frame.data_mut().copy_from_slice(bytes);
    let mut batch = TxBatch::from([TxPacket { frame, meta }]);
    assert_eq!(port.tx(&mut batch).unwrap(), 1);
}

/// Everything that has arrived.
fn received(port: &mut Pair) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut batch = RxBatch::new();
    while port.rx(&mut batch).unwrap() > 0 {
        for RxPacket { frame, .. } in batch.drain(..) {
            all.push(frame.data().to_vec());
            port.retire(frame);
        }
    }
    all
}

fn turn(bridge: &mut Bridge, micros: u64) -> Option<u64> {
    let now = Instant::from_micros(micros);
    bridge.receive(now).unwrap();
    bridge.send(now).unwrap().map(Instant::as_micros)
}

fn below() -> Below {
    let (src, dst) = (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]));
    Below { link: Some(Link { dst: [2; 6], src: [4; 6] }), src, dst, tos: 0, ttl: 64, label: 7 }
}

/// A TCP segment whose checksum is left to hardware.
fn open_segment(payload: usize) -> (Vec<u8>, usize) {
    let header = Header {
        src_port: 1,
        dst_port: 2,
        seq: base::Seq::new(100),
        ack: base::Seq::new(200),
        flags: Flags::ACK | Flags::PSH,
        window: 1_000,
        options: Options::default(),
    };
    let headers = below().len() + header.len();
    let mut bytes: Vec<u8> = (0..headers + payload).map(|i| (i * 7) as u8).collect();
    below().emit_tcp(&header, payload, Checksum::Offloaded, &mut bytes);
    (bytes, headers)
}

fn checksum(bytes: &[u8]) -> Checked {
    let Content::Ip(ip) = parse_frame(bytes, bytes.len()).unwrap().content else { panic!("no IP") };
    ip.checksum(bytes)
}

fn slow() -> PipeConfig {
    PipeConfig {
        rate: Some(Rate::from_bytes_per_sec(1_000_000)),
        delay: Duration::from_millis(5),
        ..PipeConfig::default()
    }
}

#[test]
fn frames_leave_when_the_pipe_says_and_not_before() {
    let (mut bridge, mut left, mut right) = bridge(&PairConfig::default(), [slow(), PipeConfig::default()]);
    send(&mut left, &[1; 1000], TxMeta::default());
    send(&mut left, &[2; 1000], TxMeta::default());
    send(&mut right, &[3; 60], TxMeta::default());
    assert_eq!(turn(&mut bridge, 10_000), Some(16_000), "a millisecond on the line, five on the way");
    assert_eq!(received(&mut left), [[3; 60]], "the way back is a plain wire");
    assert_eq!(turn(&mut bridge, 15_999), Some(16_000));
    assert!(received(&mut right).is_empty());
    assert_eq!(turn(&mut bridge, 16_000), Some(17_000));
    assert_eq!(received(&mut right), [[1; 1000]]);
    // Late is late, but nothing is lost and the line was not idle meanwhile.
    assert_eq!(turn(&mut bridge, 17_250), None);
    assert_eq!(received(&mut right), [[2; 1000]]);
    let late = bridge.lateness(0);
    assert_eq!((late.len(), late.value_at_quantile(0.5), late.max()), (2, 0, 250));
    assert_eq!((bridge.counters(0).received, bridge.counters(0).sent, bridge.counters(1).sent), (2, 2, 1));
}

#[test]
fn super_segments_are_cut_and_sums_completed() {
    let plain = || [PipeConfig::default(), PipeConfig::default()];
    let (mut bridge, mut left, mut right) = bridge(&PairConfig::offloads(), plain());
    let (bytes, headers) = open_segment(4_000);
    let sum = pio::ChecksumOffload { start: below().len() as u16, offset: 16 };
    let cut = pio::SegmentationOffload { size: 1_460, header_len: headers as u16, v6: false };
    send(&mut left, &bytes, TxMeta { checksum: Some(sum), segmentation: Some(cut) });
    let (bytes, _) = open_segment(100);
    send(&mut left, &bytes, TxMeta { checksum: Some(sum), segmentation: None });
    turn(&mut bridge, 1);
    let got = received(&mut right);
    assert_eq!(got.iter().map(|bytes| bytes.len() - headers).collect::<Vec<_>>(), [1_460, 1_460, 1_080, 100]);
    assert!(got.iter().all(|bytes| checksum(bytes) == Checked::Good));
    let counters = bridge.counters(0);
    assert_eq!((counters.received, counters.cut, counters.completed, counters.sent), (2, 1, 1, 4));
    assert_eq!(bridge.pipe(0).counters().arrived, 4, "the pipe sees what a wire sees");
}

#[test]
fn datagrams_of_one_write_are_cut() {
    let mut udp = vec![0x5a; 14 + 20 + 8 + 2_500];
    below().emit(wire::protocol::UDP, 8 + 2_500, &mut udp);
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let cut = nic::segment(pio::Medium::Ethernet, &udp, 1_000, &mut Vec::new(), |bytes| {
        pieces.push(bytes.to_vec())
    });
    assert!(cut && pieces.iter().map(Vec::len).eq([1_042, 1_042, 542]));
    for piece in &pieces {
        let Content::Ip(ip) = parse_frame(piece, piece.len()).unwrap().content else { panic!("no IP") };
        let upper = ip.upper(piece);
        assert!(ip.pseudo().plus(wire::checksum::Sum::of(upper)).is_valid());
        assert_eq!(usize::from(u16::from_be_bytes([upper[4], upper[5]])), upper.len());
        assert!(upper[8..].iter().all(|byte| *byte == 0x5a));
    }
    udp[23] = wire::protocol::ICMP;
    assert!(!nic::segment(pio::Medium::Ethernet, &udp, 1_000, &mut Vec::new(), |_| panic!(
        "ICMP is not cut"
    )));
}

#[test]
fn what_is_too_big_for_the_other_end_is_cut_or_dropped() {
    let (mut left, near) = pair(&PairConfig { mtu: 9_000, ..PairConfig::default() }).unwrap();
    let (far, mut right) = pair(&PairConfig::default()).unwrap();
    let pipes = [PipeConfig::default(), PipeConfig::default()];
    let mut bridge = Bridge::new([Box::new(near), Box::new(far)], pipes, 1);
    // As AF_XDP hands a super-segment over: without its size, its checksum open.
    let (mut bytes, headers) = open_segment(4_000);
    send(&mut left, &bytes, TxMeta::default());
    bytes[23] = wire::protocol::UDP;
    send(&mut left, &bytes, TxMeta::default());
    turn(&mut bridge, 1);
    let got = received(&mut right);
    assert_eq!(got.iter().map(|bytes| bytes.len() - headers).collect::<Vec<_>>(), [1_460, 1_460, 1_080]);
    assert!(got.iter().all(|bytes| checksum(bytes) == Checked::Good));
    assert_eq!(bridge.counters(0).oversize, 1);
}

#[test]
fn open_sums_are_recognised_and_sound_ones_left_alone() {
    let (mut bytes, _) = open_segment(99);
    assert!(nic::is_open(&bytes) && nic::complete(&mut bytes) && !nic::is_open(&bytes));
    assert_eq!(checksum(&bytes), Checked::Good);
    let mut udp = vec![0x5a; 14 + 20 + 8 + 31];
    below().emit(wire::protocol::UDP, 8 + 31, &mut udp);
    let Content::Ip(ip) = parse_frame(&udp, udp.len()).unwrap().content else { panic!("no IP") };
    udp[40..42].copy_from_slice(&ip.pseudo().fold().to_be_bytes());
    assert!(nic::is_open(&udp) && nic::complete(&mut udp) && !nic::is_open(&udp));
    assert!(ip.pseudo().plus(wire::checksum::Sum::of(ip.upper(&udp))).is_valid());
    udp[50] ^= 1;
    assert!(!nic::is_open(&udp), "damaged is not open");
    assert!(!nic::is_open(&[0; 60]) && !nic::complete(&mut [0; 60]));
}

#[test]
fn memory_is_bounded_and_nothing_is_lost_silently() {
    let config = PipeConfig { holds: Some(100), ..slow() };
    let (mut bridge, mut left, mut right) = bridge(&PairConfig::default(), [config, PipeConfig::default()]);
    for lot in 0..20 {
        for _ in 0..50 {
            send(&mut left, &[0; 1000], TxMeta::default());
        }
        turn(&mut bridge, lot);
    }
    let pipe = bridge.pipe(0);
    assert_eq!((pipe.under_way(), pipe.counters().full), (100, 900));
    // The far end's ring is full for a while: late, not lost.
    let mut got = 0;
    let mut now = 1_000_000;
    while let Some(next) = turn(&mut bridge, now) {
        assert!(next < now + 100 || next == now + 50, "{now} {next}");
        now = next.max(now + 1);
        got += received(&mut right).len();
    }
    got += received(&mut right).len();
    assert_eq!((got, bridge.counters(0).sent), (100, 100));
}

#[test]
fn the_log_adds_up_however_irregularly_time_is_told() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let config = PipeConfig {
            queue: Queue::Strict(5_000),
            loss: 0.02,
            jitter: Duration::from_millis(1),
            discard: "2,5-6".parse().unwrap(),
            ..slow()
        };
        let (mut bridge, mut left, mut right) =
            bridge(&PairConfig::default(), [config, PipeConfig::default()]);
        let rows = Arc::new(Mutex::new(Vec::<LogRow>::new()));
        let sink = rows.clone();
        bridge.pipe_mut(0).log(move |row| sink.lock().unwrap().push(*row));
        let (mut now, mut got) = (0, 0);
        for _ in 0..500 {
            // A sleepy owner: sometimes early, sometimes ten milliseconds late.
            let most = if rng.chance(0.1) { 10_000 } else { 500 };
            now += rng.below(most);
            for _ in 0..rng.below(3) {
                send(&mut left, &vec![0; 60 + rng.below(1400) as usize], TxMeta::default());
            }
            turn(&mut bridge, now);
            got += received(&mut right).len() as u64;
        }
        turn(&mut bridge, now + 1_000_000);
        got += received(&mut right).len() as u64;
        let counters = bridge.pipe(0).counters().clone();
        assert!(counters.full > 0 && counters.lost > 0 && counters.listed == 3, "seed {seed}: {counters:?}");
        assert_eq!(got, counters.delivered, "seed {seed}");
        let rows = rows.lock().unwrap();
        assert!(rows.iter().any(|row| row.event == crate::PipeEvent::Dropped(DropReason::Full)));
        check_log(&rows, bridge.pipe(0), seed);
    }
}
