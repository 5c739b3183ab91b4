//! Results, kept in a file from one run to the next: a run of all workloads can be made in pieces, and goes
//! on where it was interrupted.

use super::figure::OTHERS;
use super::run::DISTURBED;
use super::{Point, Workload};
use lab::stats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Everything that was measured.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Results {
    /// Where, and with what.
    pub(super) machine: BTreeMap<String, String>,
    pub(super) contenders: Vec<Entered>,
    pub(super) workloads: Vec<Ran>,
}

/// A contender, present or not.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Entered {
    pub(super) name: String,
    pub(super) version: Option<String>,
    /// How it can be had.
    pub(super) missing: Option<String>,
}

/// A workload of which something was run.
#[derive(Serialize, Deserialize)]
pub(super) struct Ran {
    pub(super) name: String,
    /// In the table's order.
    pub(super) points: Vec<RanPoint>,
}

/// A point that was run.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct RanPoint {
    pub(super) label: String,
    pub(super) value: f64,
    /// How.
    pub(super) effort: Effort,
    /// When it began, UTC.
    pub(super) began: String,
    /// Commit that was measured.
    pub(super) commit: String,
    /// By contender.
    pub(super) entries: BTreeMap<String, Entry>,
}

/// How often and how long each contender is measured at a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Effort {
    pub(super) rounds: u32,
    pub(super) seconds: f64,
}

/// Result of a contender at a point.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Entry {
    /// By figure, a value for each round.
    pub(super) figures: BTreeMap<String, Vec<f64>>,
    /// Errors of the rounds that failed.
    pub(super) failed: Vec<String>,
    /// Why it takes no part here.
    pub(super) left_out: Option<String>,
}

impl Results {
    /// Reads the results of a file; none if it does not exist.
    ///
    /// # Errors
    /// It cannot be read, or holds something else.
    pub(super) fn read(from: &Path) -> Result<Results, String> {
        match std::fs::read_to_string(from) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Results::default()),
            Err(e) => Err(format!("{}: {e}", from.display())),
            Ok(text) => serde_json::from_str(&text).map_err(|e| {
                format!("{}: {e}; it is no result of --all: remove it or name another", from.display())
            }),
        }
    }

    /// Writes all of it, at once: whatever ends this in between finds what was there before.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, to: &Path) -> Result<(), String> {
        let text = serde_json::to_string(self).map_err(|e| e.to_string())?;
        let fresh = to.with_extension("fresh");
        let written = std::fs::write(&fresh, text + "\n").and_then(|()| std::fs::rename(&fresh, to));
        written.map_err(|e| format!("{}: {e}", to.display()))
    }

    /// The point, if it was measured with at least this effort, by every installed contender of the workload, and
    /// nothing failed or was disturbed.
    pub(super) fn done(&self, workload: &Workload, point: &Point, effort: Effort) -> Option<&RanPoint> {
        let ran = self.workloads.iter().find(|ran| ran.name == workload.name)?;
        let kept = ran.points.iter().find(|kept| kept.label == point.label)?;
        let enough = kept.effort.rounds >= effort.rounds && kept.effort.seconds >= effort.seconds;
        let whole = workload.contenders.iter().all(|name| {
            kept.entries.get(*name).is_some_and(|entry| entry.is_whole() || !self.is_present(name))
        });
        (enough && whole).then_some(kept)
    }

    fn is_present(&self, name: &str) -> bool {
        self.contenders.iter().any(|entered| entered.name == name && entered.missing.is_none())
    }

    /// Takes a point of a workload in, instead of what was there of it. What the table no longer has goes.
    pub(super) fn put(&mut self, table: &[Workload], workload: &Workload, point: RanPoint) {
        let nth = self.workloads.iter().position(|ran| ran.name == workload.name).unwrap_or_else(|| {
            self.workloads.push(Ran { name: workload.name.into(), points: Vec::new() });
            self.workloads.len() - 1
        });
        let points = &mut self.workloads[nth].points;
        points.retain(|old| old.label != point.label);
        points.push(point);
        let place = |label: &str| workload.points.iter().position(|point| point.label == label);
        points.retain(|point| place(&point.label).is_some());
        points.sort_by_key(|point| place(&point.label));
        let row = |name: &str| table.iter().position(|row| row.name == name);
        self.workloads.retain(|ran| row(&ran.name).is_some());
        self.workloads.sort_by_key(|ran| row(&ran.name));
    }
}

impl Entry {
    /// Every round gave figures, or there is a reason why none does that will not go away.
    fn is_whole(&self) -> bool {
        let takes_no_part = self.left_out.as_ref().is_some_and(|why| !why.starts_with(NOT_INSTALLED));
        let measured = self.failed.is_empty() && !self.figures.is_empty();
        let undisturbed = self.others().is_none_or(|cores| cores < DISTURBED);
        takes_no_part || (self.left_out.is_none() && measured && undisturbed)
    }

    /// Cores that others kept busy meanwhile, if that is known.
    pub(super) fn others(&self) -> Option<f64> {
        self.figures.get(OTHERS).map(|cores| stats::median(cores))
    }
}

/// Why a contender takes no part until it is installed.
pub(super) const NOT_INSTALLED: &str = "not installed: ";

#[cfg(test)]
mod tests;
