//! The rate of a path comes out whatever the acknowledgments do, and nothing is remembered for ever.

use super::*;
use base::Duration;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

#[test]
fn a_steady_path_shows_its_rate() {
    let mut rates = Rates::default();
    let mut last = None;
    // A thousand bytes a millisecond, 20 ms there and back.
    for at in 0..200 {
        if at >= 20 {
            last = rates.on_delivered(ms(at), 1000, ms(at - 20), false, 19_000);
        }
        rates.on_sent(ms(at), 1000, 1000 * (at + 1).min(20));
    }
    let sample = last.expect("what left is remembered");
    assert_eq!(sample.rate().bytes_per_sec(), 1_000_000);
    assert_eq!(sample.delivered, 20_000, "a round trip's worth");
    assert!(!sample.app_limited);
}

#[test]
fn acknowledgments_in_a_burst_do_not_look_like_a_fast_path() {
    let mut rates = Rates::default();
    for at in 0..20 {
        rates.on_sent(ms(at), 1000, 1000 * (at + 1));
    }
    // All at once, held back by 30 ms.
    let sample = rates.on_delivered(ms(50), 20_000, ms(19), false, 0).expect("remembered");
    assert_eq!(sample.interval, Duration::from_millis(50));
}

#[test]
fn an_idle_time_begins_the_account_anew() {
    let mut rates = Rates::default();
    rates.on_sent(ms(0), 1000, 1000);
    rates.on_delivered(ms(20), 1000, ms(0), true, 0);
    rates.on_sent(ms(5_000), 1000, 1000);
    let sample = rates.on_delivered(ms(5_020), 1000, ms(5_000), false, 0).expect("remembered");
    assert_eq!(sample.interval, Duration::from_millis(20), "the seconds of silence do not count");
}

#[test]
fn what_the_application_bounded_says_so_until_it_is_delivered() {
    let mut rates = Rates::default();
    rates.on_sent(ms(0), 1000, 1000);
    rates.on_sent(ms(1), 1000, 2000);
    rates.on_delivered(ms(20), 1000, ms(0), true, 1000);
    rates.on_sent(ms(21), 1000, 2000);
    rates.on_delivered(ms(22), 1000, ms(1), false, 1000);
    let sample = rates.on_delivered(ms(41), 1000, ms(21), false, 0).expect("remembered");
    assert!(sample.app_limited);
    rates.on_sent(ms(42), 1000, 1000);
    assert!(!rates.on_delivered(ms(62), 1000, ms(42), false, 0).expect("remembered").app_limited);
}

#[test]
fn losses_are_told_once() {
    let mut rates = Rates::default();
    rates.on_sent(ms(0), 3000, 3000);
    rates.on_lost(1000);
    let first = rates.on_delivered(ms(20), 1000, ms(0), false, 1000).expect("remembered");
    let second = rates.on_delivered(ms(21), 1000, ms(0), false, 0).expect("remembered");
    assert_eq!((first.newly_lost, second.newly_lost), (1000, 0));
    assert_eq!((first.lost, second.lost), (1000, 1000));
}

#[test]
fn memory_is_bounded() {
    let mut rates = Rates::default();
    for at in 0..3 * MOST as u64 {
        rates.on_sent(ms(at), 1000, 1000 * (at + 1));
    }
    assert_eq!(rates.log.len(), MOST);
    assert!(rates.on_delivered(ms(100_000), 1000, ms(0), false, 0).is_none(), "forgotten");
}
