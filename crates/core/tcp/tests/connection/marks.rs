//! Goal: what the application says about places in its stream holds, whatever is lost, and it hears what it asked for.

use tcp::{Events, Hints, Report, SocketOptions, Stamps, WriteError};
use wire::tcp::Flags;

use crate::host::ms;
use crate::rig::{OURS, Rig, Sent, Setup};

const MORE: Hints = Hints { more: true, ..PLAIN };
const RECORD: Hints = Hints { end_of_record: true, ..PLAIN };
const COMPLETION: Hints = Hints { completion: true, ..PLAIN };
const PLAIN: Hints =
    Hints { more: false, end_of_record: false, completion: false, stamps: Stamps(0), waits: false };

fn write(rig: &mut Rig, len: usize, hints: Hints) -> Result<usize, WriteError> {
    rig.host.with(rig.now, |conn, cx| conn.write_hinted(cx, &vec![7; len], &hints))
}

fn lengths(sent: &[Sent]) -> Vec<usize> {
    sent.iter().map(Sent::len).collect()
}

fn reports(rig: &mut Rig) -> Vec<Report> {
    let now = rig.now;
    rig.host.with(now, |conn, _| std::iter::from_fn(|| conn.poll_report()).collect())
}

fn nodelay() -> Setup {
    Setup { options: SocketOptions { nodelay: true, ..SocketOptions::default() }, ..Setup::sack() }
}

#[test]
fn more_holds_back_until_the_next_write_or_200_ms() {
    let mut rig = nodelay().connected();
    write(&mut rig, 40, MORE).unwrap();
    assert!(rig.sent().is_empty());
    rig.pass(ms(150));
    write(&mut rig, 60, MORE).unwrap();
    assert!(rig.sent().is_empty());
    write(&mut rig, 1, PLAIN).unwrap();
    let sent = rig.sent();
    assert_eq!(lengths(&sent), [101]);
    assert!(sent[0].flags.has(Flags::PSH));
    rig.ack(sent[0].end(), &[]);
    write(&mut rig, 5, MORE).unwrap();
    rig.pass(ms(195));
    assert!(rig.sent().is_empty());
    rig.pass(ms(10));
    assert_eq!(lengths(&rig.sent()), [5], "the bound");
}

#[test]
fn full_segments_do_not_wait_and_an_acknowledgment_lets_the_rest_go() {
    let mut rig = nodelay().connected();
    write(&mut rig, 1460 + 100, MORE).unwrap();
    let sent = rig.sent();
    assert_eq!(lengths(&sent), [1460]);
    rig.ack(sent[0].end(), &[]);
    let rest = rig.sent();
    assert_eq!(lengths(&rest), [100]);
    assert!(!rest[0].flags.has(Flags::PSH), "more was announced");
}

#[test]
fn what_the_peer_sends_lets_go_what_more_holds_back() {
    let all = |sent: &[Sent]| sent.iter().map(Sent::len).sum::<usize>();
    let mut rig = nodelay().connected();
    write(&mut rig, 100, MORE).unwrap();
    assert!(rig.sent().is_empty());
    rig.send(b"data");
    assert_eq!(all(&rig.sent()), 100);
    write(&mut rig, 50, MORE).unwrap();
    assert_eq!(all(&rig.sent()), 0);
    rig.send_fin();
    assert_eq!(all(&rig.sent()), 50);
}

#[test]
fn a_push_lets_go_what_cork_and_more_hold_back() {
    let options = SocketOptions { nodelay: true, cork: true, ..SocketOptions::default() };
    let mut rig = Setup { options, ..Setup::sack() }.connected();
    write(&mut rig, 40, PLAIN).unwrap();
    assert!(rig.sent().is_empty());
    rig.host.with(rig.now, |conn, _| conn.push());
    assert_eq!(lengths(&rig.sent()), [40]);
    write(&mut rig, 40, PLAIN).unwrap();
    assert!(rig.sent().is_empty(), "corked as before");
}

/// A push is for all that waits: what does not fit the window at once leaves as soon as it does, and no later write
/// with it.
#[test]
fn a_push_holds_until_all_that_waited_has_left() {
    let options = SocketOptions { cork: true, ..SocketOptions::default() };
    let corked = || Setup { options, window: 3_000, ..Setup::sack() }.connected();
    for pushed in [false, true] {
        let mut rig = corked();
        write(&mut rig, 3_500, PLAIN).unwrap();
        if pushed {
            rig.host.with(rig.now, |conn, _| conn.push());
        }
        let full = rig.sent();
        assert_eq!(lengths(&full), [1_460, 1_460], "80 bytes of window are not worth a segment");
        rig.ack(full[1].end(), &[]);
        let rest = lengths(&rig.sent());
        assert_eq!(rest, if pushed { vec![580] } else { vec![] });
        if pushed {
            write(&mut rig, 40, PLAIN).unwrap();
            assert!(rig.sent().is_empty(), "corked as before");
        }
    }
}

/// TCP_NODELAY, set anew, releases data held by a cork (tcp(7)).
#[test]
fn no_delay_lets_go_all_that_waited() {
    let cork = SocketOptions { cork: true, ..SocketOptions::default() };
    let mut rig = Setup { options: cork, window: 3_000, ..Setup::sack() }.connected();
    write(&mut rig, 3_500, PLAIN).unwrap();
    let end = rig.sent().last().expect("two segments").end();
    let (now, options) = (rig.now, SocketOptions { nodelay: true, ..cork });
    rig.host.with(now, |conn, cx| conn.set_options(cx, options));
    rig.sent();
    rig.ack(end, &[]);
    assert!(!rig.sent().is_empty());
    write(&mut rig, 40, PLAIN).unwrap();
    assert!(rig.sent().is_empty(), "corked as before");
}

#[test]
fn records_share_no_segment_even_when_they_are_sent_again() {
    let mut rig = Setup::sack().connected();
    for len in [100, 200, 300] {
        write(&mut rig, len, RECORD).unwrap();
    }
    write(&mut rig, 400, PLAIN).unwrap();
    let sent = rig.sent();
    assert_eq!(lengths(&sent), [100, 200, 300], "what follows a record does not make it wait, Nagle or not");
    assert!(sent.iter().all(|segment| segment.flags.has(Flags::PSH)), "the end of a record is handed on");
    // Nothing arrives: all of it is sent again.
    rig.pass(ms(250));
    let mut again = rig.sent();
    for _ in 0..6 {
        let Some(last) = again.last() else { break };
        rig.ack(last.end(), &[]);
        let next = rig.sent();
        if next.is_empty() {
            break;
        }
        again.extend(next);
    }
    let again: Vec<_> = lengths(&again);
    assert_eq!(again, [100, 200, 300, 400]);
}

#[test]
fn a_hole_between_records_is_filled_record_by_record() {
    let mut rig = nodelay().connected();
    for len in [100, 200, 300, 1460, 1460, 1460] {
        write(&mut rig, len, RECORD).unwrap();
    }
    let sent = rig.sent();
    assert_eq!(sent.len(), 6);
    rig.pass(ms(10));
    // The first three are lost.
    rig.ack(OURS + 1, &[(sent[3].seq, sent[5].end())]);
    rig.pass(ms(200));
    let again: Vec<_> = lengths(&rig.sent()).into_iter().take(3).collect();
    assert_eq!(again, [100, 200, 300]);
}

#[test]
fn completions_are_told_once_and_merged() {
    let mut rig = nodelay().connected();
    write(&mut rig, 100, COMPLETION).unwrap();
    write(&mut rig, 100, PLAIN).unwrap();
    write(&mut rig, 100, COMPLETION).unwrap();
    let end = rig.sent().last().unwrap().end();
    assert!(reports(&mut rig).is_empty(), "not before they are acknowledged");
    rig.ack(OURS + 1 + 250, &[]);
    assert!(rig.host.fresh.any(Events::REPORT));
    rig.ack(end, &[]);
    assert_eq!(reports(&mut rig), [Report::Complete { first: 0, last: 1, copied: true }]);
    assert!(reports(&mut rig).is_empty());
    write(&mut rig, 100, COMPLETION).unwrap();
    rig.sent();
    rig.host.with(rig.now, |conn, cx| conn.abort(cx));
    assert_eq!(reports(&mut rig), [Report::Complete { first: 2, last: 2, copied: true }], "over is complete");
}

#[test]
fn a_call_that_waits_ends_with_its_last_byte() {
    let mut rig = nodelay().connected();
    let waits = Hints { waits: true, ..COMPLETION };
    let limit = rig.host.with(rig.now, |conn, _| conn.writable()) as usize;
    assert_eq!(write(&mut rig, limit + 10, waits), Ok(limit));
    while let Some(last) = rig.sent().last() {
        rig.ack(last.end(), &[]);
    }
    assert!(reports(&mut rig).is_empty(), "the call goes on");
    assert_eq!(write(&mut rig, 10, waits), Ok(10));
    while let Some(last) = rig.sent().last() {
        rig.ack(last.end(), &[]);
    }
    assert_eq!(reports(&mut rig), [Report::Complete { first: 0, last: 0, copied: true }]);
}

#[test]
fn a_lent_block_counts_as_copied_only_if_the_port_copies_it() {
    let mut rig = nodelay().connected();
    let bytes: std::sync::Arc<[u8]> = vec![1; 8_000].into();
    for copy in [false, true] {
        rig.host.copies = copy;
        rig.host.with(rig.now, |conn, cx| conn.lend(cx, &bytes, 0..8_000, &COMPLETION)).unwrap();
        while let Some(last) = rig.sent().last() {
            rig.ack(last.end(), &[]);
        }
        let number = u32::from(copy);
        assert_eq!(reports(&mut rig), [Report::Complete { first: number, last: number, copied: copy }]);
    }
}

#[test]
fn moments_of_a_calls_last_byte_are_told() {
    let mut rig = nodelay().connected();
    let all = Hints { stamps: Stamps(7), ..PLAIN };
    write(&mut rig, 3_000, all).unwrap();
    let begun = rig.now;
    let end = rig.sent().last().unwrap().end();
    let stamp = |what, at| Report::Stamp { what, byte: 2_999, at };
    assert_eq!(reports(&mut rig), [stamp(Stamps::SCHEDULED, begun), stamp(Stamps::SENT, begun)]);
    rig.pass(ms(30));
    rig.ack(end - 1, &[]);
    assert!(reports(&mut rig).is_empty(), "all but the last byte");
    rig.ack(end, &[]);
    let now = rig.now;
    assert_eq!(reports(&mut rig), [stamp(Stamps::ACKNOWLEDGED, now)]);
}

#[test]
fn marks_are_bounded() {
    let mut rig = nodelay().connected();
    let mut taken = 0;
    let refused = loop {
        match write(&mut rig, 1, RECORD) {
            Ok(_) => taken += 1,
            Err(e) => break e,
        }
    };
    assert_eq!((refused, rig.host.with(rig.now, |conn, _| conn.writable())), (WriteError::Full, 0));
    assert!((100..10_000).contains(&taken), "{taken}");
    while let Some(last) = rig.sent().last() {
        rig.ack(last.end(), &[]);
    }
    assert!(rig.host.fresh.any(Events::WRITABLE));
    assert_eq!(write(&mut rig, 1, RECORD), Ok(1));
}

#[test]
fn arrivals_are_dated() {
    let options = SocketOptions { dated: true, ..SocketOptions::default() };
    let mut rig = Setup { options, ..Setup::sack() }.connected();
    let first = rig.now;
    rig.send(&[1; 100]);
    rig.pass(ms(5));
    let second = rig.now;
    rig.send(&[2; 100]);
    let now = rig.now;
    let mut read = |len| {
        rig.host.with(now, |conn, cx| {
            conn.read(cx, &mut vec![0; len]).unwrap();
            conn.last_read_arrived()
        })
    };
    assert_eq!([read(60), read(40), read(1), read(99)], [first, first, second, second].map(Some));
}

#[test]
fn what_is_not_sent_is_bounded_by_the_mark() {
    let options = SocketOptions { nodelay: true, notsent_lowat: 4_000, ..SocketOptions::default() };
    let mut rig = Setup { options, ..Setup::sack() }.connected();
    // Ten segments may leave at once, and sixteen wait.
    assert_eq!(write(&mut rig, 100_000, PLAIN), Ok(26 * 1460));
    assert_eq!(write(&mut rig, 1, PLAIN), Err(WriteError::Full));
    let sent = rig.sent();
    assert_eq!(sent.len(), 10);
    let writable = |rig: &mut Rig| rig.host.with(rig.now, |conn, _| (conn.writable() > 0, conn.unsent()));
    let (mut acked, mut last) = (0, sent.last().unwrap().end());
    loop {
        let (writable, unsent) = writable(&mut rig);
        assert_eq!(writable, unsent < 2_000, "{unsent}");
        if writable {
            break;
        }
        rig.ack(last, &[]);
        last = rig.sent().last().unwrap().end();
        acked += 1;
        assert!(acked < 10);
    }
    assert!(rig.host.fresh.any(Events::WRITABLE));
}
