//! Goal: the fixed point follows RFC 6298 in floating point, within its rounding.
use super::*;
use crate::fuzz;
use crate::fuzz::seeded::seeded;

/// RFC 6298, 2-3.
#[test]
fn agrees_with_floating_point() {
    seeded("rtt", 300, 800, fuzz::rtt);
}

/// RFC 6298, 2-2, 2-3 and 4-1.
#[test]
fn the_first_sample_and_the_next() {
    let config = Config { rto_min: Duration::from_millis(1), ..Config::default() };
    let mut rtt = Rtt::new();
    assert!(!rtt.is_measured());
    rtt.sample(100_000, Instant::ZERO);
    assert_eq!(rtt.rto(&config), Duration::from_millis(300), "SRTT + 4 x R/2");
    rtt.sample(140_000, Instant::ZERO);
    assert_eq!((rtt.srtt(), rtt.rttvar()), (Duration::from_millis(105), Duration::from_micros(47_500)));
    for _ in 0..200 {
        rtt.sample(100_000, Instant::ZERO);
    }
    assert_eq!(rtt.rto(&config).as_millis(), 101, "never tighter than the clock's granularity");
}

/// RFC 7323, 4.2-1.
#[test]
fn many_samples_a_round_trip_weigh_like_one() {
    let (mut one, mut many) = (Rtt::new(), Rtt::new());
    for rtt in [&mut one, &mut many] {
        rtt.sample(50_000, Instant::ZERO);
    }
    one.sample(90_000, Instant::ZERO);
    for _ in 0..100 {
        many.sample_of(Duration::from_millis(90), 100, Instant::ZERO);
    }
    let difference = one.srtt().abs_diff(many.srtt());
    assert!(difference < Duration::from_millis(1), "{difference:?}");
}
