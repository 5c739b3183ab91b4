//! Goal: only a FIN extends TIME-WAIT, only a newer SYN (or an allowed RST) ends it, and answers cannot
//! ping-pong.
use super::*;
use crate::fuzz;
use crate::fuzz::seeded::seeded;
use crate::fuzz::segment;
use base::{Addr, Duration, Endpoint};

const NOW: Instant = Instant::from_secs(50);
const SND: Seq = Seq::new(10);
const RCV: Seq = Seq::new(u32::MAX);

fn entry(timestamps: Option<(u32, u32)>) -> TimeWait {
    let key = FlowKey::new(
        Endpoint::new(Addr::v4([192, 0, 2, 1]), 80),
        Endpoint::new(Addr::v4([192, 0, 2, 2]), 4000),
    );
    TimeWait::new(key, NOW + Duration::from_secs(60), SND, RCV, 512, timestamps)
}

fn stamped(val: u32) -> Options {
    Options { timestamps: Some(Timestamps { val, ecr: 0 }), ..Options::default() }
}

#[test]
fn survives_arbitrary_segments() {
    seeded("time_wait", 2_000, 400, fuzz::time_wait);
}

#[test]
fn a_retransmitted_fin_is_answered_and_restarts_the_wait() {
    let mut entry = entry(Some((100, 7)));
    let fin = segment(RCV - 1, SND, Flags::FIN | Flags::ACK, stamped(101));
    let later = NOW + Duration::from_secs(20);
    for _ in 0..3 {
        let TimeWaitAnswer::Ack(ack) = entry.on_segment(later, &Config::default(), &fin) else { panic!() };
        assert_eq!((ack.seq, ack.ack, ack.window), (SND, RCV, 512));
        assert_eq!(ack.options.timestamps, Some(Timestamps { val: 70_007, ecr: 101 }));
    }
    assert_eq!(entry.until, later + Config::default().time_wait);
}

/// RFC 9293, MAY-2 and SHLD-4; RFC 6191, 2-1, 2-2 and 2-3.
#[test]
fn rfc_6191_decides_on_a_syn() {
    let config = Config::default();
    let none = Options::default();
    for (timestamps, seq, options, reused) in [
        (None, RCV + 1, none, true),
        (None, RCV, none, false),
        (None, RCV - 1, none, false),
        (None, RCV - 1, stamped(5), true),
        (Some((100, 0)), RCV - 1, stamped(101), true),
        (Some((100, 0)), RCV - 1, stamped(100), false),
        (Some((100, 0)), RCV, stamped(100), false),
        (Some((100, 0)), RCV + 1, stamped(100), true),
        (Some((100, 0)), RCV + 1000, stamped(99), false),
        (Some((100, 0)), RCV + 1000, none, true),
        (Some((100, 0)), RCV - 1, none, false),
    ] {
        match entry(timestamps).on_segment(NOW, &config, &segment(seq, SND, Flags::SYN, options)) {
            TimeWaitAnswer::Reuse { isn_above } => assert!(reused && isn_above == SND),
            TimeWaitAnswer::Ack(ack) => assert!(!reused && ack.ack == RCV),
            other => panic!("{other:?}"),
        }
    }
}

/// RFC 9293, section 3.10.7.4, and RFC 5961, section 4: a SYN that carries a FIN is a SYN.
#[test]
fn a_syn_with_a_fin_is_challenged_and_reopens_nothing() {
    let both = segment(RCV + 1000, SND, Flags::SYN | Flags::FIN, Options::default());
    let (config, mut waiting) = (Config::default(), entry(None));
    let answer = waiting.on_segment(NOW, &config, &both);
    assert!(matches!(answer, TimeWaitAnswer::Ack(ack) if ack.ack == RCV));
    assert!(matches!(waiting.on_segment(NOW, &config, &both), TimeWaitAnswer::Ignore), "spaced");
    let taken = Config { drop_synfin: false, ..Config::default() };
    assert!(matches!(entry(None).on_segment(NOW, &taken, &both), TimeWaitAnswer::Reuse { .. }));
}

/// Only timestamps keep two connections apart whose numbers may overlap, and only once their clock has ticked.
#[test]
fn a_connect_takes_over_what_timestamps_tell_apart() {
    let config = Config::default();
    assert_eq!(config.time_wait, Duration::from_secs(60), "what the entries here begin with");
    let later = |millis| NOW + Duration::from_millis(millis);
    let stamped = entry(Some((100, 7)));
    assert_eq!(stamped.yields_to_connect(later(999), &config), None);
    assert_eq!(stamped.yields_to_connect(later(1_000), &config), Some(SND));
    assert_eq!(entry(None).yields_to_connect(later(50_000), &config), None);
    for config in [
        Config { time_wait_reuse: false, ..config.clone() },
        Config { timestamps: false, ..config.clone() },
        Config { time_wait_reuse_after: Duration::from_secs(30), ..config },
    ] {
        assert_eq!(stamped.yields_to_connect(later(20_000), &config), None);
    }
}

/// An entry speaks in the clock of its connection, and makes room for a connection whose clock is the same.
#[test]
fn microseconds() {
    let micros = Config { usec_timestamps: true, ..Config::default() };
    let mut waiting = TimeWait { stamps: Bits::MICROS.raw() as u8, ..entry(Some((100, 7))) };
    let fin = segment(RCV - 1, SND, Flags::FIN | Flags::ACK, stamped(101));
    let TimeWaitAnswer::Ack(ack) = waiting.on_segment(NOW, &micros, &fin) else { panic!() };
    assert_eq!(ack.options.timestamps, Some(Timestamps { val: 50_000_007, ecr: 101 }));
    let later = NOW + Duration::from_secs(20);
    assert_eq!(waiting.yields_to_connect(later, &micros), Some(SND));
    assert_eq!(waiting.yields_to_connect(later, &Config::default()), None);
    assert_eq!(entry(Some((100, 7))).yields_to_connect(later, &micros), None);
    // A new incarnation's clock has gone on by what passed, at the least by one.
    let syn = |val| segment(RCV - 50, Seq::new(0), Flags::SYN, stamped(val));
    assert!(matches!(waiting.on_segment(later, &micros, &syn(101)), TimeWaitAnswer::Ack(_)), "a copy");
    assert!(matches!(waiting.on_segment(later, &micros, &syn(102)), TimeWaitAnswer::Reuse { .. }));
}

#[test]
fn a_reset_ends_it_only_where_allowed() {
    let exact = segment(RCV, SND, Flags::RST, Options::default());
    let near = segment(RCV + 1, SND, Flags::RST, Options::default());
    let (allowed, not) = (Config::default(), Config { time_wait_reset: false, ..Config::default() });
    assert!(matches!(entry(None).on_segment(NOW, &not, &exact), TimeWaitAnswer::Ignore));
    assert!(matches!(entry(None).on_segment(NOW, &allowed, &near), TimeWaitAnswer::Ignore));
    assert!(matches!(entry(None).on_segment(NOW, &allowed, &exact), TimeWaitAnswer::Remove));
}

/// RFC 9293, section 3.10.7.4, and RFC 7323, section 5.3: what takes sequence numbers is answered each time, since
/// no answer to an ACK is of that kind.
#[test]
fn data_and_fins_are_answered_without_limit() {
    let config = Config::default();
    for (seq, flags, options) in [
        (RCV - 1, Flags::FIN | Flags::ACK, stamped(50)),
        (RCV - 1, Flags::FIN, stamped(50)),
        (RCV - 1, Flags::FIN, stamped(101)),
        (RCV - 5, Flags::FIN | Flags::ACK, stamped(101)),
        (RCV + 5, Flags::FIN | Flags::ACK, stamped(101)),
    ] {
        let mut entry = entry(Some((100, 7)));
        let until = entry.until;
        for _ in 0..3 {
            let answer = entry.on_segment(NOW, &config, &segment(seq, SND, flags, options));
            assert!(matches!(answer, TimeWaitAnswer::Ack(ack) if ack.ack == RCV), "{seq:?} {flags:?}");
        }
        assert_eq!((entry.until, entry.ts_recent), (until, 100));
    }
}

#[test]
fn two_entries_that_disagree_fall_silent() {
    let config = Config::default();
    let stray = segment(RCV + 100, SND, Flags::ACK, Options::default());
    let mut entry = entry(None);
    let answers = |entry: &mut TimeWait, from: Instant| {
        let times = (0..100).map(|i| from + Duration::from_millis(i));
        times.filter(|&at| matches!(entry.on_segment(at, &config, &stray), TimeWaitAnswer::Ack(_))).count()
    };
    assert_eq!(answers(&mut entry, NOW), 1);
    assert_eq!(answers(&mut entry, NOW + Duration::from_secs(1)), 1);
    assert_eq!(entry.until, NOW + Duration::from_secs(60), "a stray ACK does not extend it");
}
