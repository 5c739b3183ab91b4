//! Savings by the handshake cache: instructions of a connection and its request, with it and without, and of the
//! same request on a connection that stays. The first two less the third are the control path: connection setup and
//! teardown. Then the rates, in turns.

use crate::again::{self, Case};
use crate::count::counted;
use crate::{Plan, now};
use lab::stats;
use serde_json::{Value, json};

/// Bytes of request and answer, per cent of connections to peers that come again, and how many those are.
struct Point {
    size: usize,
    percent: u8,
    peers: u32,
}

const fn at(size: usize, percent: u8, peers: u32) -> Point {
    Point { size, percent, peers }
}

/// Points of the count: over sizes, over ratios, over peers.
const POINTS: [Point; 13] = [
    at(64, 100, 1),
    at(1_024, 100, 1),
    at(4_096, 100, 1),
    at(16_384, 100, 1),
    at(65_536, 100, 1),
    at(64, 0, 100),
    at(64, 25, 100),
    at(64, 50, 100),
    at(64, 75, 100),
    at(64, 100, 100),
    at(64, 100, 1_000),
    at(64, 100, 10_000),
    at(64, 100, 100_000),
];
/// Beyond so many peers only time is measured: each must have come three times before anything is counted.
const COUNTED_PEERS: u32 = 10_000;
/// Connections that are counted, of large messages fewer.
const COUNT: u64 = 2_000;

impl Point {
    fn words(&self, way: &str) -> String {
        format!("{way}:{}:{}:{}", self.size, self.percent, self.peers)
    }

    /// Connections until every peer came three times.
    fn warm(&self) -> u64 {
        1_000 + u64::from(self.peers) * 4
    }

    /// Instructions of one more request, both ends.
    fn instructions(&self, way: &str) -> Result<f64, String> {
        let words = self.words(way);
        let (few, more) = (self.warm(), if self.size > 4_096 { COUNT / 4 } else { COUNT });
        let count = |count| Ok::<_, String>(counted(&[&words, "1"], count, None)?.0);
        Ok((count(few + more)? - count(few)?) / more as f64)
    }

    /// Connections a second with the handshake cache and without, in turns.
    fn rates(&self, plan: &Plan) -> [Vec<f64>; 2] {
        let mut rates = [Vec::new(), Vec::new()];
        let mut beds = ["on", "off"].map(|way| {
            let case = Case::parse(&self.words(way), 1).expect("made of numbers");
            again::exactly(case, self.warm())
        });
        for _ in 0..plan.rounds {
            for (bed, rates) in beds.iter_mut().zip(&mut rates) {
                let (done, begin) = (bed.done, now());
                while begin.elapsed().as_secs_f64() < plan.seconds {
                    (0..64).for_each(|_| bed.step());
                }
                rates.push((bed.done - done) as f64 / begin.elapsed().as_secs_f64());
            }
        }
        rates
    }
}

/// The `again` benchmark.
///
/// # Errors
/// Callgrind is missing, or gave no total.
pub fn run(plan: &Plan) -> Result<Value, String> {
    let mut rows = Vec::new();
    eprintln!("  size  again  peers      on     off    keep  control path  whole  rate");
    for point in POINTS {
        let mut row = json!({"size": point.size, "percent": point.percent, "peers": point.peers});
        let mut said = format!("{:6} {:4} % {:6}", point.size, point.percent, point.peers);
        if point.peers <= COUNTED_PEERS {
            let [on, off, keep] =
                [point.instructions("on")?, point.instructions("off")?, point.instructions("keep")?];
            let (control, whole) = ((on - keep) / (off - keep), on / off);
            said += &format!(
                " {on:7.0} {off:7.0} {keep:7.0} {:+11.1} % {:+5.1} %",
                100.0 * control - 100.0,
                100.0 * whole - 100.0
            );
            row["instructions"] = json!({"on": on, "off": off, "keep": keep});
            (row["control"], row["whole"]) = (json!(control), json!(whole));
        } else {
            said += &format!("{:46}", "");
        }
        let [on, off] = point.rates(plan);
        let ratio = stats::ratio(&on, &off);
        eprintln!("{said} {:+5.1} %", 100.0 * ratio - 100.0);
        row["per_s"] = json!({"on": stats::median(&on), "off": stats::median(&off), "ratio": ratio});
        rows.push(row);
    }
    Ok(json!({"bench": "again", "rows": rows}))
}

#[cfg(test)]
mod tests;
