//! Programs that showed a fault which is mended. They run before the seeds, and show no difference at all.

use super::Machine;
use super::compare::{Verdict, compare};
use super::step::Step;

/// Programs: a line that begins with `#` and tells of the fault, then the steps, a line each, as a finding lists them.
const KEPT: &str = include_str!("kept.txt");
/// Runs of which one without a difference is enough: a result may depend on time.
const RUNS: usize = 3;

/// Returns the programs, each with the line that tells of its fault.
fn programs() -> Result<Vec<(&'static str, Vec<Step>)>, String> {
    let mut all: Vec<(&str, Vec<Step>)> = Vec::new();
    for line in KEPT.lines().filter(|line| !line.is_empty()) {
        if let Some(fault) = line.strip_prefix("# ") {
            all.push((fault, Vec::new()));
            continue;
        }
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let args: Result<_, _> = words.map(str::parse).collect();
        let args = args.map_err(|e| format!("kept.txt: {line}: {e}"))?;
        let (_, steps) = all.last_mut().ok_or("kept.txt begins with a line that tells of a fault")?;
        steps.push(Step { name, args });
    }
    Ok(all)
}

/// Runs the programs.
///
/// # Errors
/// One shows a difference, or cannot be run.
pub(super) fn check(machine: &mut Machine) -> Result<(), String> {
    let mut differ = Vec::new();
    for (fault, steps) in programs()? {
        let mut last = None;
        for _ in 0..RUNS {
            let (kernel, stack) = machine.run(&steps)?;
            last = match compare(&steps, &kernel, &stack) {
                Verdict::Explained(rows) if rows.is_empty() => None,
                Verdict::Explained(rows) => Some(format!("explained by {rows:?}")),
                Verdict::Found(found) => Some(found.key),
            };
            if last.is_none() {
                break;
            }
        }
        differ.extend(last.map(|how| format!("\n  {fault}\n    {how}")));
    }
    match differ.is_empty() {
        true => Ok(()),
        false => Err(format!("programs of kept.txt differ:{}", differ.concat())),
    }
}

#[test]
fn the_kept_programs_are_read() {
    let all = programs().expect("programs");
    assert!(all.len() > 3 && all.iter().all(|(_, steps)| !steps.is_empty()));
}
