//! Goal: the experiments whose expectations are shipped (`expectations/`) bring what they brought when they were
//! recorded, within what chance alone would move. After a change that is meant to move them:
//! `millstream lab record NAME --seeds N --to crates/lab/lab/expectations`.

use lab::{Expectation, Experiment, Limits, Store, attempt};

#[path = "../src/tests/testing/folder.rs"]
mod folder;

fn holds(experiment: &Experiment, text: &str) {
    let expected = Expectation::parse(text).unwrap();
    let name = &experiment.name;
    let folder = folder::Folder::new(name);
    let mut store = Store::open(&folder, experiment, "this", Limits::default()).unwrap();
    lab::sweep(&experiment.tasks(Some(expected.seeds)).unwrap(), 2, |ended| {
        store.keep(ended).unwrap();
        true
    });
    let seen = expected.compare(experiment, &store).unwrap();
    let moved: Vec<String> = seen.moved.iter().map(ToString::to_string).collect();
    println!("{name}: {} of {} runs have other bytes\n{}", seen.changed.len(), seen.runs, moved.join("\n"));
    assert!(seen.runs > 0 && seen.holds(false), "{name}:\n{}", moved.join("\n"));
    // The same combination again is the same to the last bit.
    let task = experiment.tasks(Some(1)).unwrap().swap_remove(0);
    assert_eq!(store.digest(&task.point, 1), Some(attempt(&task).unwrap().digest().as_str()));
}

#[test]
fn recorded_experiments_bring_what_they_brought() {
    let shipped = lab::shipped().unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/expectations");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let experiment = shipped.iter().find(|experiment| experiment.name == name).expect(name);
        holds(experiment, &std::fs::read_to_string(&path).unwrap());
        count += 1;
    }
    assert!(count >= 3, "{count} expectations");
}
