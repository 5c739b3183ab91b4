//! Expected results of an experiment, as its file says them.

use serde::Deserialize;
use std::collections::BTreeMap;

/// An expectation on a measure. Each holds for every combination of the parameters it does not name; `only` leaves
/// those with the given values.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Row")]
pub struct Check {
    /// Which measure.
    pub measure: String,
    /// Expectation.
    pub want: Want,
    /// Parameters that must have these values.
    pub only: BTreeMap<String, toml::Value>,
}

/// A check as the file has it: one of the kinds, by its name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    measure: String,
    #[serde(default)]
    only: BTreeMap<String, toml::Value>,
    range: Option<Range>,
    order: Option<Order>,
    ratio: Option<Ratio>,
    falls: Option<Falls>,
    theory: Option<Theory>,
}

impl TryFrom<Row> for Check {
    type Error = &'static str;

    fn try_from(row: Row) -> Result<Check, &'static str> {
        let Row { measure, only, range, order, ratio, falls, theory } = row;
        let kinds = [
            range.map(Want::Range),
            order.map(Want::Order),
            ratio.map(Want::Ratio),
            falls.map(Want::Falls),
            theory.map(Want::Theory),
        ];
        let mut kinds = kinds.into_iter().flatten();
        match (kinds.next(), kinds.next()) {
            (Some(want), None) => Ok(Check { measure, want, only }),
            _ => Err("a check wants one of `range`, `order`, `ratio`, `falls` and `theory`"),
        }
    }
}

/// The kinds of expectation.
#[derive(Clone, Debug)]
pub enum Want {
    /// See there.
    Range(Range),
    /// See there.
    Order(Order),
    /// See there.
    Ratio(Ratio),
    /// See there.
    Falls(Falls),
    /// See there.
    Theory(Theory),
}

/// The 95 % interval of the mean lies between `min` and `max`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
}

/// The means ascend in this order of the values of parameter `by`, and the 95 % intervals of neighbours do not meet,
/// unless only the means are to be compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The parameter.
    pub by: String,
    /// Its values.
    pub ascending: Vec<toml::Value>,
    /// The intervals may meet.
    #[serde(default)]
    pub means: bool,
}

/// The mean at value `of` of parameter `by`, divided by that at value `to`, lies between `min` and `max`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// The parameter.
    pub by: String,
    /// Its value above the line.
    pub of: toml::Value,
    /// Its value below the line.
    pub to: toml::Value,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
}

/// The mean never rises by more than `slack` from one value of parameter `by` to the next, in the file's order.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Falls {
    /// The parameter.
    pub by: String,
    /// How much it may rise.
    pub slack: f64,
}

/// The 95 % interval of the mean lies within `within` (a part) of what a formula of the file's numbers says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Theory {
    /// Such as `sqrt(3 / (2 * path.loss))`.
    pub formula: String,
    /// How far off it may be, such as 0.15.
    pub within: f64,
}
