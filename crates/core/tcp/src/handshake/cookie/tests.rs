//! Goal: a jar knows its own cookies for two minutes, with what they remembered, and nothing forged or
//! aged.
use super::*;
use crate::fuzz;
use crate::fuzz::seeded::seeded;
use crate::fuzz::segment;
use base::{Addr, Duration, Endpoint, Rng};

fn flow() -> FlowKey {
    FlowKey::new(Endpoint::new(Addr::v4([192, 0, 2, 1]), 80), Endpoint::new(Addr::v4([192, 0, 2, 2]), 4000))
}

#[test]
fn agrees_with_its_promises() {
    seeded("cookie", 200, 600, fuzz::cookie);
}

#[test]
fn guessing_hits_about_as_often_as_the_hash_allows() {
    let jar = CookieJar::new(SipKey::new(3, 4));
    let mut rng = Rng::new(1);
    let now = Instant::from_secs(1_000);
    let hits = (0..200_000).filter(|_| {
        let (seq, ack) = (Seq::new(rng.next_u32()), Seq::new(rng.next_u32()));
        jar.check(now, &flow(), &segment(seq, ack, Flags::ACK, Options::default())).is_some()
    });
    assert_eq!(hits.count(), 0, "expected 200,000 x 2 / 2^29");
}

#[test]
fn both_clocks_may_wrap() {
    let jar = CookieJar::new(SipKey::new(3, 4));
    for (clock, config) in [
        (Clock::Millis, Config::default()),
        (Clock::Micros, Config { usec_timestamps: true, ..Config::default() }),
    ] {
        both_wrap(&jar, clock, &config);
    }
}

fn both_wrap(jar: &CookieJar, clock: Clock, config: &Config) {
    let offset = jar.offsets.of(&flow());
    let tick = Duration::from_micros(clock.tick_us().into());
    let wraps = Instant::ZERO + tick * (u32::MAX - offset);
    let options = Options {
        timestamps: Some(Timestamps { val: 9, ecr: 0 }),
        window_scale: Some(14),
        ..Options::default()
    };
    for step in 0..40 {
        let now = wraps + tick * step;
        let syn = segment(Seq::new(u32::MAX), Seq::new(0), Flags::SYN, options);
        let answer = jar.answer(now, config, &flow(), 1500, &syn);
        let ts = answer.options.timestamps.unwrap();
        let value = clock.value(now, offset);
        assert!(!ts_before(value, ts.val) && value.wrapping_sub(ts.val) < 1 << TS_BITS);
        let echo = Options { timestamps: Some(Timestamps { val: 10, ecr: ts.val }), ..Options::default() };
        let ack = segment(Seq::new(0), answer.seq + 1, Flags::ACK, echo);
        assert_eq!(jar.check(now, &flow(), &ack).unwrap().window_scale, Some(14));
    }
}
