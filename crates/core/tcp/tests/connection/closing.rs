//! Goal: every way to end (RFC 9293 sections 3.6, 3.10.4 and 3.10.5, RFC 1122 4.2.2.13, RFC 2525 2.16-2.17).

use base::{Duration, Seq};
use tcp::{Config, Disposition, Error, Events, ReadError, SocketOptions, State, WriteError};
use wire::tcp::{Flags, Segment};

use crate::host::ms;
use crate::rig::{OURS, Rig, Setup};

const FIN_ACK: Flags = Flags(Flags::FIN.0 | Flags::ACK.0);

/// Our FIN is out; where it stands.
fn fin_out(rig: &mut Rig) -> Seq {
    rig.shutdown();
    let fin = rig.one();
    assert!(fin.flags.has(FIN_ACK) && fin.len() == 0, "{fin:?}");
    fin.seq
}

/// RFC 9293, MUST-13.
#[test]
fn active_close() {
    let mut rig = Setup::default().connected();
    rig.write(b"last words").unwrap();
    rig.shutdown();
    let sent = rig.sent();
    assert_eq!(sent.iter().map(|s| s.len()).sum::<usize>(), 10);
    assert!(sent.last().unwrap().flags.has(Flags::FIN));
    let end = sent.last().unwrap().end();
    assert_eq!(end, OURS + 12);
    rig.assert_state(State::FinWait1);
    assert_eq!(rig.write(b"more"), Err(WriteError::Shutdown));
    rig.ack(end - 1, &[]);
    rig.assert_state(State::FinWait1);
    rig.ack(end, &[]);
    rig.assert_state(State::FinWait2);
    assert!(rig.events().any(Events::DRAINED));
    rig.send(b"still talking");
    assert_eq!(rig.read(100).unwrap(), b"still talking");
    rig.sent();
    assert_eq!(rig.send_fin(), Some(Disposition::TimeWait));
    let last = rig.one();
    assert_eq!((last.flags, last.seq, last.ack), (Flags::ACK, end, rig.next));
    assert_eq!(rig.read(100), Err(ReadError::Finished));
    rig.pass(ms(50_000));
    assert!(rig.host.wait.is_some());
    rig.pass(ms(11_000));
    assert!(rig.host.wait.is_none());
}

/// RFC 9293, section 3.10.7.4, first check.
#[test]
fn an_old_fin_is_answered_every_time() {
    let mut rig = Setup::default().accepted();
    for text in [&b""[..], b"old"] {
        let seq = rig.next - 1 - text.len() as u32;
        for _ in 0..3 {
            rig.inject(Segment { seq, ..rig.segment(FIN_ACK, text) });
            let answer = rig.one();
            assert!(answer.is_pure_ack() && answer.ack == rig.next, "{answer:?}");
            rig.assert_state(State::Established);
        }
    }
}

#[test]
fn a_retransmitted_fin_is_answered_from_time_wait() {
    let mut rig = Setup::modern().connected();
    let fin = fin_out(&mut rig);
    rig.ack = fin + 1;
    rig.send_fin();
    let last = rig.one();
    let scaled = last.window;
    rig.pass(ms(1500));
    let retry = Segment { seq: rig.next - 1, ..rig.segment(FIN_ACK, &[]) };
    rig.inject(retry);
    let again = rig.one();
    assert_eq!((again.flags, again.seq, again.ack, again.window), (Flags::ACK, fin + 1, rig.next, scaled));
    assert!(again.options.timestamps.is_some());
}

#[test]
fn simultaneous_close() {
    let mut rig = Setup::default().connected();
    let fin = fin_out(&mut rig);
    rig.send_fin();
    rig.assert_state(State::Closing);
    assert_eq!(rig.one().ack, rig.next);
    assert_eq!(rig.ack(fin + 1, &[]), Some(Disposition::TimeWait));
    rig.none();

    let mut rig = Setup::default().connected();
    rig.ack = fin_out(&mut rig) + 1;
    assert_eq!(rig.send_fin(), Some(Disposition::TimeWait), "their FIN acknowledges ours");
    assert_eq!(rig.one().ack, rig.next);
}

/// RFC 9293, MUST-12.
#[test]
fn passive_close_and_half_close() {
    let mut rig = Setup::default().accepted();
    rig.send(b"request");
    rig.sent();
    rig.send_fin();
    rig.assert_state(State::CloseWait);
    assert_eq!(rig.one().ack, rig.next, "a FIN is acknowledged at once");
    assert!(rig.events().any(Events::PEER_CLOSED));
    assert_eq!(rig.read(100).unwrap(), b"request");
    assert_eq!(rig.read(100), Err(ReadError::Finished));
    rig.pass(Duration::from_secs(3600));
    rig.write(&[5; 3000]).unwrap();
    let answer = rig.sent();
    assert_eq!(answer.iter().map(|s| s.len()).sum::<usize>(), 3000);
    rig.ack(answer.last().unwrap().end(), &[]);
    let fin = fin_out(&mut rig);
    rig.assert_state(State::LastAck);
    assert_eq!(rig.ack(fin + 1, &[]), Some(Disposition::Closed));
    assert!(rig.events().any(Events::CLOSED));
    assert_eq!(rig.host.conn().error(), None);
    rig.none();
}

#[test]
fn a_fin_waits_for_what_is_missing_before_it() {
    let mut rig = Setup::sack().accepted();
    let fin = Segment { seq: rig.next + 5, ..rig.segment(FIN_ACK, b"world") };
    rig.inject(fin);
    rig.assert_state(State::Established);
    assert_eq!(rig.one().ack, rig.next);
    assert_eq!(rig.read(100), Err(ReadError::Empty));
    rig.inject(rig.segment(Flags::ACK, b"hello"));
    rig.assert_state(State::CloseWait);
    assert_eq!(rig.one().ack, rig.next + 11);
    assert_eq!(rig.read(100).unwrap(), b"helloworld");
    assert_eq!(rig.read(100), Err(ReadError::Finished));
}

#[test]
fn nothing_after_a_fin_is_read() {
    let mut rig = Setup::default().accepted();
    rig.inject(Segment { seq: rig.next + 6, ..rig.segment(Flags::ACK, b"late") });
    rig.inject(rig.segment(FIN_ACK, b"final"));
    rig.sent();
    rig.inject(Segment { seq: rig.next + 6, ..rig.segment(Flags::ACK, b"later") });
    assert_eq!(rig.read(100).unwrap(), b"final");
    assert_eq!(rig.read(100), Err(ReadError::Finished));
    rig.assert_state(State::CloseWait);
}

#[test]
fn a_repeated_fin_changes_nothing() {
    let mut rig = Setup::default().accepted();
    rig.send_fin();
    rig.sent();
    for _ in 0..3 {
        rig.inject(Segment { seq: rig.next - 1, ..rig.segment(FIN_ACK, &[]) });
        assert_eq!(rig.one().ack, rig.next);
        rig.assert_state(State::CloseWait);
        rig.pass(ms(700));
    }
    // Nothing follows a FIN (RFC 9293, section 3.6).
    for text in [&[][..], &[1; 10]] {
        rig.inject(rig.segment(FIN_ACK, text));
        rig.none();
        rig.assert_state(State::CloseWait);
    }
}

/// RFC 9293, section 3.10.7.4: what lies before RCV.NXT is answered, also where it ends at the number of the FIN.
#[test]
fn old_text_is_acknowledged_after_the_peers_fin() {
    let mut rig = Setup::default().accepted();
    rig.send(&[1; 100]);
    rig.send_fin();
    rig.sent();
    for len in [100, 101] {
        rig.inject(Segment { seq: rig.next - 101, ..rig.segment(Flags::ACK, &[1; 101][..len]) });
        assert_eq!(rig.one().ack, rig.next, "{len} bytes");
        rig.assert_state(State::CloseWait);
    }
}

/// RFC 2018, section 4: blocks belong on every acknowledgment that has room for them.
#[test]
fn a_fin_sent_again_carries_blocks() {
    let mut rig = Setup::sack().connected();
    rig.send_at(10, &[1; 10]);
    rig.sent();
    rig.shutdown();
    for again in [false, true] {
        if again {
            rig.until_sent(Duration::from_secs(3));
        }
        let fin = rig.one();
        assert!(fin.flags.has(FIN_ACK));
        assert_eq!(fin.options.sack.as_slice(), [(rig.next + 10, rig.next + 20)], "again: {again}");
    }
}

#[test]
fn our_fin_is_retransmitted() {
    let mut rig = Setup::default().connected();
    let seq = fin_out(&mut rig);
    for _ in 0..3 {
        rig.until_sent(Duration::from_secs(30));
        let again = rig.one();
        assert!(again.flags.has(FIN_ACK));
        assert_eq!(again.seq, seq);
    }
    rig.ack(seq + 1, &[]);
    rig.assert_state(State::FinWait2);
    rig.pass(Duration::from_secs(10));
    rig.none();
}

#[test]
fn a_fin_retransmitted_with_the_data_before_it() {
    let mut rig = Setup::default().connected();
    rig.write(&[1; 100]).unwrap();
    rig.shutdown();
    let end = rig.sent().last().unwrap().end();
    rig.until_sent(Duration::from_secs(30));
    let again = rig.sent();
    assert_eq!(again[0].seq, OURS + 1);
    rig.ack(end, &[]);
    rig.assert_state(State::FinWait2);
}

/// RFC 9293, MAY-1 and SHLD-3.
#[test]
fn closing_with_unread_data_resets() {
    let mut rig = Setup::default().accepted();
    rig.send(b"ignored");
    rig.sent();
    rig.close();
    let reset = rig.one();
    assert!(reset.flags.has(Flags::RST));
    assert_eq!(reset.seq, OURS + 1);
    rig.assert_state(State::Closed);
}

/// RFC 9293, SHLD-3.
#[test]
fn data_for_an_orphan_is_reset() {
    let mut rig = Setup::default().accepted();
    rig.close();
    let fin = rig.one();
    rig.ack(fin.end(), &[]);
    rig.assert_state(State::FinWait2);
    rig.send(b"hello?");
    assert!(rig.one().flags.has(Flags::RST));
    rig.assert_state(State::Closed);
}

#[test]
fn linger_zero_resets() {
    let mut rig = Setup::default().accepted();
    let now = rig.now;
    let options = SocketOptions { linger: Some(Duration::ZERO), ..SocketOptions::default() };
    rig.host.with(now, |conn, cx| conn.set_options(cx, options));
    rig.write(b"lost").unwrap();
    rig.sent();
    rig.close();
    let reset = rig.one();
    assert!(reset.flags.has(Flags::RST));
    assert_eq!(reset.seq, OURS + 5, "the RST stands where the peer takes it: at SND.NXT");
    rig.assert_state(State::Closed);
}

#[test]
fn abort_resets() {
    let mut rig = Setup::modern().accepted();
    let now = rig.now;
    rig.host.with(now, |conn, cx| conn.abort(cx));
    let reset = rig.one();
    assert!(reset.flags.has(Flags::RST));
    assert_eq!((reset.seq, rig.host.state()), (OURS + 1, State::Closed));
    assert!(matches!(rig.write(b"x"), Err(WriteError::Failed(Error::Aborted) | WriteError::Shutdown)));
}

/// RFC 9293, section 3.10.5: in CLOSING and LAST-ACK there is nothing left to abort, also while data is in flight.
#[test]
fn an_abort_after_both_fins_is_silent() {
    for is_first in [true, false] {
        let mut rig = Setup::default().accepted();
        if !is_first {
            rig.send_fin();
        }
        rig.write(b"in flight").unwrap();
        rig.shutdown();
        if is_first {
            rig.sent();
            rig.send_fin();
        }
        rig.sent();
        rig.assert_state(if is_first { State::Closing } else { State::LastAck });
        let now = rig.now;
        rig.host.with(now, |conn, cx| conn.abort(cx));
        rig.none();
        rig.assert_state(State::Closed);
    }
}

#[test]
fn only_orphans_are_hurried_out_of_fin_wait_2() {
    let config = Config { fin_wait2: Duration::from_secs(5), ..Config::default() };
    for (orphan, over) in [(false, false), (true, true)] {
        let mut rig = Setup { config: config.clone(), ..Setup::default() }.accepted();
        if orphan {
            rig.close()
        } else {
            rig.shutdown()
        }
        let fin = rig.one();
        rig.ack(fin.end(), &[]);
        rig.pass(Duration::from_secs(4));
        rig.assert_state(State::FinWait2);
        rig.pass(Duration::from_secs(100));
        let gone = rig.host.state() == State::Closed;
        assert_eq!(gone, over);
    }
}

#[test]
fn an_orphan_whose_peer_vanished_ends() {
    let mut rig = Setup::default().accepted();
    rig.write(&[1; 10_000]).unwrap();
    rig.close();
    rig.pass(Duration::from_secs(1000));
    rig.assert_state(State::Closed);
    assert_eq!(rig.host.pool.used(), 0, "data of a dead orphan goes back to the pool");
}

#[test]
fn the_data_of_an_orphan_is_still_delivered() {
    let mut rig = Setup::default().accepted();
    rig.write(&[1; 40_000]).unwrap();
    rig.close();
    let mut total = 0;
    for _ in 0..100 {
        let sent = rig.sent();
        total += sent.iter().map(|s| s.len()).sum::<usize>();
        let Some(last) = sent.last() else { break };
        rig.ack(last.end(), &[]);
    }
    assert_eq!(total, 40_000);
    rig.assert_state(State::FinWait2);
}

/// How to get somewhere, and where that is.
type Case<'a> = (&'a dyn Fn(&mut Rig), State);

#[test]
fn a_reset_in_every_closing_state() {
    let cases: [Case<'_>; 5] = [
        (&|rig| rig.shutdown(), State::FinWait1),
        (
            &|rig| {
                let fin = fin_out(rig);
                rig.ack(fin + 1, &[]);
            },
            State::FinWait2,
        ),
        (
            &|rig| {
                rig.shutdown();
                rig.send_fin();
            },
            State::Closing,
        ),
        (
            &|rig| {
                rig.send_fin();
            },
            State::CloseWait,
        ),
        (
            &|rig| {
                rig.send_fin();
                rig.shutdown();
            },
            State::LastAck,
        ),
    ];
    for (prepare, state) in cases {
        let mut rig = Setup::default().accepted();
        prepare(&mut rig);
        rig.sent();
        rig.assert_state(state);
        assert_eq!(rig.inject(rig.segment(Flags::RST, &[])), Some(Disposition::Closed), "{state}");
        rig.none();
        assert!(rig.host.timeout().is_none(), "{state}: no timer survives");
    }
}

/// RFC 9293, section 3.10.4, for the half that is written; the kernel disconnects for either.
#[test]
fn shutting_either_half_in_syn_sent_ends_the_attempt() {
    for how in [tcp::Shutdown::Read, tcp::Shutdown::Write, tcp::Shutdown::Both] {
        let mut rig = Setup::default().syn_sent();
        let now = rig.now;
        rig.host.with(now, |conn, cx| conn.shutdown(cx, how));
        rig.none();
        rig.assert_state(State::Closed);
        assert!(rig.events().any(Events::ERROR), "{how:?}");
        assert_eq!(rig.read(1), Err(ReadError::Failed(Error::Reset)), "{how:?}");
        assert!(rig.host.timeout().is_none(), "{how:?}: no timer survives");
    }
}

#[test]
fn shutting_the_read_half() {
    let mut rig = Setup::default().accepted();
    let now = rig.now;
    rig.host.with(now, |conn, cx| conn.shutdown(cx, tcp::Shutdown::Read));
    rig.send(&[1; 1000]);
    rig.pass(ms(100));
    assert_eq!(rig.sent().last().unwrap().ack, rig.next, "what arrives is acknowledged");
    rig.assert_state(State::Established);
    assert_eq!(rig.read(2_000).unwrap().len(), 1_000, "and kept");
}

#[test]
fn shutting_the_read_half_as_bsd_does() {
    let config = Config {
        quirks: tcp::Quirks { discard_after_shutdown: true, ..Default::default() },
        ..Config::default()
    };
    let mut rig = Setup { config, ..Setup::default() }.accepted();
    let now = rig.now;
    rig.host.with(now, |conn, cx| conn.shutdown(cx, tcp::Shutdown::Read));
    assert_eq!(rig.read(10), Err(ReadError::Finished));
    rig.send(&[1; 1000]);
    rig.pass(ms(100));
    assert_eq!(rig.sent().last().unwrap().ack, rig.next, "what arrives is acknowledged and thrown away");
    rig.assert_state(State::Established);
    assert_eq!(rig.host.conn().readable(), 0);
    assert_eq!(rig.host.pool.used(), 0);
}

/// Segments of data and acknowledgments that took the short path so far.
fn short_path(rig: &Rig) -> (u64, u64) {
    (rig.host.counters.predicted_data, rig.host.counters.predicted_acks)
}

#[test]
fn half_closed_bulk_takes_the_short_path_in() {
    let mut rig = Setup::modern().connected();
    let fin = fin_out(&mut rig);
    rig.ack(fin + 1, &[]);
    rig.assert_state(State::FinWait2);
    let before = short_path(&rig);
    for _ in 0..100 {
        rig.send(&[7; 1448]);
        assert_eq!(rig.read(10_000).unwrap().len(), 1448);
        rig.sent();
    }
    assert_eq!(short_path(&rig), (before.0 + 100, before.1));
    assert_eq!(rig.send_fin(), Some(Disposition::TimeWait));
}

#[test]
fn half_closed_bulk_takes_the_short_path_out() {
    let mut rig = Setup::modern().connected();
    rig.send_fin();
    rig.sent();
    rig.assert_state(State::CloseWait);
    let before = short_path(&rig);
    for _ in 0..100 {
        rig.write(&[7; 1448]).unwrap();
        let end = rig.one().end();
        rig.ack(end, &[]);
    }
    assert_eq!(short_path(&rig), (before.0, before.1 + 100));
    // What comes behind the peer's FIN is no data, however well it fits.
    rig.inject(rig.segment(Flags::ACK, b"more"));
    assert_eq!(short_path(&rig), (before.0, before.1 + 100));
    assert_eq!(rig.read(100), Err(ReadError::Finished));
    let fin = fin_out(&mut rig);
    rig.ack(fin + 1, &[]);
    rig.assert_state(State::Closed);
}

/// RFC 9293, SHLD-3: both directions shut, or closed, in FIN-WAIT-2.
#[test]
fn data_without_a_reader_never_takes_the_short_path() {
    for close in [false, true] {
        let mut rig = Setup::modern().connected();
        let fin = fin_out(&mut rig);
        rig.ack(fin + 1, &[]);
        rig.send(b"read");
        assert_eq!(rig.read(100).unwrap(), b"read");
        rig.sent();
        let before = short_path(&rig);
        if close {
            rig.close();
        } else {
            let now = rig.now;
            rig.host.with(now, |conn, cx| conn.shutdown(cx, tcp::Shutdown::Read));
        }
        rig.send(b"nothing reads this");
        assert!(rig.one().flags.has(Flags::RST));
        assert_eq!(short_path(&rig), before);
    }
}
