//! Goal: what only the inside shows: no segment more than needed, memory that comes and goes with trouble,
//! and the rules of the timers, windows and repairs that no peer can see directly. (`tests/connection` looks
//! from outside.)

pub(crate) mod ends;
mod limited;
mod sacks;
mod scope;

use alloc::vec::Vec;

use base::{Duration, Instant};
use wire::tcp::Flags;

use crate::state::Phase;
use crate::tests::ends::{End, MSS, Packet, Pair, cx};
use crate::{Config, Cx, Disposition, Error, Events, SocketOptions, State, WriteError};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn seconds_of(end: &End, now: Instant) -> Duration {
    end.conn.poll_timeout().expect("a timer").since(now)
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
        pair.pass(ms(1));
        pair.a.timeout(pair.now);
        pair.b.timeout(pair.now);
    }
    assert!(back.0 == data && back.1 == data);
    assert_eq!(pair.a.counters.retransmits + pair.b.counters.retransmits, 0);
    // The last acknowledgments may be delayed.
    while pair.a.conn.poll_timeout().or(pair.b.conn.poll_timeout()).is_some() {
        pair.fire();
        pair.settle();
    }
    assert_eq!((pair.a.pool.used(), pair.b.pool.used()), (0, 0));
    assert!(!pair.a.conn.recovery.is_active() && !pair.a.conn.rcv.is_missing());
}

#[test]
fn an_exchange_on_a_live_connection_takes_two_segments_and_the_short_path() {
    let mut pair = Pair::new();
    let before = [&pair.a, &pair.b].map(|host| (host.counters.segments_in, host.counters.unpredicted));
    for i in 0..100 {
        pair.pass(ms(1));
        pair.a.write(pair.now, b"ping");
        let request = pair.a.drain(pair.now);
        assert_eq!(request.len(), 1, "round {i}");
        pair.b.take(pair.now, &request[0]);
        assert_eq!(pair.b.read(pair.now), b"ping");
        pair.b.write(pair.now, b"pong");
        let answer = pair.b.drain(pair.now);
        assert_eq!(answer.len(), 1, "round {i}");
        pair.a.take(pair.now, &answer[0]);
        assert_eq!(pair.a.read(pair.now), b"pong");
    }
    assert_eq!((pair.a.counters.predicted_data, pair.b.counters.predicted_data), (100, 100));
    assert_eq!((pair.a.counters.predicted_acks, pair.b.counters.predicted_acks), (100, 99));
    for (host, (segments, unpredicted)) in [&mut pair.a, &mut pair.b].into_iter().zip(before) {
        assert_eq!(host.counters.unpredicted, unpredicted);
        assert_eq!(host.counters.segments_in, segments + 100);
    }
    // A segment that was lost, and one behind it.
    pair.a.write(pair.now, &bytes(2 * MSS));
    let sent = pair.a.drain(pair.now);
    assert_eq!(sent.len(), 2);
    let before = pair.b.counters.clone();
    pair.b.take(pair.now, &sent[1]);
    assert_eq!(pair.b.counters.unpredicted, before.unpredicted + 1, "a hole before it");
    pair.b.take(pair.now, &sent[0]);
    assert_eq!(pair.b.counters.unpredicted, before.unpredicted + 2, "fills the hole");
    assert_eq!(pair.b.counters.predicted_data, before.predicted_data);
}

/// `n` full segments from a, not yet delivered.
fn flight(pair: &mut Pair, n: usize) -> Vec<Packet> {
    assert_eq!(pair.a.write(pair.now, &bytes(n * MSS)), n * MSS);
    let sent = pair.a.drain(pair.now);
    assert_eq!(sent.len(), n);
    sent
}

#[test]
fn memory_of_a_loss_goes_when_the_loss_is_repaired() {
    for sack in [true, false] {
        let config = Config { sack, ..Config::default() };
        let mut pair = Pair::with(config, SocketOptions::default());
        let sent = flight(&mut pair, 8);
        pair.pass(ms(10));
        for packet in &sent[1..] {
            pair.b.take(pair.now, packet);
        }
        assert!(pair.b.conn.rcv.is_missing());
        for ack in pair.b.drain(pair.now) {
            pair.a.take(pair.now, &ack);
        }
        assert_eq!(pair.a.conn.phase(), Phase::Fast, "SACK {sack}");
        let again = pair.a.drain(pair.now);
        assert!(again[0].retransmit && again[0].header.seq == sent[0].header.seq);
        assert_eq!(again.iter().filter(|packet| packet.retransmit).count(), 1);
        pair.pass(ms(10));
        pair.b.take(pair.now, &again[0]);
        assert_eq!(pair.b.read(pair.now).len(), 8 * MSS);
        assert!(!pair.b.conn.rcv.is_missing());
        pair.settle();
        // Without SACK the end of a recovery is remembered until something later is acknowledged.
        pair.a.write(pair.now, b"x");
        pair.settle();
        pair.pass(ms(50));
        pair.b.timeout(pair.now);
        pair.settle();
        assert!(!pair.a.conn.recovery.is_active(), "SACK {sack}");
        assert_eq!(pair.a.pool.used(), 0);
    }
}

#[test]
fn a_lost_retransmission_is_sent_again_before_the_timer() {
    let mut pair = Pair::new();
    let seq = pair.b.conn.snd.nxt();
    pair.a.conn.snd.set_window(1 << 20, seq);
    let sent = flight(&mut pair, 10);
    pair.pass(ms(10));
    for packet in &sent[1..6] {
        pair.b.take(pair.now, packet);
    }
    for ack in pair.b.drain(pair.now) {
        pair.a.take(pair.now, &ack);
    }
    let lost = pair.a.drain(pair.now);
    assert!(lost[0].retransmit && lost.len() == 1, "{lost:?}");
    // The rest of the first flight arrives, and so do the segments it lets out; the retransmission does not.
    let mut rest: Vec<Packet> = sent[6..].to_vec();
    pair.a.write(pair.now, &bytes(20 * MSS));
    for _ in 0..4 {
        pair.pass(ms(10));
        for packet in &rest {
            pair.b.take(pair.now, packet);
        }
        for ack in pair.b.drain(pair.now) {
            pair.a.take(pair.now, &ack);
        }
        rest = pair.a.drain(pair.now);
        if rest.iter().any(|packet| packet.header.seq == sent[0].header.seq) {
            break;
        }
    }
    assert!(
        rest.iter().any(|packet| packet.retransmit && packet.header.seq == sent[0].header.seq),
        "{rest:?}"
    );
    assert_eq!(pair.a.counters.timeouts, 0);
}

/// RFC 3522, 3.2-1 and 3.2-2.
#[test]
fn a_needless_timeout_is_undone() {
    let mut pair = Pair::new();
    let sent = flight(&mut pair, 4);
    let before = pair.a.conn.info(pair.now).window;
    pair.fire();
    let probe = pair.a.drain(pair.now);
    assert!(probe.len() == 1 && probe[0].header.seq == sent[3].header.seq, "the tail loss probe");
    pair.fire();
    let again = pair.a.drain(pair.now);
    assert!(again.len() == 1 && again[0].retransmit);
    assert!(pair.a.conn.info(pair.now).window.cwnd < before.cwnd);
    // The originals were only late: their acknowledgment echoes their own timestamp (RFC 3522).
    for packet in &sent {
        pair.b.take(pair.now, packet);
    }
    for ack in pair.b.drain(pair.now) {
        pair.a.take(pair.now, &ack);
    }
    assert_eq!(pair.a.counters.spurious_recoveries, 1);
    assert_eq!(pair.a.conn.info(pair.now).window.ssthresh, before.ssthresh);
    assert!(pair.a.conn.info(pair.now).window.cwnd >= before.cwnd);
    assert!(!pair.a.conn.recovery.is_active() && pair.a.drain(pair.now).is_empty());
}

/// RFC 6298, 5-7; RFC 6928, 2-1 and 2-2; RFC 5681, 3.1-12.
#[test]
fn a_lost_syn_leaves_a_careful_timer_and_window() {
    let config = Config { timestamps: false, tail_loss_probe: false, ..Config::default() };
    for losses in 0..3u32 {
        let mut now = Instant::from_secs(1);
        let mut a = End::connect(config.clone(), SocketOptions::default(), now);
        let mut syn = a.poll(now).expect("SYN");
        for _ in 0..losses {
            now = a.conn.poll_timeout().expect("SYN timer");
            a.timeout(now);
            syn = a.poll(now).expect("SYN again");
            assert!(syn.retransmit);
        }
        let mut b = End::accept(config.clone(), SocketOptions::default(), now, &syn);
        a.take(now, &b.poll(now).expect("SYN-ACK"));
        a.write(now, &bytes(20 * MSS));
        let sent = a.drain(now);
        // RFC 6928, section 2: only a second loss costs the initial window.
        assert_eq!(sent.len(), if losses > 1 { 1 } else { 10 });
        // RFC 6298, rule 5.7, where no sample was possible.
        let rto = seconds_of(&a, now);
        let measured = a.conn.timers.rtt().srtt() + config.rto_min;
        let expected = if losses > 0 { Duration::from_secs(3) } else { measured };
        assert_eq!(rto, expected, "{losses} losses");
    }
}

/// RFC 9293, MUST-60.
#[test]
fn the_cork_holds_for_200_ms_at_most() {
    let options = SocketOptions { cork: true, ..SocketOptions::default() };
    let mut pair = Pair::with(Config::default(), options);
    pair.a.write(pair.now, b"header");
    assert!(pair.a.drain(pair.now).is_empty());
    assert_eq!(seconds_of(&pair.a, pair.now), ms(200));
    pair.fire();
    let sent = pair.a.drain(pair.now);
    assert_eq!((sent.len(), sent[0].payload.as_slice()), (1, &b"header"[..]));
}

#[test]
fn an_orphan_before_a_shut_window_does_not_live_for_ever() {
    let config = Config { orphan_retries: 4, ..Config::default() };
    let mut pair = Pair::with(config, SocketOptions { rcvbuf: 4096, ..SocketOptions::default() });
    pair.a.write(pair.now, &bytes(20_000));
    pair.settle();
    pair.a.close(pair.now);
    let mut probes = 0;
    while pair.a.conn.state() != State::Closed {
        assert!(probes < 20, "the peer answers, but nothing here waits for it");
        pair.now = pair.a.conn.poll_timeout().expect("a probe timer");
        pair.a.timeout(pair.now);
        probes += pair.settle().min(1);
    }
    assert_eq!(pair.a.counters.orphan_timeouts, 1);
    assert_eq!(pair.a.pool.used(), 0);
}

#[test]
fn the_receive_buffer_grows_with_what_is_taken_and_no_further_than_allowed() {
    for fixed in [0, 128 << 10] {
        let options = SocketOptions { rcvbuf: fixed, ..SocketOptions::default() };
        let config = Config { rcvbuf: (128 << 10, 1 << 20), ..Config::default() };
        let mut pair = Pair::with(config, options);
        let data = bytes(60_000);
        for _ in 0..400 {
            pair.a.write(pair.now, &data);
            pair.settle();
            pair.b.read(pair.now);
            pair.settle();
            pair.pass(ms(5));
        }
        let buffer = pair.b.conn.rcv.limit();
        assert!(
            pair.b.conn.cold().is_some_and(|cold| cold.tuning.is_begun()),
            "round trips are measured in any case"
        );
        assert!(
            if fixed == 0 { buffer > 200 << 10 && buffer <= 1 << 20 } else { buffer == fixed },
            "{buffer}"
        );
    }
}

#[test]
fn the_send_buffer_follows_the_window() {
    let mut pair = Pair::new();
    let data = bytes(1 << 20);
    let first = pair.a.write(pair.now, &data);
    assert_eq!(first, Config::default().sndbuf.0 as usize);
    for _ in 0..200 {
        pair.pass(ms(20));
        pair.a.timeout(pair.now);
        pair.settle();
        pair.b.read(pair.now);
        pair.settle();
        while pair.a.write(pair.now, &data) > 0 {}
    }
    let cwnd = pair.a.conn.info(pair.now).window.cwnd;
    assert!(cwnd > 128 << 10);
    assert!(
        pair.a.conn.snd.buffer().limit() >= 2 * (cwnd / 2),
        "{} for {cwnd}",
        pair.a.conn.snd.buffer().limit()
    );
}

#[test]
fn notsent_lowat_stops_writes_until_enough_was_sent() {
    let options = SocketOptions { notsent_lowat: 10_000, ..SocketOptions::default() };
    let mut pair = Pair::with(Config::default(), options);
    pair.a.events();
    // What may leave at once, and one super-segment more.
    assert_eq!(pair.a.write(pair.now, &bytes(60_000)), (10 + 16) * 1448);
    assert_eq!(pair.a.conn.writable(), 0);
    let full = pair.a.conn.write(cx!(pair.a, pair.now), b"x");
    assert_eq!(full, Err(WriteError::Full));
    for _ in 0..20 {
        pair.settle();
        pair.b.read(pair.now);
    }
    assert!(pair.a.events().any(Events::WRITABLE), "crossed by sending, not by acknowledgments");
    assert!(pair.a.conn.writable() > 0);
}

#[test]
fn errors_come_once_and_data_before_them() {
    let mut pair = Pair::new();
    pair.b.write(pair.now, b"last");
    pair.settle();
    pair.b.conn.abort(cx!(pair.b, pair.now));
    pair.settle();
    assert!(pair.a.events().any(Events::ERROR));
    assert_eq!(pair.a.read(pair.now), b"last");
    assert_eq!(pair.a.conn.write(cx!(pair.a, pair.now), b"x"), Err(WriteError::Failed(Error::Reset)));
    assert_eq!(pair.a.conn.write(cx!(pair.a, pair.now), b"x"), Err(WriteError::Shutdown));
    assert_eq!(pair.a.conn.take_error(), None);
}

#[test]
fn idle_connections_keep_nothing() {
    let mut pair = Pair::new();
    pair.a.write(pair.now, &bytes(10_000));
    pair.settle();
    pair.b.read(pair.now);
    pair.pass(ms(50));
    pair.b.timeout(pair.now);
    pair.settle();
    for end in [&pair.a, &pair.b] {
        let conn = &end.conn;
        assert!(!conn.recovery.is_active() && !conn.rcv.is_missing() && conn.cold().is_none());
        assert_eq!((end.pool.used(), conn.poll_timeout()), (0, None));
    }
}
