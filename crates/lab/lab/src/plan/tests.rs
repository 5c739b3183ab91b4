//! Goal: a run done elsewhere is the run done here, and what is not is refused.
use super::*;
use crate::tests::testing::{SMALL, small};

#[test]
fn tasks_bring_what_runs_bring() {
    let experiment = small(SMALL);
    let planned = Planned::all(&experiment, None, Limits::default(), "c0ffee").unwrap();
    let tasks = experiment.tasks(None).unwrap();
    assert_eq!(planned.len(), tasks.len());
    for (planned, task) in planned.iter().zip(&tasks) {
        let line = serde_json::to_string(planned).unwrap();
        let planned: Planned = serde_json::from_str(&line).unwrap();
        let brought = planned.run("c0ffee").unwrap();
        let brought: Brought = serde_json::from_str(&serde_json::to_string(&brought).unwrap()).unwrap();
        brought.verify(&planned).unwrap();
        let Line::Run(run) = &brought.ended else { panic!("{brought:?}") };
        let here = crate::run(task).unwrap();
        assert_eq!((&run.digest, &run.outcome.measures), (&here.digest(), &here.measures));
        assert_eq!(run.outcome.series.is_empty(), task.seed > 1);
    }
}

#[test]
fn what_is_not_the_task_is_refused() {
    let experiment = small(SMALL);
    let planned = Planned::all(&experiment, None, Limits::default(), "c0ffee").unwrap();
    assert!(planned[0].run("decaf").is_err());
    let brought = planned[0].run("c0ffee").unwrap();
    assert!(brought.verify(&planned[1]).is_err());
    let mut damaged = brought.clone();
    let Line::Run(run) = &mut damaged.ended else { panic!("{damaged:?}") };
    run.outcome.measures.insert("goodput_mbit".into(), 1e9);
    assert!(damaged.verify(&planned[0]).is_err());
    let other = Brought { commit: "decaf".into(), ..brought };
    assert!(other.verify(&planned[0]).is_err());
    let swapped = Planned { point: planned[3].point.clone(), ..planned[0].clone() };
    assert!(swapped.run("c0ffee").is_err());
}
