//! Parameters put in from outside: other values to vary than the file's, or one point of them only.

use sha2::{Digest, Sha256};
use std::str::FromStr;
use toml::{Table, Value};

use crate::experiment::Experiment;
use crate::spec::{Check, Plot, Point, SpecError, show};

/// Combinations an experiment may have. Each is read and checked before the first runs.
const POINTS_MAX: usize = 100_000;

/// Measures that are drawn along a parameter which the file has no plot for.
const DRAWN: [&str; 3] = ["goodput_mbit", "queue_mean", "srtt_ms"];

/// A parameter to vary, written `PLACE=VALUE,VALUE,...`. A value is one of TOML, or else a text; a text with a comma
/// stands in quotes.
#[derive(Clone, Debug, PartialEq)]
pub struct Vary {
    /// The place in the file, as under `[vary]`.
    pub place: String,
    /// Values to put there.
    pub values: Vec<Value>,
}

impl FromStr for Vary {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Vary, SpecError> {
        let wants = || SpecError(format!("vary: want PLACE=VALUE,VALUE,..., not `{text}`"));
        let (place, values) = text.split_once('=').ok_or_else(wants)?;
        let values: Vec<&str> = pieces(values);
        if place.trim().is_empty() || values.iter().any(|value| value.is_empty()) {
            return Err(wants());
        }
        Ok(Vary { place: place.trim().into(), values: values.into_iter().map(literal).collect() })
    }
}

/// The parts between commas that stand outside quotes, trimmed.
fn pieces(text: &str) -> Vec<&str> {
    let mut quote = None;
    let between = |c: char| {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            _ => {}
        }
        c == ',' && quote.is_none()
    };
    text.split(between).map(str::trim).collect()
}

fn literal(text: &str) -> Value {
    let table: Option<Table> = toml::from_str(&format!("value = {text}")).ok();
    let value = table.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| text.into())
}

/// A combination as people type it: `place=value,place=value`.
///
/// # Errors
/// A part without `=`, or a place named twice.
pub fn point(text: &str) -> Result<Point, SpecError> {
    let mut point = Point::new();
    for piece in pieces(text).into_iter().filter(|piece| !piece.is_empty()) {
        let wants = || SpecError(format!("point: want PLACE=VALUE,..., not `{piece}`"));
        let (place, value) = piece.split_once('=').ok_or_else(wants)?;
        if point.insert(place.trim().into(), show(&literal(value.trim()))).is_some() {
            return Err(SpecError(format!("point: `{place}` twice")));
        }
    }
    Ok(point)
}

/// Returns the combination as it is typed; a value with a comma or a quote stands in quotes.
pub fn typed(point: &Point) -> String {
    let one = |(place, value): (&String, &String)| {
        if value.contains([',', '"', '\'']) {
            format!("{place}={}", Value::from(value.as_str()))
        } else {
            format!("{place}={value}")
        }
    };
    point.iter().map(one).collect::<Vec<_>>().join(",")
}

impl Experiment {
    /// Returns the experiment with other values to vary: each of `vary` replaces the file's values at its place or
    /// comes beside them, and is drawn if no plot of the file has it along its axis. Checks and plots that speak of
    /// values which are varied no longer are left out; their number is beside the experiment.
    ///
    /// # Errors
    /// As [`Experiment::parse`]; too many combinations.
    pub fn with(&self, vary: &[Vary]) -> Result<(Experiment, usize), SpecError> {
        let mut table = self.table.clone();
        let places = part(&mut table, "vary");
        for Vary { place, values } in vary {
            places.insert(place.clone(), Value::Array(values.clone()));
        }
        self.bounded(places)?;
        let (checks, plots) = (list(&mut table, "check"), list(&mut table, "plot"));
        let bare = self.again(&table)?;
        let checked =
            |value: &Value| value.clone().try_into().is_ok_and(|check: Check| check.validate(&bare).is_ok());
        let shown =
            |value: &Value| value.clone().try_into().is_ok_and(|plot: Plot| plot.validate(&bare).is_ok());
        let before = checks.len() + plots.len();
        let checks: Vec<Value> = checks.into_iter().filter(checked).collect();
        let mut plots: Vec<Value> = plots.into_iter().filter(shown).collect();
        let left_out = before - checks.len() - plots.len();
        for Vary { place, .. } in vary {
            let along = |plot: &Value| plot.get("x").and_then(Value::as_str) == Some(place);
            if !plots.iter().any(along) {
                plots.extend(DRAWN.iter().map(|measure| plot_along(measure, place)));
            }
        }
        table.insert("check".into(), checks.into());
        table.insert("plot".into(), plots.into());
        Ok((self.again(&table)?, left_out))
    }

    /// Returns the experiment with one combination only: nothing is left open, nothing checked or drawn. Places
    /// that the file does not vary may be named, too.
    ///
    /// # Errors
    /// The file varies a place that `point` does not name; as [`Experiment::parse`].
    pub fn only(&self, point: &Point) -> Result<Experiment, SpecError> {
        let mut table = self.table.clone();
        list(&mut table, "check");
        list(&mut table, "plot");
        let places = part(&mut table, "vary");
        if let Some((place, values)) = places.iter().find(|(place, _)| !point.contains_key(*place)) {
            let values: Vec<String> = values.as_array().into_iter().flatten().map(show).collect();
            return Err(SpecError(format!(
                "{}: which `{place}`? There are {}",
                self.name,
                values.join(", ")
            )));
        }
        for (place, text) in point {
            let known = places.get(place).and_then(Value::as_array).into_iter().flatten();
            let known = known.into_iter().find(|value| show(value) == *text).cloned();
            let value = known.unwrap_or_else(|| literal(text));
            places.insert(place.clone(), Value::Array(vec![value]));
        }
        self.again(&table)
    }

    /// Stands for everything in the file that decides what a run with given parameters brings: the same as long as only
    /// what is varied, checked, drawn or said about it changes.
    pub fn basis(&self) -> String {
        let mut table = self.table.clone();
        for key in ["title", "about", "seeds", "vary", "check", "plot"] {
            table.remove(key);
        }
        hex(table.to_string().as_bytes())
    }

    fn again(&self, table: &Table) -> Result<Experiment, SpecError> {
        Experiment::parse(&self.name, &table.to_string())
    }

    fn bounded(&self, places: &Table) -> Result<(), SpecError> {
        let counts = places.values().map(|values| values.as_array().map_or(1, Vec::len));
        let points = counts.fold(1, usize::saturating_mul);
        if points > POINTS_MAX {
            return Err(SpecError(format!("{}: {points} combinations; {POINTS_MAX} may be", self.name)));
        }
        Ok(())
    }
}

/// The table under `key`, made if there is none.
fn part<'a>(table: &'a mut Table, key: &str) -> &'a mut Table {
    let value = table.entry(key).or_insert_with(|| Table::new().into());
    value.as_table_mut().expect("the file was read: a table")
}

/// Takes the list under `key` out.
fn list(table: &mut Table, key: &str) -> Vec<Value> {
    match table.remove(key) {
        Some(Value::Array(rows)) => rows,
        _ => Vec::new(),
    }
}

fn plot_along(measure: &str, place: &str) -> Value {
    let mut plot = Table::new();
    plot.insert("title".into(), format!("{measure} along {place}").into());
    plot.insert("show".into(), format!("measure {measure}").into());
    plot.insert("x".into(), place.into());
    plot.into()
}

/// Sixteen bytes of SHA-256, as people write them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
