//! Goal: records arrive as they were sent, in order, around the end of the ring; wakes are never lost; a
//! hostile other side is told apart and does no harm.
use super::*;
use base::Rng;
use std::collections::VecDeque;

fn both() -> (Producer, Consumer) {
    let region = Arc::new(SharedMemory::private(LEN));
    (Producer::new(region.clone(), 0), Consumer::new(region, 0))
}

#[test]
fn a_plain_queue_does_the_same() {
    for seed in 0..if cfg!(miri) { 1 } else { 4 } {
        eprintln!("seed {seed}");
        let mut rng = Rng::new(seed);
        let (mut producer, mut consumer) = both();
        let (mut hidden, mut shown, mut hidden_len) = (VecDeque::new(), VecDeque::new(), 0);
        for _ in 0..if cfg!(miri) { 60 } else { 600 } {
            if rng.chance(0.5) {
                let most = if rng.chance(0.5) { 100 } else { FRAME_MAX as u64 + 1 };
                let len = rng.below(most) as usize;
                let mut frame = vec![0; len];
                rng.fill(&mut frame);
                let mut vnet = [0; VNET];
                rng.fill(&mut vnet);
                if producer.push(&vnet, &frame).unwrap() {
                    hidden_len += 1;
                    hidden.push_back((vnet, frame));
                } else {
                    let used: u64 = hidden.iter().chain(&shown).map(|(_, f)| size(f.len())).sum();
                    assert!(used + size(len) > RING as u64, "room was refused");
                }
            }
            if rng.chance(0.3) {
                producer.publish();
                shown.append(&mut hidden);
                hidden_len = 0;
            }
            if rng.chance(0.5) {
                match consumer.peek().unwrap() {
                    Some(record) => {
                        let (vnet, frame) = shown.pop_front().expect("nothing unpublished is seen");
                        let mut got = vec![0; record.len];
                        consumer.take(&record, &mut got);
                        assert_eq!((record.vnet, got), (vnet, frame));
                        consumer.publish();
                    }
                    None => assert!(shown.is_empty()),
                }
            }
            assert_eq!(hidden.len(), hidden_len);
        }
    }
}

#[test]
fn wakes_are_asked_for_once_and_never_lost() {
    let (mut producer, mut consumer) = both();
    assert!(!producer.publish(), "nothing asked");
    assert!(consumer.arm() && !consumer.was_woken());
    producer.push(&[0; VNET], b"x").unwrap();
    assert!(producer.publish() && consumer.was_woken());
    assert!(!producer.publish(), "once is enough");
    assert!(!consumer.arm(), "there is something to read");

    let record = consumer.peek().unwrap().unwrap();
    consumer.skip(&record);
    while producer.push(&[0; VNET], &[0; FRAME_MAX - 5]).unwrap() {}
    producer.publish();
    assert!(producer.arm() && consumer.publish(), "room came, and the producer asked");
    assert!(!producer.arm(), "there is room");
    assert!(producer.push(&[0; VNET], &[0; 1]).unwrap());
}

#[test]
fn two_threads_lose_nothing() {
    const COUNT: u32 = if cfg!(miri) { 40 } else { 20_000 };
    let (mut producer, mut consumer) = both();
    let sender = std::thread::spawn(move || {
        let mut rng = Rng::new(1);
        for n in 0..COUNT {
            let frame = n.to_ne_bytes().repeat(1 + rng.below(FRAME_MAX as u64 / 200) as usize);
            while !producer.push(&[7; VNET], &frame).unwrap() {
                producer.publish();
                std::thread::yield_now();
            }
            producer.publish();
        }
    });
    let mut frame = vec![0; FRAME_MAX];
    for n in 0..COUNT {
        let record = loop {
            match consumer.peek().unwrap() {
                Some(record) => break record,
                None => std::thread::yield_now(),
            }
        };
        consumer.take(&record, &mut frame[..record.len]);
        assert!(frame[..record.len].chunks(4).all(|b| b == n.to_ne_bytes()), "record {n}");
        consumer.publish();
    }
    sender.join().unwrap();
}

#[test]
fn lies_are_seen_through() {
    let lie = |word: usize, value: u64| {
        let (mut producer, consumer) = both();
        producer.push(&[0; VNET], b"honest").unwrap();
        producer.publish();
        consumer.end.control(word).store(value, Ordering::Relaxed);
        (producer, consumer)
    };
    for tail in [3, RING as u64 + 8, u64::MAX, 1 << 63] {
        assert_eq!(lie(TAIL, tail).1.peek(), Err(Broken), "{tail}");
    }
    for head in [u64::MAX, RING as u64, 1 << 40] {
        let (mut producer, _) = lie(HEAD_COUNT, head);
        let end = (0..100).find_map(|_| producer.push(&[0; VNET], &[0; FRAME_MAX - 5]).err());
        assert_eq!(end, Some(Broken), "{head}");
    }
    let (_, mut consumer) = lie(WANTS_ROOM, 9);
    consumer.end.ring()[0].store(FRAME_MAX as u64 + 1, Ordering::Relaxed);
    assert_eq!(consumer.peek(), Err(Broken));
    let (_, mut consumer) = lie(WANTS_ROOM, 9);
    consumer.end.ring()[0].store(FRAME_MAX as u64, Ordering::Relaxed);
    assert_eq!(consumer.peek(), Err(Broken), "longer than what was written");
}

#[test]
fn arbitrary_neighbours() {
    let mut rng = Rng::new(2);
    for _ in 0..if cfg!(miri) { 1 } else { 30 } {
        let mut data = vec![0; 16 * rng.below(if cfg!(miri) { 20 } else { 300 }) as usize];
        rng.fill(&mut data);
        fuzz(&data);
    }
}
