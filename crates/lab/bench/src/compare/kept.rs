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
mod tests {
    //! Goal: what was done is not done again, what was not is; order and other workloads stay.
    use super::super::{WORKLOADS, find};
    use super::*;

    const EFFORT: Effort = Effort { rounds: 5, seconds: 0.4 };

    fn entered(missing: &[&str]) -> Vec<Entered> {
        let one = |name: &&str| Entered {
            name: (*name).into(),
            version: Some("1".into()),
            missing: missing.contains(name).then(|| "apt-get".into()),
        };
        ["millstream", "paired", "kernel", "ideal"].iter().map(one).collect()
    }

    fn measured(workload: &Workload, nth: usize, value: f64) -> RanPoint {
        let entry = Entry { figures: [("per_s".into(), vec![value; 5])].into(), ..Entry::default() };
        let entries = workload.contenders.iter().map(|name| ((*name).to_string(), entry.clone()));
        RanPoint {
            label: workload.points[nth].label.into(),
            value: workload.points[nth].value,
            effort: EFFORT,
            began: "2026-11-22 11:00".into(),
            commit: "abc".into(),
            entries: entries.collect(),
        }
    }

    fn results(of: &[(&str, usize)]) -> Results {
        let mut results = Results { contenders: entered(&[]), ..Results::default() };
        for (nth, (name, point)) in of.iter().enumerate() {
            let workload = find(name).unwrap();
            results.put(WORKLOADS, workload, measured(workload, *point, nth as f64));
        }
        results
    }

    fn is_done(results: &Results, name: &str, nth: usize, effort: Effort) -> bool {
        let workload = find(name).unwrap();
        results.done(workload, &workload.points[nth], effort).is_some()
    }

    #[test]
    fn pieces_make_a_whole_in_the_tables_order() {
        let results = results(&[("accept", 1), ("sizes", 2), ("accept", 0), ("sizes", 0), ("accept", 1)]);
        let names: Vec<_> = results
            .workloads
            .iter()
            .flat_map(|ran| ran.points.iter().map(|point| (ran.name.as_str(), point.label.as_str())))
            .collect();
        assert_eq!(names, [("sizes", "64 B"), ("sizes", "1 KB"), ("accept", "64"), ("accept", "512")]);
        let newest = &results.workloads[1].points[1].entries["kernel"].figures["per_s"];
        assert_eq!(newest, &[4.0; 5], "the later one stands instead of the earlier");
    }

    #[test]
    fn what_was_done_with_less_is_done_again() {
        let results = results(&[("sizes", 0)]);
        assert!(is_done(&results, "sizes", 0, EFFORT));
        assert!(is_done(&results, "sizes", 0, Effort { rounds: 3, seconds: 0.2 }), "more than is wanted");
        assert!(!is_done(&results, "sizes", 0, Effort { rounds: 6, ..EFFORT }));
        assert!(!is_done(&results, "sizes", 0, Effort { seconds: 0.5, ..EFFORT }));
        assert!(!is_done(&results, "sizes", 1, EFFORT) && !is_done(&results, "accept", 0, EFFORT));
    }

    #[test]
    fn who_failed_or_came_later_is_measured() {
        let whole = |change: &dyn Fn(&mut Results)| {
            let mut results = results(&[("sizes", 0)]);
            change(&mut results);
            is_done(&results, "sizes", 0, EFFORT)
        };
        let kernel = |results: &mut Results, entry: Entry| {
            results.workloads[0].points[0].entries.insert("kernel".into(), entry);
        };
        let out = |why: &str| Entry { left_out: Some(why.into()), ..Entry::default() };
        assert!(whole(&|_| {}));
        assert!(!whole(&|results| kernel(
            results,
            Entry { failed: vec!["broke".into()], ..Entry::default() }
        )));
        assert!(whole(&|results| kernel(results, out("more than 1000 take it minutes"))));
        let late = format!("{NOT_INSTALLED}apt-get");
        assert!(!whole(&|results| kernel(results, out(&late))), "it is here now");
        assert!(whole(&|results| {
            kernel(results, out(&late));
            results.contenders = entered(&["kernel"]);
        }));
        let beside = |cores: f64| {
            let mut entry = results(&[("sizes", 0)]).workloads[0].points[0].entries["kernel"].clone();
            entry.figures.insert(OTHERS.into(), vec![0.0, cores, cores]);
            entry
        };
        assert!(whole(&|results| kernel(results, beside(0.1))));
        assert!(!whole(&|results| kernel(results, beside(0.9))), "another program was busy");
        assert!(!whole(&|results| drop(results.workloads[0].points[0].entries.remove("paired"))));
    }

    #[test]
    fn a_file_brings_it_back() {
        let path = std::env::temp_dir().join(format!("ms-kept-{}.json", std::process::id()));
        assert!(Results::read(&path).unwrap().workloads.is_empty(), "no file is no result yet");
        results(&[("sizes", 1), ("accept", 0)]).write(&path).unwrap();
        let back = Results::read(&path).unwrap();
        std::fs::write(&path, "{}").unwrap();
        let odd = Results::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert!(is_done(&back, "sizes", 1, EFFORT) && is_done(&back, "accept", 0, EFFORT));
        assert!(odd.is_err());
    }
}
