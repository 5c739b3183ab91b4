//! Goal: RTO, Karn, PAWS, keepalive, user timeout: RFC 6298, RFC 7323 sections 4 and 5, RFC 9293 section 3.8,
//! RFC 5482.

use base::Duration;
use tcp::{Config, Disposition, DropReason, Error, Events, SocketOptions, State};
use wire::tcp::{Flags, Segment, Timestamps};

use crate::host::ms;
use crate::rig::{OURS, Setup};

/// RFC 9293, MUST-19 and MUST-20; RFC 6298, 5-1, 5-4, 5-5 and 5-6.
#[test]
fn retransmission_doubles_and_gives_up() {
    let config = Config { data_retries: 5, ..Config::default() };
    let mut rig = Setup { config, ..Setup::default() }.connected();
    rig.write(b"hello?").unwrap();
    rig.one();
    let mut last = Duration::ZERO;
    for n in 0..5 {
        let waited = rig.until_sent(Duration::from_secs(200));
        assert!(n == 0 || waited == 2 * last, "retransmission {n}: {waited:?} after {last:?}");
        let again = rig.one();
        assert_eq!((again.seq, again.payload.as_slice()), (OURS + 1, b"hello?".as_slice()));
        last = waited;
    }
    rig.pass(Duration::from_secs(1000));
    rig.none();
    rig.assert_state(State::Closed);
    assert_eq!(rig.host.conn().error(), Some(Error::TimedOut));
    assert!(rig.events().any(Events::ERROR));
    assert!(rig.host.timeout().is_none());
}

/// RFC 6298, 3-2 and 5-8.
#[test]
fn the_timeout_follows_the_round_trip() {
    let mut rig = Setup::default().connected();
    for _ in 0..40 {
        rig.write(b"x").unwrap();
        let end = rig.one().end();
        rig.pass(ms(300));
        // The handshake took no time, so the first timeout comes too early.
        rig.sent();
        rig.ack(end, &[]);
    }
    let info = rig.host.conn().info(rig.now);
    assert!(info.srtt.abs_diff(ms(300)) < ms(15), "{:?}", info.srtt);
    rig.write(b"y").unwrap();
    rig.one();
    let rto = rig.until_sent(Duration::from_secs(10));
    assert!(rto >= ms(300) && rto < ms(600), "{rto:?}");
}

/// The timeout lies far enough beyond a steady round trip of 250 ms that 5 ms of jitter and a delayed acknowledgment
/// never reach it, with a tail loss probe in its place or without.
#[test]
fn a_steady_long_path_never_times_out() {
    for tail_loss_probe in [false, true] {
        let config = Config { tail_loss_probe, ..Config::default() };
        let mut rig = Setup { config, ..Setup::sack() }.connected();
        let mut rng = base::Rng::new(3);
        for n in 0..1_000 {
            // The handshake took no time here, so the first samples come after timeouts.
            let settled = n > 20;
            let before = rig.host.counters.clone();
            rig.write(b"x").unwrap();
            let end = rig.one().end();
            let delayed = if settled && n % 7 == 0 { rng.below(150) } else { 0 };
            rig.pass(Duration::from_micros(245_000 + rng.below(10_000) + delayed * 1_000));
            let again = rig.sent();
            rig.ack(end, &[]);
            if settled {
                assert!(again.is_empty(), "{n}: {again:?} with {delayed} ms of delay");
                assert_eq!(rig.host.counters.timeouts, before.timeouts);
                assert_eq!(rig.host.counters.tail_probes, before.tail_probes);
            }
        }
        let rto = rig.host.conn().info(rig.now).rto;
        assert!(rto >= ms(445) && rto < ms(600), "{rto:?}");
    }
}

/// RFC 9293, MUST-18; RFC 6298, 3-1.
#[test]
fn karn_ambiguous_samples_are_not_taken() {
    let mut rig = Setup::default().connected();
    let before = rig.host.conn().info(rig.now).srtt;
    rig.write(b"x").unwrap();
    let end = rig.one().end();
    rig.until_sent(Duration::from_secs(10));
    rig.one();
    rig.pass(ms(1));
    rig.ack(end, &[]);
    assert_eq!(rig.host.conn().info(rig.now).srtt, before, "the ACK may be for either transmission");
}

#[test]
fn the_backoff_lasts_until_new_data_is_acknowledged() {
    let mut rig = Setup::default().connected();
    rig.write(b"x").unwrap();
    let end = rig.one().end();
    for _ in 0..3 {
        rig.until_sent(Duration::from_secs(100));
        rig.one();
    }
    rig.ack(end, &[]);
    rig.write(b"y").unwrap();
    let end = rig.one().end();
    rig.pass(ms(5));
    rig.ack(end, &[]);
    rig.write(b"z").unwrap();
    rig.one();
    assert!(rig.until_sent(Duration::from_secs(100)) <= Duration::from_secs(1));
}

/// RFC 7323, 4.3-1.
#[test]
fn timestamps_echo_the_segment_that_advanced_the_window() {
    let mut rig = Setup::modern().accepted();
    for _ in 0..40 {
        rig.send(&[0; 10]);
        rig.pass(ms(500));
    }
    rig.sent();
    rig.clock = Some(2_000);
    rig.send(&[1; 100]);
    rig.clock = Some(2_005);
    rig.send(&[1; 1448]);
    rig.clock = Some(2_009);
    rig.pass(ms(500));
    let first = rig.sent().remove(0);
    assert_eq!(
        first.options.timestamps.unwrap().ecr,
        2_000,
        "a delayed ACK echoes the earliest (RFC 7323, 4.3)"
    );
    // A segment beyond a hole does not update TS.Recent.
    rig.clock = Some(2_020);
    rig.send_at(1000, &[1; 100]);
    assert_ne!(rig.one().options.timestamps.unwrap().ecr, 2_020);
    rig.clock = Some(2_021);
    rig.send(&[1; 1000]);
    assert_eq!(rig.one().options.timestamps.unwrap().ecr, 2_021);
}

/// RFC 7323, 5.3-1, 5.3-2 and 5.3-4.
#[test]
fn paws_drops_what_is_older() {
    let mut rig = Setup::modern().accepted();
    rig.clock = Some(5_000);
    rig.send(b"new");
    rig.pass(ms(100));
    rig.sent();
    rig.clock = Some(4_999);
    let disposition = rig.inject(rig.segment(Flags::ACK, b"old"));
    assert_eq!(disposition, Some(Disposition::Dropped(DropReason::Paws)));
    let answer = rig.one();
    assert_eq!((answer.ack, answer.options.timestamps.unwrap().ecr), (rig.next, 5_000));
    assert_eq!(rig.host.conn().readable(), 3);
    rig.inject(rig.segment(Flags::RST, &[]));
    rig.assert_state(State::Closed);
}

/// RFC 7323, 5.3-3 and 5.5-1.
#[test]
fn paws_holds_when_the_clock_wraps_and_forgets_after_24_days() {
    let mut setup = Setup::modern();
    setup.peer.timestamps = Some(Timestamps { val: u32::MAX - 1, ecr: 0 });
    let mut rig = setup.accepted();
    rig.clock = Some(3);
    rig.send(b"wrapped");
    rig.clock = Some(u32::MAX);
    rig.send_at(0, b"old");
    assert_eq!(rig.host.conn().readable(), 7);
    rig.pass(Duration::from_secs(25 * 24 * 3600));
    rig.sent();
    rig.clock = Some(3u32.wrapping_sub(100));
    rig.send(b"much later");
    assert_eq!(rig.host.conn().readable(), 17, "TS.Recent is invalid after 24 days (RFC 7323, 5.5)");
}

/// A clock of microseconds wraps a thousand times as often, so what it said is forgotten a thousand times as soon.
/// RFC 7323, 5.3-1 and 5.5-1.
#[test]
fn paws_of_microseconds_forgets_after_half_an_hour() {
    for usec_timestamps in [true, false] {
        let mut setup = Setup::modern();
        setup.config.usec_timestamps = usec_timestamps;
        let mut rig = setup.accepted();
        rig.clock = Some(5_000);
        rig.send(b"new");
        for (minutes, passes) in [(30, false), (5, usec_timestamps)] {
            rig.pass(Duration::from_secs(60 * minutes));
            rig.sent();
            rig.clock = Some(4_999);
            let disposition = rig.inject(rig.segment(Flags::ACK, b"old"));
            assert_eq!(disposition != Some(Disposition::Dropped(DropReason::Paws)), passes, "{minutes}");
            rig.sent();
        }
    }
}

/// RFC 7323, 3.2-3 and 3.2-4.
#[test]
fn a_segment_without_its_timestamp_is_dropped() {
    let config = Config { tolerate_missing_timestamps: false, ..Config::default() };
    let mut rig = Setup { config, ..Setup::modern() }.accepted();
    let disposition = rig.inject(Segment { options: Default::default(), ..rig.segment(Flags::ACK, b"bare") });
    assert_eq!(disposition, Some(Disposition::Dropped(DropReason::NoTimestamp)));
    assert_eq!(rig.host.conn().readable(), 0);
}

/// SYN cookies of other systems, middleboxes and keepalives leave out what both SYNs had: that is taken unless the
/// settings say otherwise, and TS.Recent stands meanwhile.
#[test]
fn segments_without_their_timestamps_are_taken() {
    let mut rig = Setup::modern().syn_received();
    let clock = rig.clock.take();
    rig.send(&[]);
    rig.assert_state(State::Established);
    rig.send(b"request");
    assert_eq!(rig.read(9).unwrap(), b"request");
    let answer = rig.one();
    let stamps = answer.options.timestamps.expect("what was agreed on");
    assert_eq!((answer.ack, Some(stamps.ecr)), (rig.next, clock));
    rig.inject(Segment { seq: rig.next - 1, ..rig.segment(Flags::ACK, &[]) });
    assert!(rig.one().is_pure_ack(), "a keepalive is answered");
    rig.write(&[1; 100]).unwrap();
    rig.sent();
    rig.until_sent(Duration::from_secs(2));
    rig.sent();
    rig.ack(OURS + 101, &[]);
    assert_eq!(rig.host.conn().info(rig.now).snd_una, OURS + 101);
    rig.clock = clock.map(|clock| clock - 1);
    let disposition = rig.inject(rig.segment(Flags::ACK, b"old"));
    assert_eq!(
        disposition,
        Some(Disposition::Dropped(DropReason::Paws)),
        "one that has its own is judged by it"
    );
    rig.sent();
    rig.clock = None;
    rig.send_fin();
    rig.assert_state(State::CloseWait);
}

fn keepalive() -> SocketOptions {
    SocketOptions {
        keepalive: true,
        keep_idle: Duration::from_secs(30),
        keep_interval: Duration::from_secs(5),
        keep_count: 3,
        ..SocketOptions::default()
    }
}

/// RFC 9293, MAY-5, MUST-27, MUST-29 and SHLD-12.
#[test]
fn keepalive_finds_a_vanished_peer() {
    let mut rig = Setup { options: keepalive(), ..Setup::default() }.accepted();
    assert_eq!(rig.until_sent(Duration::from_secs(100)), Duration::from_secs(30));
    for _ in 0..3 {
        let probe = rig.one();
        assert_eq!(probe.seq, OURS, "one below SND.NXT, so that it must be answered");
        assert!(probe.len() <= 1 && probe.flags.has(Flags::ACK));
        let waited = rig.until_sent(Duration::from_secs(5));
        assert_eq!(waited, Duration::from_secs(5));
    }
    rig.pass(ms(1));
    rig.assert_state(State::Closed);
    assert_eq!(rig.host.conn().error(), Some(Error::TimedOut));
}

/// RFC 9293, MUST-26.
#[test]
fn keepalive_is_content_with_an_answer() {
    let mut rig = Setup { options: keepalive(), ..Setup::modern() }.accepted();
    for _ in 0..20 {
        let waited = rig.until_sent(Duration::from_secs(100));
        assert!(waited >= Duration::from_secs(29), "{waited:?}");
        rig.one();
        rig.send(&[]);
        rig.none();
    }
    rig.assert_state(State::Established);
    // Data counts as life too.
    rig.pass(Duration::from_secs(20));
    rig.send(b"x");
    let _ = rig.read(10);
    rig.pass(Duration::from_secs(20));
    assert!(rig.sent().iter().all(|s| s.ack == rig.next && s.seq == OURS + 1), "no probe yet");
}

/// RFC 9293, MUST-24 and MUST-25.
#[test]
fn keepalive_can_be_switched_on_later() {
    let mut rig = Setup::default().accepted();
    rig.pass(Duration::from_secs(10_000));
    rig.none();
    let now = rig.now;
    rig.host.with(now, |conn, cx| conn.set_options(cx, keepalive()));
    assert!(rig.until_sent(Duration::from_secs(31)) <= Duration::from_secs(30));
    rig.one();
}

#[test]
fn a_keepalive_probe_is_answered() {
    let mut rig = Setup::default().accepted();
    for payload in [&b""[..], b"?"] {
        rig.inject(Segment { seq: rig.next - 1, ..rig.segment(Flags::ACK, payload) });
        assert_eq!(rig.one().ack, rig.next);
    }
}

/// RFC 9293, MUST-21; RFC 5482, 4.1-1.
#[test]
fn the_user_timeout_bounds_unacknowledged_data() {
    let options = SocketOptions { user_timeout: Duration::from_secs(5), ..SocketOptions::default() };
    let mut rig = Setup { options, ..Setup::default() }.accepted();
    rig.pass(Duration::from_secs(100));
    rig.write(b"hello?").unwrap();
    rig.pass(Duration::from_millis(4900));
    rig.assert_state(State::Established);
    rig.pass(Duration::from_secs(2));
    rig.assert_state(State::Closed);
    assert_eq!(rig.host.conn().error(), Some(Error::TimedOut));
}

/// RFC 6298, 5-3.
#[test]
fn the_user_timeout_starts_afresh_with_progress() {
    let options = SocketOptions { user_timeout: Duration::from_secs(5), ..SocketOptions::default() };
    let mut rig = Setup { options, ..Setup::default() }.accepted();
    for _ in 0..20 {
        rig.write(b"x").unwrap();
        rig.pass(Duration::from_secs(3));
        let end = rig.sent().last().unwrap().end();
        rig.ack(end, &[]);
    }
    rig.assert_state(State::Established);
}

/// RFC 6298, 5-2.
#[test]
fn idle_connections_have_no_timer() {
    let mut rig = Setup::modern().accepted();
    rig.send(b"x");
    rig.pass(Duration::from_secs(10));
    rig.write(b"y").unwrap();
    let end = rig.sent().last().unwrap().end();
    rig.ack(end, &[]);
    rig.pass(Duration::from_secs(10));
    rig.sent();
    assert_eq!(rig.host.timeout(), None);
}

#[test]
fn a_repeated_syn_brings_its_own_timestamp() {
    let mut setup = Setup::modern();
    let mut rig = setup.syn_received();
    rig.pass(ms(900));
    setup.peer.timestamps = Some(Timestamps { val: 1_900, ecr: 0 });
    rig.inject(Segment { seq: crate::rig::PEER, options: setup.peer, ..rig.segment(Flags::SYN, &[]) });
    let again = rig.one();
    assert_eq!(
        again.options.timestamps.unwrap().ecr,
        1_900,
        "or the peer measures its own timeout as round trip"
    );
}

/// RFC 9293, SHLD-11.
#[test]
fn by_default_a_silent_peer_has_more_than_100_seconds() {
    let mut rig = Setup::default().connected();
    rig.write(b"hello?").unwrap();
    rig.pass(Duration::from_secs(100));
    rig.assert_state(State::Established);
    rig.pass(Duration::from_secs(2_000));
    rig.assert_state(State::Closed);
}

/// RFC 9293, MUST-24, MUST-25, MUST-27 and MUST-28.
#[test]
fn keepalives_come_after_two_hours_unless_told_otherwise() {
    for (on, idle, probed) in [(false, None, None), (true, None, Some(7200)), (true, Some(45), Some(45))] {
        let mut options = SocketOptions { keepalive: on, ..SocketOptions::default() };
        options.keep_idle = idle.map_or(options.keep_idle, Duration::from_secs);
        assert!(!SocketOptions::default().keepalive);
        let mut rig = Setup { options, ..Setup::default() }.accepted();
        let waited = rig.until_sent(Duration::from_secs(20_000));
        assert_eq!((!rig.sent().is_empty()).then_some(waited), probed.map(Duration::from_secs));
    }
}

/// RFC 9293, MUST-26.
#[test]
fn what_is_in_flight_needs_no_keepalive() {
    let mut rig = Setup { options: keepalive(), ..Setup::default() }.accepted();
    rig.pass(Duration::from_secs(29));
    rig.write(b"x").unwrap();
    rig.sent();
    for _ in 0..50 {
        rig.pass(Duration::from_secs(1));
        assert!(rig.sent().iter().all(|s| s.seq == OURS + 1 && s.len() == 1), "retransmissions, no probe");
    }
}

/// RFC 7323, 4.1-1.
#[test]
fn an_echo_gives_a_sample_only_with_news() {
    let mut rig = Setup::modern().connected();
    rig.write(&[1; 100]).unwrap();
    rig.one();
    let before = rig.host.conn().info(rig.now).srtt;
    for _ in 0..20 {
        rig.pass(ms(7));
        rig.send(&[]);
        rig.send(b"x");
    }
    assert_eq!(rig.host.conn().info(rig.now).srtt, before, "nothing new was acknowledged");
}

/// RFC 7323, 3.2-2.
#[test]
fn every_segment_carries_the_timestamps_agreed_on() {
    let mut rig = Setup { options: keepalive(), ..Setup::modern() }.accepted();
    let mut all = Vec::new();
    rig.pass(Duration::from_secs(30));
    all.extend(rig.sent());
    rig.send(&[]);
    rig.send_at(5_000, b"early");
    rig.write(&[1; 5_000]).unwrap();
    all.extend(rig.sent());
    rig.pass(Duration::from_secs(3));
    rig.shutdown();
    rig.send_fin();
    all.extend(rig.sent());
    assert!(
        all.len() >= 8,
        "a keepalive, an acknowledgment with SACK, data, retransmissions, a FIN: {all:?}"
    );
    assert!(all.iter().all(|s| s.options.timestamps.is_some()), "{all:?}");
}
