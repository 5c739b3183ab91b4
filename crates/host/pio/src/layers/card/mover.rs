//! The worker that moves packets up from the receive workers to the host, one after the other: what carries no data
//! first, and of data the same bytes for each worker that has some ([`Arbiter`]).

use super::tally::{MoverCounters, Tally};
use super::worker::{HOST_RING, Up, Worker};
use crate::port::{BATCH_MAX, RxPacket};
use base::{Duration, Instant};
use offload::{Arbiter, Next};
use ring::{Consumer, Producer, Ringer, Sleeper};
use std::sync::Arc;

/// Queues from one receive worker.
pub(super) struct From {
    control: Consumer<RxPacket>,
    data: Consumer<Up>,
    /// Packets taken out of `control`, ever.
    passed: u64,
}

impl From {
    pub(super) fn new(control: Consumer<RxPacket>, data: Consumer<Up>) -> From {
        From { control, data, passed: 0 }
    }

    /// Is there data that may go? What went ahead of it when it was put there must have gone.
    fn has_data(&mut self) -> bool {
        let passed = self.passed;
        self.data.front().is_some_and(|up| up.after <= passed)
    }
}

pub(super) struct Mover {
    from: Vec<From>,
    arbiter: Arbiter,
    host: Producer<RxPacket>,
    bell: Ringer,
    pub(super) sleeper: Sleeper,
    counts: MoverCounters,
    pub(super) tally: Arc<Tally>,
}

impl Mover {
    /// `bell` is the host's.
    pub(super) fn new(from: Vec<From>, host: Producer<RxPacket>, bell: Ringer, sleeper: Sleeper) -> Mover {
        let tally = Arc::new(Tally::new(MoverCounters::ROWS.len()));
        let arbiter = Arbiter::new(from.len());
        Mover { from, arbiter, host, bell, sleeper, counts: MoverCounters::default(), tally }
    }

    fn bits(&mut self, has: impl Fn(&mut From) -> bool) -> u32 {
        let all = self.from.iter_mut().enumerate();
        all.fold(0, |bits, (nth, from)| bits | u32::from(has(from)) << nth)
    }

    /// Moves the next packet, if there is one.
    fn move_one(&mut self) -> bool {
        // In this order: what data waits for was put there before it, so it is seen now.
        let data = self.bits(From::has_data);
        let control = self.bits(|from| !from.control.is_empty());
        match self.arbiter.poll(control, data) {
            None => false,
            Some(Next::Control(nth)) => {
                let from = &mut self.from[nth];
                let Some(packet) = from.control.pop() else { return false };
                from.passed += 1;
                self.counts.control += 1;
                self.hand_over(packet);
                true
            }
            Some(Next::Data(nth)) => self.move_data(nth),
        }
    }

    /// All frames of a packet are moved together.
    fn move_data(&mut self, nth: usize) -> bool {
        let mut bytes = 0;
        while let Some(Up { packet, .. }) = self.from[nth].data.pop() {
            let more = packet.meta.more;
            bytes += packet.frame.len();
            self.hand_over(packet);
            if !more {
                break;
            }
        }
        self.arbiter.on_moved(nth, bytes);
        self.counts.data += 1;
        self.counts.bytes += bytes as u64;
        bytes > 0
    }

    fn hand_over(&mut self, packet: RxPacket) {
        assert!(
            self.host.push(packet).is_ok(),
            "room for a packet in as many frames as may be was looked for"
        );
    }
}

impl Worker for Mover {
    fn turn(&mut self, _: Instant, most: usize) -> bool {
        let mut moved = 0;
        // Whatever comes next has room, if it is in as many frames as may be.
        while moved < most && self.host.room() >= BATCH_MAX && self.move_one() {
            moved += 1;
        }
        if self.host.room() < BATCH_MAX {
            self.counts.full += 1;
        }
        self.tally.publish(0, &self.counts.values());
        if moved > 0 {
            self.bell.ring();
        }
        moved > 0
    }

    fn due(&self) -> Option<Instant> {
        None
    }

    fn is_ready(&mut self) -> bool {
        self.host.room() >= BATCH_MAX
            && self.from.iter_mut().any(|from| !from.data.is_empty() || !from.control.is_empty())
    }

    fn sleep(&mut self, timeout: Option<Duration>) {
        // A bell that fails leaves it awake, and what there is to do is done.
        self.sleeper.flag().announce();
        if !self.is_ready() {
            let _ = self.sleeper.wait(timeout);
        }
        self.sleeper.flag().awake();
    }
}

const _: () = assert!(HOST_RING >= 2 * BATCH_MAX, "while the host takes a batch there is room for another");
