//! Goal: what was kept comes back, and every difference is told.
use super::*;

#[test]
fn entries_come_back_and_are_told() {
    let difference = Difference { test: "test\ta|b".into(), kernel: "passed".into(), stack: "failed".into() };
    let comparison = Comparison {
        row: "cpython/test_ssl".into(),
        tests: 3,
        passed_kernel: 2,
        passed_stack: 1,
        ends_on_stack: Some(6),
        seconds: [4, 5],
        differences: vec![difference],
    };
    let entry = Entry { comparison, version: "3.11.2".into(), day: "2026-01-02".into() };
    let all = entries(&(entry.lines() + "no line of ours\n"));
    assert_eq!(all.values().map(Entry::lines).collect::<String>(), entry.lines());
    let table = table(&all);
    assert!(
        table.contains("| cpython/test_ssl | 3.11.2 | 3 | 2 | 1 | 1 | 6 | 4, 5 | 2026-01-02 |"),
        "{table}"
    );
    assert!(table.contains("`test a\\|b` | passed | failed | **not known** |"), "{table}");
    assert!(super::table(&BTreeMap::new()).contains("No test differs"));
}
