//! Goal: the shipped experiments are files that can be read, and those of the publications show what was published.

use lab::{Experiment, Outcome, Verdict};
use std::sync::Mutex;

/// Every file of `experiments/`.
fn shipped() -> Vec<Experiment> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/experiments");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Experiment::parse(&name, &std::fs::read_to_string(path).unwrap()).unwrap()
    };
    files.iter().map(read).collect()
}

fn run_all(experiment: &Experiment, seeds: u64) -> Vec<Outcome> {
    let tasks = experiment.tasks(Some(seeds)).unwrap();
    let (queue, done) = (Mutex::new(tasks.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(task) = queue.lock().unwrap().next() else { return };
                    let outcome = lab::run(task).unwrap();
                    done.lock().unwrap().push(outcome);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

#[test]
#[ignore]
fn look() {
    for experiment in shipped() {
        let start = std::time::Instant::now();
        let outcomes = run_all(&experiment, 3);
        println!("== {} {:?} {} runs", experiment.name, start.elapsed(), outcomes.len());
        for Verdict { expected, at, seen, holds } in experiment.judge(&outcomes) {
            println!("{} {expected} [{at}] {seen}", if holds { "ok " } else { "NOT" });
        }
    }
}
