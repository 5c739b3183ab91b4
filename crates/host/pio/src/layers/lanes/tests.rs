//! Goal: what is cut is what one who cuts by the book would send, whatever the number of lanes, the pieces of the
//! payload and the room below; frames never get lost; a lane that panics ends the port.
use super::*;
use crate::pair::{Pair, PairConfig, pair};
use base::{Addr, Rng, Seq};
use wire::packet::{Below, Checked, Checksum, Content, Link, parse_frame};
use wire::tcp::{Flags, Header, Options, Timestamps};

/// Payload of a packet beside IPv6 and timestamps, bytes.
const MSS: usize = 1_428;

fn clock() -> Instant {
    Instant::from_secs(1)
}

fn lanes(below: Pair, lanes: u16) -> Box<dyn PacketIo> {
    Lanes::over(Box::new(below), lanes, "lane", clock, |_| {}).unwrap()
}

fn header(seq: u32) -> Header {
    Header {
        src_port: 1,
        dst_port: 2,
        seq: Seq::new(seq),
        ack: Seq::new(4),
        flags: Flags::ACK | Flags::PSH,
        window: 5,
        options: Options { timestamps: Some(Timestamps { val: 6, ecr: 7 }), ..Options::default() },
    }
}

fn below(v4: bool) -> Below {
    let (src, dst) = match v4 {
        true => (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])),
        false => (Addr::v6([0xfd; 16]), Addr::v6([0xfc; 16])),
    };
    Below { link: Some(Link { dst: [2; 6], src: [4; 6] }), src, dst, tos: 0, ttl: 64, label: 0 }
}

/// Returns the request of a stack for a segment of so much payload.
fn request(below: &Below, header: &Header, payload: usize) -> TxMeta {
    let start = below.len() as u16;
    let cut = SegmentationOffload {
        size: MSS as u16,
        header_len: start + header.len() as u16,
        v6: !below.src.is_v4(),
    };
    let checksum = Some(ChecksumOffload { start, offset: wire::tcp::CHECKSUM_OFFSET as u16 });
    TxMeta { checksum, segmentation: (payload > MSS).then_some(cut) }
}

/// Hands a segment over as a stack does: from where it lies if the port likes, in pieces cut by `rng`, else in a frame.
fn offer(
    port: &mut dyn PacketIo,
    batch: &mut TxBatch,
    rng: &mut Rng,
    seq: u32,
    payload: &[u8],
    gather: bool,
) -> bool {
    let (below, header) = (below(rng.chance(0.5)), header(seq));
    let headers = below.len() + header.len();
    let summed = port.caps().tx_checksum || payload.len() > MSS;
    let meta = if summed { request(&below, &header, payload.len()) } else { TxMeta::default() };
    let taken = if headers + payload.len() > 1_514 { port.take_long() } else { port.take() };
    let Some(mut frame) = taken else { return false };
    let room = frame.headroom();
    frame.set_range(room, headers + payload.len());
    // Sums of the payload come with it.
    frame.data_mut()[headers..].copy_from_slice(payload);
    let checksum = if summed { Checksum::Offloaded } else { Checksum::Full };
    below.emit_tcp(&header, payload.len(), checksum, frame.data_mut());
    if gather && batch.is_empty() && payload.len() >= port.gather().unwrap().gather_from() {
        frame.set_range(room, headers);
        let mut cuts: Vec<usize> =
            (0..rng.below(9)).map(|_| rng.below(payload.len() as u64) as usize).collect();
        cuts.extend([0, payload.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|ends| IoSlice::new(&payload[ends[0]..ends[1]])).collect();
        if port.gather().unwrap().tx_gather(&mut frame, &meta, &pieces) {
            port.retire(frame);
            return true;
        }
        frame.set_range(room, headers + payload.len());
    }
    batch.push_back(TxPacket { frame, meta });
    true
}

/// Takes and checks packets: the payload with its sequence number.
fn arrived(far: &mut Pair, into: &mut Vec<(u32, Vec<u8>)>) -> usize {
    let mut batch = RxBatch::new();
    let count = far.rx(&mut batch).unwrap();
    for packet in batch.drain(..) {
        let bytes = packet.frame.data();
        let Ok(wire::packet::Frame { content: Content::Ip(ip), .. }) = parse_frame(bytes, bytes.len()) else {
            panic!("no IP packet")
        };
        assert_eq!(ip.checksum(bytes), Checked::Good);
        assert!(bytes.len() <= 1_514);
        let (_, _, segment) = ip.tcp(bytes).unwrap();
        into.push((segment.seq.raw(), segment.payload.to_vec()));
        far.retire(packet.frame);
    }
    count
}

/// Segments of any size through lanes, in frames and from where they lie, over a cable with little room and few frames.
fn model(seed: u64, lanes_count: u16) -> Vec<(u32, Vec<u8>)> {
    let mut rng = Rng::new(seed);
    // More than a stack builds before it kicks, as every port has.
    let frames = 40 + rng.below(200) as u32;
    let config = PairConfig { frames, depth: 8 + rng.below(100) as usize, ..PairConfig::default() };
    let (near, mut far) = pair(&config).unwrap();
    let mut port = lanes(near, lanes_count);
    let (mut batch, mut out) = (TxBatch::new(), Vec::new());
    let (mut seq, mut expected) = (rng.next_u32(), Vec::new());
    for _ in 0..60 {
        let most = if rng.chance(0.5) { MSS as u64 } else { 60_000 };
        let mut payload = vec![0; rng.below(most) as usize];
        rng.fill(&mut payload);
        // Refused where frames lack, which depends on nothing but what came before.
        let gather = rng.chance(0.6);
        if offer(&mut *port, &mut batch, &mut rng, seq, &payload, gather) {
            let parts = payload.chunks(MSS).enumerate();
            expected.extend(parts.map(|(nth, part)| (seq.wrapping_add((nth * MSS) as u32), part.to_vec())));
            if payload.is_empty() {
                expected.push((seq, Vec::new()));
            }
            seq = seq.wrapping_add(payload.len() as u32);
        }
        if rng.chance(0.5) || batch.len() >= 16 {
            port.tx(&mut batch).unwrap();
        }
        if rng.chance(0.6) {
            arrived(&mut far, &mut out);
        }
    }
    // All of it arrives, though the stack has nothing more to say: the port asks to be called.
    for round in 0.. {
        assert!(round < 10_000, "stuck with {} of {} segments, seed {seed}", out.len(), expected.len());
        port.tx(&mut batch).unwrap();
        let mut nothing = RxBatch::new();
        port.rx(&mut nothing).unwrap();
        if arrived(&mut far, &mut out) == 0 && batch.is_empty() && port.delays().unwrap().due().is_none() {
            break;
        }
    }
    assert!(out == expected, "seed {seed}: {} segments of {}", out.len(), expected.len());
    out
}

#[test]
fn whatever_is_sent_arrives_cut_and_in_order_for_any_number_of_lanes() {
    for seed in 0..if cfg!(miri) { 1 } else { 60 } {
        let one = model(seed, 1);
        for lanes in [2, 4] {
            assert!(model(seed, lanes) == one, "seed {seed}, {lanes} lanes");
        }
    }
}

/// Several super-segments at once, with frames for all of them, for some, or for none, and others behind them.
#[test]
fn several_at_once_arrive_in_order_whatever_frames_there_are() {
    for seed in 0..if cfg!(miri) { 1 } else { 60 } {
        let mut rng = Rng::new(seed);
        let frames = 20 + rng.below(300) as u32;
        let (near, mut far) = pair(&PairConfig { frames, depth: 64, ..PairConfig::default() }).unwrap();
        let mut port = lanes(near, 2 + rng.below(3) as u16);
        let (mut seq, mut expected, mut out) = (rng.next_u32(), Vec::new(), Vec::new());
        let mut batch = TxBatch::new();
        for _ in 0..30 {
            // What waits to be handed over comes before, as in a stack.
            let room =
                if batch.is_empty() { port.gather().unwrap().gathers_at_once().unwrap_or(0) } else { 0 };
            let count = rng.below(room as u64 + 1) as usize;
            let payloads: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    let mut payload = vec![0; MSS + 1 + rng.below(60_000) as usize];
                    rng.fill(&mut payload);
                    payload
                })
                .collect();
            let below = below(rng.chance(0.5));
            let mut made = Vec::new();
            for payload in &payloads {
                let header = header(seq);
                let headers = below.len() + header.len();
                let mut head = vec![0; headers + payload.len()];
                below.emit_tcp(&header, payload.len(), Checksum::Offloaded, &mut head);
                head.truncate(headers);
                let parts = payload.chunks(MSS).enumerate();
                expected
                    .extend(parts.map(|(nth, part)| (seq.wrapping_add((nth * MSS) as u32), part.to_vec())));
                seq = seq.wrapping_add(payload.len() as u32);
                let (one, two) = payload.split_at(rng.below(payload.len() as u64) as usize);
                made.push((
                    head,
                    request(&below, &header, payload.len()),
                    [IoSlice::new(one), IoSlice::new(two)],
                ));
            }
            let all: Vec<_> = made
                .iter()
                .map(|(headers, meta, payload)| Gather { headers, meta: *meta, payload })
                .collect();
            port.gather().unwrap().tx_gather_all(&all);
            if rng.chance(0.5) && offer(&mut *port, &mut batch, &mut rng, seq, b"behind", false) {
                expected.push((seq, b"behind".to_vec()));
                seq = seq.wrapping_add(6);
                port.tx(&mut batch).unwrap();
            }
            if rng.chance(0.7) {
                arrived(&mut far, &mut out);
            }
        }
        for round in 0.. {
            assert!(round < 10_000, "stuck with {} of {} segments, seed {seed}", out.len(), expected.len());
            port.tx(&mut batch).unwrap();
            if arrived(&mut far, &mut out) == 0 && batch.is_empty() && port.delays().unwrap().due().is_none()
            {
                break;
            }
        }
        assert!(out == expected, "seed {seed}: {} segments of {}", out.len(), expected.len());
    }
}

#[test]
fn a_port_that_cuts_and_sums_is_left_alone() {
    let (near, _far) = pair(&PairConfig::offloads()).unwrap();
    let mut port = lanes(near, 4);
    assert!(port.gather().is_none());
    assert!(port.stats().iter().all(|(name, _)| *name != "lanes"), "but for what arrives");
    let (near, _far) = pair(&PairConfig::default()).unwrap();
    let mut port = lanes(near, 2);
    assert!(!port.caps().tx_checksum && port.caps().tso_max > 60_000 && port.gather().is_some());
    assert!(port.stats().contains(&("lanes", 2)));
}

#[test]
fn a_port_that_only_sums_gets_segments_to_sum() {
    let (near, mut far) = pair(&PairConfig { tx_checksum: true, ..PairConfig::default() }).unwrap();
    let mut port = lanes(near, 2);
    let mut batch = TxBatch::new();
    assert!(offer(&mut *port, &mut batch, &mut Rng::new(1), 1, &[7; 40_000], true));
    port.tx(&mut batch).unwrap();
    let mut got = RxBatch::new();
    assert_eq!(far.rx(&mut got).unwrap(), 40_000_usize.div_ceil(MSS));
    assert!(
        got.iter().all(|packet| packet.meta.checksum == RxChecksum::Partial && packet.meta.gso_size == 0)
    );
}

#[test]
fn nonsense_is_counted_and_its_frame_comes_back() {
    let (near, mut far) = pair(&PairConfig::default()).unwrap();
    let mut port = lanes(near, 1);
    let mut batch = TxBatch::new();
    let metas: [fn(&mut TxMeta); 4] = [
        |meta| meta.segmentation.as_mut().unwrap().size = 0,
        |meta| meta.segmentation.as_mut().unwrap().size = 4_000,
        |meta| meta.segmentation.as_mut().unwrap().header_len = 9_999,
        |meta| meta.checksum = None,
    ];
    for spoil in metas {
        for _ in 0..2 * SLOTS {
            assert!(
                offer(&mut *port, &mut batch, &mut Rng::new(1), 1, &[7; 9_000], false),
                "frames come back"
            );
            spoil(&mut batch[0].meta);
            assert_eq!(port.tx(&mut batch).unwrap(), 1);
        }
    }
    assert!(port.stats().contains(&("lanes_invalid", 8 * u64::from(SLOTS))));
    assert_eq!(arrived(&mut far, &mut Vec::new()), 0);
}

#[test]
fn what_lanes_lost_ends_the_port_and_nothing_is_sent() {
    let (near, mut far) = pair(&PairConfig::default()).unwrap();
    let worker_pool = WorkerPool::start(1, "lane", |_| {}).unwrap();
    let mut port = Lanes::on(Box::new(near), Some(worker_pool), clock, Sharing::Always).unwrap();
    let owner = std::thread::current().id();
    // Nothing that is sent makes a lane panic; work of another kind does.
    while port
        .worker_pool
        .as_mut()
        .unwrap()
        .each(&mut [0; 64], 1, &|_, _: &mut [u8]| panic_unless(owner))
        .is_ok()
    {}
    let (mut batch, mut rng) = (TxBatch::new(), Rng::new(1));
    assert!(offer(&mut port, &mut batch, &mut rng, 1, &[7; 40_000], true), "in a frame, for it was refused");
    assert_eq!(batch.len(), 1);
    for _ in 0..2 {
        assert!(matches!(port.tx(&mut batch), Err(IoError::Gone)));
        assert!(matches!(port.rx(&mut RxBatch::new()), Err(IoError::Gone)));
        assert!(Delays::due(&port).is_none(), "there is nothing to wait for");
    }
    assert_eq!(far.rx(&mut RxBatch::new()).unwrap(), 0);
    drop(port);
    assert!(
        matches!(far.rx(&mut RxBatch::new()), Err(IoError::Gone)),
        "its frames are back, its helper has ended"
    );
}

/// A helper panics; the owner waits a little, so that there is something for one.
fn panic_unless(owner: std::thread::ThreadId) {
    assert!(std::thread::current().id() == owner, "a lane's panic, which is part of the test");
    std::thread::yield_now();
}

/// Whether helpers are worth it is tried, and the answer changes; what arrives and in which order does not.
#[test]
#[cfg_attr(miri, ignore = "it is long, and what is unsafe in it others test")]
fn whether_it_is_shared_changes_nothing() {
    let (near, mut far) = pair(&PairConfig { frames: 256, depth: 100, ..PairConfig::default() }).unwrap();
    // Time goes by as it likes, so any level may seem the best.
    let time = std::sync::Mutex::new((Instant::from_secs(1), Rng::new(8)));
    let restless = move || {
        let mut time = time.lock().unwrap();
        let (at, rng) = &mut *time;
        *at += Duration::from_nanos(rng.below(400_000));
        *at
    };
    let sharing = Sharing::WhereWorth(Box::new(Worth::new()), Box::new(restless));
    let worker_pool = WorkerPool::start(2, "lane", |_| {}).unwrap();
    let mut port = Lanes::on(Box::new(near), Some(worker_pool), clock, sharing).unwrap();
    let (mut batch, mut rng, mut seq) = (TxBatch::new(), Rng::new(1), 0);
    for _ in 0..3_000 {
        let mut payload = vec![0; MSS * (1 + rng.below(40) as usize)];
        rng.fill(&mut payload[..MSS]);
        let gather = rng.chance(0.5);
        assert!(offer(&mut port, &mut batch, &mut rng, seq, &payload, gather));
        let mut out = Vec::new();
        while arrived(&mut far, &mut out) > 0 || !batch.is_empty() {
            port.tx(&mut batch).unwrap();
        }
        let expected = payload.chunks(MSS).enumerate();
        let expected = expected.map(|(nth, part)| (seq + (nth * MSS) as u32, part.to_vec()));
        assert!(out.into_iter().eq(expected), "from {seq} on");
        seq += payload.len() as u32;
    }
    let stats = port.stats();
    let of = |name| stats.iter().find(|(row, _)| *row == name).map_or(0, |row| row.1);
    assert!(of("lanes_trials") > 0 && of("lanes_shared") > 0, "{stats:?}");
    assert!(of("lanes_shared") < of("lanes_supers") / 2, "{stats:?}");
}
