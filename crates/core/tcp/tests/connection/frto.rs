//! Goal: without timestamps, a timeout that was needless is found out before anything but its one segment is sent
//! again (RFC 5682), and one that was not is repaired as ever.

use base::Duration;

use crate::host::ms;
use crate::rig::{Rig, Sent, Setup};

/// Ten segments are out, more waits; the timeout comes and the first is sent again.
fn timed_out(setup: &Setup) -> (Rig, Vec<Sent>, u32) {
    let mut rig = setup.connected();
    rig.write(&[1; 40_000]).unwrap();
    let sent = rig.sent();
    assert_eq!(sent.len(), 10);
    let before = window(&rig);
    rig.until_sent(Duration::from_secs(5));
    assert_eq!(rig.one().seq, sent[0].seq);
    rig.pass(ms(10));
    (rig, sent, before)
}

fn window(rig: &Rig) -> u32 {
    rig.host.conn().info(rig.now).window.cwnd
}

/// RFC 5682, 2.1-1, 2.1-2 and 2.1-4.
#[test]
fn a_needless_timeout_is_found_out_by_the_second_acknowledgment() {
    for setup in [Setup::default(), Setup::sack()] {
        let (mut rig, sent, before) = timed_out(&setup);
        rig.ack(sent[1].seq, &[]);
        let fresh = rig.sent();
        assert!(fresh.len() == 2 && fresh[0].seq == sent[9].end(), "new data, not a repair: {fresh:?}");
        rig.ack(sent[2].seq, &[]);
        assert_eq!(rig.host.counters.spurious_recoveries, 1);
        assert!(window(&rig) >= before);
        for s in &sent[2..] {
            rig.ack(s.end(), &[]);
        }
        assert_eq!(rig.host.counters.retransmits, 1);
    }
}

/// RFC 5682, 3.1-1.
#[test]
fn a_block_for_what_was_not_sent_again_says_so_too() {
    let (mut rig, sent, before) = timed_out(&Setup::sack());
    rig.ack(sent[1].seq, &[]);
    assert_eq!(rig.sent().len(), 2);
    rig.ack(sent[1].seq, &[(sent[2].seq, sent[3].seq)]);
    assert_eq!(rig.host.counters.spurious_recoveries, 1);
    assert!(window(&rig) >= before);
}

/// RFC 5682, 2.1-3.
#[test]
fn a_timeout_that_was_not_needless_goes_on() {
    for setup in [Setup::default(), Setup::sack()] {
        let (mut rig, sent, before) = timed_out(&setup);
        rig.ack(sent[1].seq, &[]);
        let fresh = rig.sent();
        assert_eq!(fresh.len(), 2);
        // What answers is the new data; the rest of the flight is missing.
        let blocks = [(fresh[0].seq, fresh[0].end())];
        rig.ack(sent[1].seq, if rig.host.conn().info(rig.now).sack { &blocks } else { &[] });
        let again = rig.sent();
        assert_eq!(again.first().map(|s| s.seq), Some(sent[1].seq), "{again:?}");
        assert_eq!(rig.host.counters.spurious_recoveries, 0);
        assert!(window(&rig) < before);
    }
}

/// RFC 5682, 2.1-5.
#[test]
fn without_new_data_it_is_repaired_as_ever() {
    let mut rig = Setup::sack().connected();
    rig.write(&[1; 14_600]).unwrap();
    let sent = rig.sent();
    rig.until_sent(Duration::from_secs(5));
    rig.one();
    rig.ack(sent[1].seq, &[]);
    assert_eq!(rig.sent()[0].seq, sent[1].seq);
}

/// RFC 5682, 2.1-2.
#[test]
fn an_acknowledgment_of_everything_ends_it() {
    let (mut rig, sent, _) = timed_out(&Setup::sack());
    rig.ack(sent[9].end(), &[]);
    let fresh = rig.sent();
    assert_eq!(fresh[0].seq, sent[9].end());
    assert_eq!(rig.host.counters.spurious_recoveries, 0, "it is unknown which of the two was acknowledged");
}
