//! Verdicts on the expected results of an experiment.

use serde::Serialize;
use std::collections::BTreeSet;

use crate::experiment::Experiment;
use crate::measure::with_unit;
use crate::run::Outcome;
use crate::spec::{Check, Falls, Order, Point, Range, Ratio, Theory, Want, show, shown};
use crate::stats::Estimate;

/// Whether an expectation holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Expected value.
    pub expected: String,
    /// For which parameters.
    pub at: String,
    /// Observed value.
    pub seen: String,
    /// Number of runs that it is of.
    pub runs: usize,
    /// Does it hold?
    pub holds: bool,
    /// Reason that it does not hold; empty if it does.
    pub why: String,
}

/// Observed value of a check, and the reason that it does not hold.
struct Judged {
    seen: String,
    why: Option<String>,
}

impl Experiment {
    /// Whether `outcomes` are what its checks expect.
    pub fn judge(&self, outcomes: &[Outcome]) -> Vec<Verdict> {
        self.spec().checks.iter().flat_map(|check| check.judge(self, outcomes)).collect()
    }
}

impl Check {
    /// Its verdicts over `outcomes`, one for each combination of the parameters it leaves open.
    pub fn judge(&self, experiment: &Experiment, outcomes: &[Outcome]) -> Vec<Verdict> {
        let only = shown(self.only.clone());
        let fits = |outcome: &&Outcome| only.iter().all(|(by, value)| outcome.point.get(by) == Some(value));
        let outcomes: Vec<&Outcome> = outcomes.iter().filter(fits).collect();
        let by = self.want.by();
        let rest = |outcome: &&Outcome| {
            let mut point = outcome.point.clone();
            by.map(|by| point.remove(by));
            point
        };
        let cells: BTreeSet<Point> = outcomes.iter().map(rest).collect();
        let judged = cells.into_iter().map(|cell| {
            let inside: Vec<&Outcome> =
                outcomes.iter().copied().filter(|outcome| rest(outcome) == cell).collect();
            let Judged { seen, why } = self.compare(experiment, &cell, &inside);
            self.verdict(&cell, seen, inside.len(), why)
        });
        let judged: Vec<Verdict> = judged.collect();
        if judged.is_empty() {
            let why = "no run ended with these parameters".into();
            return vec![self.verdict(&only, "no run at all".into(), 0, Some(why))];
        }
        judged
    }

    fn verdict(&self, at: &Point, seen: String, runs: usize, why: Option<String>) -> Verdict {
        let holds = why.is_none();
        Verdict {
            expected: self.to_string(),
            at: describe(at),
            seen,
            runs,
            holds,
            why: why.unwrap_or_default(),
        }
    }

    fn compare(&self, experiment: &Experiment, cell: &Point, outcomes: &[&Outcome]) -> Judged {
        let at = |by: &str, value: &toml::Value| {
            let value = show(value);
            let here = outcomes.iter().filter(|outcome| outcome.point.get(by) == Some(&value));
            (value.clone(), estimate(here.copied(), &self.measure))
        };
        let nothing = || Judged {
            seen: "no value".into(),
            why: Some(format!("no run here has the measure {}", self.measure)),
        };
        match &self.want {
            Want::Range(Range { min, max }) => {
                let Some(seen) = estimate(outcomes.iter().copied(), &self.measure) else { return nothing() };
                Judged { seen: figure(&seen), why: beyond(&seen, *min, *max) }
            }
            Want::Order(Order { by, ascending, means }) => {
                let rows: Vec<_> = ascending.iter().map(|value| at(by, value)).collect();
                let why = rows.windows(2).find_map(|pair| not_ascending(&pair[0], &pair[1], *means));
                Judged { seen: list(&rows), why }
            }
            Want::Ratio(Ratio { by, of, to, min, max }) => {
                let rows = [at(by, of), at(by, to)];
                let (Some(above), Some(below)) = (rows[0].1, rows[1].1) else { return nothing() };
                let ratio = above.mean / below.mean;
                let why = (!(*min..=*max).contains(&ratio)).then(|| {
                    let [of, to] = [of, to].map(show);
                    format!("the mean at {of} is {ratio:.3} times that at {to}, not {min} to {max} times")
                });
                Judged { seen: format!("{ratio:.3} ({})", list(&rows)), why }
            }
            Want::Falls(Falls { by, slack }) => {
                let rows: Vec<_> = experiment.spec().vary[by].iter().map(|value| at(by, value)).collect();
                let why = rows.windows(2).find_map(|pair| rises(&pair[0], &pair[1], *slack));
                Judged { seen: list(&rows), why }
            }
            Want::Theory(theory) => {
                let Some(seen) = estimate(outcomes.iter().copied(), &self.measure) else { return nothing() };
                let Ok(is) = experiment.value(&theory.formula, cell) else {
                    let why = format!("the formula {} has no value here", theory.formula);
                    return Judged { seen: figure(&seen), why: Some(why) };
                };
                let why = beyond(&seen, is * (1.0 - theory.within), is * (1.0 + theory.within));
                Judged { seen: format!("{} of {is:.4}: {:.3}", figure(&seen), seen.mean / is), why }
            }
        }
    }
}

/// Returns how the 95 % interval of `seen` leaves `min` to `max`.
fn beyond(seen: &Estimate, min: f64, max: f64) -> Option<String> {
    let (low, high) = seen.interval();
    // A value that is no number is beyond, too.
    if low >= min && high <= max {
        return None;
    }
    let repeats = match seen.count {
        1 => "the value",
        _ => "the 95 % interval of the mean",
    };
    let advice = if seen.mean >= min && seen.mean <= max && seen.count > 1 {
        "; the mean is inside, so more runs (--seeds) may narrow the interval"
    } else {
        ""
    };
    Some(format!("{repeats} is {low:.4} to {high:.4}, expected {} to {}{advice}", short(min), short(max)))
}

/// A number with at most four places.
fn short(number: f64) -> String {
    let text = format!("{number:.4}");
    if number.abs() < 1e-3 {
        number.to_string()
    } else {
        text.trim_end_matches('0').trim_end_matches('.').into()
    }
}

/// A value of a parameter, and the mean there.
type Value = (String, Option<Estimate>);

/// Returns why `low` is not below `high`: as means, or with their intervals.
fn not_ascending(low: &Value, high: &Value, means: bool) -> Option<String> {
    let ((of, Some(a)), (to, Some(b))) = (low, high) else { return Some(lacks(low, high)) };
    let apart = if means { a.mean < b.mean } else { a.interval().1 < b.interval().0 };
    let overlap = !means && a.mean < b.mean;
    match (apart, overlap) {
        (true, _) => None,
        (false, true) => Some(format!(
            "the 95 % intervals at {of} and {to} meet: the first ends at {:.4}, the second begins at {:.4}; more runs \
             (--seeds) may part them",
            a.interval().1,
            b.interval().0
        )),
        (false, false) => {
            Some(format!("the mean at {of}, {:.4}, is not below that at {to}, {:.4}", a.mean, b.mean))
        }
    }
}

/// Returns why `after` is above `before` by more than `slack`.
fn rises(before: &Value, after: &Value, slack: f64) -> Option<String> {
    let ((of, Some(a)), (to, Some(b))) = (before, after) else { return Some(lacks(before, after)) };
    let risen = b.mean - a.mean;
    // A rise that is no number is too far, too.
    if risen <= slack {
        return None;
    }
    Some(format!("from {of} to {to} the mean rises by {risen:.4}; it may by {slack}"))
}

fn lacks(one: &Value, other: &Value) -> String {
    let missing = if one.1.is_none() { one } else { other };
    format!("no run at {} has the measure", missing.0)
}

impl Want {
    fn by(&self) -> Option<&str> {
        match self {
            Want::Range(_) | Want::Theory(_) => None,
            Want::Order(Order { by, .. }) | Want::Ratio(Ratio { by, .. }) | Want::Falls(Falls { by, .. }) => {
                Some(by)
            }
        }
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let measure = with_unit(&self.measure);
        match &self.want {
            Want::Range(Range { min, max }) => write!(f, "{measure} within {min} .. {max}"),
            Want::Order(Order { by, ascending, means }) => {
                let what = if *means { " on average" } else { "" };
                let values: Vec<String> = ascending.iter().map(show).collect();
                write!(f, "{measure}{what} by {by}: {}", values.join(" < "))
            }
            Want::Ratio(Ratio { by, of, to, min, max }) => {
                let (of, to) = (show(of), show(to));
                write!(f, "{measure} by {by}: {of} / {to} within {min} .. {max}")
            }
            Want::Falls(Falls { by, slack }) => write!(f, "{measure} falls along {by}, within {slack}"),
            Want::Theory(Theory { formula, within }) => {
                write!(f, "{measure} within {} % of {formula}", within * 100.0)
            }
        }
    }
}

/// Mean and interval of a measure over runs; `None` where no run has it.
pub(crate) fn estimate<'a>(outcomes: impl Iterator<Item = &'a Outcome>, measure: &str) -> Option<Estimate> {
    let values: Vec<f64> = outcomes.filter_map(|outcome| outcome.measures.get(measure).copied()).collect();
    Estimate::of(&values)
}

fn figure(estimate: &Estimate) -> String {
    format!("{:.4} ± {:.4}", estimate.mean, estimate.half)
}

fn list(rows: &[Value]) -> String {
    let row = |(value, seen): &Value| format!("{value}: {}", seen.as_ref().map_or("no value".into(), figure));
    rows.iter().map(row).collect::<Vec<_>>().join(", ")
}

/// A combination of parameters as people read it.
pub(crate) fn describe(point: &Point) -> String {
    point.iter().map(|(by, value)| format!("{by} = {value}")).collect::<Vec<_>>().join(", ")
}
