//! Goal: the file is whole, and both sides of the threshold are told apart.
use super::*;

#[test]
fn every_path_has_a_row_and_every_row_a_path() {
    let budgets = Budgets::read().unwrap();
    let names: Vec<_> = budgets.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, PATHS.map(|path| path.name));
    assert!(budgets.rows.iter().all(|row| !row.reason.is_empty() && row.instructions > 0.0));
}

#[test]
fn growth_is_told_from_what_is_allowed() {
    let row =
        Budget { name: "a".into(), instructions: 1_000.0, changed: "2026-11-22".into(), reason: "r".into() };
    let word = |seen| Moved { name: "a", budget: Some(&row), seen }.word();
    assert_eq!([word(1_029.0), word(1_031.0)], ["", "GROWN"]);
    assert_eq!([word(971.0), word(969.0)], ["", "less: write it down"]);
    let new = Moved { name: "a", budget: None, seen: 1.0 };
    assert!(new.growth() > TOLERANCE && new.word() == "NO FIGURE");
}
