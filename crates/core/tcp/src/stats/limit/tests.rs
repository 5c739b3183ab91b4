//! Goal: who is held up by its core says so until it sends again, and the account stands still when the connection
//! ends. (What the others say is tested over paths, in `emu`.)
use super::*;
use crate::tests::ends::{Pair, cx};
use base::Duration;

#[test]
fn a_port_without_room() {
    let mut pair = Pair::new();
    pair.a.conn.on_blocked(cx!(pair.a, pair.now));
    assert_eq!(pair.a.conn.limit(), Limit::Application, "nothing waits");
    assert_eq!(pair.a.write(pair.now, &[7; 1_000]), 1_000);
    pair.a.conn.on_blocked(cx!(pair.a, pair.now));
    assert_eq!(pair.a.conn.limit(), Limit::Stack);
    pair.pass(Duration::from_millis(30));
    assert_eq!(pair.a.conn.info(pair.now).limited.time(Limit::Stack), Duration::from_millis(30));
    pair.settle();
    assert_eq!(pair.a.conn.limit(), Limit::Application);
    pair.pass(Duration::from_millis(30));
    let limited = pair.a.conn.info(pair.now).limited;
    assert_eq!(limited.time(Limit::Stack), Duration::from_millis(30));
    assert_eq!(limited.sender_transitions(), 0, "it was this end all the time");
    assert_eq!(pair.a.counters.limited_stack_us, 30_000);
}

#[test]
fn the_end_of_a_connection_ends_what_held_it() {
    let mut pair = Pair::new();
    pair.a.write(pair.now, &[7; 60_000]);
    pair.a.drain(pair.now);
    assert_eq!(pair.a.conn.limit(), Limit::Congestion);
    pair.pass(Duration::from_millis(5));
    pair.a.conn.abort(cx!(pair.a, pair.now));
    pair.pass(Duration::from_millis(5));
    assert_eq!(pair.a.conn.info(pair.now).limited.time(Limit::Congestion), Duration::from_millis(5));
    assert_eq!(pair.a.counters.limited_congestion_window_us, 5_000);
}
