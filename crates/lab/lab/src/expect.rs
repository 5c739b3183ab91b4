//! Recorded results of an experiment, to be compared with present ones.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use crate::experiment::Experiment;
use crate::run::Outcome;
use crate::spec::{Point, SpecError};
use crate::stats::Estimate;
use crate::store::Store;
use crate::verdict::{describe, estimate};

/// Less than this part of a mean is no difference, however alike the seeds were.
const PART_MIN: f64 = 0.01;
/// Tolerated share where one seed cannot tell how much they vary.
const PART_ALONE: f64 = 0.05;

/// A file that says what an experiment brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The experiment's name.
    pub experiment: String,
    /// [`Experiment::basis`] when it was recorded.
    pub basis: String,
    /// Seeds of each combination, from 1 on.
    pub seeds: u64,
    #[serde(rename = "point")]
    points: Vec<Expected>,
}

/// A combination of parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    at: Point,
    /// [`Outcome::digest`] of each seed.
    digests: Vec<String>,
    /// Mean and tolerance of each measure. Two means of as many seeds each differ by less than the tolerance in 95 of
    /// 100 cases if nothing changed but chance.
    measures: BTreeMap<String, [f64; 2]>,
}

/// A measure that is not what it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moved {
    /// For which parameters.
    pub at: String,
    /// Which.
    pub measure: String,
    /// Mean when recorded; absent if the measure is new.
    pub was: Option<f64>,
    /// Mean now; absent if there is none any more.
    pub now: Option<f64>,
    /// How far it may move.
    pub tolerance: f64,
    /// Is that within what may be?
    pub within: bool,
}

impl std::fmt::Display for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Moved { at, measure, was, now, tolerance, .. } = self;
        let place = if at.is_empty() { String::new() } else { format!(" [{at}]") };
        match (was, now) {
            (Some(was), Some(now)) => {
                let (by, part) = (now - was, (now - was) * 100.0 / was.abs());
                write!(f, "{measure}{place}: {was:.5} -> {now:.5}, {by:+.5} ({part:+.2} %)")?;
                write!(f, ", may be {tolerance:.5}")
            }
            (Some(was), None) => write!(f, "{measure}{place}: was {was:.5}, is measured no more"),
            (None, Some(now)) => write!(f, "{measure}{place}: {now:.5}, was not measured"),
            (None, None) => write!(f, "{measure}{place}: never measured"),
        }
    }
}

/// Result of comparing an expectation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Runs that were compared.
    pub runs: usize,
    /// Those that are not the recorded bytes, by parameters and seed.
    pub changed: Vec<(String, u64)>,
    /// Measures whose means moved.
    pub moved: Vec<Moved>,
}

impl Comparison {
    /// Is everything within its tolerance, or to the last bit if `exact`?
    pub fn holds(&self, exact: bool) -> bool {
        (!exact || self.changed.is_empty()) && self.moved.iter().all(|moved| moved.within)
    }
}

impl Expectation {
    /// Of everything that `store` holds of `experiment` up to seed `seeds`.
    ///
    /// # Errors
    /// A run is missing or has failed.
    pub fn record(experiment: &Experiment, store: &Store, seeds: u64) -> Result<Expectation, SpecError> {
        let mut points = Vec::new();
        for point in experiment.shown_points() {
            let digests = (1..=seeds).map(|seed| {
                let digest = store.digest(&point, seed).map(str::to_owned);
                digest.ok_or_else(|| missing(experiment, &point, seed))
            });
            let digests = digests.collect::<Result<_, _>>()?;
            let rows = measured(store.outcomes(), &point, seeds).into_iter();
            let measures = rows.map(|(name, seen)| (name, [seen.mean, tolerance(&seen)])).collect();
            points.push(Expected { at: point, digests, measures });
        }
        let basis = experiment.basis();
        Ok(Expectation { experiment: experiment.name.clone(), basis, seeds, points })
    }

    /// Reads what [`Expectation::text`] wrote.
    ///
    /// # Errors
    /// The fault, and its place.
    pub fn parse(text: &str) -> Result<Expectation, SpecError> {
        toml::from_str(text).map_err(|error| SpecError(format!("expectation: {error}")))
    }

    /// As TOML.
    pub fn text(&self) -> String {
        let about = "# What the experiment brought when it was recorded (`millstream lab record`): digests of each \
                     seed's run, and\n# mean and tolerance of each measure.\n";
        format!("{about}{}", toml::to_string(self).expect("texts and numbers"))
    }

    /// Returns the results that moved since, if `store` holds the same runs of `experiment`.
    ///
    /// # Errors
    /// The experiment is another one now, or a run is missing or has failed.
    pub fn compare(&self, experiment: &Experiment, store: &Store) -> Result<Comparison, SpecError> {
        let here: BTreeSet<Point> = experiment.shown_points().into_iter().collect();
        let there: BTreeSet<Point> = self.points.iter().map(|expected| expected.at.clone()).collect();
        if (&self.experiment, &self.basis) != (&experiment.name, &experiment.basis()) || here != there {
            let (name, seeds) = (&experiment.name, self.seeds);
            return Err(SpecError(format!(
                "{name}: its file has changed since the expectation was recorded; `millstream lab record {name} \
                 --seeds {seeds} --to FOLDER` records it again"
            )));
        }
        let mut seen = Comparison::default();
        for Expected { at, digests, measures } in &self.points {
            for (seed, was) in (1..).zip(digests) {
                let now = store.digest(at, seed).ok_or_else(|| missing(experiment, at, seed))?;
                seen.runs += 1;
                if now != was {
                    seen.changed.push((describe(at), seed));
                }
            }
            let now = measured(store.outcomes(), at, self.seeds);
            let names: BTreeSet<&String> = measures.keys().chain(now.keys()).collect();
            seen.moved.extend(names.into_iter().filter_map(|name| moved(at, name, measures, &now)));
        }
        Ok(seen)
    }
}

fn missing(experiment: &Experiment, point: &Point, seed: u64) -> SpecError {
    SpecError(format!("{}: no run of seed {seed} at {}", experiment.name, describe(point)))
}

/// All measures of a combination's first seeds.
fn measured(outcomes: &[Outcome], point: &Point, seeds: u64) -> BTreeMap<String, Estimate> {
    let here: Vec<&Outcome> =
        outcomes.iter().filter(|outcome| outcome.point == *point && outcome.seed <= seeds).collect();
    let names: BTreeSet<&String> = here.iter().flat_map(|outcome| outcome.measures.keys()).collect();
    let row = |name: &String| Some((name.clone(), estimate(here.iter().copied(), name)?));
    names.into_iter().filter_map(row).collect()
}

/// How far a mean may be from another of as many seeds: each has its error, so their difference has the root of two
/// times one's.
fn tolerance(seen: &Estimate) -> f64 {
    let part = if seen.count > 1 { PART_MIN } else { PART_ALONE };
    (seen.half * std::f64::consts::SQRT_2).max(seen.mean.abs() * part)
}

fn moved(
    at: &Point,
    name: &str,
    was: &BTreeMap<String, [f64; 2]>,
    now: &BTreeMap<String, Estimate>,
) -> Option<Moved> {
    let (was, now) = (was.get(name), now.get(name).map(|seen| seen.mean));
    let tolerance = was.map_or(0.0, |[_, tolerance]| *tolerance);
    let was = was.map(|[mean, _]| *mean);
    let within = match (was, now) {
        (Some(was), Some(now)) if was == now => return None,
        (Some(was), Some(now)) => (now - was).abs() <= tolerance,
        // Nothing was promised about what is measured since.
        (None, _) => true,
        (Some(_), None) => false,
    };
    Some(Moved { at: describe(at), measure: name.into(), was, now, tolerance, within })
}

#[cfg(test)]
mod tests;
