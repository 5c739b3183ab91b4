//! Instruction budgets of the hot paths: `budgets.toml` has a row for each, with the reason of its last change.
//!
//! Callgrind counts them again; every run does the same work (time goes by steps, seeds are given), so a figure that
//! moved is a change of the code or of the compiler.

mod file;

use crate::count::{counted, counted_elsewhere};
use crate::flow;
use file::{Budget, Budgets};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Share by which a figure may grow without a line in the file.
const TOLERANCE: f64 = 0.03;
/// Share by which two counts of the same path may differ.
const SAME: f64 = 1e-4;

/// A hot path: `exactly words few` and `exactly words many`, whose difference is counted.
struct Path {
    name: &'static str,
    words: [&'static str; 2],
    few: u64,
    many: u64,
    /// Only this part of a bulk flow, of [`flow::PARTS`].
    part: Option<usize>,
}

impl Path {
    const fn both(name: &'static str, words: [&'static str; 2], few: u64, many: u64) -> Path {
        Path { name, words, few, many, part: None }
    }

    const fn part(name: &'static str, load: &'static str, few: u64, many: u64, part: usize) -> Path {
        Path { name, words: [load, "0"], few, many, part: Some(part) }
    }

    /// Instructions for one more.
    fn instructions(&self) -> Result<f64, String> {
        let function = self.part.map(|part| flow::PARTS[part].1);
        self.each(|count| counted(&self.words, count, function))
    }

    /// Counts again in another environment: all of the process, so for paths of both ends only.
    fn elsewhere(&self) -> Result<f64, String> {
        self.each(|count| counted_elsewhere(&self.words, count))
    }

    fn each(&self, run: impl Fn(u64) -> Result<(f64, f64), String>) -> Result<f64, String> {
        let ((few, done_few), (many, done_many)) = (run(self.few)?, run(self.many)?);
        Ok((many - few) / (done_many - done_few))
    }
}

/// Every hot path with a budget: for both ends together where it does not name one.
const PATHS: [Path; 12] = [
    Path::both("short connection, 1 in flight", ["short", "1"], 2_000, 4_000),
    Path::both("short connection, 1,000 in flight", ["short", "1000"], 3_000, 6_000),
    Path::both("keep-alive request, 1 connection", ["keep", "1"], 4_000, 12_000),
    Path::both("keep-alive request, 1 connection, tapped, cut late", ["keep-late", "1"], 4_000, 12_000),
    Path::both("keep-alive request, 1,000 connections", ["keep", "1000"], 4_000, 10_000),
    Path::part("bulk segment, MTU 1500, sender", "bulk", 4_000, 12_000, 0),
    Path::part("bulk segment, MTU 1500, receiver", "bulk", 4_000, 12_000, 1),
    Path::part("bulk segment cut late, MTU 1500, sender", "late", 4_000, 12_000, 0),
    Path::part("bulk super-segment, sender", "super", 500, 1_500, 0),
    Path::part("bulk super-segment, receiver", "super", 500, 1_500, 1),
    IDLE,
    Path::both("idle timer tick, 1,000 connections", ["idle", "1000"], 10_000, 30_000),
];

const IDLE: Path = Path::both("idle timer tick, no connection", ["idle", "0"], 10_000, 30_000);

/// A path and what became of it.
struct Moved<'b> {
    name: &'static str,
    budget: Option<&'b Budget>,
    seen: f64,
}

impl Moved<'_> {
    /// Returns the growth as a share of the budget.
    fn growth(&self) -> f64 {
        self.budget.map_or(f64::INFINITY, |budget| self.seen / budget.instructions - 1.0)
    }

    fn word(&self) -> &'static str {
        match self.growth() {
            _ if self.budget.is_none() => "NO FIGURE",
            g if g > TOLERANCE => "GROWN",
            g if g < -TOLERANCE => "less: write it down",
            _ => "",
        }
    }

    /// A line of the table.
    fn line(&self) -> String {
        let was = self.budget.map_or_else(|| "-".into(), |budget| format!("{:.0}", budget.instructions));
        let growth =
            if self.budget.is_some() { format!("{:+.2} %", self.growth() * 100.0) } else { "-".into() };
        format!("{:<38} {was:>9} {:>9.0} {growth:>10}  {}", self.name, self.seen, self.word())
    }
}

/// The `budgets` benchmark: every path is counted and compared with the file.
///
/// # Errors
/// A path grew beyond its budget, or has none; valgrind is missing.
pub fn run() -> Result<Value, String> {
    let budgets = Budgets::read()?;
    let moved = count(&budgets)?;
    steady(&moved)?;
    let stale = budgets.rows.iter().find(|row| PATHS.iter().all(|path| path.name != row.name));
    if let Some(row) = stale {
        return Err(format!("budgets.toml has a row \"{}\", which nothing counts any more", row.name));
    }
    let over: Vec<_> = moved.iter().filter(|moved| moved.growth() > TOLERANCE).collect();
    let here = file::tools()?;
    if over.is_empty() {
        let rows: Vec<_> = moved
            .iter()
            .map(|m| json!({"path": m.name, "instructions": m.seen, "growth": m.growth()}))
            .collect();
        return Ok(json!({"bench": "budgets", "tools": here, "rows": rows}));
    }
    let mut why = format!("{} of {} hot paths cost more than their budget:\n", over.len(), moved.len());
    for moved in over {
        let _ = writeln!(why, "  {}", moved.line());
        if let Some(budget) = moved.budget {
            let _ = writeln!(why, "    last changed {}: {}", budget.changed, budget.reason);
        }
    }
    if here != budgets.tools {
        let _ = writeln!(why, "counted here with {here}, the file with {}", budgets.tools);
    }
    why += "repair it, or, if it is worth its price, say why: cargo xtask bench budgets --bless \"REASON\"";
    Err(why)
}

/// Writes figures that moved, and those that are new, into the file.
///
/// # Errors
/// They cannot be counted or written.
pub fn bless(reason: &str) -> Result<Value, String> {
    if reason.trim().is_empty() {
        return Err("--bless wants a reason, for those who read the file".into());
    }
    let old = Budgets::read()?;
    let today = file::today()?;
    let moved = count(&old)?;
    steady(&moved)?;
    let rows = moved.iter().map(|moved| match moved.budget {
        Some(budget) if moved.word().is_empty() => budget.clone(),
        _ => Budget {
            name: moved.name.into(),
            instructions: moved.seen.round(),
            changed: today.clone(),
            reason: reason.trim().into(),
        },
    });
    let new = Budgets { tools: file::tools()?, rows: rows.collect() };
    new.write()?;
    Ok(json!({"bench": "budgets", "written": new.rows.len()}))
}

/// Counts every path, with a line for each as it is done.
fn count(budgets: &Budgets) -> Result<Vec<Moved<'_>>, String> {
    eprintln!("{:<38} {:>9} {:>9} {:>10}", "instructions", "budget", "counted", "");
    let one = |path: &Path| {
        let budget = budgets.rows.iter().find(|row| row.name == path.name);
        let moved = Moved { name: path.name, budget, seen: path.instructions()? };
        eprintln!("{}", moved.line());
        Ok(moved)
    };
    PATHS.iter().map(one).collect()
}

/// Two paths count the same once more, with another environment and without randomised addresses: else no figure of
/// this program could be a budget. (What is not of the paths, as reading the environment, is not in the figures.)
fn steady(moved: &[Moved<'_>]) -> Result<(), String> {
    for path in [&PATHS[0], &IDLE] {
        let first = moved.iter().find(|moved| moved.name == path.name).map_or(0.0, |moved| moved.seen);
        let again = path.elsewhere()?;
        if (first / again - 1.0).abs() > SAME {
            return Err(format!("{}: {first:.3} instructions, and {again:.3} elsewhere", path.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
