//! Many runs on all cores. One that fails, or panics, does not stop the others.

use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, mpsc};

use crate::run::{Outcome, run};
use crate::spec::{Point, SpecError, Task};

/// A run that brought nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The parameters it ran with.
    pub point: Point,
    /// Its seed.
    pub seed: u64,
    /// Error; for a panic also its place.
    pub why: String,
}

/// How a run ended.
pub type Ended = Result<Outcome, Failure>;

/// Runs `tasks` on `threads` threads and hands each end to `done` as it comes, on the caller's thread. `done` may stop
/// the sweep by returning false; runs that have begun are finished, and thrown away.
pub fn sweep(tasks: &[Task], threads: usize, done: impl FnMut(Ended) -> bool) {
    sweep_by(run, tasks, threads, done);
}

/// A run, and those that differ from it in nothing that a run can notice.
pub struct Alike {
    /// The run.
    pub task: Task,
    /// Parameters of the others; their seed is the same.
    pub others: Vec<Point>,
}

/// Groups `tasks` so that no run is made twice: the congestion control's tunables, for one, change nothing for flows
/// of another policy.
///
/// # Errors
/// A fault of their file, which [`crate::Experiment::parse`] has found already.
pub fn alike(tasks: Vec<Task>) -> Result<Vec<Alike>, SpecError> {
    let mut groups: Vec<Alike> = Vec::new();
    let mut known: BTreeMap<(String, u64), usize> = BTreeMap::new();
    let mut last: Option<(Point, String)> = None;
    for task in tasks {
        // Seeds of a combination follow each other.
        let input = match last.take() {
            Some((point, input)) if point == task.point => input,
            _ => crate::grid::hex(task.input()?.as_bytes()),
        };
        last = Some((task.point.clone(), input.clone()));
        let nth = *known.entry((input, task.seed)).or_insert(groups.len());
        match groups.get_mut(nth) {
            Some(group) => group.others.push(task.point),
            None => groups.push(Alike { task, others: Vec::new() }),
        }
    }
    Ok(groups)
}

/// Returns how the run with the parameters `point` ended, of which `ended` is the like.
pub fn renamed(ended: &Ended, point: Point) -> Ended {
    match ended {
        Ok(outcome) => Ok(Outcome { point, ..outcome.clone() }),
        Err(failure) => Err(Failure { point, ..failure.clone() }),
    }
}

/// Runs one; a panic becomes a failure.
pub fn attempt(task: &Task) -> Ended {
    attempt_by(run, task)
}

fn sweep_by(
    run: impl Fn(&Task) -> Result<Outcome, SpecError> + Sync,
    tasks: &[Task],
    threads: usize,
    mut done: impl FnMut(Ended) -> bool,
) {
    let queue = Mutex::new(tasks.iter());
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, tasks.len().max(1)) {
            let (send, queue, run) = (send.clone(), &queue, &run);
            scope.spawn(move || {
                loop {
                    let Some(task) = queue.lock().unwrap_or_else(|broken| broken.into_inner()).next() else {
                        return;
                    };
                    // Nothing listens any more: the sweep was stopped.
                    if send.send(attempt_by(run, task)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for ended in &receive {
            if !done(ended) {
                break;
            }
        }
        drop(receive);
    });
}

fn attempt_by(run: impl Fn(&Task) -> Result<Outcome, SpecError>, task: &Task) -> Ended {
    let failure = |why| Failure { point: task.point.clone(), seed: task.seed, why };
    hear_panics();
    HEARD.set(Some(String::new()));
    // What a run that panicked leaves half done is its own network, and dropped with it.
    let ended = catch_unwind(AssertUnwindSafe(|| run(task)));
    let heard = HEARD.take().unwrap_or_default();
    match ended {
        Ok(outcome) => outcome.map_err(|error| failure(error.0)),
        Err(_) => Err(failure(heard)),
    }
}

thread_local! {
    /// Message of a panic of the run on this thread; `None` while there is no run.
    static HEARD: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics of runs are kept for their record, with their place; all others go where they went before.
fn hear_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let ours = HEARD.with_borrow_mut(|heard| heard.as_mut().map(|heard| *heard = panic.to_string()));
            if ours.is_none() {
                before(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    //! Goal: a sweep brings each run once, however many threads; what fails is told and does no harm.
    use super::*;
    use crate::testing::{SMALL, small};

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
                    let apart =
                        tasks.iter().find(|one| one.point == *other && one.seed == task.seed).unwrap();
                    assert_eq!(renamed(&ended, other.clone()), attempt(apart), "{vary}");
                }
            }
        }
        let logged = SMALL.replace("[path]", "[siftr]\n[path]").replace("path.rtt_ms", "path.reorder_ms");
        let logged =
            logged.replace("[vary]", "[vary]\n").replace("rtt_ms = 10", "rtt_ms = 10\nreorder_ms = 1");
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
        assert!(failed[0].why.contains("no such luck") && failed[0].why.contains("sweep.rs"), "{failed:?}");
        assert_eq!(failed[3].why, "no");
    }
}
