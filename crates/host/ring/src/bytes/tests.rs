//! Goal: a ring is a bounded deque of bytes, whatever mix of copying and in-place calls, at every offset.
use super::*;
use base::Rng;
use std::collections::VecDeque;

fn model(rng: &mut Rng, steps: usize, at: usize) {
    let (mut tx, mut rx) = bytes_at(1 + rng.below(40) as usize, at);
    let capacity = tx.capacity();
    let mut oracle: VecDeque<u8> = VecDeque::new();
    let mut buffer = [0; 80];
    for _ in 0..steps {
        let some = rng.below(capacity as u64 + 8) as usize;
        let free = capacity - oracle.len();
        match rng.below(4) {
            0 => {
                rng.fill(&mut buffer);
                let count = tx.write(&buffer[..some]);
                assert_eq!(count, some.min(free));
                oracle.extend(&buffer[..count]);
            }
            1 => {
                rng.fill(&mut buffer);
                let (first, second) = tx.spare(some);
                let count = first.len() + second.len();
                assert_eq!(count, some.min(free));
                first.copy_from_slice(&buffer[..first.len()]);
                second.copy_from_slice(&buffer[first.len()..count]);
                let used = rng.below(count as u64 + 1) as usize;
                tx.commit(used);
                oracle.extend(&buffer[..used]);
            }
            2 => {
                let count = rx.read(&mut buffer[..some]);
                assert_eq!(count, some.min(oracle.len()));
                assert!(oracle.drain(..count).eq(buffer[..count].iter().copied()));
            }
            _ => {
                let (first, second) = rx.peek(some);
                let count = first.len() + second.len();
                assert_eq!(count, some.min(oracle.len()));
                assert!(first.iter().chain(second).eq(oracle.iter().take(count)));
                let used = rng.below(count as u64 + 1) as usize;
                rx.consume(used);
                oracle.drain(..used);
            }
        }
        assert_eq!((rx.waiting(), tx.vacant()), (oracle.len(), capacity - oracle.len()));
        assert_eq!((rx.len(), tx.room()), (oracle.len(), capacity - oracle.len()));
    }
    drop(tx);
    assert_eq!(rx.is_finished(), oracle.is_empty());
}

#[test]
fn is_a_bounded_deque() {
    let (seeds, steps) = if cfg!(miri) { (8, 60) } else { (300, 300) };
    for seed in 0..seeds {
        eprintln!("seed {seed}");
        model(&mut Rng::new(seed), steps, 0usize.wrapping_sub(seed as usize % 64));
    }
}

#[test]
fn wraps_at_every_offset() {
    for at in 0..16 {
        for len in 0..=16 {
            let (mut tx, mut rx) = bytes_at(16, at);
            let data: Vec<u8> = (0..len as u8).collect();
            assert_eq!(tx.write(&data), len);
            let (first, second) = rx.peek(16);
            assert_eq!((first.len(), second.len()), (len.min(16 - at), len.saturating_sub(16 - at)));
            assert_eq!([first, second].concat(), data);
        }
    }
}

#[test]
#[should_panic]
fn more_than_waits_cannot_be_consumed() {
    let (mut tx, mut rx) = bytes(8);
    tx.write(b"abc");
    rx.consume(4);
}

#[test]
#[should_panic]
fn more_than_is_free_cannot_be_committed() {
    bytes(8).0.commit(9);
}

#[test]
fn two_threads_keep_order() {
    let total = if cfg!(miri) { 600 } else { 3_000_000 };
    let (mut tx, mut rx) = bytes(1024);
    let sender = std::thread::spawn(move || {
        let data: Vec<u8> = (0..251).collect();
        let mut sent = 0;
        while sent < total {
            let from = sent % data.len();
            let count = tx.write(&data[from..data.len().min(from + total - sent)]);
            sent += count;
            if count == 0 {
                std::thread::yield_now();
            }
        }
    });
    let (mut seen, mut buffer) = (0, [0; 777]);
    while !rx.is_finished() {
        let count = rx.read(&mut buffer);
        for (i, &byte) in buffer[..count].iter().enumerate() {
            assert_eq!(usize::from(byte), (seen + i) % 251);
        }
        seen += count;
        if count == 0 {
            std::thread::yield_now();
        }
    }
    assert_eq!(seen, total);
    sender.join().unwrap();
}
