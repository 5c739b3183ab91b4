//! Goal: what was done is not done again, what was not is; order and other workloads stay.
use super::super::{WORKLOADS, find};
use super::*;

const EFFORT: Effort = Effort { rounds: 5, seconds: 0.4 };

fn entered(missing: &[&str]) -> Vec<Entered> {
    let one = |name: &&str| Entered {
        name: (*name).into(),
        version: Some("1".into()),
        missing: missing.contains(name).then(|| "apt-get".into()),
    };
    ["millstream", "paired", "kernel", "ideal"].iter().map(one).collect()
}

fn measured(workload: &Workload, nth: usize, value: f64) -> RanPoint {
    let entry = Entry { figures: [("per_s".into(), vec![value; 5])].into(), ..Entry::default() };
    let entries = workload.contenders.iter().map(|name| ((*name).to_string(), entry.clone()));
    RanPoint {
        label: workload.points[nth].label.into(),
        value: workload.points[nth].value,
        effort: EFFORT,
        began: "2026-11-22 11:00".into(),
        commit: "abc".into(),
        entries: entries.collect(),
    }
}

fn results(of: &[(&str, usize)]) -> Results {
    let mut results = Results { contenders: entered(&[]), ..Results::default() };
    for (nth, (name, point)) in of.iter().enumerate() {
        let workload = find(name).unwrap();
        results.put(WORKLOADS, workload, measured(workload, *point, nth as f64));
    }
    results
}

fn is_done(results: &Results, name: &str, nth: usize, effort: Effort) -> bool {
    let workload = find(name).unwrap();
    results.done(workload, &workload.points[nth], effort).is_some()
}

#[test]
fn pieces_make_a_whole_in_the_tables_order() {
    let results = results(&[("accept", 1), ("sizes", 2), ("accept", 0), ("sizes", 0), ("accept", 1)]);
    let names: Vec<_> = results
        .workloads
        .iter()
        .flat_map(|ran| ran.points.iter().map(|point| (ran.name.as_str(), point.label.as_str())))
        .collect();
    assert_eq!(names, [("sizes", "64 B"), ("sizes", "1 KB"), ("accept", "64"), ("accept", "512")]);
    let newest = &results.workloads[1].points[1].entries["kernel"].figures["per_s"];
    assert_eq!(newest, &[4.0; 5], "the later one stands instead of the earlier");
}

#[test]
fn what_was_done_with_less_is_done_again() {
    let results = results(&[("sizes", 0)]);
    assert!(is_done(&results, "sizes", 0, EFFORT));
    assert!(is_done(&results, "sizes", 0, Effort { rounds: 3, seconds: 0.2 }), "more than is wanted");
    assert!(!is_done(&results, "sizes", 0, Effort { rounds: 6, ..EFFORT }));
    assert!(!is_done(&results, "sizes", 0, Effort { seconds: 0.5, ..EFFORT }));
    assert!(!is_done(&results, "sizes", 1, EFFORT) && !is_done(&results, "accept", 0, EFFORT));
}

#[test]
fn who_failed_or_came_later_is_measured() {
    let whole = |change: &dyn Fn(&mut Results)| {
        let mut results = results(&[("sizes", 0)]);
        change(&mut results);
        is_done(&results, "sizes", 0, EFFORT)
    };
    let kernel = |results: &mut Results, entry: Entry| {
        results.workloads[0].points[0].entries.insert("kernel".into(), entry);
    };
    let out = |why: &str| Entry { left_out: Some(why.into()), ..Entry::default() };
    assert!(whole(&|_| {}));
    assert!(!whole(&|results| kernel(results, Entry { failed: vec!["broke".into()], ..Entry::default() })));
    assert!(whole(&|results| kernel(results, out("more than 1000 take it minutes"))));
    let late = format!("{NOT_INSTALLED}apt-get");
    assert!(!whole(&|results| kernel(results, out(&late))), "it is here now");
    assert!(whole(&|results| {
        kernel(results, out(&late));
        results.contenders = entered(&["kernel"]);
    }));
    let beside = |cores: f64| {
        let mut entry = results(&[("sizes", 0)]).workloads[0].points[0].entries["kernel"].clone();
        entry.figures.insert(OTHERS.into(), vec![0.0, cores, cores]);
        entry
    };
    assert!(whole(&|results| kernel(results, beside(0.1))));
    assert!(!whole(&|results| kernel(results, beside(0.9))), "another program was busy");
    assert!(!whole(&|results| drop(results.workloads[0].points[0].entries.remove("paired"))));
}

#[test]
fn a_file_brings_it_back() {
    let path = std::env::temp_dir().join(format!("ms-kept-{}.json", std::process::id()));
    assert!(Results::read(&path).unwrap().workloads.is_empty(), "no file is no result yet");
    results(&[("sizes", 1), ("accept", 0)]).write(&path).unwrap();
    let back = Results::read(&path).unwrap();
    std::fs::write(&path, "{}").unwrap();
    let odd = Results::read(&path);
    std::fs::remove_file(&path).unwrap();
    assert!(is_done(&back, "sizes", 1, EFFORT) && is_done(&back, "accept", 0, EFFORT));
    assert!(odd.is_err());
}
