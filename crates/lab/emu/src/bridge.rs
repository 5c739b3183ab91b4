//! Pipes between two ports of the real world: what arrives at one end leaves at the other, when and as far as the pipe
//! between them says.
//!
//! The pipes are those of the virtual network, and time is an argument here too: the one that owns a bridge reads the
//! clock, tells it and wakes it at the date it names. Packets enter a pipe as a wire would carry them: super-segments
//! that a sender on this machine left to hardware are cut, and checksums completed.
//!
//! ```text
//!            receive(now)                                       send(now)
//!   port 0 ---------------> whole packets -> pipe of end 0 -> outbox ---> port 1
//!   port 0 <--- outbox <- pipe of end 1 <- whole packets <--------------- port 1
//! ```

mod lane;

pub(crate) use lane::{Bench, Lane};

use crate::pipe::{Pipe, PipeConfig};
use base::{Duration, Instant, Rng};
use hdrhistogram::Histogram;
use pio::{BATCH_MAX, IoError, PacketIo, RxBatch, TxBatch, TxMeta, TxPacket};

/// When to try again where a port takes no more.
const RETRY: Duration = Duration::from_micros(50);

base::counters! {
    /// Counters of one end of a bridge, beside those of its pipe and port.
    pub struct BridgeCounters {
        received: "Frames received, a super-segment being one.",
        cut: "Super-segments cut into packets of the wire's size.",
        completed: "Checksums completed that the sender had left to hardware.",
        oversize: "Packets too big for the other end's link that cannot be cut; dropped.",
        sent: "Packets handed to the other end.",
        undelivered: "Packets that came out of the pipe while the other end was down; dropped.",
    }
}

/// An end: a port, and the way that leads from it to the other end.
struct End {
    port: Box<dyn PacketIo>,
    lane: Lane,
    /// Packets that leave this port next.
    outbox: TxBatch,
}

/// Two ports and a pipe each way.
pub struct Bridge {
    ends: [End; 2],
    batch: RxBatch,
    bench: Bench,
    news: Vec<pio::NetEvent>,
    now: Instant,
    /// A port had as much as fits into a batch.
    more: bool,
}

impl Bridge {
    /// Joins `ports` by pipes: the first from the first port to the second, the other back. Their choices follow from
    /// `seed`, and their logs call them 0 and 1.
    pub fn new(ports: [Box<dyn PacketIo>; 2], pipes: [PipeConfig; 2], seed: u64) -> Bridge {
        let mut rng = Rng::new(seed);
        let mut number = 0..;
        let ends = std::iter::zip(ports, pipes).map(|(port, config)| End {
            port,
            lane: Lane::new(config, rng.next_u64(), number.next().unwrap_or_default()),
            outbox: TxBatch::new(),
        });
        let ends: Vec<End> = ends.collect();
        Bridge {
            ends: ends.try_into().unwrap_or_else(|_| unreachable!("two ports, two pipes")),
            batch: RxBatch::with_capacity(BATCH_MAX),
            bench: Bench::default(),
            news: Vec::new(),
            now: Instant::ZERO,
            more: false,
        }
    }

    /// A port: 0 or 1.
    pub fn port(&self, end: usize) -> &dyn PacketIo {
        &*self.ends[end].port
    }

    /// Both ports.
    pub fn ports(&mut self) -> [&mut dyn PacketIo; 2] {
        self.ends.each_mut().map(|end| &mut *end.port as _)
    }

    /// The pipe that leads from port `end` to the other.
    pub fn pipe(&self, end: usize) -> &Pipe {
        &self.ends[end].lane.pipe
    }

    /// Returns the pipe from port `end`, mutably.
    pub fn pipe_mut(&mut self, end: usize) -> &mut Pipe {
        &mut self.ends[end].lane.pipe
    }

    /// Returns the counters of packets from port `end`.
    pub fn counters(&self, end: usize) -> &BridgeCounters {
        &self.ends[end].lane.counters
    }

    /// How much later than their pipe said packets from port `end` were handed to the other, in microseconds begun.
    pub fn lateness(&self, end: usize) -> &Histogram<u64> {
        &self.ends[end].lane.lateness
    }

    /// Takes what has arrived at both ports into the pipes.
    ///
    /// # Errors
    /// A port is broken for good; one that is down only is waited for.
    pub fn receive(&mut self, now: Instant) -> Result<(), IoError> {
        self.now = self.now.max(now);
        self.more = false;
        for end in 0..2 {
            self.receive_at(end)?;
        }
        Ok(())
    }

    fn receive_at(&mut self, end: usize) -> Result<(), IoError> {
        let mut batch = std::mem::take(&mut self.batch);
        let result = self.ends[end].port.rx(&mut batch);
        self.more |= batch.len() >= BATCH_MAX;
        if batch.is_empty() {
            // What the kernel has to say of the interface is read when there is time.
            self.ends[end].port.net().into_iter().for_each(|net| net.net_events(&mut self.news));
            self.news.clear();
        }
        let mtu = self.ends[1 - end].port.caps().mtu;
        let End { port, lane, .. } = &mut self.ends[end];
        for mut packet in batch.drain(..) {
            let part = (packet.frame.data_mut(), packet.meta);
            lane.arrived(self.now, port.caps(), mtu, part, &mut self.bench);
            port.retire(packet.frame);
        }
        self.batch = batch;
        match result {
            Ok(_) | Err(IoError::Down) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends what has come out of the pipes by `now`. When to be called again, unless packets arrive before: `now` if
    /// there is more to receive at once.
    ///
    /// # Errors
    /// As for [`Bridge::receive`].
    pub fn send(&mut self, now: Instant) -> Result<Option<Instant>, IoError> {
        self.now = self.now.max(now);
        let mut next = self.more.then_some(self.now);
        for end in 0..2 {
            self.unload(end);
            let to = &mut self.ends[1 - end];
            let blocked = match to.port.tx(&mut to.outbox) {
                Ok(_) => !to.outbox.is_empty(),
                Err(IoError::Down) => {
                    let lost = to.outbox.len() as u64;
                    to.outbox.drain(..).for_each(|packet| to.port.retire(packet.frame));
                    self.ends[end].lane.counters.undelivered += lost;
                    false
                }
                Err(error) => return Err(error),
            };
            let retry = blocked.then(|| self.now + RETRY);
            let due = self.ends[end].lane.pipe.due().map(|due| due.max(self.now));
            next = Instant::earliest(next, if blocked { retry } else { due });
        }
        Ok(next)
    }

    /// Moves packets whose time has come from a pipe to the outbox of the other end, as long as it takes some: a packet
    /// that cannot leave in time stays in the pipe, which is bounded and counts what it drops.
    fn unload(&mut self, end: usize) {
        let [first, second] = &mut self.ends;
        let (from, to) = if end == 0 { (first, second) } else { (second, first) };
        from.lane.settle(self.now);
        while to.outbox.len() < BATCH_MAX {
            let Some(frame) = from.lane.leave(self.now, &mut *to.port, &mut self.bench) else { return };
            to.outbox.push_back(TxPacket { frame, meta: TxMeta::default() });
        }
    }
}

#[cfg(test)]
mod tests;
