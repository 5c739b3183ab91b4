//! A path under one's own stack: a layer on a port, with a pipe each way, for a program that needs no second one to
//! be far away from its peers.
//!
//! ```text
//!   stack -- tx --> pipe out --> tx of the port below
//!   stack <-- rx -- pipe in <--- rx of the port below
//! ```
//!
//! Time comes from the one that put the layer on, as it does for the taps of `trace`; when the layer wants its owner
//! back it says so by [`Delays::due`](pio::Delays::due).

use crate::bridge::{Bench, Lane};
use crate::pipe::{Pipe, PipeConfig};
use base::{Duration, FlowKey, Instant, Rng};
use pio::{
    BATCH_MAX, Delays, IoError, Layer, Medium, PacketIo, RxBatch, RxMeta, RxPacket, TxBatch, TxMeta, TxPacket,
};

/// When to try again where the port below takes no more, or has no frame.
const RETRY: Duration = Duration::from_micros(50);

/// Counters of [`Piped`] for each direction, in its port's counters.
const COUNTED: [[&str; 5]; 2] = [
    ["path_in", "path_in_delivered", "path_in_dropped", "path_in_marked", "path_in_inside"],
    ["path_out", "path_out_delivered", "path_out_dropped", "path_out_marked", "path_out_inside"],
];

/// The way of a lane.
const IN: usize = 0;
const OUT: usize = 1;

/// A port at the end of an emulated path.
pub struct Piped<C> {
    below: Box<dyn PacketIo>,
    clock: C,
    lanes: [Lane; 2],
    arrived: RxBatch,
    outbox: TxBatch,
    bench: Bench,
    /// The time of the last call.
    now: Instant,
    /// The port below had a whole batch: there may be more.
    more: bool,
}

impl<C: Fn() -> Instant + Send> Piped<C> {
    /// Puts the pipes `[in, out]` on `below`: what arrives there goes through the first, what is sent through the
    /// other. Their choices follow from `seed`. `clock` is the one that the stack above lives by.
    ///
    /// # Errors
    /// Frames of the port begin with no Ethernet header, which pipes need.
    pub fn new(
        below: Box<dyn PacketIo>,
        pipes: [PipeConfig; 2],
        seed: u64,
        clock: C,
    ) -> Result<Piped<C>, NotEthernet> {
        if below.caps().medium != Medium::Ethernet {
            return Err(NotEthernet);
        }
        let mut rng = Rng::new(seed);
        let [inwards, outwards] = pipes;
        let lanes = [Lane::new(inwards, rng.next_u64(), 0), Lane::new(outwards, rng.next_u64(), 1)];
        Ok(Piped {
            below,
            clock,
            lanes,
            arrived: RxBatch::with_capacity(BATCH_MAX),
            outbox: TxBatch::new(),
            bench: Bench::default(),
            now: Instant::ZERO,
            more: false,
        })
    }

    /// The pipe of what arrives, and of what is sent.
    pub fn pipes(&self) -> [&Pipe; 2] {
        [&self.lanes[IN].pipe, &self.lanes[OUT].pipe]
    }

    fn tick(&mut self) -> Instant {
        self.now = self.now.max((self.clock)());
        self.lanes.iter_mut().for_each(|lane| lane.settle(self.now));
        self.now
    }

    /// Sends what has come out of the pipe by now.
    fn unload(&mut self) -> Result<(), IoError> {
        while self.outbox.len() < BATCH_MAX {
            let Some(frame) = self.lanes[OUT].leave(self.now, &mut *self.below, &mut self.bench) else {
                break;
            };
            self.outbox.push_back(TxPacket { frame, meta: TxMeta::default() });
        }
        if self.outbox.is_empty() {
            return Ok(());
        }
        match self.below.tx(&mut self.outbox) {
            Ok(_) => Ok(()),
            Err(error) => {
                // They had left; who comes back does not find them on the road.
                let below = &mut self.below;
                self.lanes[OUT].counters.undelivered += self.outbox.len() as u64;
                self.outbox.drain(..).for_each(|packet| below.retire(packet.frame));
                Err(error)
            }
        }
    }
}

/// A link without Ethernet headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotEthernet;

impl std::fmt::Display for NotEthernet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an emulated path needs a link with Ethernet headers")
    }
}

impl std::error::Error for NotEthernet {}

impl<C: Fn() -> Instant + Send> Layer for Piped<C> {
    type Below = dyn PacketIo;

    fn below(&self) -> &Self::Below {
        &*self.below
    }

    fn below_mut(&mut self) -> &mut Self::Below {
        &mut *self.below
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let now = self.tick();
        let got = self.below.rx(&mut self.arrived);
        self.more = self.arrived.len() >= BATCH_MAX;
        let mtu = self.below.caps().mtu;
        for mut packet in self.arrived.drain(..) {
            let part = (packet.frame.data_mut(), packet.meta);
            self.lanes[IN].arrived(now, self.below.caps(), mtu, part, &mut self.bench);
            self.below.retire(packet.frame);
        }
        let sent = self.unload();
        let before = batch.len();
        while batch.len() < BATCH_MAX {
            let Some(frame) = self.lanes[IN].leave(now, &mut *self.below, &mut self.bench) else { break };
            batch.push(RxPacket { frame, meta: RxMeta::default() });
        }
        // What is handed up is not lost for what the port says: it will say so again.
        match batch.len() - before {
            0 => got.and(sent).map(|()| 0),
            count => Ok(count),
        }
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let now = self.tick();
        let count = batch.len();
        for mut packet in batch.drain(..) {
            self.lanes[OUT].sent(now, packet.frame.data_mut(), &packet.meta, &mut self.bench);
            self.below.retire(packet.frame);
        }
        self.unload().map(|()| count)
    }

    fn delays(&self) -> Option<&dyn Delays> {
        Some(self)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let rows = std::iter::zip(COUNTED, &self.lanes).map(|(names, lane)| {
            let c = lane.pipe.counters();
            let dropped = c.listed + c.lost + c.managed + c.full + c.down;
            let lacking = dropped + lane.counters.oversize + lane.counters.undelivered;
            let inside = lane.pipe.under_way() as u64;
            std::iter::zip(names, [c.arrived, c.delivered, lacking, c.marked, inside])
        });
        rows.flatten().collect()
    }
}

impl<C: Fn() -> Instant + Send> Delays for Piped<C> {
    fn due(&self) -> Option<Instant> {
        if self.more {
            return Some(self.now);
        }
        // What was due and is still there found no frame, or no room below.
        let again = |due: Instant| if due <= self.now { self.now + RETRY } else { due };
        let dates = self.lanes.iter().map(|lane| lane.pipe.due().map(again));
        let retry = (!self.outbox.is_empty()).then(|| self.now + RETRY);
        dates.chain([retry, self.below.delays().and_then(Delays::due)]).fold(None, Instant::earliest)
    }

    fn on_round_trip(&self, key: &FlowKey, srtt: Duration) {
        if let Some(below) = self.below.delays() {
            below.on_round_trip(key, srtt);
        }
    }
}
