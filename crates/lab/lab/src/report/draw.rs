//! Data of plots, as the page's script reads it.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::{Chapter, data};
use crate::measure::with_unit;
use crate::run::{Outcome, Series};
use crate::spec::{Plot, Point};
use crate::verdict::{describe, estimate};

/// Points of a line on the page; the shape survives, since the extremes of each stretch are kept.
const POINTS_MAX: usize = 1500;
/// Lines of a plot; nothing tells more apart, and a page must stay one that opens.
const LINES_MAX: usize = 32;

/// A plot as the page's script reads it.
#[derive(Default, Serialize)]
pub struct Drawing {
    /// The title.
    pub title: String,
    /// The quantity along, with its unit.
    pub x: String,
    /// The quantity up, with its unit.
    pub y: String,
    /// Names that stand along instead of numbers, of which a line's x is the place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
    /// The lines.
    pub lines: Vec<Line>,
    /// Lines that were too many.
    #[serde(skip)]
    pub left_out: usize,
}

/// A line of a plot.
#[derive(Serialize)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// x, y, and half of the confidence interval where there is one; where it has unequal halves, the lower and the
    /// upper.
    pub points: Vec<Vec<f64>>,
}

impl Drawing {
    /// Returns its box in a page.
    pub fn html(&self) -> String {
        format!("<div class=\"plot\">{}</div>", data(self))
    }

    /// Was nothing seen of what is to be shown?
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// One line more, if there is room for it.
    fn push(&mut self, line: impl FnOnce() -> Line) {
        if self.lines.len() < LINES_MAX { self.lines.push(line()) } else { self.left_out += 1 }
    }
}

impl Chapter<'_> {
    /// Returns the data of each plot of the experiment.
    pub(super) fn drawings(&self) -> io::Result<Vec<Drawing>> {
        let plots = &self.experiment.spec().plots;
        let mut drawings: Vec<Drawing> = plots.iter().map(|plot| self.draw(plot)).collect();
        let courses: Vec<(usize, &Plot, &str)> = plots
            .iter()
            .enumerate()
            .filter_map(|(nth, plot)| Some((nth, plot, plot.show.strip_prefix("series ")?)))
            .collect();
        if courses.is_empty() {
            return Ok(drawings);
        }
        // Each run's courses are read once, for all plots.
        for (point, outcome) in self.firsts() {
            let seen = self.courses(outcome)?;
            for (nth, plot, what) in &courses {
                let Some(course) = seen.get(*what) else { continue };
                drawings[*nth].push(|| Line { name: label(point, what), points: drawn(plot, course) });
            }
        }
        Ok(drawings)
    }

    /// A plot but for courses over time.
    fn draw(&self, plot: &Plot) -> Drawing {
        let (kind, what) = plot.show.split_once(' ').unwrap_or((&plot.show, ""));
        let (title, x, y) = (plot.title.clone(), with_unit(&plot.x), with_unit(what));
        let mut drawing = Drawing { title, x, y, ..Drawing::default() };
        match kind {
            "series" => drawing.x = "time (s)".into(),
            "cdf" => {
                (drawing.x, drawing.y) = (with_unit(what), "part of all (ratio)".into());
                self.distributions().into_iter().for_each(|line| drawing.push(|| line));
            }
            _ => {
                let mut lines = Vec::new();
                drawing.categories = self.measures_over(plot, what, &mut lines);
                lines.into_iter().for_each(|line| drawing.push(|| line));
            }
        }
        drawing
    }

    /// The run of the first seed of each combination.
    fn firsts(&self) -> BTreeMap<&Point, &Outcome> {
        let mut firsts: BTreeMap<&Point, &Outcome> = BTreeMap::new();
        for outcome in self.outcomes {
            let first = firsts.entry(&outcome.point).or_insert(outcome);
            if outcome.seed < first.seed {
                *first = outcome;
            }
        }
        firsts
    }

    /// The distribution for each combination: quantiles, each on average over the seeds.
    fn distributions(&self) -> Vec<Line> {
        let mut groups: BTreeMap<&Point, Vec<&Vec<f64>>> = BTreeMap::new();
        for outcome in self.outcomes.iter().filter(|outcome| !outcome.delays.is_empty()) {
            groups.entry(&outcome.point).or_default().push(&outcome.delays);
        }
        let line = |(point, runs): (&Point, Vec<&Vec<f64>>)| {
            let steps = runs.iter().map(|run| run.len()).min().unwrap_or(0);
            let mean = |nth: usize| runs.iter().map(|run| run[nth]).sum::<f64>() / runs.len() as f64;
            let at = |nth: usize| vec![mean(nth), nth as f64 / steps.saturating_sub(1).max(1) as f64];
            Line { name: label(point, "all"), points: (0..steps).map(at).collect() }
        };
        groups.into_iter().map(line).collect()
    }

    /// A measure along a parameter, a line for each combination of the others, and what theory says beside them; the
    /// parameter's values where they are no numbers.
    fn measures_over(&self, plot: &Plot, what: &str, lines: &mut Vec<Line>) -> Option<Vec<String>> {
        let values: Vec<String> =
            self.experiment.spec().vary.get(&plot.x)?.iter().map(crate::spec::show).collect();
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
        let place = |nth: usize| numbers.as_ref().map_or(nth as f64, |numbers| numbers[nth]);
        let rest = |outcome: &Outcome| {
            let mut point = outcome.point.clone();
            point.remove(&plot.x);
            point
        };
        let others: BTreeSet<Point> = self.outcomes.iter().map(rest).collect();
        for other in &others {
            let at = |(nth, value): (usize, &String)| {
                let here =
                    |outcome: &&Outcome| rest(outcome) == *other && outcome.point.get(&plot.x) == Some(value);
                let seen = estimate(self.outcomes.iter().filter(here), what)?;
                Some(vec![place(nth), seen.mean, seen.half])
            };
            let points: Vec<Vec<f64>> = values.iter().enumerate().filter_map(at).collect();
            if !points.is_empty() {
                lines.push(Line { name: label(other, what), points });
            }
        }
        for (name, formula) in &plot.beside {
            for other in &others {
                let at = |(nth, value): (usize, &String)| {
                    let mut point = other.clone();
                    point.insert(plot.x.clone(), value.clone());
                    Some(vec![place(nth), self.experiment.value(formula, &point).ok()?])
                };
                let points: Vec<Vec<f64>> = values.iter().enumerate().filter_map(at).collect();
                let name =
                    if other.is_empty() { name.clone() } else { format!("{name}, {}", describe(other)) };
                if !points.is_empty() {
                    lines.push(Line { name, points });
                }
            }
        }
        if numbers.is_some() { None } else { Some(values) }
    }
}

/// Returns the points that a plot shows of a course.
fn drawn(plot: &Plot, course: &[(f64, f64)]) -> Vec<Vec<f64>> {
    let (from, to) = (plot.from.unwrap_or(f64::MIN), plot.to.unwrap_or(f64::MAX));
    let inside: Series = course.iter().filter(|(t, _)| (from..=to).contains(t)).copied().collect();
    thinned(&inside).into_iter().map(|(t, value)| vec![t, value]).collect()
}

fn label(point: &Point, otherwise: &str) -> String {
    if point.is_empty() { otherwise.into() } else { describe(point) }
}

/// The least and the greatest value of each stretch of a long course, in the order of time.
fn thinned(course: &[(f64, f64)]) -> Series {
    if course.len() <= POINTS_MAX {
        return course.to_vec();
    }
    let stretch = course.len().div_ceil(POINTS_MAX / 2);
    let ends = |piece: &[(f64, f64)]| {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (low, high) = (*piece.iter().min_by(by_value)?, *piece.iter().max_by(by_value)?);
        Some(if low.0 <= high.0 { [low, high] } else { [high, low] })
    };
    course.chunks(stretch).filter_map(ends).flatten().collect()
}

#[cfg(test)]
mod tests;
