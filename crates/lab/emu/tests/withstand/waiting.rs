//! Goal: a connection says what it waits for, and for how long it did: RFC 4898's limits of the sender, and whose fault
//! a small window is.

use crate::harness::{Family, Pair, Setup};
use crate::peer::Plan;
use base::{Duration, Instant, Rate};
use emu::{CoreHost, PipeConfig, Queue};
use stack::Row;
use tcp::{Info, Limit, ReceiveLimit, SocketOptions};

use crate::peer::Peer;

const SPAN: Duration = Duration::from_secs(10);

/// 100 Mbit/s and 40 ms there and back.
fn path() -> PipeConfig {
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(100_000_000)),
        delay: Duration::from_millis(20),
        queue: Queue::Strict(500_000),
        ..PipeConfig::default()
    }
}

/// Returns the figures of a host's only connection.
fn info(host: &CoreHost<Peer>, now: Instant) -> Info {
    let mut found = None;
    host.core.for_each(now, &mut |row| {
        if let Row::Connection(conn) = row {
            found = Some(conn.info(now));
        }
    });
    found.expect("it lives")
}

/// A flow from the client to the server, for ten seconds: what both say of it then, and of how many of the looks that
/// were had meanwhile each said what it was limited by then.
struct Seen {
    pair: Pair,
    sender: Info,
    receiver: Info,
    limits: Vec<(Limit, ReceiveLimit)>,
}

impl Seen {
    fn of(there: PipeConfig, client: Plan, server: Plan) -> Seen {
        let back = PipeConfig { loss: 0.0, queue: Queue::Unlimited, ..there.clone() };
        let mut setup = Setup::new(3, Family::V4, there);
        setup.back = back;
        let mut pair = setup.build();
        pair.serve(server);
        pair.connect(client);
        let mut limits = Vec::new();
        for look in 1..=1_000 {
            pair.net.run_until(Instant::ZERO + SPAN / 1_000 * look);
            let now = pair.net.now();
            if look > 100 {
                limits.push((info(pair.client(), now).limit, info(pair.server(), now).receive_limit));
            }
        }
        let now = pair.net.now();
        let (sender, receiver) = (info(pair.client(), now), info(pair.server(), now));
        Seen { pair, sender, receiver, limits }
    }

    fn bulk(there: PipeConfig, client: SocketOptions, server: SocketOptions) -> Seen {
        let (up, down) = Plan::both(u64::MAX / 2, 0);
        Seen::of(there, Plan { options: client, ..up }, Plan { options: server, ..down })
    }

    /// The share of ten seconds that the sender was limited so.
    fn share(&self, limit: Limit) -> f64 {
        self.sender.limited.time(limit).as_secs_f64() / SPAN.as_secs_f64()
    }

    /// The share of looks that said so.
    fn said(&self, limit: Limit) -> f64 {
        self.limits.iter().filter(|(sender, _)| *sender == limit).count() as f64 / self.limits.len() as f64
    }

    fn receiver_said(&self, limit: ReceiveLimit) -> f64 {
        self.limits.iter().filter(|(_, receiver)| *receiver == limit).count() as f64
            / self.limits.len() as f64
    }

    /// This limit, at `least` of the time and of the looks; and what is counted holds together.
    #[track_caller]
    fn is(&self, limit: Limit, least: f64) {
        let shares: Vec<_> =
            Limit::ALL.iter().map(|&limit| (limit.name(), self.share(limit), self.said(limit))).collect();
        assert!(self.share(limit) >= least && self.said(limit) >= least, "{limit}: {shares:?}");
        let all: f64 = Limit::ALL.iter().map(|&limit| self.share(limit)).sum();
        assert!(
            all <= 1.0 && all <= self.sender.busy.as_secs_f64() / SPAN.as_secs_f64() + 0.01,
            "{shares:?}"
        );
    }
}

fn fixed(rcvbuf: u32, sndbuf: u32) -> SocketOptions {
    SocketOptions { rcvbuf, sndbuf, ..SocketOptions::default() }
}

#[test]
fn the_peers_window() {
    let seen = Seen::bulk(path(), fixed(0, 0), fixed(64 << 10, 0));
    seen.is(Limit::Window, 0.9);
    assert!(seen.sender.limited.receiver_transitions() > 0);
    let (receiver, _) = seen.sender.limited.times_by_receiver_and_congestion();
    assert_eq!(receiver, seen.sender.limited.time(Limit::Window));
    // Its reader is quick: it is its buffer.
    assert!(seen.receiver_said(ReceiveLimit::Buffer) > 0.9, "{:?}", seen.receiver);
    assert_eq!(seen.receiver.limited.reader(), Duration::ZERO);
}

#[test]
fn the_peers_reader() {
    let (up, down) = Plan::both(u64::MAX / 2, 0);
    let seen = Seen::of(path(), up, Plan { lazy: 0.9, options: fixed(64 << 10, 0), ..down });
    seen.is(Limit::Window, 0.7);
    assert!(seen.receiver_said(ReceiveLimit::Reader) > 0.7, "{:?}", seen.limits);
    assert!(seen.receiver.limited.reader() > SPAN / 2, "{:?}", seen.receiver.limited);
    assert!(seen.pair.server().core.tcp_counters().limited_reader_us > 0);
}

#[test]
fn the_congestion_window() {
    let seen = Seen::bulk(path(), fixed(0, 0), fixed(0, 0));
    seen.is(Limit::Congestion, 0.7);
    assert!(seen.sender.limited.congestion_transitions() > 0);
    assert!(seen.receiver_said(ReceiveLimit::Peer) > 0.9, "{:?}", seen.receiver);
}

#[test]
fn the_send_buffer() {
    let seen = Seen::bulk(path(), fixed(0, 32 << 10), fixed(0, 0));
    seen.is(Limit::Buffer, 0.8);
}

#[test]
fn a_rate_that_the_application_set() {
    let slow =
        SocketOptions { max_pacing: Some(Rate::from_bits_per_sec(10_000_000)), ..SocketOptions::default() };
    let seen = Seen::bulk(path(), slow, fixed(0, 0));
    seen.is(Limit::Pacing, 0.8);
}

#[test]
fn the_repair_of_losses() {
    let seen = Seen::bulk(PipeConfig { loss: 0.1, ..path() }, fixed(0, 0), fixed(0, 0));
    seen.is(Limit::Recovery, 0.4);
    let (_, congestion) = seen.sender.limited.times_by_receiver_and_congestion();
    assert!(congestion > seen.sender.limited.time(Limit::Recovery));
}

#[test]
fn the_application() {
    let (up, down) = Plan::both(300_000, 0);
    let (up, down) = (Plan { close_last: true, ..up }, Plan { close_last: true, ..down });
    let seen = Seen::of(path(), up, Plan { expect: u64::MAX, ..down });
    assert_eq!((seen.sender.limit, seen.said(Limit::Application)), (Limit::Application, 1.0));
    // It was slow start's turn, and no longer is.
    let held = seen.sender.limited;
    let still: Duration = Limit::ALL.iter().map(|&limit| held.time(limit)).sum();
    assert!(still > Duration::ZERO && still < Duration::from_millis(500), "{held:?}");
    assert!(held.sender_transitions() > 0);
    // What is over is in the core's counters without a question for it.
    let counters = seen.pair.client().core.tcp_counters();
    let counted = counters.limited_congestion_window_us
        + counters.limited_peer_window_us
        + counters.limited_send_buffer_us;
    assert_eq!(u128::from(counted), still.as_micros(), "{held:?}");
}

#[test]
fn what_goes_on_is_counted_when_somebody_looks() {
    let mut seen = Seen::bulk(path(), fixed(0, 0), fixed(64 << 10, 0));
    let now = seen.pair.net.now();
    let core = &mut seen.pair.net.host_mut(seen.pair.client).core;
    core.settle_limits(now);
    let counted = core.tcp_counters().limited_peer_window_us;
    assert_eq!(u128::from(counted), seen.sender.limited.time(Limit::Window).as_micros());
    core.settle_limits(now);
    assert_eq!(core.tcp_counters().limited_peer_window_us, counted);
    assert_eq!(
        info(seen.pair.client(), now).limited.time(Limit::Window),
        seen.sender.limited.time(Limit::Window)
    );
}
