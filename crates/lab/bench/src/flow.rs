//! One bulk flow between two stacks in memory, with or without SIFTR's log of every packet, for instruction counts.
//!
//! The work of each end and of the log's writer lies in a function of its own, so
//! that callgrind can count one of them.

use crate::ends::{self, SINK, SOURCE};
use base::{Duration, Instant};
use pio::{Lanes, PacketIo, PairConfig, pair};
use stack::{ConnId, Core, ListenerId, Notice, ProbeId};
use tcp::SocketOptions;
use trace::siftr::{Log, LogConfig};

/// Time between two steps: the same work is done in every run, however long it takes.
const STEP: Duration = Duration::from_micros(100);

/// The functions that callgrind tells apart, as it knows them.
pub const PARTS: [(&str, &str); 3] =
    [("sender", "*flow*source_turn*"), ("receiver", "*flow*sink_turn*"), ("writer", "*flow*write_out*")];

/// Place where segments are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The stack builds each.
    Plain,
    /// The stack hands on super-segments, and a layer above the link cuts them.
    Late,
    /// The link, which hands super-segments on to the receiver.
    Super,
}

impl Kind {
    /// As `exactly` calls them.
    pub fn parse(text: &str) -> Option<Kind> {
        [("bulk", Kind::Plain), ("late", Kind::Late), ("super", Kind::Super)]
            .into_iter()
            .find_map(|(name, kind)| (name == text).then_some(kind))
    }
}

/// A log of one core.
struct Watch {
    log: Log,
    hook: ProbeId,
}

/// Two stacks and the flow between them.
struct Flow {
    source: Core,
    sink: Core,
    from: ConnId,
    listener: ListenerId,
    to: Option<ConnId>,
    at: Instant,
    piece: Vec<u8>,
    scratch: Vec<u8>,
    notices: Vec<Notice>,
    /// Packets that the sink and the source received.
    passed: [u64; 2],
}

impl Flow {
    fn new(kind: Kind) -> Flow {
        let port = if kind == Kind::Super { PairConfig::offloads() } else { PairConfig::default() };
        let (near, far) = pair(&port).expect("memory for frames");
        let near: Box<dyn PacketIo> = match kind {
            // By the step, as nothing here waits.
            Kind::Late => Lanes::over(Box::new(near), 1, "lane", || Instant::ZERO, |_| {}).expect("memory"),
            Kind::Plain | Kind::Super => Box::new(near),
        };
        let (mut source, mut sink) = (ends::core(1, SOURCE, near), ends::core(2, SINK, Box::new(far)));
        let at = Instant::from_secs(1);
        let listener = ends::listen(&mut sink, at, SocketOptions::default());
        let from = ends::connect(&mut source, at, SocketOptions::default());
        let (piece, scratch) = (vec![0x5a; 64 << 10], vec![0; 64 << 10]);
        Flow {
            source,
            sink,
            from,
            listener,
            to: None,
            at,
            piece,
            scratch,
            notices: Vec::new(),
            passed: [0; 2],
        }
    }

    /// The sender's turn: it writes what finds room.
    #[inline(never)]
    fn source_turn(&mut self) {
        self.passed[1] += u64::from(self.source.turn(self.at).expect("memory never fails").received);
        self.source.notices(&mut self.notices);
        self.notices.clear();
        while self.source.write(self.at, self.from, &self.piece).is_ok() {}
        self.source.flush(self.at).expect("memory never fails");
    }

    /// The receiver's turn: it reads what there is.
    #[inline(never)]
    fn sink_turn(&mut self) {
        self.passed[0] += u64::from(self.sink.turn(self.at).expect("memory never fails").received);
        self.sink.notices(&mut self.notices);
        self.notices.clear();
        if self.to.is_none() {
            self.to = self.sink.accept(self.listener, 0);
        }
        if let Some(to) = self.to {
            while self.sink.read(self.at, to, &mut self.scratch).is_ok() {}
        }
        self.sink.flush(self.at).expect("memory never fails");
    }
}

/// Begins a log of every packet of `core`.
fn watch(core: &mut Core, at: Instant) -> Watch {
    let config = LogConfig { threaded: false, ..LogConfig::default() };
    let (log, mut hooks) = Log::begin(&config, Box::new(std::io::sink()), at).expect("a sink takes all");
    Watch { log, hook: core.attach(Box::new(hooks.remove(0))) }
}

/// Does the work of the log's thread.
#[inline(never)]
fn write_out(watches: &[Watch]) {
    watches.iter().for_each(|watch| watch.log.drain().expect("a sink takes all"));
}

/// At least `packets` from the sender to the receiver of one flow, with a log of each end or without; how many there
/// were, and how many back.
///
/// # Panics
/// If the flow stands still, or a log misses a packet.
pub fn flow(kind: Kind, logged: bool, packets: u64) -> [u64; 2] {
    let mut flow = Flow::new(kind);
    let mut watches = Vec::new();
    if logged {
        watches.extend([watch(&mut flow.source, flow.at), watch(&mut flow.sink, flow.at)]);
    }
    let mut idle = 0;
    while flow.passed[0] < packets {
        let before = flow.passed[0];
        flow.at += STEP;
        flow.source_turn();
        flow.sink_turn();
        write_out(&watches);
        idle = if flow.passed[0] == before { idle + 1 } else { 0 };
        assert!(idle < 1_000_000, "the flow stands still after {before} packets");
    }
    let cores = [&mut flow.source, &mut flow.sink];
    for (core, watch) in cores.into_iter().zip(watches) {
        drop(core.detach(watch.hook));
        let told = watch.log.end(flow.at).expect("a sink takes all");
        assert_eq!(told.skipped.total(), 0, "of {:?} packets", told.packets);
        // Segments that came together are one by the time they reach their connection.
        assert!(told.packets.iter().all(|&count| count > 0));
    }
    flow.passed
}

#[cfg(test)]
mod tests;
