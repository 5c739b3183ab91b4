//! Goal: who is ahead is said right, whether more or less is better, and no contender that is missing is left out
//! silently.
use super::super::kept::{Effort, Entered};
use super::*;

fn entry(figure: &str, values: &[f64]) -> Entry {
    Entry { figures: [(figure.to_string(), values.to_vec())].into(), ..Entry::default() }
}

fn results(workload: &str, figure: &str, ours: f64, kernel: f64) -> Results {
    let entries = [
        ("millstream".to_string(), entry(figure, &[ours])),
        ("kernel".to_string(), entry(figure, &[kernel])),
        ("paired".to_string(), Entry { failed: vec!["<broke>".into()], ..Entry::default() }),
    ];
    let point = RanPoint {
        label: "64 B".into(),
        value: 64.0,
        effort: Effort { rounds: 1, seconds: 1.0 },
        began: "2026-11-22 07:00".into(),
        commit: "abc".into(),
        entries: entries.into(),
    };
    let ran = Ran { name: workload.into(), points: vec![point] };
    let missing = Entered { name: "lwip".into(), version: None, missing: Some("apt-get install it".into()) };
    Results { machine: [].into(), contenders: vec![missing], workloads: vec![ran] }
}

#[test]
fn several_machines_make_a_range() {
    let mut all = [results("sizes", "per_s", 98.0, 100.0), results("sizes", "per_s", 260.0, 100.0)];
    for (results, processor) in all.iter_mut().zip(["family 25", "family 26"]) {
        results.machine.insert("processor".into(), processor.into());
    }
    let text = markdown(&all);
    assert!(text.starts_with("1. family 25; unknown; commit unknown\n2. family 26; "), "{text}");
    assert!(text.contains("| Linux kernel | 0.98 to 2.60 |\n"), "{text}");
    assert!(markdown(&all[..1]).contains(" | 0.98 (one machine) |\n"));
    ranges(&["/nowhere/bench.json".into()]).expect_err("nothing is there");
}

#[test]
fn ahead_is_above_one() {
    let page = html(&results("sizes", "per_s", 200.0, 100.0)).unwrap();
    assert!(page.contains("<span class=\"holds\">2.00</span>"), "a higher rate");
    let page = html(&results("ping-pong", "p50_us", 200.0, 100.0)).unwrap();
    assert!(page.contains("<span class=\"fails\">0.50</span>"), "a longer wait");
}

#[test]
fn nobody_is_left_out_silently() {
    let page = html(&results("sizes", "per_s", 200.0, 100.0)).unwrap();
    assert!(page.contains("failed: &lt;broke&gt;") && page.contains("apt-get install it"));
    assert!(html(&Results::default()).is_err());
}

#[test]
fn points_of_several_runs_say_so() {
    let mut points = results("sizes", "per_s", 2.0, 1.0).workloads.remove(0).points;
    assert_eq!(how(&points), "1 rounds of 1 s; 2026-11-22 07:00 UTC; commit abc");
    let later =
        RanPoint { effort: Effort { rounds: 5, seconds: 0.4 }, commit: "def".into(), ..points[0].clone() };
    points.push(later);
    assert_eq!(how(&points), "1 to 5 rounds of 0.4 to 1 s; 2026-11-22 07:00 UTC; commit abc, def");
}
