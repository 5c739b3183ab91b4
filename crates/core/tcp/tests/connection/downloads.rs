//! Goal: a fresh download over a long path takes about as long as an ideal slow start, whatever the receiver makes of
//! super-segments: one beside Linux's GRO opens its window by the packet, another one acknowledges 64 KiB at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::{Duration, Instant, Seq};
use tcp::{Config, State};
use wire::tcp::Options;

use crate::host::ms;
use crate::rig::{Rig, Setup};

const MSS: u64 = 1_448;
/// Shift of the receiver's window field.
const SCALE: u8 = 10;
/// The link carries 10 Gbit/s.
const BYTES_PER_US: u64 = 1_250;

/// How a receiver answers packets, each of which may hold many segments.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Receiver {
    /// Every packet is acknowledged and opens the window by two segments, from 64 KB on (tcp_grow_window of Linux).
    ByThePacket,
    /// Packets of a millisecond are merged into one (GRO), which is acknowledged and opens the window by its length.
    Merging,
    /// Every 64 KiB are acknowledged, or what came 5 ms ago; the window is always open.
    ByBulk,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A packet arrives that ends here in the stream.
    Packet(u64),
    /// The receiver acknowledges what came, however little.
    Timeout,
    /// An acknowledgment of so much with such a window arrives.
    Ack(u64, u64),
}

/// A sender of our own and a receiver that is a model.
struct Download {
    rig: Rig,
    receiver: Receiver,
    /// Half of the round trip.
    delay: Duration,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    number: u64,
    /// When the link has passed on what it was given.
    free: Instant,
    first: Seq,
    sent: u64,
    came: u64,
    acked: u64,
    window: u64,
    packets: u64,
}

/// The largest window that the receiver offers: what Linux makes of tcp_rmem's 32 MB.
const WINDOW_MAX: u64 = 16 << 20;

impl Download {
    fn new(receiver: Receiver, rtt: Duration, config: Config) -> Download {
        let peer = Options { window_scale: Some(SCALE), ..Setup::modern().peer };
        let setup = Setup { config, peer, ..Setup::modern() };
        let mut rig = setup.syn_received();
        rig.host.limits.max_payload = 65_160;
        rig.host.control = "cubic";
        rig.pass(rtt);
        rig.sent();
        let window = if receiver == Receiver::ByBulk { WINDOW_MAX } else { 64 << 10 };
        rig.window = (window >> SCALE) as u16;
        rig.send(&[]);
        rig.assert_state(State::Established);
        let (first, free) = (rig.ack, rig.now);
        Download {
            rig,
            receiver,
            delay: rtt / 2,
            events: BinaryHeap::new(),
            number: 0,
            free,
            first,
            sent: 0,
            came: 0,
            acked: 0,
            window,
            packets: 0,
        }
    }

    fn at(&mut self, when: Instant, event: Event) {
        self.number += 1;
        self.events.push(Reverse((when, self.number, event)));
    }

    /// Carries the sent segments, each super-segment as one packet.
    fn carry(&mut self) {
        self.rig.sent();
        for (at, len) in std::mem::take(&mut self.rig.host.tx_times) {
            self.free = self.free.max(at) + Duration::from_nanos(u64::from(len) * 1_000 / BYTES_PER_US);
            self.sent += u64::from(len);
            self.packets += 1;
            self.at(self.free + self.delay, Event::Packet(self.sent));
        }
    }

    fn acknowledge(&mut self, now: Instant) {
        if self.receiver == Receiver::Merging {
            self.window = (self.window + self.came - self.acked).min(WINDOW_MAX);
        }
        self.acked = self.came;
        self.at(now + self.delay, Event::Ack(self.came, self.window));
    }

    fn happen(&mut self, now: Instant, event: Event) {
        match event {
            Event::Packet(end) => {
                let new = end - self.came;
                self.came = end;
                match self.receiver {
                    Receiver::ByThePacket => {
                        self.window = (self.window + 2 * MSS).min(WINDOW_MAX);
                        if new >= 2 * MSS || self.came - self.acked >= 2 * MSS {
                            return self.acknowledge(now);
                        }
                    }
                    Receiver::Merging => {
                        if self.came - new == self.acked {
                            self.at(now + ms(1), Event::Timeout);
                        }
                        return;
                    }
                    Receiver::ByBulk if self.came - self.acked >= 64 << 10 => return self.acknowledge(now),
                    Receiver::ByBulk => {}
                }
                self.at(now + ms(5), Event::Timeout);
            }
            Event::Timeout if self.came > self.acked => self.acknowledge(now),
            Event::Timeout => {}
            Event::Ack(came, window) => {
                if let Some(clock) = &mut self.rig.clock {
                    *clock = now.as_millis() as u32;
                }
                self.rig.now = now;
                self.rig.window = (window >> SCALE) as u16;
                self.rig.ack(self.first + came as u32, &[]);
            }
        }
    }

    /// Downloads so many bytes; how long that took until the last arrived.
    fn run(&mut self, bytes: u64) -> Duration {
        let began = self.rig.now;
        let mut left = bytes;
        let chunk = vec![0; 1 << 18];
        loop {
            while left > 0 {
                match self.rig.write(&chunk[..chunk.len().min(left as usize)]) {
                    Ok(taken) => left -= taken as u64,
                    Err(_) => break,
                }
            }
            self.carry();
            if self.came == bytes {
                assert_eq!(self.rig.host.counters.timeouts + self.rig.host.counters.tail_probes, 0);
                return self.rig.now.since(began);
            }
            let timer = self.rig.host.timeout();
            let next = self.events.peek().map(|Reverse((at, ..))| *at);
            match (timer, next) {
                (Some(timer), next) if next.is_none_or(|next| timer < next) => {
                    self.rig.now = self.rig.now.max(timer);
                    let now = self.rig.now;
                    self.rig.host.on_time(now);
                }
                (_, Some(_)) => {
                    let Reverse((at, _, event)) = self.events.pop().expect("it was just there");
                    self.rig.now = at;
                    self.happen(at, event);
                }
                _ => unreachable!("something happens until all arrived"),
            }
            assert!(self.rig.now.since(began) < Duration::from_secs(120), "{} of {bytes} came", self.came);
        }
    }
}

/// Ten segments at first, twice as many in each round trip, and never more than the receiver or the link takes.
fn ideal(bytes: u64, rtt: Duration) -> Duration {
    let most = (BYTES_PER_US * rtt.as_micros() as u64).min(WINDOW_MAX);
    let (mut took, mut window, mut left) = (rtt / 2, 10 * MSS, bytes);
    while left > window {
        left -= window;
        window = (2 * window).min(most);
        took += rtt;
    }
    took
}

/// RFC 9406, 4.3-3.
#[test]
fn a_fresh_download_takes_as_long_as_an_ideal_slow_start() {
    for receiver in [Receiver::ByThePacket, Receiver::ByBulk] {
        for rtt in [ms(25), ms(100), ms(250)] {
            for bytes in [100_000, 1_000_000, 10_000_000, 100_000_000] {
                let mut download = Download::new(receiver, rtt, Config::default());
                let (took, ideal) = (download.run(bytes), ideal(bytes, rtt));
                println!(
                    "{receiver:?} {rtt:?} {bytes}: {took:?}, ideal {ideal:?}, {} packets",
                    download.packets
                );
                let bound = ideal * 115 / 100 + ms(10);
                assert!(took <= bound, "{receiver:?} {rtt:?} {bytes}: {took:?} where {ideal:?} is ideal");
            }
        }
    }
}

/// Small super-segments help a receiver that counts packets, and cost both ends where GRO merges them.
#[test]
fn a_receiver_that_merges_gets_large_super_segments() {
    let packets = |receiver| {
        let mut download = Download::new(receiver, ms(25), Config::default());
        let (took, ideal) = (download.run(10_000_000), ideal(10_000_000, ms(25)));
        assert!(took <= ideal * 115 / 100 + ms(10), "{receiver:?}: {took:?} where {ideal:?} is ideal");
        download.packets
    };
    let (by_the_packet, merging) = (packets(Receiver::ByThePacket), packets(Receiver::Merging));
    assert!(merging * 5 < by_the_packet, "{merging} packets, and {by_the_packet} to one that counts them");
}

/// The first round trips are not spread: a short download ends with them, and would wait for half of one.
#[test]
fn a_short_download_leaves_as_its_window_opens() {
    for receiver in [Receiver::ByThePacket, Receiver::ByBulk] {
        for rtt in [ms(25), ms(100), ms(250)] {
            for bytes in [20_000, 50_000, 100_000] {
                let took = Download::new(receiver, rtt, Config::default()).run(bytes);
                // What the model's receiver waits before it acknowledges, once a round trip.
                let bound = ideal(bytes, rtt) * 102 / 100 + ms(5) * 3;
                assert!(took <= bound, "{receiver:?} {rtt:?} {bytes}: {took:?} where {bound:?} is ideal");
            }
        }
    }
}

/// Shows the settings' effect: without them the same downloads take more than twice as long.
#[test]
fn bursts_and_a_limit_on_growth_take_much_longer() {
    let config = Config { pace_slow_start: false, autosize: false, abc_limit: 2, ..Config::default() };
    for (receiver, bytes) in [(Receiver::ByThePacket, 10_000_000), (Receiver::ByBulk, 10_000_000)] {
        let took = |config: Config| Download::new(receiver, ms(100), config).run(bytes);
        let (before, now) = (took(config.clone()), took(Config::default()));
        assert!(before > 2 * now, "{receiver:?}: {before:?} and {now:?}");
    }
}
