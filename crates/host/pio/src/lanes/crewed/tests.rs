//! Goal: helpers mark what is sound and nothing else, whatever comes and whichever threads help; little, and what the
//! port knows already, is left alone; frames never get lost, also when a helper panics.
use super::super::worth::Worth;
use super::*;
use crate::pair::{Pair, PairConfig, pair};
use base::{Addr, Instant, Rng, Seq};
use std::sync::mpsc;
use wire::packet::{Below, Checked, Checksum, Content, Link, parse_frame};
use wire::tcp::{Flags, Header, Options};

/// A port that says of its packets what it is told to.
struct Told {
    below: Pair,
    caps: Caps,
    metas: mpsc::Receiver<Vec<RxMeta>>,
}

impl Layer for Told {
    type Below = Pair;

    fn below(&self) -> &Pair {
        &self.below
    }

    fn below_mut(&mut self) -> &mut Pair {
        &mut self.below
    }

    fn caps_above(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let count = self.below.rx(batch)?;
        for (packet, meta) in batch.iter_mut().zip(self.metas.try_iter().flatten()) {
            packet.meta = meta;
        }
        Ok(count)
    }
}

/// A TCP packet of either family.
fn segment(rng: &mut Rng, payload: usize, checksum: Checksum) -> Vec<u8> {
    let (src, dst) = match rng.chance(0.5) {
        true => (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])),
        false => (Addr::v6([0xfd; 16]), Addr::v6([0xfc; 16])),
    };
    let link = Some(Link { dst: [2; 6], src: [4; 6] });
    let below = Below { link, src, dst, tos: 0, ttl: 64, label: 0 };
    let header = Header {
        src_port: 1,
        dst_port: 2,
        seq: Seq::new(rng.next_u32()),
        ack: Seq::new(4),
        flags: Flags::ACK,
        window: 5,
        options: Options::NONE,
    };
    let headers = below.len() + header.len();
    let mut octets = vec![0; headers + payload];
    rng.fill(&mut octets[headers..]);
    below.emit_tcp(&header, payload, checksum, &mut octets);
    octets
}

/// Any packet: mostly long segments, some of them damaged somewhere.
fn packet(rng: &mut Rng) -> Vec<u8> {
    let payload = if rng.chance(0.8) { 1_400 } else { rng.below(1_400) };
    let checksum = if rng.chance(0.9) { Checksum::Full } else { Checksum::Offloaded };
    let mut octets = segment(rng, payload as usize, checksum);
    match rng.below(10) {
        0 => {
            let at = rng.below(octets.len() as u64) as usize;
            octets[at] ^= 1 << rng.below(8);
        }
        1 => octets.truncate(14 + rng.below(octets.len() as u64 - 14) as usize),
        2 => rng.fill(&mut octets),
        _ => {}
    }
    octets
}

fn put(far: &mut Pair, packets: &[Vec<u8>]) {
    let mut batch = TxBatch::new();
    for octets in packets {
        let mut frame = far.take().unwrap();
        frame.set_range(0, octets.len());
        frame.data_mut().copy_from_slice(octets);
        batch.push_back(TxPacket { frame, meta: TxMeta::default() });
    }
    assert_eq!(far.tx(&mut batch).unwrap(), packets.len());
}

/// Returns the verdict of a plain receiver.
fn checked(octets: &[u8]) -> Option<Checked> {
    match parse_frame(octets, octets.len()).ok()?.content {
        Content::Ip(ip) if ip.protocol == wire::protocol::TCP => Some(ip.checksum(octets)),
        _ => None,
    }
}

fn of(port: &dyn PacketIo, name: &str) -> u64 {
    port.stats().iter().find(|(row, _)| *row == name).map_or(0, |row| row.1)
}

/// Any packets of which the port says anything: what is said of them afterwards.
fn model(seed: u64, port: &mut Crewed, far: &mut Pair, tell: &dyn Fn(Vec<RxMeta>)) {
    let mut rng = Rng::new(seed);
    let (mut good, mut bad, local_peer) = (0, 0, port.caps().local_peer);
    for _ in 0..30 {
        let count = rng.below(BATCH_MAX as u64 + 1) as usize;
        let packets: Vec<_> = (0..count).map(|_| packet(&mut rng)).collect();
        let strange = rng.chance(0.5);
        let metas: Vec<_> = (0..count)
            .map(|_| match rng.below(20) {
                0 if strange => RxMeta { more: true, ..RxMeta::default() },
                1 if strange => RxMeta { checksum: RxChecksum::Verified, ..RxMeta::default() },
                2 if strange => RxMeta { checksum: RxChecksum::Partial, gso_size: 700, more: false },
                _ => RxMeta::default(),
            })
            .collect();
        put(far, &packets);
        tell(metas.clone());
        let mut batch = RxBatch::new();
        assert_eq!(port.rx(&mut batch).unwrap(), count);
        let piece = |nth: usize| metas[nth].more || nth > 0 && metas[nth - 1].more;
        let wanted = |nth: usize| {
            metas[nth].checksum == RxChecksum::Unverified && packets[nth].len() >= LONG && !piece(nth)
        };
        let shared = (0..count).filter(|nth| wanted(*nth)).count() >= 8;
        for (nth, got) in batch.drain(..).enumerate() {
            assert_eq!(got.frame.data(), packets[nth], "in order, and as it came");
            let (before, after) = (metas[nth], got.meta);
            assert_eq!((after.gso_size, after.more), (before.gso_size, before.more));
            let expected = match checked(&packets[nth]) {
                _ if !shared || !wanted(nth) => before.checksum,
                Some(Checked::Good) => RxChecksum::Verified,
                Some(Checked::Partial) if local_peer => RxChecksum::Partial,
                _ => RxChecksum::Unverified,
            };
            assert_eq!(after.checksum, expected, "packet {nth} of seed {seed}");
            let judged = u64::from(shared && wanted(nth));
            (good, bad) = match expected {
                RxChecksum::Unverified => (good, bad + judged),
                _ => (good + judged, bad),
            };
            port.retire(got.frame);
        }
    }
    assert!(good > 0 && bad > 0, "some of each, seed {seed}");
    assert_eq!((of(port, "lanes_rx_verified"), of(port, "lanes_rx_unsound")), (good, bad));
}

#[test]
fn what_is_sound_is_marked_and_nothing_else() {
    for seed in 0..if cfg!(miri) { 1 } else { 40 } {
        let (near, mut far) = pair(&PairConfig::default()).unwrap();
        let caps = Caps { local_peer: seed % 2 == 0, ..near.caps().clone() };
        let (says, metas) = mpsc::channel();
        let crew = Crew::start(1 + seed as usize % 3, "lane", |_| {}).unwrap();
        let mut port = Crewed::on(Box::new(Told { below: near, caps, metas }), crew, Sharing::Always);
        model(seed, &mut port, &mut far, &|metas| says.send(metas).unwrap());
    }
}

/// A helper that never comes to its work: everything is done without it.
#[test]
fn helpers_that_never_come_are_not_missed() {
    let (hold, held) = mpsc::channel::<()>();
    let held = std::sync::Arc::new(std::sync::Mutex::new(held));
    let (near, mut far) = pair(&PairConfig::default()).unwrap();
    let crew = Crew::start(1, "lane", move |_| assert!(held.lock().unwrap().recv().is_err())).unwrap();
    let mut port = Crewed::on(Box::new(near), crew, Sharing::Always);
    let mut rng = Rng::new(1);
    for _ in 0..10 {
        let packets: Vec<_> = (0..BATCH_MAX).map(|_| segment(&mut rng, 1_400, Checksum::Full)).collect();
        put(&mut far, &packets);
        let mut batch = RxBatch::new();
        assert_eq!(port.rx(&mut batch).unwrap(), BATCH_MAX);
        for packet in batch {
            assert_eq!(packet.meta.checksum, RxChecksum::Verified);
            port.retire(packet.frame);
        }
    }
    assert_eq!(of(&port, "lanes_rx_batches"), 10);
    drop(hold);
}

#[test]
fn a_helpers_panic_ends_the_port_and_frames_come_back() {
    let (near, mut far) = pair(&PairConfig::default()).unwrap();
    let crew = Crew::start(1, "lane", |_| {}).unwrap();
    let mut port = Crewed::on(Box::new(near), crew, Sharing::Always);
    let owner = std::thread::current().id();
    let work = |_: usize, _: &mut [u8]| {
        assert!(std::thread::current().id() == owner, "a helper's panic, which is part of the test");
        std::thread::yield_now();
    };
    // Nothing that arrives makes a helper panic; work of another kind does.
    while port.crew().unwrap().each(&mut [0; 64], 1, &work).is_ok() {}
    let mut rng = Rng::new(1);
    let all: Vec<_> = std::iter::from_fn(|| port.take()).collect();
    let packets: Vec<_> = (0..BATCH_MAX).map(|_| segment(&mut rng, 1_400, Checksum::Full)).collect();
    put(&mut far, &packets);
    let mut batch = RxBatch::new();
    for _ in 0..2 {
        assert!(matches!(port.rx(&mut batch), Err(IoError::Gone)));
        assert!(batch.is_empty(), "nothing is handed up whose outcome is unknown");
    }
    let came = port.take().expect("those of what arrived are free");
    all.into_iter().chain([came]).for_each(|frame| port.retire(frame));
}

/// A helper costs more than it gives, then less: the clock says so, and it is left out, and asked again.
#[test]
#[cfg_attr(miri, ignore = "it is long, and nothing in it is unsafe")]
fn helpers_are_asked_where_the_clock_says_that_they_are_worth_it() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    let (near, mut far) = pair(&PairConfig::default()).unwrap();
    let time = Arc::new(AtomicU64::new(0));
    let read = time.clone();
    let clock = move || Instant::ZERO + Duration::from_nanos(read.load(Ordering::Relaxed));
    let crew = Crew::start(1, "lane", |_| {}).unwrap();
    let mut port =
        Crewed::on(Box::new(near), crew, Sharing::WhereWorth(Box::new(Worth::new()), Box::new(clock)));
    let packets = vec![segment(&mut Rng::new(1), 600, Checksum::Full); BATCH_MAX];
    // Of so many batches, how many are shared, if each then takes so long, and else 5 microseconds.
    let mut run = |batches: u64, took: u64| {
        let before = of(&port, "lanes_rx_batches");
        for _ in 0..batches {
            put(&mut far, &packets);
            let (mut batch, known) = (RxBatch::new(), of(&port, "lanes_rx_batches"));
            assert_eq!(port.rx(&mut batch).unwrap(), BATCH_MAX);
            let shared = of(&port, "lanes_rx_batches") > known;
            let sound = if shared { RxChecksum::Verified } else { RxChecksum::Unverified };
            assert!(batch.iter().all(|packet| packet.meta.checksum == sound));
            time.fetch_add(if shared { took } else { 5_000 }, Ordering::Relaxed);
            port.retire_all(&mut batch);
        }
        of(&port, "lanes_rx_batches") - before
    };
    let tried = run(2_500, 6_000);
    assert!(tried > 0 && tried < 1_000, "{tried} of 2500");
    let cheap = run(12_000, 3_000);
    assert!(cheap > 6_000, "{cheap} of 12000");
    let dear = run(2_500, 30_000);
    assert!(dear < 200, "{dear} of 2500");
    assert_eq!((of(&port, "lanes_rx_trials"), of(&port, "lanes_rx_sharing")), (2, 0));
    assert!(port.crew_to_read().is_none(), "nor is it to copy");
}
