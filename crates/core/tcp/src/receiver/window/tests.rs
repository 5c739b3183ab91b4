//! Goal: what the receive buffer learns from single rounds, and when it forgets the shortest round trip.
use super::*;
use crate::SocketOptions;
use crate::receiver::tuner::SHORTEST_FOR_US;
use crate::tests::ends::{Pair, cx};

/// The receive buffer after a round in which `taken` bytes came in 10 ms, where the most was `best`.
fn buffer_after(best: u32, taken: u32) -> u32 {
    let config = Config { rcvbuf: (128 << 10, 1 << 20), ..Config::default() };
    let mut pair = Pair::with(config, SocketOptions::default());
    let now = pair.now.as_micros() as u32;
    let tuner = Tuner { best, taken, ..Tuner::new(now.wrapping_sub(10_000), Clock::Millis) };
    pair.b.conn.cold_mut().tuning.0 = Some(tuner);
    let cx = cx!(pair.b, pair.now);
    pair.b.conn.learn_room(cx, now, 10_000);
    pair.b.conn.rcv.limit()
}

#[test]
fn rounds_that_grow_slowly_have_to_use_three_quarters_of_the_buffer() {
    assert_eq!(buffer_after(52_000, 74_000), 128 << 10, "56 % of it");
    assert!(buffer_after(70_000, 100_000) >= 200_000, "76 % of it");
    assert!(buffer_after(40_000, 74_000) >= 4 * 74_000, "that of a sender in slow start");
}

/// Rounds of 20 ms, of whose bytes half wait in a queue, if round trips of 10 ms are the path's.
#[test]
fn the_shortest_round_trip_is_forgotten_after_one_to_two_minutes() {
    let mut tuner = Tuner::new(0, Clock::Millis);
    tuner.shortest = [u32::MAX, 10_000];
    let mut now = 0;
    let counted = |tuner: &mut Tuner, now: u32| {
        (tuner.since, tuner.taken) = (now.wrapping_sub(20_000), 100_000);
        tuner.shortest[1] = tuner.shortest[1].min(20_000);
        tuner.without_queue(now, 20_000)
    };
    let mut forgotten = 0;
    while forgotten == 0 && now < 3 * SHORTEST_FOR_US {
        now += 1_000_000;
        match counted(&mut tuner, now) {
            50_000 => {}
            all => (forgotten, _) = (now, assert_eq!(all, 100_000)),
        }
    }
    assert!((SHORTEST_FOR_US..=2 * SHORTEST_FOR_US).contains(&forgotten), "{forgotten} us");
}
