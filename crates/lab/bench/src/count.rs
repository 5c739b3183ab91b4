//! Instructions per transaction by callgrind: repeatable for the same binary, whatever else the machine does.

use crate::bed::{of_file, sh};
use crate::{Plan, flow};
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
        let count = |count| Ok::<_, String>(counted(&[load, in_flight], count, None)?.0);
        let per = (count(many)? - count(few)?) / (many - few) as f64;
        eprintln!("{load:<6} {in_flight:>6} in flight  {per:>8.0} instructions, both ends");
        rows.push(json!({"workload": load, "in_flight": in_flight, "instructions_both_ends": per}));
    }
    Ok(json!({"bench": "instructions", "rows": rows}))
}

/// The `trace-instructions` benchmark: what each end of a bulk flow does for a packet with data, and with SIFTR's log
/// of every packet; and what the log's writer does for it.
pub fn trace(_: &Plan) -> Result<Value, String> {
    const FEW: u64 = 20_000;
    const MANY: u64 = 60_000;
    let mut rows = Vec::new();
    for load in ["bulk", "super"] {
        for (part, function) in flow::PARTS {
            let per = |logged: &str| -> Result<f64, String> {
                let run = |packets| counted(&[load, logged], packets, Some(function));
                let ((few, passed_few), (many, passed_many)) = (run(FEW)?, run(MANY)?);
                Ok((many - few) / (passed_many - passed_few))
            };
            let (off, on) = (per("0")?, per("1")?);
            eprintln!("{load:<6} {part:<9} off {off:>7.0}  logged {on:>7.0} instructions a data packet");
            rows.push(json!({"workload": load, "part": part, "off": off, "logged": on}));
        }
    }
    Ok(json!({"bench": "trace-instructions", "rows": rows}))
}

/// A repeated string instruction counts as one for each byte, which says nothing: long copies by vectors, as short
/// ones.
const PLAIN_COPIES: &str =
    "GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=9999999:glibc.cpu.x86_rep_stosb_threshold=9999999";

/// Instructions of `exactly words count`, of `function` and all it calls if only they count; and what the run says that
/// it has done, or `count`.
pub(crate) fn counted(words: &[&str; 2], count: u64, function: Option<&str>) -> Result<(f64, f64), String> {
    under(&["env", PLAIN_COPIES], words, count, function)
}

/// Counts with more in the environment and without randomised addresses: a process's surroundings must not matter.
pub(crate) fn counted_elsewhere(words: &[&str; 2], count: u64) -> Result<(f64, f64), String> {
    let ballast = format!("MILLSTREAM_BALLAST={}", "x".repeat(5_000));
    under(&["setarch", "-R", "env", PLAIN_COPIES, &ballast], words, count, None)
}

/// Counts a run that `wrapper` starts.
fn under(
    wrapper: &[&str],
    words: &[&str; 2],
    count: u64,
    function: Option<&str>,
) -> Result<(f64, f64), String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let out = std::env::temp_dir().join(format!("ms-callgrind-{}", std::process::id()));
    let (file, me, number) =
        (format!("--callgrind-out-file={}", out.display()), me.to_string_lossy(), count.to_string());
    let only = function.map(|function| format!("--toggle-collect={function}"));
    let mut args = [&wrapper[1..], &["valgrind", "--tool=callgrind", &file]].concat();
    args.extend(only.as_deref());
    args.extend([&*me, "exactly", words[0], words[1], &number]);
    let said = sh(wrapper[0], &args).map_err(|e| format!("{e}; install valgrind"))?;
    let text = std::fs::read_to_string(&out).map_err(of_file(&out))?;
    std::fs::remove_file(&out).map_err(of_file(&out))?;
    let instructions = text
        .lines()
        .find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")))
        .and_then(|n| n.trim().parse().ok())
        .ok_or("callgrind gave no total")?;
    let done = match said.trim() {
        "" => count as f64,
        said => said.parse().map_err(|_| format!("it said {said:?}"))?,
    };
    Ok((instructions, done))
}
