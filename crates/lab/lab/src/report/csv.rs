//! The table of runs as text, and what all tables have in common.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::Chapter;
use crate::run::Outcome;

/// Names of the columns of a table of runs, besides the experiment and the seed.
pub(super) struct Columns<'a> {
    /// Places of parameters, those of all experiments.
    pub(super) parameters: Vec<&'a str>,
    /// Measures, of all runs.
    pub(super) measures: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(chapters: &'a [Chapter<'a>]) -> Columns<'a> {
        let parameters: BTreeSet<&String> = rows(chapters).flat_map(|(_, run)| run.point.keys()).collect();
        let measures: BTreeSet<&String> = rows(chapters).flat_map(|(_, run)| run.measures.keys()).collect();
        let names = |names: BTreeSet<&'a String>| names.into_iter().map(String::as_str).collect();
        Columns { parameters: names(parameters), measures: names(measures) }
    }
}

/// Every run, with the name of its experiment.
pub(super) fn rows<'a>(chapters: &'a [Chapter<'a>]) -> impl Iterator<Item = (&'a str, &'a Outcome)> {
    let one = |chapter: &'a Chapter<'a>| {
        chapter.outcomes.iter().map(|outcome| (chapter.experiment.name.as_str(), outcome))
    };
    chapters.iter().flat_map(one)
}

/// A row for each run: the experiment, its parameters, the seed, the measures. A field with a comma, a quote or a
/// line's end is quoted (RFC 4180).
pub fn csv(chapters: &[Chapter<'_>]) -> String {
    let Columns { parameters, measures } = Columns::of(chapters);
    let mut table = String::from("experiment");
    for column in parameters.iter().chain(&["seed"]).chain(&measures) {
        let _ = write!(table, ",{}", field(column));
    }
    table += "\n";
    for (experiment, outcome) in rows(chapters) {
        table += &field(experiment);
        for name in &parameters {
            let _ = write!(table, ",{}", field(outcome.point.get(*name).map_or("", String::as_str)));
        }
        let _ = write!(table, ",{}", outcome.seed);
        for name in &measures {
            let value = outcome.measures.get(*name).map_or(String::new(), f64::to_string);
            let _ = write!(table, ",{value}");
        }
        table += "\n";
    }
    table
}

fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests;
