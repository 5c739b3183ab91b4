//! Many runs on all cores. One that fails, or panics, does not stop the others.

use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, mpsc};

use crate::build::plan;
use crate::run::{Outcome, run};
use crate::spec::{Point, Spec, SpecError, Task};

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
            _ => crate::grid::hex(input(&task)?.as_bytes()),
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

/// Returns what decides the result, besides the seed: tasks of which it is equal bring the same under their own
/// names. What the point sets for a policy that no flow has is no part of it, nor is a setting's default.
///
/// # Errors
/// A fault of its file, which [`crate::Experiment::parse`] has found already.
fn input(task: &Task) -> Result<String, SpecError> {
    let Spec { seconds, discard, sample_ms, flows, cbr, policies, .. } = &task.spec;
    let plan = plan(&task.spec)?;
    let is_used = |policy: &&String| flows.iter().any(|flow| flow.cc == **policy);
    let tunables: Vec<_> = task.spec.tunables.iter().filter(|(policy, _)| is_used(policy)).collect();
    // Each run leaves files of its own there.
    let files = (task.spec.siftr.is_some() || task.spec.capture.is_some()).then_some(&task.point);
    Ok(format!("{:?}", (seconds, discard, sample_ms, flows, cbr, policies, plan, tunables, files)))
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
mod tests;
