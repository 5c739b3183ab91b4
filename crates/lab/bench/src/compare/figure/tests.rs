//! Goal: numbers are written for people, and names are unique.
use super::*;

#[test]
fn numbers() {
    let seen = [1_234_567.0, 1_000.0, 999.4, 12.34, 1.5, 0.012, 0.0].map(written);
    assert_eq!(seen, ["1,234,567", "1,000", "999", "12.3", "1.50", "0.0120", "0.00"]);
}

#[test]
fn names_are_unique() {
    for (nth, figure) in FIGURES.iter().enumerate() {
        assert!(FIGURES[..nth].iter().all(|other| other.name != figure.name), "{}", figure.name);
    }
}
