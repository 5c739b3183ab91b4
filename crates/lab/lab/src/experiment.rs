//! An experiment: its file, read and checked, and the runs it asks for.

use std::borrow::Cow;

use crate::formula::evaluate;
use crate::measure::is_measure;
use crate::spec::{
    Check, Falls, Folders, Order, Plot, Point, RUNS_MAX, Ratio, Spec, SpecError, Task, Want, put, show, shown,
};

/// An experiment's file, read but with its parameters still open.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The name it is run by.
    pub name: String,
    text: String,
    pub(crate) table: toml::Table,
    spec: Spec,
}

/// Returns `text` with the setting `bytes` where the file has its name of the version before, and says so.
fn with_new_names<'a>(name: &str, text: &'a str) -> Cow<'a, str> {
    let is_old = |line: &&str| line.trim_start().starts_with("octets =") || line.contains(".octets\"");
    if !text.lines().any(|line| is_old(&line)) {
        return Cow::Borrowed(text);
    }
    eprintln!(
        "{name}: the setting `octets` is called `bytes` now; the old name is taken until the next version"
    );
    let new = |line: &str| match is_old(&line) {
        true => line.replacen("octets =", "bytes =", 1).replace(".octets\"", ".bytes\"") + "\n",
        false => format!("{line}\n"),
    };
    Cow::Owned(text.lines().map(new).collect())
}

impl Experiment {
    /// Reads `text`, the file called `name`.
    ///
    /// # Errors
    /// The fault, with the line where there is one.
    pub fn parse(name: &str, text: &str) -> Result<Experiment, SpecError> {
        let wrong = |error: &dyn std::fmt::Display| SpecError(format!("{name}: {error}"));
        let text = &*with_new_names(name, text);
        let table: toml::Table = toml::from_str(text).map_err(|error| wrong(&error))?;
        let spec: Spec = toml::from_str(text).map_err(|error| wrong(&error))?;
        let experiment = Experiment { name: name.into(), text: text.into(), table, spec };
        experiment.runs(1)?;
        // Each combination must be an experiment too.
        for point in experiment.points() {
            crate::build::plan(&experiment.at(&point)?).map_err(|error| wrong(&error))?;
        }
        for plot in &experiment.spec.plots {
            plot.validate(&experiment).map_err(|error| wrong(&error))?;
        }
        for check in &experiment.spec.checks {
            check.validate(&experiment).map_err(|error| wrong(&error))?;
        }
        Ok(experiment)
    }

    /// The file, as it was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the file's content.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Refuses more runs than there may be, with so many seeds for each combination.
    fn runs(&self, seeds: u64) -> Result<(), SpecError> {
        let points =
            self.spec.vary.values().try_fold(1_u64, |all, values| all.checked_mul(values.len() as u64));
        let runs = points.and_then(|points| points.checked_mul(seeds));
        if runs.is_some_and(|runs| runs <= RUNS_MAX) {
            return Ok(());
        }
        let name = &self.name;
        let text =
            format!("{name}: vary: all combinations with {seeds} seed(s): want at most {RUNS_MAX} runs");
        Err(SpecError(text))
    }

    /// Every combination of the varied parameters, the last varying fastest.
    pub fn points(&self) -> Vec<Vec<(String, toml::Value)>> {
        let mut points = vec![Vec::new()];
        for (place, values) in &self.spec.vary {
            points = points
                .into_iter()
                .flat_map(|point| {
                    values.iter().map(move |value| {
                        let mut point = point.clone();
                        point.push((place.clone(), value.clone()));
                        point
                    })
                })
                .collect();
        }
        points
    }

    /// Returns the points with their values as they are shown.
    pub(crate) fn shown_points(&self) -> Vec<Point> {
        self.points().into_iter().map(shown).collect()
    }

    /// The experiment with `point` put in.
    fn at(&self, point: &[(String, toml::Value)]) -> Result<Spec, SpecError> {
        let mut table = toml::Value::Table(self.table.clone());
        for (place, value) in point {
            put(&mut table, place, value)
                .ok_or_else(|| SpecError(format!("{}: vary: no place `{place}` in this file", self.name)))?;
        }
        let wrong = |error: &dyn std::fmt::Display| SpecError(format!("{}: {error}", self.name));
        let spec: Spec = table.try_into().map_err(|error| wrong(&error))?;
        spec.check_bounds().map_err(|error| wrong(&error))?;
        Ok(spec)
    }

    /// The number at a dotted place of the file with `point` put in; of an array's, the first, unless one is named.
    pub(crate) fn number(&self, point: &Point, place: &str) -> Option<f64> {
        let mut table = toml::Value::Table(self.table.clone());
        for (by, shown) in point {
            let value = self.spec.vary.get(by)?.iter().find(|value| show(value) == *shown)?;
            put(&mut table, by, value)?;
        }
        let at = place.split('.').try_fold(&table, |at, step| match (at, step.parse::<usize>()) {
            (toml::Value::Array(items), Ok(nth)) => items.get(nth),
            (toml::Value::Array(items), Err(_)) => items.first()?.get(step),
            (table, _) => table.get(step),
        })?;
        at.as_float().or_else(|| at.as_integer().map(|integer| integer as f64))
    }

    /// The value of a formula of the file's numbers with `point` put in.
    pub(crate) fn value(&self, formula: &str, point: &Point) -> Result<f64, SpecError> {
        evaluate(formula, &|place| self.number(point, place))
    }

    /// Every run of it: all combinations, each with `seeds` seeds (the file's number if `None`).
    ///
    /// # Errors
    /// Those of [`Experiment::parse`], which has found them already.
    pub fn tasks(&self, seeds: Option<u64>) -> Result<Vec<Task>, SpecError> {
        self.runs(seeds.unwrap_or(self.spec.seeds))?;
        let mut tasks = Vec::new();
        for point in self.points() {
            let spec = self.at(&point)?;
            let point = shown(point);
            let seeds = 1..=seeds.unwrap_or(spec.seeds);
            tasks.extend(seeds.map(|seed| Task {
                spec: spec.clone(),
                point: point.clone(),
                seed,
                folders: Folders::default(),
            }));
        }
        Ok(tasks)
    }
}

impl Plot {
    /// Does it show something there can be?
    pub(crate) fn validate(&self, experiment: &Experiment) -> Result<(), SpecError> {
        let spec = experiment.spec();
        let points = experiment.shown_points();
        for (name, formula) in &self.beside {
            if !points.iter().any(|point| experiment.value(formula, point).is_ok()) {
                return Err(SpecError(format!("plot: `{name}` has no value anywhere: `{formula}`")));
            }
        }
        match self.show.split_once(' ') {
            Some(("series", _)) | Some(("cdf", "delay_ms")) => Ok(()),
            Some(("measure", name)) if !is_measure(name) => {
                Err(SpecError(format!("plot: no measure `{name}`")))
            }
            Some(("measure", _)) if !spec.vary.contains_key(&self.x) => {
                Err(SpecError(format!("plot: `{}` is not varied", self.x)))
            }
            Some(("measure", _)) => Ok(()),
            _ => {
                let wants = "`series NAME`, `cdf delay_ms` or `measure NAME`";
                Err(SpecError(format!("plot: want {wants}, not `{}`", self.show)))
            }
        }
    }
}

impl Check {
    /// Does it speak of things the experiment has?
    pub(crate) fn validate(&self, experiment: &Experiment) -> Result<(), SpecError> {
        if !is_measure(&self.measure) {
            return Err(SpecError(format!("check: no measure `{}`", self.measure)));
        }
        let vary = &experiment.spec().vary;
        let known = |by: &str, value: &toml::Value| match vary.get(by) {
            Some(values) if values.contains(value) => Ok(()),
            Some(_) => Err(SpecError(format!("check: `{by}` never is {value}"))),
            None => Err(SpecError(format!("check: `{by}` is not varied"))),
        };
        self.only.iter().try_for_each(|(by, value)| known(by, value))?;
        match &self.want {
            Want::Range(_) => Ok(()),
            Want::Order(Order { by, ascending, .. }) => {
                ascending.iter().try_for_each(|value| known(by, value))
            }
            Want::Ratio(Ratio { by, of, to, .. }) => known(by, of).and_then(|()| known(by, to)),
            Want::Falls(Falls { by, .. }) if vary.contains_key(by) => Ok(()),
            Want::Falls(Falls { by, .. }) => Err(SpecError(format!("check: `{by}` is not varied"))),
            Want::Theory(theory) => {
                let only = shown(self.only.clone());
                let points = experiment.shown_points();
                let mut fits =
                    points.iter().filter(|point| only.iter().all(|(by, value)| point.get(by) == Some(value)));
                fits.try_for_each(|point| experiment.value(&theory.formula, point).map(drop))
            }
        }
    }
}
