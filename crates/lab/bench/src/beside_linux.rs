//! The laboratory's family `beside-linux` over real links: each of its paths as `millstream pipe` between two kernels,
//! once with the kernel's TCP as the sender and once with ours in the kernel's place, in turns; the receiver is the
//! kernel's in both. Beside them stands the same file in virtual time, where both ends are ours.
//!
//! Both senders are the same program (`peers/transfer.c`), ours under `millstream run`, and both have their defaults:
//! sysctls of a fresh namespace with CUBIC by route, and `Config::default()`.

use crate::bed::{of_file, our_command};
use crate::peers;
use crate::wire::{RIGHT, Wire};
use lab::stats;
use lab::{Experiment, Task};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Prefix of the family's experiments.
const FAMILY: &str = "beside-linux-";
/// How much more time ours may take, as a part: what two runs of one sender differ by.
const MARGIN: f64 = 0.05;
/// How many more of its segments may come to nothing, besides that part.
const MARGIN_SEGMENTS: f64 = 1.0;
/// Pairs for each asked for, where chance decides what comes twice.
const PAIRS_BY_CHANCE: u32 = 4;
/// The receiver's port.
const PORT: &str = "5001";
/// Longest that a transfer may take, seconds.
const LIMIT: &str = "60";

/// Selection of runs.
pub struct Chosen {
    /// Pairs of runs, each with a seed of its own.
    pub rounds: u32,
    /// Rows whose names begin with these; all without.
    pub names: Vec<String>,
    /// A contender wants it to end.
    pub stop: Arc<AtomicBool>,
}

/// Result of one sender on one path.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Milliseconds: of one transfer on average, where they come one after the other, else of the longest; or until the
    /// first retransmission.
    took: f64,
    /// Segments that the receiver had already.
    duplicates: f64,
}

/// Measure on a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// How long transfers take.
    Took,
    /// When something is sent again, where nothing ever arrives.
    FirstAgain,
}

/// A line of the table: an experiment with its parameters put in.
struct Row {
    experiment: Experiment,
    task: Task,
    figure: Figure,
}

impl Row {
    fn name(&self) -> String {
        let short = self.experiment.name.trim_start_matches(FAMILY);
        let point = self
            .task
            .point
            .iter()
            .map(|(place, value)| format!(" {}={value}", place.rsplit('.').next().unwrap_or(place)));
        std::iter::once(short.to_string()).chain(point).collect()
    }

    fn is_sequence(&self) -> bool {
        self.task.spec.flows.iter().any(|flow| flow.stagger > 0.0)
    }

    /// Pairs to run. Where packets change places by chance three pairs tell little: a few segments more or less come
    /// twice from run to run.
    fn pairs(&self, rounds: u32) -> u32 {
        let by_chance = self.task.spec.path.as_ref().is_some_and(|path| path.reorder > 0.0);
        if by_chance { rounds * PAIRS_BY_CHANCE } else { rounds }
    }
}

fn rows(names: &[String]) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for experiment in lab::shipped().map_err(|e| e.to_string())? {
        if !experiment.name.starts_with(FAMILY) {
            continue;
        }
        let again = experiment.spec().checks.iter().any(|check| check.measure == "first_again_ms");
        let figure = if again { Figure::FirstAgain } else { Figure::Took };
        for task in experiment.tasks(Some(1)).map_err(|e| e.to_string())? {
            rows.push(Row { experiment: experiment.clone(), task, figure });
        }
    }
    let wanted =
        |row: &Row| names.is_empty() || names.iter().any(|name| row.name().starts_with(name.as_str()));
    let all: Vec<String> = rows.iter().map(Row::name).collect();
    rows.retain(wanted);
    if rows.is_empty() {
        return Err(format!("no row begins with {}; there are:\n{}", names.join(", "), all.join("\n")));
    }
    Ok(rows)
}

/// A transfer in virtual time.
fn virtually(row: &Row, seed: u64) -> Result<Seen, String> {
    let outcome = lab::run(&Task { seed, ..row.task.clone() }).map_err(|e| e.to_string())?;
    let name = match row.figure {
        Figure::FirstAgain => "first_again_ms",
        Figure::Took if row.is_sequence() => "took_ms",
        Figure::Took => "took_max_ms",
    };
    let of = |name: &str| outcome.measures.get(name).copied().ok_or_else(|| format!("no {name}"));
    Ok(Seen { took: of(name)?, duplicates: of("duplicates")? })
}

/// Programs that a run needs.
struct Tools {
    ours: PathBuf,
    transfer: PathBuf,
}

/// Runs a row over real links.
fn really(tools: &Tools, row: &Row, seed: u64, our_sender: bool) -> Result<Seen, String> {
    let wire = Wire::new()?;
    let spec = &row.task.spec;
    let [flow] = &spec.flows[..] else { return Err("one group of flows".into()) };
    if let Some(hold) = spec.card.as_ref().and_then(|card| card.merging.strip_prefix("hold ")) {
        wire.merge_at_the_right(hold.parse().map_err(|_| "odd merging")?)?;
    }
    let (file, log) = (wire.dir.join("path.toml"), wire.dir.join("log.csv"));
    std::fs::write(&file, row.experiment.text()).map_err(of_file(&file))?;
    let mut words: Vec<String> =
        vec!["--path".into(), file.display().to_string(), "--seed".into(), seed.to_string()];
    if row.figure == Figure::FirstAgain {
        words.extend(["--log".into(), log.display().to_string()]);
    }
    for (place, value) in &row.task.point {
        if let Some(key) = place.strip_prefix("path.") {
            words.extend(["--set".into(), format!("{key}={value}")]);
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let pipe = wire.pipe(&tools.ours, "packet", &words)?;
    let half = flow.half_closed.then_some("half");
    let (at_a_time, rounds) = if row.is_sequence() { (1, flow.count) } else { (flow.count, 1) };
    let count = flow.count.to_string();
    let receive: Vec<&str> = ["receive", RIGHT, PORT, &count].into_iter().chain(half).collect();
    let receiver = wire.start(&wire.right, &tools.transfer, &receive)?;
    let before = duplicates(&wire)?;
    let numbers = [
        at_a_time.to_string(),
        rounds.to_string(),
        flow.bytes.ok_or("a flow with an end")?.to_string(),
        flow.piece.unwrap_or(0).to_string(),
        format!("{:.0}", flow.every_ms * 1e3),
    ];
    let (ours, transfer) = (tools.ours.to_string_lossy(), tools.transfer.to_string_lossy());
    let launcher: &[&str] = if our_sender { &[&*ours, "run", "--link", "packet:a0", "--"] } else { &[] };
    let send =
        [&*transfer, "send", RIGHT, PORT].into_iter().chain(numbers.iter().map(String::as_str)).chain(half);
    let send: Vec<&str> = launcher.iter().copied().chain(send).collect();
    if row.figure == Figure::FirstAgain {
        let seconds = spec.seconds.to_string();
        let _sender = wire.spawn(&wire.left, "timeout", &[&["-s", "KILL", &seconds][..], &send].concat())?;
        std::thread::sleep(std::time::Duration::from_secs_f64(spec.seconds));
        receiver.kill()?;
        pipe.stop()?;
        let log = std::fs::read_to_string(&log).map_err(of_file(&log))?;
        return Ok(Seen { took: first_again(&log)?, duplicates: 0.0 });
    }
    wire.run(&wire.left, "timeout", &[&["-s", "KILL", LIMIT][..], &send].concat())?;
    let said = receiver.wait()?;
    let said: Value =
        serde_json::from_str(said.trim()).map_err(|e| format!("the receiver said {said:?}: {e}"))?;
    let took: Option<Vec<f64>> =
        said["us"].as_array().map(|all| all.iter().filter_map(Value::as_f64).collect());
    let took = took.filter(|took| took.len() == flow.count as usize).ok_or("no times")?;
    let took = if row.is_sequence() {
        took.iter().sum::<f64>() / took.len() as f64
    } else {
        took.iter().copied().fold(0.0, f64::max)
    };
    Ok(Seen { took: took / 1e3, duplicates: duplicates(&wire)? - before })
}

/// Segments with nothing new that the right kernel has reported (RFC 2883).
fn duplicates(wire: &Wire) -> Result<f64, String> {
    let text = wire.run(&wire.right, "cat", &["/proc/net/netstat"])?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) = lines.next().zip(lines.next()).ok_or("no TcpExt in /proc/net/netstat")?;
    let all: BTreeMap<&str, &str> = names.split(' ').zip(values.split(' ')).collect();
    let of = |name: &str| all.get(name).and_then(|value| value.parse::<f64>().ok());
    of("TCPDSACKOldSent")
        .zip(of("TCPDSACKOfoSent"))
        .map(|(old, far)| old + far)
        .ok_or("no DSACK counters".into())
}

/// From the pipe's log: milliseconds from the first named loss to the first segment with data that had arrived before.
fn first_again(log: &str) -> Result<f64, String> {
    let mut lines = log.lines().skip_while(|line| line.starts_with('#'));
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let at = |name: &str| header.iter().position(|column| *column == name).ok_or(format!("no column {name}"));
    let [time, pipe, event, reason, seq, data] =
        ["time_us", "pipe", "event", "reason", "seq", "data"].map(at);
    let (time, pipe, event, reason, seq, data) = (time?, pipe?, event?, reason?, seq?, data?);
    let (mut end, mut lost): (Option<u32>, Option<f64>) = (None, None);
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        if cells[pipe] != "0" || cells[event] == "deq" || matches!(cells[data], "" | "0") {
            continue;
        }
        let number = |column: usize| cells[column].parse::<u32>().map_err(|e| format!("{line}: {e}"));
        let now: f64 = cells[time].parse().map_err(|e| format!("{line}: {e}"))?;
        let (begin, next) = (number(seq)?, number(seq)?.wrapping_add(number(data)?));
        let again = end.is_some_and(|end| (begin.wrapping_sub(end) as i32) < 0);
        if let Some(lost) = lost.filter(|_| again) {
            return Ok((now - lost) / 1e3);
        }
        end = if again { end } else { Some(next) };
        lost = lost.or((cells[reason] == "pls").then_some(now));
    }
    Err("nothing was sent again".into())
}

/// Runs the family and prints its table.
///
/// # Errors
/// The missing requirement, or the rows in which this stack is behind.
pub fn run(chosen: &Chosen) -> Result<(), String> {
    let (rows, ours) = (rows(&chosen.names)?, our_command()?);
    let dir = peers::Dir::new("ms-beside")?;
    let transfer = dir.c("transfer", &["-pthread"])?;
    table(chosen, &rows, &Tools { ours, transfer })
}

fn table(chosen: &Chosen, rows: &[Row], tools: &Tools) -> Result<(), String> {
    println!("| Path | Virtual, ms | Kernel, ms | Ours, ms | Ratio | Kernel, twice | Ours, twice | |");
    println!("|---|---:|---:|---:|---:|---:|---:|---|");
    let mut behind = Vec::new();
    for row in rows {
        let (mut virtual_, mut kernel, mut ours) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..row.pairs(chosen.rounds) {
            let seed = u64::from(round) + 1;
            virtual_.push(virtually(row, seed)?);
            if chosen.stop.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
            // Who begins changes from pair to pair.
            for our_sender in if round % 2 == 0 { [false, true] } else { [true, false] } {
                let seen =
                    really(tools, row, seed, our_sender).map_err(|e| format!("{}: {e}", row.name()))?;
                if our_sender { &mut ours } else { &mut kernel }.push(seen);
            }
        }
        let took = |all: &[Seen]| all.iter().map(|seen| seen.took).collect::<Vec<_>>();
        let twice = |all: &[Seen]| stats::median(&all.iter().map(|seen| seen.duplicates).collect::<Vec<_>>());
        let ratio = stats::ratio(&took(&ours), &took(&kernel));
        let holds =
            ratio <= 1.0 + MARGIN && twice(&ours) <= twice(&kernel) * (1.0 + MARGIN) + MARGIN_SEGMENTS;
        let [v, k, o] = [&virtual_, &kernel, &ours].map(|all| stats::median(&took(all)));
        let verdict = if holds { "holds" } else { "BEHIND" };
        println!(
            "| {} | {v:.1} | {k:.1} | {o:.1} | {ratio:.2} | {} | {} | {verdict} |",
            row.name(),
            twice(&kernel),
            twice(&ours)
        );
        if !holds {
            behind.push(row.name());
        }
    }
    if behind.is_empty() { Ok(()) } else { Err(format!("ours is behind in: {}", behind.join("; "))) }
}

#[cfg(test)]
mod tests;
