//! Goal: every packet arrives once, whole and in order; no frame is ever lost; limits hold.
use super::*;
use crate::tests::testnet::Wait;
use base::Duration;
use base::Rng;
use std::collections::VecDeque;

fn packet(port: &mut Pair, bytes: &[u8], meta: TxMeta) -> Option<TxPacket> {
    let mut frame = port.take()?;
    frame.set_range(0, bytes.len());
    frame.data_mut().copy_from_slice(bytes);
    Some(TxPacket { frame, meta })
}

/// Sends unless frames or depth are exhausted.
fn send(port: &mut Pair, bytes: &[u8], meta: TxMeta) -> bool {
    let mut batch: TxBatch = packet(port, bytes, meta).into_iter().collect();
    let sent = port.tx(&mut batch).unwrap();
    batch.into_iter().for_each(|packet| port.retire(packet.frame));
    sent == 1
}

fn frames_of(port: &Pair) -> usize {
    port.free.len() + port.incoming.packets.waiting() + port.incoming.spares.waiting()
}

/// Two ends against two plain queues.
fn model(rng: &mut Rng, steps: usize) {
    let (frames, depth) = (1 + rng.below(200) as u32, 1 + rng.below(100) as usize);
    let (a, b) = pair(&PairConfig { frames, depth, ..Default::default() }).unwrap();
    let mut ends = [a, b];
    let mut under_way = [VecDeque::new(), VecDeque::new()];
    let mut held: [Vec<Frame>; 2] = [Vec::new(), Vec::new()];
    let mut batch = RxBatch::new();
    // One end sends more than the other, so spares must travel.
    let lean = rng.below(100);
    for _ in 0..steps {
        let from = usize::from(rng.below(100) < lean);
        match rng.below(4) {
            0 | 1 => {
                let bytes = rng.next_u64().to_le_bytes();
                if send(&mut ends[from], &bytes, TxMeta::default()) {
                    under_way[from].push_back(bytes);
                }
                assert!(under_way[from].len() <= depth);
            }
            2 => {
                let got = ends[1 - from].rx(&mut batch).unwrap();
                assert_eq!((got, got), (batch.len(), under_way[from].len().min(BATCH_MAX)));
                for packet in batch.drain(..) {
                    assert_eq!(packet.frame.data(), under_way[from].pop_front().unwrap());
                    held[1 - from].push(packet.frame);
                }
            }
            _ => {
                let end = &mut ends[1 - from];
                held[1 - from].drain(..).for_each(|frame| end.retire(frame));
            }
        }
        let all: usize = ends.iter().map(frames_of).sum::<usize>() + held[0].len() + held[1].len();
        assert_eq!(all, 2 * frames as usize);
    }
}

#[test]
fn two_queues_model() {
    for seed in 0..if cfg!(miri) { 2 } else { 60 } {
        eprintln!("seed {seed}");
        model(&mut Rng::new(seed), if cfg!(miri) { 100 } else { 2000 });
    }
}

#[test]
fn one_way_traffic_never_starves() {
    let (mut a, mut b) = pair(&PairConfig { frames: 256, ..Default::default() }).unwrap();
    let mut batch = RxBatch::new();
    for round in 0..if cfg!(miri) { 400 } else { 10_000u32 } {
        assert!(send(&mut a, &round.to_be_bytes(), TxMeta::default()), "round {round}");
        assert_eq!(b.rx(&mut batch).unwrap(), 1);
        b.retire(batch.pop().unwrap().frame);
    }
}

#[test]
fn offloads_only_where_offered() {
    let checksum = Some(ChecksumOffload { start: 34, offset: 16 });
    let segmentation = Some(SegmentationOffload { size: 1448, header_len: 66, v6: false });
    let big = vec![7; 60_000];
    let mut batch = RxBatch::new();

    let (mut a, mut b) = pair(&PairConfig::default()).unwrap();
    assert!(send(&mut a, &[0; 60], TxMeta { checksum, segmentation: None }));
    assert_eq!((b.rx(&mut batch).unwrap(), a.counts.tx_invalid), (0, 1));

    let (mut a, mut b) = pair(&PairConfig::offloads()).unwrap();
    assert!(send(&mut a, &big, TxMeta { checksum, segmentation }));
    assert!(send(&mut a, &big, TxMeta { checksum: None, segmentation }));
    assert_eq!((b.rx(&mut batch).unwrap(), a.counts.tx_invalid), (1, 1));
    let got = batch.pop().unwrap();
    assert_eq!((got.meta.checksum, got.meta.gso_size), (RxChecksum::Partial, 1448));
    assert_eq!(got.frame.data(), big);
}

#[test]
fn waits_and_ends() {
    let (mut a, mut b) = pair(&PairConfig::default()).unwrap();
    assert_eq!(b.wait(Some(Duration::ZERO)).unwrap(), Wake::Timeout);
    assert!(send(&mut a, b"x", TxMeta::default()));
    assert_eq!(b.wait(None).unwrap(), Wake::Ready);
    drop(a);
    let mut batch = RxBatch::new();
    assert_eq!(b.rx(&mut batch).unwrap(), 1);
    assert!(matches!(b.rx(&mut batch), Err(IoError::Gone)));
    assert!(matches!(b.tx(&mut TxBatch::new()), Err(IoError::Gone)));
    assert_eq!(b.wait(None).unwrap(), Wake::Ready);
}

#[test]
fn two_threads() {
    let (mut a, mut b) = pair(&PairConfig { frames: 128, depth: 16, ..Default::default() }).unwrap();
    const COUNT: u32 = if cfg!(miri) { 50 } else { 50_000 };
    let sender = std::thread::spawn(move || {
        let mut next = 0u32;
        while next < COUNT {
            if send(&mut a, &next.to_be_bytes(), TxMeta::default()) {
                next += 1;
            } else {
                std::thread::yield_now();
            }
        }
        a
    });
    let mut batch = RxBatch::new();
    let mut expected = 0u32;
    while expected < COUNT {
        b.wait(None).unwrap();
        b.rx(&mut batch).unwrap();
        for packet in batch.drain(..) {
            assert_eq!(packet.frame.data(), expected.to_be_bytes());
            expected += 1;
            b.retire(packet.frame);
        }
    }
    sender.join().unwrap();
}
