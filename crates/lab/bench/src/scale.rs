//! Cost of a request while more and more connections are established: client and server stack in one thread, as
//! in [`memory`](crate::memory), most connections idle and a few, spread evenly among them, busy all the time.

use crate::bed::of_file;
use crate::memory::{Bed, Load, ROUNDS, resident};
use crate::{Plan, now};
use lab::stats;
use serde_json::{Value, json};

/// Established connections, row by row: one bed, which fills.
const TOTALS: [u32; 6] = [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
/// How many of them are busy; all, where there are not so many.
const BUSY: [u32; 2] = [64, 100_000];
/// Client addresses: the ports of one do not suffice for ten million.
const SOURCES: u32 = 1_024;
/// Bytes that both ends of a connection take, and what the benchmark keeps for it, rounded up.
const PER_PAIR: u64 = 1_200;
/// Bytes that must be left for all others.
const SPARE: u64 = 1 << 30;

/// The `scale` benchmark.
pub fn run(plan: &Plan) -> Result<Value, String> {
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    let room = available()?.saturating_sub(SPARE) / PER_PAIR;
    let totals = TOTALS.into_iter().filter(|&total| {
        let fits = u64::from(total) <= room;
        if !fits {
            let need = (u64::from(total) * PER_PAIR + SPARE) >> 30;
            eprintln!("{total:>10} connections  left out: they need {need} GiB of free memory");
            left_out.push(json!({"connections": total, "needs_gib": need}));
        }
        fits
    });
    let totals: Vec<u32> = totals.collect();
    let most = *totals.last().ok_or("not even 100 connections fit into memory")?;
    let mut bed = Bed::new(Load::Keep, SOURCES, most + 1_024);
    for total in totals {
        let begin = now();
        bed.open_idle(total, SOURCES)?;
        let opened = begin.elapsed().as_secs_f64();
        for busy in BUSY.map(|busy| busy.min(total)) {
            if rows.iter().any(|row: &Value| row["connections"] == total && row["busy"] == busy) {
                continue;
            }
            let costs = costs(&mut bed, total, busy, plan)?;
            let cost = stats::median(&costs);
            eprintln!("{total:>10} connections, {busy:>7} of them busy  {cost:>7.0} ns a request");
            rows.push(json!({
                "connections": total, "busy": busy, "ns_per_request": cost, "all": costs,
                "opened_in_s": opened, "resident_bytes": resident()?,
            }));
        }
    }
    let cost = |total: u32, busy: u32| {
        let row = rows.iter().find(|row| row["connections"] == total && row["busy"] == busy);
        row.and_then(|row| row["ns_per_request"].as_f64())
    };
    let ratio = BUSY.map(|busy| Some(cost(most, busy)? / cost(busy.max(TOTALS[0]), busy)?));
    let (server, client) = bed.footprint();
    Ok(json!({
        "bench": "scale", "rounds": plan.rounds, "rows": rows, "left_out": left_out,
        "most": most, "most_over_fewest": {"64": ratio[0], "100000": ratio[1]},
        "server_bytes_per_connection": server as f64 / f64::from(most),
        "client_bytes_per_connection": client as f64 / f64::from(most),
    }))
}

/// Nanoseconds for a request and its answer, both ends together, with `busy` of `total` connections asking without a
/// pause.
fn costs(bed: &mut Bed, total: u32, busy: u32, plan: &Plan) -> Result<Vec<f64>, String> {
    let stride = total / busy;
    bed.ask((0..busy).map(|nth| nth * stride));
    let warm = bed.done + 2 * u64::from(busy);
    let begin = now();
    while bed.done < warm {
        bed.step(SOURCES);
        if begin.elapsed().as_secs() > 60 {
            return Err(format!("{busy} of {total} connections stalled"));
        }
    }
    let costs = (0..plan.rounds).map(|_| {
        let (done, begin) = (bed.done, now());
        while begin.elapsed().as_secs_f64() < plan.seconds {
            (0..ROUNDS).for_each(|_| bed.step(SOURCES));
        }
        begin.elapsed().as_secs_f64() * 1e9 / (bed.done - done) as f64
    });
    let costs = costs.collect();
    bed.rest(busy, SOURCES);
    Ok(costs)
}

/// Bytes of memory that programs can still have.
fn available() -> Result<u64, String> {
    let info = std::fs::read_to_string("/proc/meminfo").map_err(of_file("/proc/meminfo"))?;
    let kib = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: Option<u64> = kib.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| "/proc/meminfo is odd".to_owned())
}
