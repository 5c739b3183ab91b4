//! Predicates that recognise explained differences, by the keys of [`crate::reasons`].

use super::compare::Difference;
use super::input::Input;
use crate::reasons::{self, Kind, Row};

/// A difference with what led to it.
pub struct Case<'a> {
    /// The input.
    pub input: &'a Input,
    /// Its first difference.
    pub difference: &'a Difference,
}

type Predicate = fn(&Case<'_>) -> bool;

/// Predicates by key.
const PREDICATES: &[(&str, Predicate)] = &[];

/// Returns the row that explains a difference.
pub fn row(case: &Case<'_>) -> Option<&'static Row> {
    let key = PREDICATES.iter().find(|(_, is_so)| is_so(case)).map(|(key, _)| key)?;
    reasons::by_key(Kind::Packets, key)
}

#[test]
fn every_key_has_a_row_and_every_row_a_predicate() {
    let keys: Vec<&str> = PREDICATES.iter().map(|(key, _)| *key).collect();
    for key in &keys {
        assert!(reasons::by_key(Kind::Packets, key).is_some(), "no row has the key {key}");
    }
    for row in reasons::of(Kind::Packets) {
        assert!(keys.contains(&row.key), "no predicate has the key {}", row.key);
    }
}
