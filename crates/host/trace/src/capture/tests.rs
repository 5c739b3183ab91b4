//! Goal: what was written comes out in order; what found no room is counted; written + dropped = offered.
use super::*;

#[test]
fn conservation() {
    let (mut recorder, mut capture) = ring_pair(96, 4_096);
    let mut out = Vec::new();
    let mut got = 0;
    for i in 0..10_000u64 {
        let data = vec![i as u8; (i * 31 % 1_500) as usize];
        recorder.record(Instant::from_micros(i), i % 3 == 0, data.chunks(500));
        if i % 100 == 99 {
            got += capture.drain(0, &mut out);
        }
    }
    got += capture.drain(0, &mut out);
    let stats = capture.stats();
    assert_eq!(got as u64, stats.written());
    assert_eq!(stats.written() + stats.dropped(), 10_000);
    assert!(stats.dropped() > 0 && stats.written() > 1_000);
}
