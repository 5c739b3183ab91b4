//! Goal: the congestion window grows for what filled it, and for nothing else.

use base::Duration;
use cc::{Controller, Signal};

use super::{bytes, ms};
use crate::Cx;
use crate::tests::ends::{MSS, Pair, cx};
use alloc::vec::Vec;

/// In congestion avoidance, with a window of six segments at least that was full all the time.
fn avoiding() -> Pair {
    let mut pair = Pair::new();
    pair.a.conn.tell_congestion(cx!(pair.a, pair.now), Signal::Loss);
    let cx: &Cx<'_> = cx!(pair.a, pair.now);
    let info = pair.a.conn.signal_info(cx);
    pair.a.conn.control.on_recovery_end(&info);
    while cwnd(&pair) < 6 * MSS as u32 {
        pair.a.write(pair.now, &bytes(8 * MSS));
        round(&mut pair);
    }
    while pair.a.conn.unacked() > 0 {
        round(&mut pair);
    }
    pair
}

fn cwnd(pair: &Pair) -> u32 {
    pair.a.conn.control.window().cwnd
}

/// Delivers what `a` may send, reads it, and acknowledges every second segment.
fn round(pair: &mut Pair) {
    let sent = pair.a.drain(pair.now);
    pair.pass(ms(10));
    for two in sent.chunks(2) {
        for packet in two {
            pair.b.take(pair.now, packet);
        }
        pair.b.read(pair.now);
        for ack in pair.b.drain(pair.now) {
            pair.a.take(pair.now, &ack);
        }
    }
    pair.pass(ms(45));
    pair.b.timeout(pair.now);
    for ack in pair.b.drain(pair.now) {
        pair.a.take(pair.now, &ack);
    }
}

/// The window is full, and the last bytes, for which the first acknowledgment makes room, are fewer than the room: the
/// window was full nevertheless, and grows for all of it (Linux's tcp_cwnd_validate).
#[test]
fn a_short_last_write_does_not_unsay_that_the_window_was_full() {
    let mut pair = avoiding();
    let before = cwnd(&pair);
    pair.a.write(pair.now, &bytes(before as usize + 100));
    let full = pair.a.drain(pair.now);
    assert!(pair.a.conn.unsent() > 0, "it is full");
    pair.pass(ms(10));
    let mut sent = Vec::new();
    for two in full.chunks(2) {
        for packet in two {
            pair.b.take(pair.now, packet);
        }
        pair.b.read(pair.now);
        for ack in pair.b.drain(pair.now) {
            pair.a.take(pair.now, &ack);
        }
        sent.extend(pair.a.drain(pair.now));
    }
    assert_eq!(pair.a.conn.unsent(), 0);
    assert!(cwnd(&pair) > before, "{} after {before}", cwnd(&pair));
    // Half of the window in the rounds that follow says nothing about the rest.
    let before = cwnd(&pair);
    for packet in &sent {
        pair.b.take(pair.now, packet);
    }
    for _ in 0..10 {
        pair.a.write(pair.now, &bytes(3 * MSS));
        round(&mut pair);
    }
    assert!(cwnd(&pair) <= before + MSS as u32, "{} after {before}", cwnd(&pair));
}

/// An application that sends less than the window for longer than the timeout, and never stops, keeps its window: RFC
/// 7661, section 4, preserves it, where Linux lets it decay (RFC 2861). After a pause it begins anew (RFC 5681,
/// section 4.1).
#[test]
fn a_window_that_is_not_filled_is_kept_until_a_pause() {
    let mut pair = avoiding();
    let before = cwnd(&pair);
    for _ in 0..200 {
        pair.a.write(pair.now, &bytes(MSS / 2));
        round(&mut pair);
    }
    assert_eq!(cwnd(&pair), before);
    for _ in 0..200 {
        pair.a.write(pair.now, &bytes(20 * MSS));
        while pair.a.conn.unacked() > 0 {
            round(&mut pair);
        }
        if cwnd(&pair) > 15 * MSS as u32 {
            break;
        }
    }
    let before = cwnd(&pair);
    assert!(before > 15 * MSS as u32);
    pair.pass(Duration::from_secs(10));
    pair.a.write(pair.now, &bytes(20 * MSS));
    pair.a.drain(pair.now);
    assert_eq!(cwnd(&pair), 10 * MSS as u32, "after {before}");
}
