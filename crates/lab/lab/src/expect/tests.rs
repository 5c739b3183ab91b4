//! Goal: what was recorded holds, and what moved is told with how far, on both sides of the tolerance.
use super::*;
use crate::store::Limits;
use crate::tests::testing::{Folder, SMALL, small};

/// Losses by chance, so that seeds differ; two of them.
fn file() -> String {
    SMALL.replace("seeds = 3", "seeds = 2").replace("\"slots 10\"", "\"slots 10\"\nloss = 0.02")
}

fn stored(name: &str) -> (Folder, Experiment, Store) {
    let folder = Folder::new(&format!("expect-{name}"));
    let experiment = small(&file());
    let mut store = Store::open(&folder, &experiment, "here", Limits::default()).unwrap();
    for task in experiment.tasks(None).unwrap() {
        store.keep(crate::attempt(&task)).unwrap();
    }
    (folder, experiment, store)
}

#[test]
fn what_was_recorded_holds() {
    let (_folder, experiment, store) = stored("same");
    let recorded = Expectation::record(&experiment, &store, 2).unwrap();
    let recorded = Expectation::parse(&recorded.text()).unwrap();
    let seen = recorded.compare(&experiment, &store).unwrap();
    assert_eq!(seen, Comparison { runs: 4, ..Comparison::default() });
    assert!(Expectation::record(&experiment, &store, 3).is_err(), "no third seed");
    let changed = small(&file().replace("slots 10", "slots 9"));
    assert!(recorded.compare(&changed, &store).is_err());
    let wider = small(&file().replace("[10, 20]", "[10, 20, 30]"));
    assert!(recorded.compare(&wider, &store).is_err());
}

#[test]
fn what_moved_is_told() {
    let (_folder, experiment, store) = stored("moved");
    let mut recorded = Expectation::record(&experiment, &store, 2).unwrap();
    recorded.points[1].digests[0] = "0".into();
    let [mean, tolerance] = recorded.points[0].measures["goodput_mbit"];
    for (by, within) in [(0.99, true), (1.01, false)] {
        recorded.points[0].measures.insert("goodput_mbit".into(), [mean - by * tolerance, tolerance]);
        let seen = recorded.compare(&experiment, &store).unwrap();
        assert_eq!((seen.holds(false), seen.holds(true)), (within, false), "{seen:?}");
        assert_eq!(seen.changed, [("path.rtt_ms = 20".into(), 1)]);
        assert!(
            seen.moved.len() == 1 && seen.moved[0].to_string().contains("goodput_mbit [path.rtt_ms = 10]")
        );
    }
    recorded.points[0].measures.insert("beauty".into(), [1.0, 1.0]);
    recorded.points[1].measures.remove("failed");
    let seen = recorded.compare(&experiment, &store).unwrap();
    let told: Vec<String> = seen.moved.iter().map(Moved::to_string).collect();
    assert!(told.iter().any(|line| line.contains("measured no more")), "{told:?}");
    assert!(told.iter().any(|line| line.contains("was not measured")), "{told:?}");
}
