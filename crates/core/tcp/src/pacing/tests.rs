//! Goal: whatever is asked and however late, what leaves in any time keeps to the rate; and who is punctual or
//! nearly so gets all of it.
use super::*;
use base::{Duration, Instant, Rng};

extern crate std;
use std::vec::Vec;

const MSS: u32 = 1_448;

/// Sends for `span`, looking again `late` after each date at most; what left when.
fn run(rng: &mut Rng, rate: Rate, least: u8, span: Duration, late: u64) -> (Vec<(Instant, u32)>, u32) {
    let config = Config { min_burst: least, ..Config::default() };
    let quantum = quantum(rate, MSS, &config);
    let mut pacing = Pacing::new(None);
    let mut now = Instant::from_secs(50);
    let end = now + span;
    let mut sent = Vec::new();
    while now < end {
        match pacing.room(now, MSS, quantum) {
            Ok(room) => {
                assert!(room >= MSS && room % MSS == 0);
                // A port that segments takes all, others one by one; and applications write what they like.
                let len = match rng.below(4) {
                    0 => room,
                    1 => 1 + rng.below(u64::from(room)) as u32,
                    _ => MSS,
                };
                pacing.on_sent(now, len, rate);
                sent.push((now, len));
            }
            Err(at) => now = at + Duration::from_nanos(rng.below(late + 1)),
        }
        if rng.chance(0.02) {
            now += Duration::from_nanos(rng.below(5_000_000));
        }
    }
    (sent, quantum)
}

#[test]
fn no_interval_holds_more_than_the_rate_and_a_quantum_and_a_half() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let rate = Rate::from_bytes_per_sec(1 + (rng.next_u64() >> (34 + rng.below(20))));
        let span = rate.spacing(400 * u64::from(MSS));
        let (sent, quantum) = run(&mut rng, rate, 1 + (seed % 4) as u8, span, 1_000_000);
        for (i, &(from, _)) in sent.iter().enumerate() {
            let mut total = 0u128;
            for &(to, len) in &sent[i..] {
                total += u128::from(len);
                let time = u128::from(to.since(from).as_nanos() as u64);
                let allowed = u128::from(rate.bytes_per_sec()) * time / 1_000_000_000;
                let burst = u128::from(quantum) * 3 / 2 + 1;
                assert!(total <= allowed + burst, "seed {seed}: {total} in {time} ns at {rate:?}");
            }
        }
    }
}

#[test]
fn who_is_late_by_less_than_half_a_quantum_gets_the_whole_rate() {
    for (rate, late) in [(12_500_000, 400_000), (125_000, 2_000_000), (1_250_000_000, 300_000)] {
        let rate = Rate::from_bytes_per_sec(rate);
        let config = Config::default();
        let quantum = quantum(rate, MSS, &config);
        let (mut pacing, mut rng) = (Pacing::new(None), Rng::new(7));
        let start = Instant::from_secs(1);
        let (mut now, mut total) = (start, 0u64);
        while now < start + Duration::from_secs(2) {
            match pacing.room(now, MSS, quantum) {
                Ok(room) => {
                    pacing.on_sent(now, room, rate);
                    total += u64::from(room);
                }
                Err(at) => now = at + Duration::from_nanos(rng.below(late)),
            }
        }
        let ideal = rate.bytes_per_sec() * 2;
        assert!(total * 100 >= ideal * 98, "{total} of {ideal}");
    }
}
