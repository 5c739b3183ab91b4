//! Bulk flows between two stacks in memory, by the wall's clock: goodput of both ends in one thread.

use crate::compare::contest::Options;
use crate::compare::few::Few;
use crate::ends::{self, SINK, SOURCE};
use crate::{memory::ROUNDS, now};
use base::Instant;
use pio::{PacketIo, PairConfig, pair};
use stack::{ConnId, Core, ListenerId, Notice, Offload};
use tcp::SocketOptions;

/// Bytes that an application writes or reads at once.
const PIECE: usize = 256 << 10;

/// Buffers that do not follow slow start to where they are cold.
fn buffers() -> SocketOptions {
    SocketOptions { rcvbuf: 256 << 10, sndbuf: 256 << 10, ..SocketOptions::default() }
}

struct Bulk {
    source: Core,
    sink: Core,
    listener: ListenerId,
    from: Vec<ConnId>,
    to: Vec<ConnId>,
    begin: std::time::Instant,
    piece: Vec<u8>,
    scratch: Vec<u8>,
    notices: Vec<Notice>,
    bytes: u64,
}

fn port(end: pio::Pair, batch: usize) -> Box<dyn PacketIo> {
    if batch == usize::MAX { Box::new(end) } else { Box::new(Few::new(end, batch)) }
}

impl Bulk {
    fn new(flows: u32, options: Options) -> Bulk {
        // Few frames, so that they stay in the caches: those of super-segments have 64 KiB.
        let config = if options.offloads {
            PairConfig { frames: 256, depth: 128, ..PairConfig::offloads() }
        } else {
            PairConfig { frames: 1_024, depth: 512, ..PairConfig::default() }
        };
        let (near, far) = pair(&config).expect("memory for frames");
        let offload = if options.gro { Offload::Inline } else { Offload::Off };
        let mut source = ends::core_with(1, SOURCE, offload, port(near, options.batch));
        let mut sink = ends::core_with(2, SINK, offload, port(far, options.batch));
        let at = Instant::from_secs(1);
        let listener = ends::listen(&mut sink, at, buffers());
        let from = (0..flows).map(|_| ends::connect(&mut source, at, buffers())).collect();
        Bulk {
            source,
            sink,
            listener,
            from,
            to: Vec::new(),
            begin: now(),
            piece: vec![0x5a; PIECE],
            scratch: vec![0; PIECE],
            notices: Vec::new(),
            bytes: 0,
        }
    }

    /// A turn of each end, and what their applications do: write what finds room, read what there is.
    fn step(&mut self) {
        let at = Instant::from_secs(1) + self.begin.elapsed();
        self.source.turn(at).expect("memory never fails");
        self.source.notices(&mut self.notices);
        self.notices.clear();
        for id in &self.from {
            while self.source.write(at, *id, &self.piece).is_ok() {}
        }
        self.source.flush(at).expect("memory never fails");
        self.sink.turn(at).expect("memory never fails");
        self.sink.notices(&mut self.notices);
        self.notices.clear();
        while let Some(id) = self.sink.accept(self.listener, self.to.len() as u32) {
            self.to.push(id);
        }
        for id in &self.to {
            while let Ok(n @ 1..) = self.sink.read(at, *id, &mut self.scratch) {
                self.bytes += n as u64;
            }
        }
        self.sink.flush(at).expect("memory never fails");
    }
}

/// Goodput of so many flows together, Gbit/s.
///
/// # Panics
/// If they stand still.
pub(crate) fn measure(flows: u32, seconds: f64, options: Options) -> f64 {
    let mut bulk = Bulk::new(flows, options);
    let warm = now();
    while warm.elapsed().as_secs_f64() < seconds / 4.0 || bulk.bytes == 0 {
        bulk.step();
        assert!(warm.elapsed().as_secs_f64() < 30.0, "the flows stand still");
    }
    let (bytes, begin) = (bulk.bytes, now());
    while begin.elapsed().as_secs_f64() < seconds {
        (0..ROUNDS).for_each(|_| bulk.step());
    }
    (bulk.bytes - bytes) as f64 * 8e-9 / begin.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests;
