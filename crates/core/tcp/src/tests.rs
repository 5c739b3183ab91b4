//! Goal: connections live and die as RFC 9293 draws it, with no segment more than needed.

use alloc::vec::Vec;

use base::Duration;
use wire::tcp::Flags;

use crate::testing::{End, Pair};
use crate::{Config, Disposition, Events, SocketOptions, State};
use base::Instant;

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn a_short_exchange_takes_six_segments() {
    let now = Instant::from_secs(5);
    let (config, options) = (Config::default(), SocketOptions::default());
    let mut a = End::connect(config.clone(), options, now);
    let syn = a.drain(now);
    assert_eq!(syn.len(), 1);
    let mut b = End::accept(config, options, now, &syn[0]);
    let syn_ack = b.drain(now);
    assert_eq!(syn_ack.len(), 1);
    assert_eq!(a.take(now, &syn_ack[0]), Disposition::Done);
    assert!(a.events().any(Events::CONNECTED));
    assert_eq!(a.write(now, b"GET /"), 5);
    let request = a.drain(now);
    assert_eq!((request.len(), request[0].payload.as_slice()), (1, &b"GET /"[..]));
    assert_eq!(b.take(now, &request[0]), Disposition::Done);
    assert!(b.events().any(Events::CONNECTED));
    assert_eq!(b.read(now), b"GET /");
    assert_eq!(b.write(now, &[7; 64]), 64);
    b.close(now);
    let response = b.drain(now);
    assert_eq!((response.len(), response[0].payload.len()), (1, 64));
    assert!(response[0].flags().has(Flags::FIN | Flags::ACK | Flags::PSH));
    assert_eq!(a.take(now, &response[0]), Disposition::Done);
    assert_eq!(a.read(now), [7; 64]);
    assert!(a.conn.peer_closed());
    a.close(now);
    let fin = a.drain(now);
    assert_eq!(fin.len(), 1);
    assert!(fin[0].flags().has(Flags::FIN | Flags::ACK));
    assert_eq!(b.take(now, &fin[0]), Disposition::TimeWait);
    let last = b.drain(now);
    assert_eq!((last.len(), last[0].flags()), (1, Flags::ACK));
    assert_eq!(a.take(now, &last[0]), Disposition::Closed);
    assert_eq!((a.conn.state(), b.conn.state()), (State::Closed, State::Closed));
    assert_eq!((a.pool.used(), b.pool.used()), (0, 0));
    assert!(a.drain(now).is_empty() && b.drain(now).is_empty());
}

#[test]
fn bulk_both_ways() {
    let mut pair = Pair::new();
    let data = bytes(1_000_000);
    let (mut sent, mut back) = ((0, 0), (Vec::new(), Vec::new()));
    for _ in 0..10_000 {
        sent.0 += pair.a.write(pair.now, &data[sent.0..]);
        sent.1 += pair.b.write(pair.now, &data[sent.1..]);
        pair.settle();
        back.0.extend(pair.b.read(pair.now));
        back.1.extend(pair.a.read(pair.now));
        if back.0.len() == data.len() && back.1.len() == data.len() {
            break;
        }
        pair.pass(Duration::from_millis(1));
        pair.a.timeout(pair.now);
        pair.b.timeout(pair.now);
    }
    assert!(back.0 == data && back.1 == data);
    assert_eq!(pair.a.counters.retransmits + pair.b.counters.retransmits, 0);
    // The last acknowledgments are delayed.
    pair.fire();
    pair.settle();
    assert_eq!((pair.a.pool.used(), pair.b.pool.used()), (0, 0));
}
