//! Goal: the plugin's figures are read as they are, and figures a request are of the requests.
use super::*;

#[test]
fn figures_of_the_plugin() {
    let counts = Counts::read("1 2 3 4 5 6 7").expect("figures");
    assert_eq!((counts.program, counts.moved), (1, 7));
    assert!(
        Counts::read("1 2 3").is_err() && Counts::read("").is_err() && Counts::read("1 2 3 4 5 6 x").is_err()
    );
    let line = Line::read("3 8 5555 a b").expect("a line");
    assert_eq!((line.moved, line.most, line.counters), (3, 8, [10, 11]));
    assert!(Line::read("more lines than can be followed").is_err());
    let twice = counts.with(counts, u64::wrapping_add);
    assert_eq!(twice.with(counts, u64::wrapping_sub), counts);
}

#[test]
fn a_row_is_of_one_request() {
    let share =
        |program: u64| Share { sums: Counts { program, atomic: 50, ..Counts::default() }, requests: 100 };
    let line = |moved: u64, most: u64| Line { moved, most, address: 0, counters: [0, 0] };
    let row = Row {
        card: "virtio",
        kernel: "6.12.0".into(),
        way: "XDP in the driver".into(),
        cores: 2,
        spread: vec![9, 7],
        alone: share(1_000_000),
        together: share(900_000),
        strayed: 0,
        lost: 0,
        lines: vec![line(20, 200), line(5, 50)],
        atomics: Vec::new(),
    };
    let text = row.text(&share(750_000));
    assert!(text.starts_with("| virtio | 2 | 9 7 | 9000 | +20.0 % | 0 |"), "{text}");
    assert!(text.ends_with("| 0.50 | 0.250 | 2.500 | 0 | 10000 | 0.00 |"), "{text}");
    assert_eq!(
        (row.json()["moved"].as_f64(), row.json()["alone"]["program"].as_f64()),
        (Some(0.25), Some(10_000.0))
    );
}
