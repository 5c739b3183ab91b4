//! Goal: losses are found and repaired without a timeout where acknowledgments tell of them (RFC 5681, 6582,
//! 6675, 3042), and with one where they do not.

use base::{Duration, Seq};
use tcp::{Config, State};

use crate::host::ms;
use crate::rig::{OURS, Rig, Sent, Setup};

/// Ten full segments are out, nothing acknowledged.
fn flight(setup: &Setup) -> (Rig, Vec<Sent>) {
    let mut rig = setup.connected();
    // A round trip gives the RTO a sample.
    rig.write(&[0; 100]).unwrap();
    rig.pass(ms(20));
    let end = rig.one().end();
    rig.ack(end, &[]);
    rig.write(&[1; 100_000]).unwrap();
    let sent = rig.sent();
    assert!(sent.len() >= 10 && sent.iter().all(|s| s.len() == sent[0].len()), "{}", sent.len());
    rig.pass(ms(20));
    (rig, sent)
}

/// RFC 5681, 3.2-3 and 3.2-6; RFC 9937, 6-4.
#[test]
fn three_duplicates_make_a_loss() {
    let (mut rig, sent) = flight(&Setup::default());
    let una = rig.ack;
    for n in 1..=2 {
        rig.ack(una, &[]);
        let limited = rig.sent();
        assert!(
            limited.len() <= 1 && limited.iter().all(|s| s.seq.after(sent.last().unwrap().seq)),
            "RFC 3042: {n}"
        );
    }
    rig.ack(una, &[]);
    let again = rig.sent();
    assert_eq!((again[0].seq, again[0].len()), (una, sent[0].len()), "fast retransmit");
    let info = rig.host.conn().info(rig.now);
    assert!(info.recovery && info.window.ssthresh < 10 * 1460);
    // Everything else had arrived.
    let end = sent.last().unwrap().end();
    rig.ack(end + 2 * sent[0].len() as u32, &[]);
    assert!(!rig.host.conn().info(rig.now).recovery);
}

#[test]
fn duplicates_with_data_or_another_window_are_no_duplicates() {
    let (mut rig, sent) = flight(&Setup::default());
    for _ in 0..10 {
        rig.send(b"data");
        while rig.read(100).is_ok() {}
    }
    assert!(rig.sent().iter().all(|s| s.len() == 0 || s.seq.after(sent.last().unwrap().seq)));
    let ack = rig.ack;
    for _ in 0..10 {
        rig.window -= 1;
        rig.ack(ack, &[]);
    }
    assert!(rig.sent().iter().all(|s| s.len() == 0 || s.seq.after(sent.last().unwrap().seq)));
    assert!(!rig.host.conn().info(rig.now).recovery);
}

/// RFC 5681, 3.2-7; RFC 6582, 3.2-3.
#[test]
fn newreno_repairs_one_hole_a_round_trip() {
    let (mut rig, sent) = flight(&Setup::default());
    let una = rig.ack;
    for _ in 0..3 {
        rig.ack(una, &[]);
    }
    rig.sent();
    // Segments 0, 3 and 5 were lost.
    for lost in [3, 5] {
        rig.pass(ms(20));
        rig.ack(sent[lost].seq, &[]);
        let again = rig.sent();
        assert!(
            again.iter().any(|s| s.seq == sent[lost].seq),
            "a partial ACK names the next hole: {again:?}"
        );
        assert!(rig.host.conn().info(rig.now).recovery);
    }
    assert_eq!(rig.host.conn().info(rig.now).backoff, 0);
}

/// RFC 2018, 5-1; RFC 6675, 5-2 and 5-4; RFC 6675, 5-6.
#[test]
fn sack_repairs_all_holes_at_once() {
    for setup in [Setup::sack(), Setup::modern()] {
        let (mut rig, sent) = flight(&setup);
        let una = rig.ack;
        let blocks = [(sent[1].seq, sent[3].seq), (sent[4].seq, sent[5].seq)];
        rig.ack(una, &blocks[..1]);
        rig.ack(una, &[(sent[4].seq, sent[5].seq), blocks[0]]);
        let mut seen = rig.sent();
        rig.ack(una, &[(sent[6].seq, sent[9].end()), blocks[1], blocks[0]]);
        seen.extend(rig.sent());
        let again: Vec<Seq> = seen.iter().map(|s| s.seq).filter(|s| s.before(sent[9].end())).collect();
        assert_eq!(again, [sent[0].seq, sent[3].seq, sent[5].seq], "each hole once, lowest first");
        assert!(rig.host.conn().info(rig.now).recovery);
        let end = seen.iter().map(Sent::end).fold(sent[9].end(), Seq::later);
        rig.ack(end, &[]);
        assert!(!rig.host.conn().info(rig.now).recovery);
        assert_eq!(rig.host.counters.timeouts, 0);
    }
}

/// RFC 6675, 5-3; RFC 6675, 4-1.
#[test]
fn sack_sends_no_more_than_the_window_in_recovery() {
    let (mut rig, sent) = flight(&Setup::sack());
    let una = rig.ack;
    for i in 2..10 {
        rig.ack(una, &[(sent[1].seq, sent[i].seq)]);
        rig.sent();
        let info = rig.host.conn().info(rig.now);
        assert!(info.in_flight <= info.window.cwnd.max(10 * 1460), "{info:?}");
    }
}

/// RFC 2018, 5-2, 5-3 and 8-1.
#[test]
fn a_timeout_starts_over_and_what_was_sacked_may_be_forgotten() {
    let (mut rig, sent) = flight(&Setup::sack());
    let una = rig.ack;
    // What one block shows to be lost is repaired, but nothing of it arrives.
    rig.ack(una, &[(sent[5].seq, sent[6].seq)]);
    let mut again = rig.sent();
    while !rig.host.conn().info(rig.now).loss {
        rig.until_sent(Duration::from_secs(5));
        again = rig.sent();
    }
    assert_eq!(again[0].seq, una);
    let info = rig.host.conn().info(rig.now);
    assert!(info.loss && info.window.cwnd <= 2 * 1460, "{info:?}");
    // The peer reneged: it acknowledges only in order from now on, and still everything arrives.
    let mut acked = una;
    for _ in 0..500 {
        let mut out = again.clone();
        out.extend(rig.sent());
        out.sort_by_key(|s| s.seq.offset_from(una));
        for s in &out {
            if s.seq.at_or_before(acked) {
                acked = acked.later(s.end());
            }
        }
        rig.pass(ms(20));
        rig.ack(acked, &[]);
        if acked == OURS + 1 + 100 + 100_000 {
            return assert_eq!(rig.host.conn().unacked(), 0);
        }
        if rig.host.out.is_empty() {
            rig.until_sent(Duration::from_secs(100));
        }
    }
    panic!("stuck at {acked:?}: {:#?}", rig.host.conn().info(rig.now));
}

#[test]
fn sack_nonsense_is_ignored() {
    let (mut rig, sent) = flight(&Setup::sack());
    let una = rig.ack;
    let end = sent.last().unwrap().end();
    for blocks in [
        [(end, end + 1000)],
        [(una + 500, una + 100)],
        [(una - 1000, una - 500)],
        [(una + (1 << 31), una + (1 << 31) + 10)],
        [(sent[3].seq, end + 1)],
    ] {
        rig.ack(una, &blocks);
        rig.sent();
    }
    let info = rig.host.conn().info(rig.now);
    assert!(!info.loss, "{info:?}");
    rig.assert_state(State::Established);
    rig.ack(end, &[]);
    assert!(!rig.sent().is_empty());
}

#[test]
fn the_window_does_not_grow_while_it_is_not_used() {
    let mut rig = Setup::default().connected();
    for _ in 0..200 {
        rig.write(&[1; 1000]).unwrap();
        let end = rig.one().end();
        rig.pass(ms(10));
        rig.ack(end, &[]);
    }
    let cwnd = rig.host.conn().info(rig.now).window.cwnd;
    assert!(cwnd <= 12 * 1460, "{cwnd}");
}

/// RFC 9293, MUST-19; RFC 5681, 3.1-1, 3.1-3 and 3.1-4; RFC 6928, 2-1.
#[test]
fn slow_start_doubles() {
    let mut rig = Setup { window: 65_535, ..Setup::default() }.connected();
    rig.write(&[1; 100_000]).unwrap();
    let first = rig.sent();
    assert_eq!(first.len(), 10, "RFC 6928");
    rig.pass(ms(20));
    for s in &first {
        rig.ack(s.end(), &[]);
    }
    // Acknowledgments in a burst have their answers spread over the next round trip.
    let at_once = rig.sent().len();
    rig.pass(ms(19));
    let spread = rig.sent().len();
    assert_eq!(at_once + spread, 20, "{at_once} at once");
}

#[test]
fn a_partial_ack_with_sack_does_not_repeat_what_is_only_in_flight() {
    let (mut rig, sent) = flight(&Setup::sack());
    let una = rig.ack;
    rig.ack(una, &[(sent[1].seq, sent[5].seq)]);
    assert_eq!(rig.sent()[0].seq, una);
    // The hole is filled; nothing says that the segments behind it are lost.
    for s in &sent[5..9] {
        rig.pass(ms(1));
        rig.ack(s.seq, &[]);
        let more = rig.sent();
        assert!(more.iter().all(|m| m.seq.after(sent[9].seq)), "{more:?}");
    }
    assert_eq!(rig.host.counters.retransmits, 1);
}

#[test]
fn an_ack_that_advances_may_tell_of_the_next_loss() {
    let (mut rig, sent) = flight(&Setup::sack());
    rig.ack(sent[1].seq, &[(sent[2].seq, sent[6].seq)]);
    assert_eq!(rig.sent()[0].seq, sent[1].seq, "the acknowledgments before it were lost");
    assert!(rig.host.conn().info(rig.now).recovery);
}

#[test]
fn an_ack_beyond_what_a_timeout_sent_again_leaves_room_to_send() {
    let setup = Setup::sack();
    let (mut rig, sent) = flight(&Setup { config: Config { frto: false, ..setup.config }, ..setup });
    rig.until_sent(Duration::from_secs(5));
    assert_eq!(rig.one().seq, sent[0].seq);
    // The peer held segments 1 to 3 all along; 4 is missing too.
    rig.ack(sent[4].seq, &[]);
    let again = rig.sent();
    assert_eq!(again.first().map(|s| s.seq), Some(sent[4].seq), "{again:?}");
    let info = rig.host.conn().info(rig.now);
    assert!(info.in_flight <= info.window.cwnd, "{info:?}");
}

#[test]
fn a_repair_goes_on_at_each_acknowledgment_though_nothing_new_is_left() {
    for setup in [Setup::default(), Setup::sack()] {
        let mut rig = setup.connected();
        rig.write(&[1; 14_600]).unwrap();
        rig.shutdown();
        let sent = rig.sent();
        rig.until_sent(Duration::from_secs(5));
        assert_eq!(rig.one().seq, sent[0].seq);
        // Slow start from one segment: each acknowledgment lets the next two out, without waiting for the
        // timer.
        let mut acked = 0;
        for step in 1.. {
            acked += step;
            rig.pass(ms(20));
            let Some(next) = sent[..10].get(acked) else { break };
            rig.ack(next.seq, &[]);
            let again: Vec<Seq> = rig.sent().iter().map(|s| s.seq).collect();
            assert_eq!(again.first(), Some(&next.seq), "after {acked} segments");
        }
        assert_eq!(rig.host.counters.timeouts, 1);
    }
}

/// RFC 3522, 3.2-2.
#[test]
fn only_the_first_acknowledgment_tells_whether_a_repair_was_needless() {
    let mut rig = Setup::modern().connected();
    rig.write(&[1; 14_480]).unwrap();
    let sent = rig.sent();
    rig.until_sent(Duration::from_secs(5));
    rig.one();
    let echo = rig.echo;
    rig.pass(ms(20));
    rig.ack(sent[1].seq, &[]);
    assert_eq!(rig.sent()[0].seq, sent[1].seq);
    // The repair has sent more meanwhile, but this still answers its first transmission.
    rig.pass(ms(5));
    rig.echo = echo;
    rig.ack(sent[4].seq, &[]);
    assert_eq!(rig.sent()[0].seq, sent[4].seq, "the repair goes on");
    assert_eq!(rig.host.counters.spurious_recoveries, 0);
    let info = rig.host.conn().info(rig.now);
    assert!(info.loss && info.window.cwnd < 5 * 1448, "{info:?}");
}

#[test]
fn a_repair_that_was_needless_is_undone() {
    let mut rig = Setup::modern().connected();
    rig.write(&[1; 14_480]).unwrap();
    let sent = rig.sent();
    let (echo, cwnd) = (rig.echo, rig.host.conn().info(rig.now).window.cwnd);
    rig.until_sent(Duration::from_secs(5));
    rig.one();
    rig.pass(ms(5));
    rig.echo = echo;
    rig.ack(sent[2].seq, &[]);
    assert!(rig.sent().iter().all(|s| s.seq.after(sent[9].seq)), "nothing is sent again");
    assert_eq!(rig.host.counters.spurious_recoveries, 1);
    assert!(rig.host.conn().info(rig.now).window.cwnd >= cwnd, "RFC 3522, RFC 4015");
}

/// RFC 5681, 3.2-4; RFC 3042, 2-1, 2-2, 2-3 and 2-4; RFC 5681, 3.2-9 and 3.2-10.
#[test]
fn the_first_two_duplicates_let_new_segments_out() {
    let (mut rig, sent) = flight(&Setup::default());
    let (una, window) = (rig.ack, rig.host.conn().info(rig.now).window.cwnd);
    let mut end = sent.last().unwrap().end();
    for _ in 1..=2 {
        rig.ack(una, &[]);
        let new = rig.one();
        assert_eq!((new.seq, new.len()), (end, sent[0].len()));
        end = new.end();
        let info = rig.host.conn().info(rig.now);
        assert_eq!(info.window.cwnd, window);
        assert!(end.offset_from(una) <= window + 2 * sent[0].len() as u32);
    }
    // With SACK only what reports something new does.
    let (mut rig, _) = flight(&Setup::sack());
    let una = rig.ack;
    for _ in 0..5 {
        rig.ack(una, &[]);
        rig.none();
    }
}

/// Which acknowledgments, of three duplicates and three partial ones, moved the timer.
fn dates_of_partial_acknowledgments(steady: bool) -> Vec<Option<base::Instant>> {
    let mut setup = Setup::default();
    setup.config.steady_repair = steady;
    let (mut rig, sent) = flight(&setup);
    let una = rig.ack;
    for _ in 0..3 {
        rig.ack(una, &[]);
    }
    let mut dates = vec![rig.host.timeout()];
    for hole in [2, 4, 6] {
        rig.pass(ms(10));
        rig.ack(sent[hole].seq, &[]);
        dates.push(rig.host.timeout());
    }
    dates
}

/// RFC 6582, 3.2-4.
#[test]
fn only_the_first_partial_acknowledgment_restarts_an_impatient_timer() {
    let dates = dates_of_partial_acknowledgments(false);
    assert!(dates[0] < dates[1], "{dates:?}");
    assert!(dates[1] == dates[2] && dates[2] == dates[3], "{dates:?}");
}

#[test]
fn every_partial_acknowledgment_restarts_a_steady_timer() {
    assert!(dates_of_partial_acknowledgments(true).is_sorted_by(|a, b| a < b));
}

/// RFC 6582, 3.2-1 and 4-1; RFC 6675, 5.1-2 and 5.1-3.
#[test]
fn duplicates_of_what_was_repaired_begin_nothing() {
    for timeout in [false, true] {
        let (mut rig, sent) = flight(&Setup::default());
        let una = rig.ack;
        if timeout {
            rig.until_sent(Duration::from_secs(5));
        } else {
            (0..3).for_each(|_| _ = rig.ack(una, &[]));
        }
        let before = rig.host.counters.fast_retransmits;
        let window = rig.host.conn().info(rig.now).window.ssthresh;
        // The peer had the next ones; what is sent again below the end of the repair makes it repeat itself.
        for have in [2, 4, 6] {
            rig.pass(ms(20));
            (0..5).for_each(|_| _ = rig.ack(sent[have].seq, &[]));
            rig.sent();
        }
        assert_eq!(rig.host.conn().info(rig.now).window.ssthresh, window, "timeout {timeout}");
        assert_eq!(rig.host.counters.fast_retransmits, before, "timeout {timeout}");
    }
}

/// RFC 6675, 5.1-1; RFC 6675, 4-2.
#[test]
fn a_timeout_keeps_what_was_reported() {
    let (mut rig, sent) = flight(&Setup::sack());
    let una = rig.ack;
    let held = (sent[7].seq, sent[9].end());
    rig.ack(una, &[held]);
    rig.sent();
    rig.until_sent(Duration::from_secs(5));
    assert_eq!((rig.one().seq, rig.host.counters.timeouts), (una, 1));
    for s in &sent[..6] {
        rig.pass(ms(20));
        rig.ack(s.end(), &[held]);
        let again = rig.sent();
        assert!(again.iter().all(|s| s.seq.before(held.0) || s.seq.at_or_after(held.1)), "{again:?}");
    }
}
