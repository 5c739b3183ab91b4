//! Instructions per transaction by callgrind: repeatable for the same binary, whatever else the machine does.

use crate::Plan;
use crate::bed::sh;
use serde_json::{Value, json};

/// Workload, connections in flight, and the two numbers of transactions (packets in virtual time) whose difference is
/// counted.
const ROWS: [(&str, &str, u64, u64); 6] = [
    ("short", "1", 2_000, 6_000),
    ("short", "1000", 6_000, 18_000),
    ("keep", "1", 4_000, 12_000),
    ("keep", "1000", 10_000, 30_000),
    ("forward", "1", 40_000, 120_000),
    ("transfer", "1", 40_000, 120_000),
];

/// The `instructions` benchmark.
pub fn run(_: &Plan) -> Result<Value, String> {
    let mut rows = Vec::new();
    for (load, in_flight, few, many) in ROWS {
        // Start-up and warm-up are in both runs, so the difference is the transactions' alone.
        let per = (count(load, in_flight, many)? - count(load, in_flight, few)?) / (many - few) as f64;
        eprintln!("{load:<6} {in_flight:>6} in flight  {per:>8.0} instructions, both ends");
        rows.push(json!({"workload": load, "in_flight": in_flight, "instructions_both_ends": per}));
    }
    Ok(json!({"bench": "instructions", "rows": rows}))
}

fn count(load: &str, in_flight: &str, count: u64) -> Result<f64, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let out = std::env::temp_dir().join(format!("ms-callgrind-{}", std::process::id()));
    let args = [
        "--tool=callgrind",
        &format!("--callgrind-out-file={}", out.display()),
        &me.to_string_lossy(),
        "exactly",
        load,
        in_flight,
        &count.to_string(),
    ];
    sh("valgrind", &args).map_err(|e| format!("{e}; install valgrind"))?;
    let text = std::fs::read_to_string(&out).map_err(|e| e.to_string())?;
    std::fs::remove_file(&out).map_err(|e| e.to_string())?;
    text.lines()
        .find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")))
        .and_then(|n| n.trim().parse().ok())
        .ok_or_else(|| "callgrind gave no total".into())
}
