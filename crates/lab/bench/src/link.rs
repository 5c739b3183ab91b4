//! Servers on one core behind a link, ordinary kernel clients on another core, in network namespaces of our own.
//!
//! CPU is counted on both sides, by process (what it ran, its softirqs included) and by core (everything). veth
//! runs the receiver's softirq on the sender's core, so a server pays for the client's packets and the other way
//! round: the *ideal responder* shows how much of that no server can avoid.

use crate::bed::{Bed, Programs, SERVER_ADDR, Server, machine_busy_us, our_command};
use crate::{Plan, now};
use lab::stats;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;

/// One measurement of one server.
struct Sample {
    rate: f64,
    server_us: f64,
    /// Of which it only looked for packets that were not there yet.
    spin_us: f64,
    client_us: f64,
    both_us: f64,
    p50: f64,
    p99: f64,
    errors: u64,
    bytes_per_s: f64,
}

fn sample(
    bed: &Bed,
    server: &Server,
    client: &Path,
    mode: &str,
    in_flight: u32,
    seconds: f64,
) -> Result<Sample, String> {
    let (cpu, busy, spin) = (server.cpu_ns()?, machine_busy_us()?, bed.spin_us(server)?);
    let said = bed.client(client, mode, in_flight, seconds)?;
    let (cpu, busy, spin) = (server.cpu_ns()? - cpu, machine_busy_us()? - busy, bed.spin_us(server)? - spin);
    let number = |key: &str| said[key].as_f64().unwrap_or(0.0);
    let requests = number("requests").max(1.0);
    Ok(Sample {
        rate: number("requests") / number("seconds"),
        server_us: cpu as f64 / 1e3 / requests,
        spin_us: spin as f64 / requests,
        client_us: number("cpu_us") / requests,
        both_us: busy as f64 / requests,
        p50: number("p50_us"),
        p99: number("p99_us"),
        errors: number("errors") as u64,
        bytes_per_s: number("bytes") / number("seconds"),
    })
}

fn summary(samples: &[Sample]) -> Value {
    let median = |f: fn(&Sample) -> f64| stats::median(&samples.iter().map(f).collect::<Vec<_>>());
    json!({
        "per_s": median(|s| s.rate), "server_cpu_us": median(|s| s.server_us), "server_spin_us": median(|s| s.spin_us),
        "client_cpu_us": median(|s| s.client_us),
        "machine_cpu_us": median(|s| s.both_us), "p50_us": median(|s| s.p50), "p99_us": median(|s| s.p99),
        "errors": samples.iter().map(|s| s.errors).sum::<u64>(),
        "gbit_per_s": median(|s| s.bytes_per_s) * 8e-9,
    })
}

/// The `link` benchmark.
pub fn run(plan: &Plan) -> Result<Value, String> {
    const LOADS: [(&str, &str, u32); 3] = [
        ("short connections, 64 in flight", "short", 64),
        ("keep-alive, 64 connections", "keep", 64),
        ("ping-pong, 1 connection", "keep", 1),
    ];
    let bed = Bed::new(true)?;
    let programs = Programs::build(&bed.dir, &our_command()?)?;
    let ours = ["serve", "--link", "xdp:ms0", "--bytes", "64", "--cores", "1"];
    let contenders: [(&str, &Path, Vec<&str>); 3] = [
        ("kernel", &programs.server, vec![SERVER_ADDR, "80", "64"]),
        ("millstream", &programs.ours, ours.to_vec()),
        ("ideal", &programs.ideal, vec!["ms0", "80", "64"]),
    ];
    let mut rows = Vec::new();
    for (title, mode, in_flight) in LOADS {
        let mut samples: Vec<Vec<Sample>> = (0..3).map(|_| Vec::new()).collect();
        for _ in 0..plan.rounds {
            for (i, (_, program, args)) in contenders.iter().enumerate() {
                let server = bed.start(&bed.server, program, args)?;
                std::thread::sleep(Duration::from_millis(100));
                samples[i].push(sample(&bed, &server, &programs.client, mode, in_flight, plan.seconds)?);
            }
        }
        let column = |i: usize, f: fn(&Sample) -> f64| samples[i].iter().map(f).collect::<Vec<f64>>();
        let (kernel, ours, ideal) =
            (column(0, |s| s.server_us), column(1, |s| s.server_us), column(2, |s| s.server_us));
        let mut row = Map::new();
        row.insert("workload".into(), title.into());
        for ((name, ..), samples) in contenders.iter().zip(&samples) {
            let s = summary(samples);
            eprintln!(
                "{title:<34} {name:<11} {:>10.0}/s  server {:>6.2} us (spin {:>5.2})  client {:>6.2} us  \
                 machine {:>6.2} us  p50 {:>8.1}  p99 {:>8.1}  errors {}",
                s["per_s"].as_f64().unwrap_or(0.0),
                s["server_cpu_us"].as_f64().unwrap_or(0.0),
                s["server_spin_us"].as_f64().unwrap_or(0.0),
                s["client_cpu_us"].as_f64().unwrap_or(0.0),
                s["machine_cpu_us"].as_f64().unwrap_or(0.0),
                s["p50_us"].as_f64().unwrap_or(0.0),
                s["p99_us"].as_f64().unwrap_or(0.0),
                s["errors"]
            );
            row.insert((*name).into(), s);
        }
        let over: Vec<f64> = ours.iter().zip(&ideal).map(|(a, b)| a - b).collect();
        row.insert("us_over_ideal".into(), stats::median(&over).into());
        let worked: Vec<f64> =
            samples[1].iter().zip(&ideal).map(|(s, b)| s.server_us - s.spin_us - b).collect();
        row.insert("us_over_ideal_without_spin".into(), stats::median(&worked).into());
        row.insert("cpu_ratio_to_kernel".into(), stats::ratio(&ours, &kernel).into());
        let ratio = |f| stats::ratio(&column(1, f), &column(0, f));
        row.insert("rate_ratio_to_kernel".into(), ratio(|s| s.rate).into());
        row.insert("p50_ratio_to_kernel".into(), ratio(|s| s.p50).into());
        row.insert("p99_ratio_to_kernel".into(), ratio(|s| s.p99).into());
        rows.push(Value::Object(row));
    }
    Ok(json!({"bench": "link", "rounds": plan.rounds, "seconds": plan.seconds, "rows": rows}))
}

/// The `bulk` benchmark: ours over tap with offloads beside the kernel over veth with offloads, and both over veth
/// without; one flow each way.
pub fn bulk(plan: &Plan) -> Result<Value, String> {
    let mut rows = Vec::new();
    for offloads in [true, false] {
        for mode in ["put", "get"] {
            let (mut kernel, mut ours) = (Vec::new(), Vec::new());
            for _ in 0..plan.rounds {
                kernel.push(bulk_kernel(plan, offloads, mode)?);
                ours.push(if offloads { bulk_tap(plan, mode)? } else { bulk_xdp(plan, mode)? });
            }
            let title = match (offloads, mode) {
                (true, "put") => "client to server, offloads (ours on tap)",
                (true, _) => "server to client, offloads (ours on tap)",
                (false, "put") => "client to server, MTU 1500, no offloads (ours on AF_XDP)",
                (false, _) => "server to client, MTU 1500, no offloads (ours on AF_XDP)",
            };
            eprintln!(
                "{title:<60} kernel {:>7.2} Gbit/s  millstream {:>7.2} Gbit/s",
                stats::median(&kernel),
                stats::median(&ours)
            );
            rows.push(json!({
                "workload": title, "kernel_gbit": stats::median(&kernel), "millstream_gbit": stats::median(&ours),
                "ratio": stats::ratio(&ours, &kernel), "kernel_all": kernel, "millstream_all": ours,
            }));
        }
    }
    Ok(json!({"bench": "bulk", "rounds": plan.rounds, "seconds": plan.seconds, "rows": rows}))
}

/// One bulk flow; its rate, Gbit/s.
pub(crate) fn gbit(
    bed: &Bed,
    programs: &Programs,
    server: &Server,
    plan: &Plan,
    mode: &str,
) -> Result<f64, String> {
    let begin = now();
    let s = sample(bed, server, &programs.client, mode, 1, plan.seconds)?;
    if s.errors > 0 || s.bytes_per_s == 0.0 {
        return Err(format!(
            "bulk {mode}: {} errors, {} bytes/s after {:?}",
            s.errors,
            s.bytes_per_s,
            begin.elapsed()
        ));
    }
    Ok(s.bytes_per_s * 8e-9)
}

fn bulk_kernel(plan: &Plan, offloads: bool, mode: &str) -> Result<f64, String> {
    let bed = Bed::new(offloads)?;
    let programs = Programs::build(&bed.dir, &our_command()?)?;
    let role = if mode == "put" { "sink" } else { "source" };
    let server = bed.start(&bed.server, &programs.server, &[SERVER_ADDR, "80", "64", role])?;
    gbit(&bed, &programs, &server, plan, mode)
}

fn bulk_xdp(plan: &Plan, mode: &str) -> Result<f64, String> {
    let bed = Bed::new(false)?;
    let programs = Programs::build(&bed.dir, &our_command()?)?;
    let server = bed.start(&bed.server, &programs.ours, &["serve", "--link", "xdp:ms0"])?;
    gbit(&bed, &programs, &server, plan, mode)
}

/// Ours on a tap device whose other end is the client's own kernel.
fn bulk_tap(plan: &Plan, mode: &str) -> Result<f64, String> {
    let bed = Bed::new(true)?;
    let programs = Programs::build(&bed.dir, &our_command()?)?;
    bed.tap_instead()?;
    let address = format!("{SERVER_ADDR}/16");
    let server =
        bed.start(&bed.client, &programs.ours, &["serve", "--link", "tap:mst0", "--address", &address])?;
    gbit(&bed, &programs, &server, plan, mode)
}
