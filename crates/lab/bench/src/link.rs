//! Servers on one core behind a link, ordinary kernel clients on another core, in network namespaces of our own: a few
//! rows of the comparison with ratios between them.
//!
//! CPU is counted on both sides, by process (what it ran, its softirqs included) and by core (everything). veth
//! runs the receiver's softirq on the sender's core, so a server pays for the client's packets and the other way
//! round: the *ideal responder* shows how much of that no server can avoid.

use crate::Plan;
use crate::compare::contender::Contender;
use crate::compare::ground::{Ground, Load};
use crate::compare::{Figures, Where};
use lab::stats;
use serde_json::{Map, Value, json};

/// Names of figures in the results, and the comparison's.
const FIGURES: [(&str, &str); 8] = [
    ("per_s", "per_s"),
    ("server_cpu_us", "cpu_us"),
    ("server_spin_us", "spin_us"),
    ("client_cpu_us", "client_us"),
    ("machine_cpu_us", "machine_us"),
    ("p50_us", "p50_us"),
    ("p99_us", "p99_us"),
    ("gbit_per_s", "gbit"),
];

fn column(samples: &[Figures], figure: &str) -> Vec<f64> {
    samples.iter().map(|figures| figures[figure]).collect()
}

/// Returns the figures of each of `names` under a load, measured in turns.
fn in_turns(
    ground: &mut Ground,
    plan: &Plan,
    names: &[&str],
    place: Where,
    load: &Load,
) -> Result<Vec<Vec<Figures>>, String> {
    let mut all = vec![Vec::new(); names.len()];
    for _ in 0..plan.rounds {
        for (name, samples) in names.iter().zip(&mut all) {
            let contender = Contender::of(name).ok_or("no such server")?;
            samples.push(ground.served(contender, place, load, plan.seconds)?);
        }
    }
    Ok(all)
}

/// The `link` benchmark.
pub fn run(plan: &Plan) -> Result<Value, String> {
    const LOADS: [(&str, &str, u32); 3] = [
        ("short connections, 64 in flight", "short", 64),
        ("keep-alive, 64 connections", "keep", 64),
        ("ping-pong, 1 connection", "keep", 1),
    ];
    const SERVERS: [&str; 3] = ["kernel", "millstream", "ideal"];
    let mut ground = Ground::default();
    let mut rows = Vec::new();
    for (title, mode, in_flight) in LOADS {
        let load = Load::new(mode, in_flight).with(64.0);
        let all = in_turns(&mut ground, plan, &SERVERS, Where::Veth { offloads: true }, &load)?;
        let mut row = Map::new();
        row.insert("workload".into(), title.into());
        for (name, samples) in SERVERS.iter().zip(&all) {
            let median = |figure: &str| stats::median(&column(samples, figure));
            let errors = column(samples, "errors").iter().sum::<f64>() as u64;
            eprintln!(
                "{title:<34} {name:<11} {:>10.0}/s  server {:>6.2} us (spin {:>5.2})  client {:>6.2} us  \
                 machine {:>6.2} us  p50 {:>8.1}  p99 {:>8.1}  errors {errors}",
                median("per_s"),
                median("cpu_us"),
                median("spin_us"),
                median("client_us"),
                median("machine_us"),
                median("p50_us"),
                median("p99_us"),
            );
            let mut told: Map<_, _> =
                FIGURES.iter().map(|(name, figure)| (name.to_string(), median(figure).into())).collect();
            told.insert("errors".into(), errors.into());
            row.insert((*name).into(), told.into());
        }
        let of = |who: usize, figure: &str| column(&all[who], figure);
        let over: Vec<f64> = of(1, "cpu_us").iter().zip(of(2, "cpu_us")).map(|(a, b)| a - b).collect();
        row.insert("us_over_ideal".into(), stats::median(&over).into());
        let worked: Vec<f64> = over.iter().zip(of(1, "spin_us")).map(|(over, spin)| over - spin).collect();
        row.insert("us_over_ideal_without_spin".into(), stats::median(&worked).into());
        for (name, figure) in [("cpu", "cpu_us"), ("rate", "per_s"), ("p50", "p50_us"), ("p99", "p99_us")] {
            let ratio = stats::ratio(&of(1, figure), &of(0, figure));
            row.insert(format!("{name}_ratio_to_kernel"), ratio.into());
        }
        rows.push(Value::Object(row));
    }
    Ok(json!({"bench": "link", "rounds": plan.rounds, "seconds": plan.seconds, "rows": rows}))
}

/// The `bulk` benchmark: ours over tap with offloads beside the kernel over veth with offloads, and both over veth
/// without; one flow each way.
pub fn bulk(plan: &Plan) -> Result<Value, String> {
    let mut ground = Ground::default();
    let mut rows = Vec::new();
    for (offloads, means) in
        [(true, "offloads (ours on tap)"), (false, "MTU 1500, no offloads (ours on AF_XDP)")]
    {
        for (mode, way) in [("put", "client to server"), ("get", "server to client")] {
            let (place, load) = (Where::Veth { offloads }, Load::new(mode, 1));
            let all = in_turns(&mut ground, plan, &["kernel", "millstream"], place, &load)?;
            let title = format!("{way}, {means}");
            if all.iter().flatten().any(|figures| figures["errors"] > 0.0) {
                return Err(format!("{title}: the client counted errors"));
            }
            let [kernel, ours] = [0, 1].map(|who| column(&all[who], "gbit"));
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
