//! Goal: every experiment of the family is a row, and the log of a pipe is read as it was written.
use super::*;
use std::collections::BTreeSet;

#[test]
fn every_experiment_is_a_row() {
    let rows = rows(&[]).expect("rows");
    let names: BTreeSet<&str> = rows.iter().map(|row| row.experiment.name.as_str()).collect();
    assert_eq!(names.len(), 9, "{names:?}");
    for row in &rows {
        let pairs = if row.name().starts_with("reordering") { 12 } else { 3 };
        assert_eq!(row.pairs(3), pairs, "{}", row.name());
    }
    assert!(rows.iter().any(|row| row.name() == "super-segments bytes=100000 rtt_ms=25"));
    assert_eq!(rows.iter().filter(|row| row.figure == Figure::FirstAgain).count(), 1);
    assert!(super::rows(&["nothing".into()]).is_err_and(|said| said.contains("black-hole")));
}

#[test]
fn the_first_repetition_is_found() {
    let header = emu::LogRow::HEADER;
    let row = |at: u64, event: &str, seq: u64, data: u64| {
        format!("{at},0,{event},1,100,6,a,1,b,2,0,0,{seq},{data}\n")
    };
    let rows = [
        row(1_000, "enq,", 1, 0),
        row(2_000, "enq,", 1, 200),
        row(2_500, "deq,", 1, 200),
        row(3_000, "drop,pls", 201, 200),
        row(4_000, "drop,pls", 401, 200),
        row(9_500, "drop,pls", 301, 300),
    ];
    let log = |count: usize| format!("# seed 1\n{header}\n{}", rows[..count].concat());
    assert_eq!(first_again(&log(6)), Ok(6.5));
    assert!(first_again(&log(5)).is_err());
}
