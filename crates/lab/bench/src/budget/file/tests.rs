//! Goal: what is written is what is read, whatever a reason has in it.
use super::*;

#[test]
fn a_file_is_read_as_it_was_written() {
    let row = Budget {
        name: "a".into(),
        instructions: 12_345.0,
        changed: "2026-11-22".into(),
        reason: "\"quoted\" \\ and\nlong".into(),
    };
    let budgets = Budgets { tools: "t".into(), rows: vec![row.clone(), row] };
    let read: Budgets = toml::from_str(&budgets.text()).unwrap();
    assert_eq!(format!("{read:?}"), format!("{budgets:?}"));
}
