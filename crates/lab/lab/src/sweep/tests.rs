//! Goal: a sweep brings each run once, however many threads; what fails is told and does no harm.
use super::*;
use crate::tests::testing::{SMALL, small};

fn all(threads: usize, tasks: &[Task]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    sweep(tasks, threads, |ended| {
        outcomes.push(ended.unwrap());
        true
    });
    outcomes.sort_by(|a, b| (&a.point, a.seed).cmp(&(&b.point, b.seed)));
    outcomes
}

#[test]
fn threads_change_nothing() {
    let experiment = small(SMALL);
    let tasks = experiment.tasks(None).unwrap();
    let outcomes = all(1, &tasks);
    assert_eq!(outcomes.len(), 6);
    assert_eq!(outcomes, all(4, &tasks));
    let mut seen = 0;
    sweep(&tasks, 2, |_| {
        seen += 1;
        false
    });
    assert_eq!(seen, 1, "stopped");
}

/// Of each file: what is varied, and how many of its six runs are to be made.
#[test]
fn what_a_parameter_cannot_change_runs_once() {
    for (vary, made) in [
        ("\"tunables.cubic.fast_convergence\" = [0, 1]", 3),
        ("\"tunables.newreno.abc_limit\" = [1, 2]", 6),
        ("\"path.reorder_ms\" = [1, 2]", 3),
        ("\"stack.initial_window\" = [10, 3]", 6),
        ("\"path.rtt_ms\" = [10, 10.0]", 3),
    ] {
        let experiment = small(&SMALL.replace("\"path.rtt_ms\" = [10, 20]", vary));
        let tasks = experiment.tasks(None).unwrap();
        let groups = alike(tasks.clone()).unwrap();
        assert_eq!((tasks.len(), groups.len()), (6, made), "{vary}");
        for Alike { task, others } in &groups {
            let ended = attempt(task);
            for other in others {
                let apart = tasks.iter().find(|one| one.point == *other && one.seed == task.seed).unwrap();
                assert_eq!(renamed(&ended, other.clone()), attempt(apart), "{vary}");
            }
        }
    }
    let logged = SMALL.replace("[path]", "[siftr]\n[path]").replace("path.rtt_ms", "path.reorder_ms");
    let logged = logged.replace("[vary]", "[vary]\n").replace("rtt_ms = 10", "rtt_ms = 10\nreorder_ms = 1");
    assert_eq!(alike(small(&logged).tasks(None).unwrap()).unwrap().len(), 6, "each leaves files");
}

#[test]
fn a_panic_is_a_failure_of_its_run_only() {
    let experiment = small(SMALL);
    let tasks = experiment.tasks(None).unwrap();
    let odd = |task: &Task| match task.seed {
        1 => panic!("no such luck"),
        2 => Err(SpecError("no".into())),
        _ => run(task),
    };
    let (mut whole, mut failed) = (0, Vec::new());
    sweep_by(odd, &tasks, 2, |ended| {
        match ended {
            Ok(_) => whole += 1,
            Err(failure) => failed.push(failure),
        }
        true
    });
    failed.sort_by_key(|failure| failure.seed);
    let seeds: Vec<u64> = failed.iter().map(|failure| failure.seed).collect();
    assert_eq!((whole, seeds), (2, vec![1, 1, 2, 2]));
    assert!(failed[0].why.contains("no such luck") && failed[0].why.contains("sweep/tests.rs"), "{failed:?}");
    assert_eq!(failed[3].why, "no");
}
