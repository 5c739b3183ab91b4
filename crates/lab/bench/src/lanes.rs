//! One flow from a stack whose link neither cuts nor sums, with any number of cores that share what is done for each
//! segment: how much more k of them send than one. The peer is infinitely fast, as in MulWinTCP's paper, and takes
//! nothing of this machine: it is the port itself.

mod ideal;

use self::ideal::Ideal;
use crate::ends::{self, SINK, SOURCE};
use crate::{Plan, now};
use base::{Duration, Instant, Seq};
use lab::mulwin::{Locks, locks_leave};
use lab::stats;
use pio::{ChecksumOffload, GATHER_MAX, Gather, Lanes, PacketIo, SegmentationOffload, TxMeta};
use serde_json::{Value, json};
use stack::{ConnId, Core, Notice};
use std::io::IoSlice;
use std::sync::Arc;
use tcp::{Hints, SocketOptions};
use wire::packet::{Below, Checksum};
use wire::tcp::{CHECKSUM_OFFSET, Flags, Header, Options};

/// Bytes that the application writes at once.
const PIECE: usize = 256 << 10;
/// The most cores that one flow is spread over; the paper's speed-up ends there.
const MOST: u16 = 12;
/// Bytes of a segment's payload, and segments of a super-segment, where only the lanes are measured.
const MSS: usize = 1_460;
const SEGMENTS: usize = 44;
/// How long the flow runs before it is measured.
const WARM: f64 = 0.05;

/// How the application hands its data over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Copied into the send buffer, as by `send`.
    Write,
    /// A reference to memory that it leaves alone until it is acknowledged.
    Lend,
}

/// A sender, and the port that is its peer.
pub struct Flow {
    core: Core,
    conn: ConnId,
    way: Way,
    piece: Arc<[u8]>,
    notices: Vec<Notice>,
}

fn time(begin: std::time::Instant) -> Instant {
    Instant::from_secs(1) + begin.elapsed()
}

impl Flow {
    /// A connection through that many lanes, 0 for none; `begin` is called on each helper's thread.
    ///
    /// # Panics
    /// If the stack cannot connect.
    pub fn open(lanes: u16, way: Way, begin: std::time::Instant) -> Flow {
        let mut port: Box<dyn PacketIo> = Box::new(Ideal::new());
        if lanes > 0 {
            // Where there are fewer CPUs they run where the kernel puts them.
            let pin = |number: usize| {
                sock::pin_to(1 + number);
            };
            port = Lanes::over(port, lanes, "lane", move || time(begin), pin).expect("threads and memory");
        }
        let mut core = ends::core(1, SOURCE, port);
        let conn = ends::connect(&mut core, time(begin), SocketOptions::default());
        let mut flow = Flow { core, conn, way, piece: vec![0x5a; PIECE].into(), notices: Vec::new() };
        for _ in 0..100 {
            flow.turn(time(begin));
        }
        flow
    }

    /// Takes a turn: receives, writes and sends.
    pub fn turn(&mut self, at: Instant) {
        self.core.turn(at).expect("the port never fails");
        self.core.notices(&mut self.notices);
        self.notices.clear();
        while match self.way {
            Way::Write => self.core.write(at, self.conn, &self.piece).is_ok(),
            Way::Lend => self.core.lend(at, self.conn, &self.piece, 0..PIECE, &Hints::default()).is_ok(),
        } {}
        self.core.flush(at).expect("the port never fails");
    }

    fn of(&mut self, name: &str) -> u64 {
        self.core.io().stats().iter().find(|(row, _)| *row == name).map_or(0, |row| row.1)
    }
}

/// One measurement.
struct Sample {
    gbit: f64,
    /// Segments, and super-segments of which more lanes than one had some.
    segments: u64,
    shared: f64,
}

fn measure(lanes: u16, way: Way, seconds: f64) -> Sample {
    let begin = now();
    let mut flow = Flow::open(lanes, way, begin);
    while begin.elapsed().as_secs_f64() < WARM {
        flow.turn(time(begin));
    }
    let names = ["segments", "bytes", "lanes_supers", "lanes_shared"];
    let before = names.map(|name| flow.of(name));
    let start = now();
    while start.elapsed() < Duration::from_secs_f64(seconds) {
        for _ in 0..16 {
            flow.turn(time(begin));
        }
    }
    let took = start.elapsed().as_secs_f64();
    let after = names.map(|name| flow.of(name));
    let [segments, bytes, supers, shared] = [0, 1, 2, 3].map(|nth| after[nth] - before[nth]);
    assert!(segments > 0, "the flow stands still");
    Sample {
        gbit: bytes as f64 * 8e-9 / took,
        segments,
        shared: if supers == 0 { 0.0 } else { shared as f64 / supers as f64 },
    }
}

/// Returns the time of the lanes alone for a segment, ns: super-segments that are there, cut and sent, without a
/// connection.
fn share(lanes: u16, seconds: f64) -> f64 {
    let pin = |number: usize| {
        sock::pin_to(1 + number);
    };
    let mut port =
        Lanes::over(Box::new(Ideal::new()), lanes, "lane", || Instant::ZERO, pin).expect("threads");
    let payload = vec![0x5a; SEGMENTS * MSS];
    let below = Below { link: None, src: SOURCE, dst: SINK, tos: 0, ttl: 64, label: 0 };
    let header = Header {
        src_port: 1,
        dst_port: 2,
        seq: Seq::new(0),
        ack: Seq::new(0),
        flags: Flags::ACK,
        window: 1,
        options: Options::NONE,
    };
    let headers = below.len() + header.len();
    let mut frame = port.take_long().expect("a frame for a super-segment");
    frame.set_range(0, headers + payload.len());
    below.emit_tcp(&header, payload.len(), Checksum::Offloaded, frame.data_mut());
    frame.set_range(0, headers);
    let start = below.len() as u16;
    let meta = TxMeta {
        checksum: Some(ChecksumOffload { start, offset: CHECKSUM_OFFSET as u16 }),
        segmentation: Some(SegmentationOffload { size: MSS as u16, header_len: headers as u16, v6: false }),
    };
    let pieces = [IoSlice::new(&payload)];
    let head = frame.data().to_vec();
    let all: [_; GATHER_MAX] = std::array::from_fn(|_| Gather { headers: &head, meta, payload: &pieces });
    let (begin, mut segments) = (now(), 0);
    while begin.elapsed() < Duration::from_secs_f64(seconds) {
        for _ in 0..16 {
            let gather = port.gather().expect("it gathers");
            match gather.gathers_at_once() {
                None | Some(0) => {
                    assert!(gather.tx_gather(&mut frame, &meta, &pieces), "the port takes everything");
                }
                _ => gather.tx_gather_all(&all),
            }
            segments += if lanes > 1 { all.len() * SEGMENTS } else { SEGMENTS };
        }
    }
    let took = begin.elapsed();
    let sent = port.stats().iter().find(|(row, _)| *row == "segments").map_or(0, |row| row.1);
    assert_eq!(sent, segments as u64, "each was sent");
    port.retire(frame);
    took.as_secs_f64() * 1e9 / segments as f64
}

/// Speed-up of one flow over the lanes that this machine has cores for, beside the paper's locks.
///
/// # Errors
/// None: it needs nothing but threads.
pub fn run(plan: &Plan) -> Result<Value, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u16;
    sock::pin_to(0);
    let counts: Vec<u16> = (0..=cores.min(MOST)).collect();
    let mut rows = Vec::new();
    for way in [Way::Write, Way::Lend] {
        let mut rates = vec![Vec::new(); counts.len()];
        let mut last: Vec<Option<Sample>> = counts.iter().map(|_| None).collect();
        for _ in 0..plan.rounds {
            for (nth, lanes) in counts.iter().enumerate() {
                let sample = measure(*lanes, way, plan.seconds);
                rates[nth].push(sample.gbit);
                last[nth] = Some(sample);
            }
        }
        for (nth, lanes) in counts.iter().enumerate() {
            let n = f64::from(*lanes);
            let Some(sample) = &last[nth] else { continue };
            let rate = stats::median(&rates[nth]);
            rows.push(json!({
                "application": format!("{way:?}").to_lowercase(),
                "lanes": lanes,
                "gbit_per_s": rate,
                "ns_per_segment": plan.seconds * 1e9 / sample.segments as f64,
                "shared": sample.shared,
                "speedup": stats::ratio(&rates[nth], &rates[1]),
                "paper": (n > 0.0).then(|| locks_leave(Locks::Lan, n).map(|left| n * left)).flatten(),
            }));
        }
    }
    let mut alone = vec![Vec::new(); counts.len() - 1];
    for _ in 0..plan.rounds {
        for (costs, lanes) in alone.iter_mut().zip(1..) {
            costs.push(share(lanes, plan.seconds));
        }
    }
    for (costs, lanes) in alone.iter().zip(1u16..) {
        rows.push(json!({
            "application": "none: the lanes alone",
            "lanes": lanes,
            "ns_per_segment": stats::median(costs),
            "speedup": stats::ratio(&alone[0], costs),
            "paper": locks_leave(Locks::Lan, f64::from(lanes)).map(|left| f64::from(lanes) * left),
        }));
    }
    Ok(json!({ "cores": cores, "rounds": plan.rounds, "seconds": plan.seconds, "rows": rows }))
}

#[cfg(test)]
mod tests;
