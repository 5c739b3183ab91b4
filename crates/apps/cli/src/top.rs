//! `millstream top`: what running stacks do, refreshed every second.

use crate::{CliResult, show};
use clap::Args as ClapArgs;
use serde_json::Value;
use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

/// Flags of `top`.
#[derive(ClapArgs)]
pub(crate) struct TopArgs {
    /// Only this process; without it, every running stack.
    #[arg(long)]
    pid: Option<u32>,
    /// Seconds between two looks.
    #[arg(short, long, default_value_t = 1.0)]
    delay: f64,
    /// How many of the busiest connections to show.
    #[arg(short = 'n', long, default_value_t = 20)]
    flows: usize,
    /// Print one picture, after one delay, and end: for pipes.
    #[arg(long)]
    once: bool,
}

/// What was seen at one moment.
struct Look {
    at: Instant,
    cores: Vec<(u32, Value)>,
    flows: Vec<(u32, Value)>,
}

#[allow(clippy::disallowed_methods, reason = "a door is where time enters")]
fn look(pid: Option<u32>) -> Result<Look, Box<dyn std::error::Error>> {
    Ok(Look { at: Instant::now(), cores: show::answers(pid, "stat")?, flows: show::answers(pid, "ss")? })
}

/// `millstream top`.
pub(crate) fn run(args: &TopArgs) -> CliResult {
    let delay = Duration::try_from_secs_f64(args.delay).map_err(|_| "--delay takes seconds")?;
    let delay = delay.max(Duration::from_millis(100));
    let mut before = look(args.pid)?;
    loop {
        std::thread::sleep(delay);
        let now = look(args.pid)?;
        let picture = picture(&before, &now, args.flows);
        let mut out = std::io::stdout().lock();
        if args.once {
            out.write_all(picture.as_bytes())?;
            return Ok(());
        }
        // From the top, each line cleared behind its end, and everything below.
        write!(out, "\x1b[H{}\x1b[J", picture.replace('\n', "\x1b[K\n"))?;
        out.flush()?;
        before = now;
    }
}

/// What names a row of either list.
fn name(pid: u32, row: &Value) -> String {
    format!("{pid} {} {} {}", row["core"], row["local"], row["remote"])
}

fn number(row: &Value, path: &[&str]) -> u64 {
    path.iter().fold(row, |value, key| &value[*key]).as_u64().unwrap_or(0)
}

fn moved(row: &Value) -> u64 {
    number(row, &["bytes_acked"]) + number(row, &["bytes_received"])
}

/// By how much something grew a second.
fn rate(before: u64, now: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds
}

/// Four digits at most, with the letter of its magnitude.
fn short(value: f64) -> String {
    let mut value = value;
    for letter in ["", "k", "M", "G"] {
        if value < 999.5 {
            let digits = usize::from(value < 99.95 && !letter.is_empty());
            return format!("{value:.digits$}{letter}");
        }
        value /= 1_000.0;
    }
    format!("{value:.1}T")
}

/// Two looks as lines.
fn picture(before: &Look, now: &Look, flows: usize) -> String {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let mut text = format!(
        "{:>8} {:>4} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8} {:>8} {:>8} {:>6}\n",
        "process",
        "core",
        "conns",
        "t-wait",
        "new/s",
        "in bit/s",
        "out bit/s",
        "pkt in",
        "pkt out",
        "retr/s",
        "spin"
    );
    let old: HashMap<_, _> = before.cores.iter().map(|(pid, row)| (name(*pid, row), row)).collect();
    for (pid, row) in &now.cores {
        let Some(was) = old.get(&name(*pid, row)) else { continue };
        let per = |path: &[&str]| rate(number(was, path), number(row, path), seconds);
        text += &format!(
            "{pid:>8} {:>4} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8} {:>8} {:>8} {:>5.0}%\n",
            row["core"],
            number(row, &["stack", "connections"]),
            number(row, &["stack", "time_wait"]),
            short(per(&["tcp", "established"])),
            short(8.0 * per(&["tcp", "octets_in"])),
            short(8.0 * per(&["tcp", "octets_out"])),
            short(per(&["stack", "packets_in"])),
            short(per(&["stack", "packets_out"])),
            short(per(&["tcp", "retransmits"])),
            per(&["sock", "spin_us"]) / 10_000.0,
        );
    }
    text.push('\n');
    text + &busiest(before, now, flows, seconds)
}

/// The connections that moved most between the looks.
fn busiest(before: &Look, now: &Look, flows: usize, seconds: f64) -> String {
    let old: HashMap<_, _> = before.flows.iter().map(|(pid, row)| (name(*pid, row), row)).collect();
    let mut rows: Vec<(f64, f64, &Value)> = now
        .flows
        .iter()
        .filter(|(_, row)| row["cwnd"].is_u64())
        .map(|(pid, row)| {
            let was = old.get(&name(*pid, row));
            let again = was.map_or(0, |was| number(was, &["retransmits"]));
            let bits = 8.0 * rate(was.map_or(0, |was| moved(was)), moved(row), seconds);
            (bits, rate(again, number(row, &["retransmits"]), seconds), row)
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let total = rows.len();
    let mut table =
        show::Table::new(&["bit/s", "retr/s", "state", "local", "peer", "cc", "cwnd", "in flight", "rtt ms"]);
    for (bits, again, row) in rows.into_iter().take(flows) {
        let text = |key: &str| row[key].as_str().unwrap_or("").to_string();
        table.row(vec![
            short(bits),
            short(again),
            text("state"),
            text("local"),
            text("remote"),
            text("cc"),
            number(row, &["cwnd"]).to_string(),
            number(row, &["in_flight"]).to_string(),
            show::millis(row, "srtt_us"),
        ]);
    }
    let shown = total.min(flows);
    format!("{}{shown} of {total} connections\n", table.show())
}

#[cfg(test)]
mod tests {
    //! Goal: rates are differences over time, the busiest connection comes first, and those that are new count from
    //! nothing.
    use super::*;
    use serde_json::json;

    #[allow(clippy::disallowed_methods, reason = "a moment to count from")]
    fn looks() -> (Look, Look) {
        let at = Instant::now();
        let tcp = |n: u64| json!({"octets_in": n, "retransmits": n});
        let core = |n: u64| json!({"core": 0, "tcp": tcp(n), "stack": {"connections": 2}, "sock": {}});
        let flow = |local: &str, bytes: u64| {
            json!({"core": 0, "local": local, "remote": "b:1", "state": "ESTABLISHED", "cc": "cubic", "cwnd": 14480,
                   "srtt_us": 1500, "bytes_acked": bytes, "bytes_received": 0, "retransmits": bytes / 1000})
        };
        let listener = json!({"core": 0, "state": "LISTEN", "local": "a:1"});
        let before = Look { at, cores: vec![(9, core(1_000))], flows: vec![(9, flow("slow:1", 5_000))] };
        let flows = vec![(9, flow("slow:1", 6_000)), (9, listener), (9, flow("fresh:1", 50_000))];
        (before, Look { at: at + Duration::from_secs(2), cores: vec![(9, core(3_000))], flows })
    }

    #[test]
    fn rates_and_order() {
        let (before, now) = looks();
        let text = picture(&before, &now, 20);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["9", "0", "2", "0", "0", "8.0k", "0", "0", "0", "1.0k", "0%"], "{text}");
        let fresh = ["200k", "25", "ESTABLISHED", "fresh:1", "b:1", "cubic", "14480", "0", "1.500"];
        assert_eq!(lines[4], fresh, "{text}");
        assert_eq!(lines[5][..2], ["4.0k", "0"], "{text}");
        assert_eq!(lines[6].join(" "), "2 of 2 connections");
        assert!(picture(&before, &now, 1).ends_with("1 of 2 connections\n"));
    }

    #[test]
    fn short_numbers() {
        let all = [0.0, 7.4, 999.0, 999.6, 12_345.0, 123_456.0, 1e6, 2.5e9, 3e12].map(short);
        assert_eq!(all, ["0", "7", "999", "1.0k", "12.3k", "123k", "1.0M", "2.5G", "3.0T"]);
    }
}
