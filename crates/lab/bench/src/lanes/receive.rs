//! One flow to a stack whose link verifies and merges nothing: what receiving a segment costs, with any number of cores
//! that share its checksum and its copy.

use super::spring::Spring;
use super::{WARM, time};
use crate::ends::{self, PORT, SINK, SOURCE};
use crate::{Plan, now, stats};
use base::{Duration, Endpoint, Instant};
use pio::{Lanes, PacketIo};
use serde_json::{Value, json};
use stack::{ConnId, Core, ListenerId, Notice};
use tcp::ReadError;

/// Bytes that the application reads at once.
const READ: usize = 256 << 10;

/// A receiver, and the port that is its peer.
pub(super) struct Flow {
    core: Core,
    listener: ListenerId,
    conn: Option<ConnId>,
    into: Vec<u8>,
    notices: Vec<Notice>,
    /// Bytes that were read.
    octets: u64,
}

impl Flow {
    /// A connection through that many lanes, 0 for a port as it is.
    pub(super) fn open(lanes: u16, begin: std::time::Instant) -> Flow {
        let (from, to) = (Endpoint::new(SOURCE, 40_000), Endpoint::new(SINK, PORT));
        let mut port: Box<dyn PacketIo> = Box::new(Spring::new(from, to));
        if lanes > 0 {
            // Where there are fewer CPUs they run where the kernel puts them.
            let pin = |number: usize| {
                sock::pin_to(1 + number);
            };
            port = Lanes::over(port, lanes, "lane", move || time(begin), pin).expect("threads and memory");
        }
        let mut core = ends::core_on(1, SINK, port);
        let listener = ends::listen(&mut core, time(begin));
        let (into, notices) = (vec![0; READ], Vec::new());
        let mut flow = Flow { core, listener, conn: None, into, notices, octets: 0 };
        for _ in 0..100 {
            flow.turn(time(begin));
        }
        flow
    }

    /// Takes a turn: receives and reads.
    pub(super) fn turn(&mut self, at: Instant) {
        self.core.turn(at).expect("the port never fails");
        self.core.notices(&mut self.notices);
        self.notices.clear();
        if self.conn.is_none() {
            self.conn = self.core.accept(self.listener, 1);
        }
        if let Some(conn) = self.conn {
            loop {
                match self.core.read(at, conn, &mut self.into) {
                    Ok(count) => self.octets += count as u64,
                    Err(ReadError::Empty) => break,
                    Err(error) => panic!("the flow never ends: {error:?}"),
                }
            }
        }
        self.core.flush(at).expect("the port never fails");
    }

    fn of(&mut self, name: &str) -> u64 {
        let rows = self.core.stats().into_iter().chain(self.core.io().stats());
        rows.filter(|(row, _)| *row == name).map(|row| row.1).sum()
    }
}

/// One measurement.
struct Sample {
    gbit: f64,
    segments: u64,
    /// The share of segments that helpers verified, too, and of bytes that they copied, too.
    verified: f64,
    copied: f64,
}

fn measure(lanes: u16, seconds: f64) -> Sample {
    let begin = now();
    let mut flow = Flow::open(lanes, begin);
    while begin.elapsed().as_secs_f64() < WARM {
        flow.turn(time(begin));
    }
    let names = ["segments", "lanes_rx_verified", "octets_shared"];
    let (before, read) = (names.map(|name| flow.of(name)), flow.octets);
    let start = now();
    while start.elapsed() < Duration::from_secs_f64(seconds) {
        for _ in 0..16 {
            flow.turn(time(begin));
        }
    }
    let took = start.elapsed().as_secs_f64();
    let after = names.map(|name| flow.of(name));
    let [segments, verified, copied] = [0, 1, 2].map(|nth| after[nth] - before[nth]);
    let octets = flow.octets - read;
    assert!(octets > 0, "the flow stands still");
    Sample {
        gbit: octets as f64 * 8e-9 / took,
        segments,
        verified: verified as f64 / segments as f64,
        copied: copied as f64 / octets as f64,
    }
}

/// Measures receiving with each of these numbers of lanes.
pub(super) fn rows(plan: &Plan, counts: &[u16]) -> Vec<Value> {
    let mut rates = vec![Vec::new(); counts.len()];
    let mut last: Vec<Option<Sample>> = counts.iter().map(|_| None).collect();
    for _ in 0..plan.rounds {
        for (nth, lanes) in counts.iter().enumerate() {
            let sample = measure(*lanes, plan.seconds);
            rates[nth].push(sample.gbit);
            last[nth] = Some(sample);
        }
    }
    let row = |(nth, lanes): (usize, &u16)| {
        let sample = last[nth].as_ref()?;
        Some(json!({
            "application": "reads",
            "lanes": lanes,
            "gbit_per_s": stats::median(&rates[nth]),
            "ns_per_segment": plan.seconds * 1e9 / sample.segments as f64,
            "verified": sample.verified,
            "copied": sample.copied,
            "speedup": stats::ratio(&rates[nth], &rates[1]),
        }))
    };
    counts.iter().enumerate().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    //! Goal: the flow flows however it is shared, and nothing of it is dropped.
    use super::*;

    #[test]
    fn it_arrives_over_any_number_of_lanes() {
        for lanes in [0, 1, 2, 3] {
            let begin = now();
            let mut flow = Flow::open(lanes, begin);
            for _ in 0..200 {
                flow.turn(time(begin));
            }
            assert!(flow.octets > 1 << 20, "{lanes} lanes: {}", flow.octets);
            assert!(flow.into.iter().take(1_000).all(|octet| *octet == 0x5a));
            assert_eq!(flow.of("drop_checksum"), 0);
            assert_eq!(flow.of("lanes_rx_verified") > 0, lanes > 1);
            assert_eq!(flow.of("octets_shared") > 0, lanes > 1);
        }
    }
}
