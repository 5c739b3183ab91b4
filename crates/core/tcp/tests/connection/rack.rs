//! Goal: time tells losses from reordering (RFC 8985), the tail of a flight is probed before the timeout, and
//! what was repaired in vain is taken back (RFC 2883, RFC 3708).

use base::{Duration, Seq};
use tcp::{Config, SocketOptions, State};
use wire::tcp::{Flags, Segment};

use crate::host::ms;
use crate::rig::{Rig, Sent, Setup};

/// One round trip, 20 ms, has been measured everywhere here; a quarter of it is the reordering window.
const RTT: Duration = ms(20);
const QUARTER: Duration = ms(5);

fn probing(setup: Setup) -> Setup {
    Setup { config: Config { tail_loss_probe: true, ..setup.config }, ..setup }
}

/// `n` full segments are out; nothing more waits.
fn flight(setup: &Setup, n: usize) -> (Rig, Vec<Sent>) {
    let mut rig = setup.connected();
    let mss = rig.host.conn().info(rig.now).snd_mss;
    rig.write(&vec![1; n * usize::from(mss)]).unwrap();
    let sent = rig.sent();
    assert_eq!(sent.len(), n);
    (rig, sent)
}

fn window(rig: &Rig) -> u32 {
    rig.host.conn().info(rig.now).window.cwnd
}

fn seqs(sent: &[Sent]) -> Vec<Seq> {
    sent.iter().map(|s| s.seq).collect()
}

/// RFC 8985, 6.2-4.
#[test]
fn a_segment_overtaken_by_less_than_a_quarter_round_trip_is_not_lost() {
    let (mut rig, sent) = flight(&Setup::sack(), 4);
    rig.pass(RTT);
    rig.ack(sent[0].seq, &[(sent[1].seq, sent[2].seq)]);
    rig.pass(QUARTER - ms(1));
    rig.ack(sent[2].seq, &[]);
    rig.pass(RTT);
    rig.none();
    rig.ack(sent[3].end(), &[]);
    assert_eq!((rig.host.counters.retransmits, rig.host.counters.fast_retransmits), (0, 0));
}

/// RFC 8985, 6.2-1 and 6.2-6.
#[test]
fn one_block_shows_a_loss_after_a_quarter_round_trip() {
    let (mut rig, sent) = flight(&Setup::sack(), 4);
    rig.pass(RTT);
    rig.ack(sent[0].seq, &[(sent[1].seq, sent[2].seq)]);
    rig.none();
    assert_eq!(rig.until_sent(ms(100)), QUARTER);
    assert_eq!(rig.one().seq, sent[0].seq, "what left after the delivered segment is not judged");
    assert_eq!(rig.host.counters.reordering_timeouts, 1);
    assert!(rig.host.conn().info(rig.now).recovery);
}

/// The FIN's byte behind full segments is none of theirs: what is SACKed counts, whether or not the receiver's block
/// holds the FIN.
/// RFC 8985, 6.2-1 and 6.2-6.
#[test]
fn a_fin_behind_full_segments_spoils_no_block() {
    for with_fin in [0, 1] {
        for held in [3, 4] {
            let mut rig = probing(Setup::sack()).connected();
            let mss = usize::from(rig.host.conn().info(rig.now).snd_mss);
            let (now, data) = (rig.now, vec![1; 6 * mss]);
            rig.host.with(now, |conn, cx| {
                conn.write(cx, &data).unwrap();
                conn.shutdown(cx, tcp::Shutdown::Write);
            });
            let sent = rig.sent();
            assert_eq!((sent.len(), sent[5].len()), (6, mss));
            rig.pass(RTT);
            let end = sent[5].seq + mss as u32 + with_fin;
            rig.ack(sent[held].seq, &[(sent[5].seq, end)]);
            rig.none();
            assert_eq!(rig.until_sent(ms(100)), QUARTER, "{with_fin} {held}");
            assert_eq!(rig.sent()[0].seq, sent[held].seq, "{with_fin} {held}");
        }
    }
}

/// A SACK that comes sooner after the probe than any round trip took is that of the first transmission, which tells of
/// what left before it.
/// RFC 8985, 6.2-2.
#[test]
fn a_late_sack_of_what_was_probed_shows_the_loss_before_it() {
    let (mut rig, sent) = flight(&probing(Setup::sack()), 4);
    rig.pass(RTT);
    rig.ack(sent[2].seq, &[]);
    assert!(rig.until_sent(ms(100)) < ms(100));
    assert_eq!(rig.one().seq, sent[3].seq, "the probe");
    rig.pass(ms(1));
    rig.ack(sent[2].seq, &[(sent[3].seq, sent[3].end())]);
    assert!(rig.until_sent(ms(100)) <= QUARTER);
    assert_eq!(rig.one().seq, sent[2].seq);
}

/// RFC 6675, 5-1; RFC 8985, 6.2-4.
#[test]
fn three_segments_show_it_at_once() {
    let (mut rig, sent) = flight(&Setup::sack(), 6);
    rig.pass(RTT);
    rig.ack(sent[0].seq, &[(sent[1].seq, sent[4].seq)]);
    assert_eq!(rig.one().seq, sent[0].seq);
}

/// RFC 8985, 6.2-3.
#[test]
fn once_reordering_was_seen_three_segments_do_not_suffice() {
    let (mut rig, sent) = flight(&Setup::sack(), 4);
    rig.pass(RTT);
    rig.ack(sent[0].seq, &[(sent[1].seq, sent[2].seq)]);
    rig.ack(sent[3].end(), &[]);
    let mss = sent[0].len();
    rig.write(&vec![2; 6 * mss]).unwrap();
    let next = rig.sent();
    rig.pass(RTT);
    rig.ack(next[0].seq, &[(next[1].seq, next[5].end())]);
    rig.none();
    assert_eq!(rig.until_sent(ms(100)), QUARTER);
    assert_eq!(rig.one().seq, next[0].seq);
}

/// RFC 8985, 6.2-5.
#[test]
fn reports_of_duplicates_widen_the_window_until_sixteen_recoveries_later() {
    let (mut rig, sent) = flight(&Setup::sack(), 4);
    rig.pass(RTT);
    // Reordering is seen, and a report of a duplicate comes along: half a round trip from now on.
    rig.ack(sent[0].seq, &[(sent[1].seq, sent[2].seq)]);
    rig.ack(sent[3].end(), &[(sent[0].seq, sent[0].end())]);
    for recovery in 0..18 {
        rig.write(&vec![2; 4 * sent[0].len()]).unwrap();
        let mut next = rig.sent();
        while next.len() < 4 {
            rig.pass(RTT);
            rig.ack(next.last().unwrap().end(), &[]);
            next = [next, rig.sent()].concat();
        }
        let next = &next[next.len() - 2..];
        rig.pass(RTT);
        rig.ack(next[0].seq, &[(next[1].seq, next[1].end())]);
        let waited = rig.until_sent(ms(100));
        assert_eq!(waited, if recovery < 16 { 2 * QUARTER } else { QUARTER }, "recovery {recovery}");
        rig.sent();
        rig.pass(RTT);
        rig.ack(next[1].end(), &[]);
        rig.sent();
        rig.pass(RTT);
    }
}

/// RFC 5681, 4.3-1; RFC 8985, 6.3-1; RFC 8985, 9.3-3.
#[test]
fn a_lost_retransmission_is_found_by_what_left_later() {
    let (mut rig, sent) = flight(&Setup::sack(), 8);
    rig.pass(RTT);
    // More data waits, so that recovery sends some behind the retransmission.
    rig.write(&[3; 40_000]).unwrap();
    let before = rig.sent();
    rig.ack(sent[0].seq, &[(sent[1].seq, sent[7].end())]);
    let repair = rig.sent();
    assert_eq!(repair[0].seq, sent[0].seq);
    let once = window(&rig);
    rig.pass(ms(1));
    rig.ack(sent[0].seq, &[(sent[1].seq, before.last().map_or(sent[7].end(), Sent::end))]);
    let later = rig.sent();
    assert!(later.iter().any(|s| s.seq.after(sent[7].seq)), "{later:?}");
    rig.pass(RTT);
    let last = later.last().unwrap().end();
    rig.ack(sent[0].seq, &[(sent[1].seq, last)]);
    assert_eq!(rig.sent()[0].seq, sent[0].seq, "sent a third time, without a timeout");
    assert!(window(&rig) < once, "it was lost twice, and twice the window falls");
    assert_eq!(rig.host.counters.timeouts, 0);
}

/// RFC 2018, 5-1.
#[test]
fn a_late_acknowledgment_tells_what_it_sacks() {
    let (mut rig, sent) = flight(&Setup::sack(), 10);
    rig.pass(RTT);
    rig.ack(sent[0].seq, &[(sent[1].seq, sent[2].end()), (sent[8].seq, sent[8].end())]);
    assert_eq!(rig.sent()[0].seq, sent[0].seq);
    rig.pass(RTT);
    rig.ack(sent[3].end(), &[(sent[8].seq, sent[8].end())]);
    rig.sent();
    let before = rig.host.conn().info(rig.now);
    // It left before the last one, and what lies below SND.UNA in it is no report of a duplicate.
    rig.ack(sent[1].seq, &[(sent[1].seq, sent[2].end()), (sent[5].seq, sent[6].end())]);
    let after = rig.host.conn().info(rig.now);
    assert_eq!(after.sacked, before.sacked + 2 * sent[5].len() as u32);
    assert_eq!((after.snd_una, after.duplicates_reported), (before.snd_una, 0));
    assert_eq!(after.window, before.window);
}

/// RFC 8985, 7.2-1.
#[test]
fn the_tail_is_probed_and_its_loss_repaired_without_a_timeout() {
    let (mut rig, sent) = flight(&probing(Setup::sack()), 5);
    rig.pass(RTT);
    rig.ack(sent[2].seq, &[]);
    rig.none();
    // Two round trips and the timers' slack after the last acknowledgment (section 7.2).
    assert_eq!(rig.until_sent(ms(190)), 2 * RTT + ms(2));
    let probe = rig.one();
    assert_eq!((probe.seq, probe.len()), (sent[4].seq, sent[4].len()), "the last segment");
    rig.pass(RTT);
    rig.ack(sent[2].seq, &[(sent[4].seq, sent[4].end())]);
    // The probe shows that what left before it is lost; one segment arrived, so one leaves.
    assert_eq!(seqs(&rig.sent()), seqs(&sent[2..3]));
    rig.pass(RTT);
    rig.ack(sent[3].seq, &[(sent[4].seq, sent[4].end())]);
    assert_eq!(seqs(&rig.sent()), seqs(&sent[3..4]));
    rig.pass(RTT);
    rig.ack(sent[4].end(), &[]);
    let counters = &rig.host.counters;
    assert_eq!((counters.tail_probes, counters.timeouts, rig.host.conn().unacked()), (1, 0, 0));
}

/// RFC 8985, section 7.2: the time of a delayed acknowledgment is added for a single segment, and several small ones
/// are not one.
#[test]
fn several_small_segments_are_probed_as_soon_as_large_ones() {
    for ends in [false, true] {
        let mut rig = Setup { options: nodelay(), ..probing(Setup::sack()) }.connected();
        rig.write(&[1; 100]).unwrap();
        rig.sent();
        rig.pass(ms(1));
        if ends {
            rig.shutdown();
        } else {
            rig.write(&[2; 100]).unwrap();
        }
        let last = rig.one();
        assert_eq!(rig.until_sent(ms(500)), 2 * RTT + ms(2), "ends: {ends}");
        let probe = rig.one();
        assert_eq!(probe.end(), last.end());
    }
}

/// RFC 8985, section 7.2: a full segment with the FIN in it is a single one.
#[test]
fn the_fin_of_a_full_segment_makes_no_second_one() {
    let mut rig = probing(Setup::sack()).connected();
    let (una, open) = (rig.host.conn().info(rig.now).snd_una, rig.window);
    rig.window = 0;
    rig.ack(una, &[]);
    let mss = rig.host.conn().info(rig.now).snd_mss;
    rig.write(&vec![1; usize::from(mss)]).unwrap();
    rig.shutdown();
    rig.none();
    rig.window = open;
    rig.ack(una, &[]);
    let all = rig.one();
    assert_eq!((all.len(), all.flags.has(Flags::FIN)), (usize::from(mss), true));
    assert!(rig.until_sent(ms(500)) > ms(200), "the peer may delay the acknowledgment");
}

fn nodelay() -> SocketOptions {
    SocketOptions { nodelay: true, ..SocketOptions::default() }
}

/// RFC 8985, 7.3-1, 7.3-2 and 7.3-4; RFC 8985, 8-1.
#[test]
fn one_probe_a_flight_then_the_timeout() {
    let (mut rig, sent) = flight(&probing(Setup::sack()), 5);
    rig.until_sent(ms(500));
    assert_eq!(rig.one().seq, sent[4].seq);
    rig.until_sent(ms(500));
    assert_eq!(rig.one().seq, sent[0].seq);
    assert_eq!((rig.host.counters.tail_probes, rig.host.counters.timeouts), (1, 1));
    // Nor is there one while the timeout's repair lasts.
    rig.until_sent(ms(5_000));
    assert_eq!(rig.one().seq, sent[0].seq);
    assert_eq!((rig.host.counters.tail_probes, rig.host.counters.timeouts), (1, 2));
    rig.assert_state(State::Established);
}

/// RFC 8985, 7.3-3.
#[test]
fn a_probe_is_new_data_where_there_is_some() {
    let setup = probing(Setup::sack());
    let mut rig = setup.connected();
    rig.write(&[1; 20 * 1460]).unwrap();
    let sent = rig.sent();
    assert_eq!(sent.len(), 10, "the window is full");
    rig.until_sent(ms(190));
    assert_eq!(rig.one().seq, sent[9].end(), "one segment beyond the window");
    rig.pass(RTT);
    rig.ack(sent[9].end(), &[]);
    assert!(rig.sent().iter().all(|s| s.seq.after(sent[9].end())));
    assert_eq!(rig.host.counters.tail_probe_recoveries, 0);
}

/// RFC 8985, 7.3-3.
#[test]
fn a_fin_that_left_alone_is_probed_alone() {
    let setup = probing(Setup::sack());
    let mut rig = setup.connected();
    rig.write(&[1; 2 * 1460 + 300]).unwrap();
    rig.shutdown();
    let sent = rig.sent();
    rig.until_sent(ms(190));
    let probe = rig.one();
    assert_eq!((probe.seq, probe.len(), probe.flags), (sent[3].seq, 0, Flags::FIN | Flags::ACK));
}

/// RFC 8985, 7.4-1.
#[test]
fn a_probe_that_repaired_a_loss_costs_window_and_one_that_did_not_does_not() {
    // What the peer answers to the probe: nothing special, a report of a duplicate, a plain duplicate, a report of more
    // than the probe, or a duplicate behind more that the peer has sent.
    for answer in 0..5 {
        let (mut rig, sent) = flight(&probing(Setup::sack()), 5);
        let before = window(&rig);
        rig.until_sent(ms(190));
        let probe = rig.one();
        rig.pass(RTT);
        let end = sent[4].end();
        rig.ack(end, &[]);
        match answer {
            0 => {}
            1 => drop(rig.ack(end, &[(probe.seq, probe.end())])),
            2 => drop(rig.ack(end, &[])),
            3 => drop(rig.ack(end, &[(sent[3].seq, probe.end())])),
            _ => drop(rig.inject(Segment { seq: rig.next + 1, ack: end, ..rig.segment(Flags::ACK, &[]) })),
        }
        rig.write(&[1; 1460]).unwrap();
        rig.pass(RTT);
        let next = rig.one().end();
        rig.ack(next, &[]);
        let is_repaired = [0, 3, 4].contains(&answer);
        let repaired = u64::from(is_repaired);
        assert_eq!(rig.host.counters.tail_probe_recoveries, repaired, "answer {answer}");
        assert_eq!(window(&rig) < before, is_repaired, "answer {answer}: {} of {before}", window(&rig));
    }
}

#[test]
fn a_block_across_the_acknowledgment_tells_nothing() {
    let (mut rig, sent) = flight(&probing(Setup::sack()), 2);
    rig.until_sent(ms(190));
    rig.one();
    rig.pass(ms(24));
    rig.ack(sent[1].seq, &[(sent[0].seq, sent[1].end())]);
    rig.none();
}

/// RFC 2883, 5-1; RFC 3708, 3-1.
#[test]
fn a_recovery_reported_needless_gives_the_window_back() {
    for late in [false, true] {
        let (mut rig, sent) = flight(&Setup::sack(), 8);
        let before = window(&rig);
        rig.pass(RTT);
        rig.ack(sent[0].seq, &[(sent[1].seq, sent[5].seq)]);
        assert_eq!(rig.one().seq, sent[0].seq);
        assert!(window(&rig) < before);
        if late {
            // The original was only late; first everything is acknowledged, then the duplicate arrives.
            rig.ack(sent[7].end(), &[]);
            assert!(!rig.host.conn().info(rig.now).recovery && window(&rig) < before);
            rig.pass(RTT);
            rig.ack(sent[7].end(), &[(sent[0].seq, sent[0].end())]);
        } else {
            rig.ack(sent[5].seq, &[]);
            rig.pass(RTT);
            rig.ack(sent[5].seq, &[(sent[0].seq, sent[0].end())]);
        }
        let counters = &rig.host.counters;
        assert_eq!((counters.spurious_recoveries, counters.dsacks_in), (1, 1), "late {late}");
        assert!(window(&rig) >= before, "late {late}: {} of {before}", window(&rig));
    }
}

/// RFC 3708, 3-1.
#[test]
fn half_a_repair_reported_needless_was_not() {
    let (mut rig, sent) = flight(&Setup::sack(), 8);
    let before = window(&rig);
    rig.pass(RTT);
    rig.ack(sent[0].seq, &[(sent[2].seq, sent[6].seq)]);
    let again = rig.sent();
    assert_eq!(again[0].seq, sent[0].seq);
    rig.ack(sent[0].seq, &[(sent[2].seq, sent[7].end())]);
    let again = [again, rig.sent()].concat();
    assert_eq!(seqs(&again), seqs(&sent[..2]));
    rig.pass(RTT);
    rig.ack(sent[7].end(), &[(sent[0].seq, sent[0].end())]);
    assert_eq!(rig.host.counters.spurious_recoveries, 0);
    assert!(window(&rig) < before);
}

/// RFC 9937, 6-2 and 6-5; RFC 8985, 9.2-1.
#[test]
fn recovery_sends_in_proportion_to_what_arrives() {
    let (mut rig, sent) = flight(&Setup::sack(), 10);
    rig.write(&[1; 60_000]).unwrap();
    rig.pass(RTT);
    rig.sent();
    let mut out = Vec::new();
    for i in 1..10 {
        rig.ack(sent[0].seq, &[(sent[1].seq, sent[i].end())]);
        out.push(rig.sent().len());
    }
    // No burst, and when all that left before has been told of, as much is in flight as the policy wants.
    assert!(out.iter().all(|&n| n <= 1), "{out:?}");
    let info = rig.host.conn().info(rig.now);
    assert_eq!(info.in_flight, info.window.cwnd);
    let quiet = out[2..].split(|&n| n > 0).map(<[usize]>::len).max();
    assert_eq!(quiet, Some(2), "half as much leaves as arrives, after the retransmission: {out:?}");
}

/// RFC 8985, 4-1.
#[test]
fn without_sack_nothing_is_probed_or_judged_by_time() {
    let (mut rig, sent) = flight(&probing(Setup::default()), 5);
    rig.pass(RTT);
    rig.ack(sent[0].seq, &[]);
    let rto = rig.host.conn().info(rig.now).rto;
    assert_eq!(rig.until_sent(ms(5_000)), rto - RTT);
    assert_eq!(rig.one().seq, sent[0].seq);
    let counters = &rig.host.counters;
    assert_eq!((counters.timeouts, counters.tail_probes, counters.reordering_timeouts), (1, 0, 0));
}

/// RFC 9937, 6-6.
#[test]
fn a_recovery_ends_with_the_window_at_its_target() {
    let (mut rig, sent) = flight(&Setup::sack(), 10);
    rig.pass(RTT);
    rig.ack(sent[0].seq, &[(sent[1].seq, sent[4].end())]);
    let target = rig.host.conn().info(rig.now).window.ssthresh;
    assert_eq!(target, 5 * 1460);
    rig.sent();
    rig.pass(RTT);
    rig.ack(sent[9].end(), &[]);
    assert!(!rig.host.conn().info(rig.now).recovery);
    assert!((target..=target + 1460).contains(&window(&rig)), "{} {target}", window(&rig));
}

/// RFC 8985, 6.2-7.
#[test]
fn a_longer_path_is_learnt_within_five_minutes() {
    let (mut rig, sent) = flight(&Setup::sack(), 2);
    rig.pass(RTT);
    rig.ack(sent[1].end(), &[]);
    let least = |rig: &Rig| rig.host.conn().info(rig.now).min_rtt;
    assert_eq!(least(&rig), RTT);
    // The path is four times as long from now on. A round trip a second.
    for second in 0..320 {
        rig.write(&[1]).unwrap();
        let sent = rig.one();
        rig.pass(4 * RTT);
        rig.ack(sent.end(), &[]);
        rig.pass(Duration::from_secs(1) - 4 * RTT);
        if second < 200 {
            assert_eq!(least(&rig), RTT, "second {second}");
        }
    }
    assert!(least(&rig) > 3 * RTT, "{:?}", least(&rig));
    // What is shorter counts at once.
    rig.write(&[1]).unwrap();
    let sent = rig.one();
    rig.pass(3 * RTT);
    rig.ack(sent.end(), &[]);
    assert_eq!(least(&rig), 3 * RTT);
}
