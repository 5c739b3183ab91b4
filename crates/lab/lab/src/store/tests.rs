//! Goal: a store goes on after a kill, keeps no more than it may, and refuses what is stale.
use super::*;
use crate::attempt;
use crate::tests::testing::{Folder, SMALL, small};

impl Folder {
    fn open(&self, file: &str, limits: Limits) -> Store {
        Store::open(self, &small(file), "here", limits).unwrap()
    }
}

fn tasks(file: &str) -> Vec<Task> {
    small(file).tasks(None).unwrap()
}

fn complete(store: &mut Store, file: &str) {
    for task in store.missing(tasks(file)) {
        store.keep(attempt(&task)).unwrap();
    }
    store.finish().unwrap();
}

#[test]
fn it_goes_on_where_it_was_cut_off() {
    let (folder, whole) = (Folder::new("cut"), Folder::new("whole"));
    let mut store = folder.open(SMALL, Limits::default());
    for task in tasks(SMALL)[..3].iter().rev() {
        store.keep(attempt(task)).unwrap();
    }
    let (path, kept) = (store.path().to_owned(), store.outcomes().to_vec());
    drop(store);
    let mut text = std::fs::read(&path).unwrap();
    text.extend_from_slice(b"{\"run\":{\"dig");
    std::fs::write(&path, &text).unwrap();
    let mut store = folder.open(SMALL, Limits::default());
    assert_eq!(store.outcomes(), kept);
    assert_eq!(store.missing(tasks(SMALL)).len(), 3);
    complete(&mut store, SMALL);

    let mut straight = whole.open(SMALL, Limits::default());
    complete(&mut straight, SMALL);
    let stored = std::fs::read(store.path()).unwrap();
    assert_eq!(stored, std::fs::read(straight.path()).unwrap());
    drop(store);
    let again = folder.open(SMALL, Limits::default());
    assert_eq!((again.outcomes(), again.missing(tasks(SMALL)).len()), (straight.outcomes(), 0));
    assert_eq!(std::fs::read(again.path()).unwrap(), stored);
}

#[test]
fn other_values_leave_what_was_run() {
    let folder = Folder::new("wider");
    complete(&mut folder.open(SMALL, Limits::default()), SMALL);
    let wider = SMALL.replace("[10, 20]", "[10, 30]");
    let mut store = folder.open(&wider, Limits::default());
    assert_eq!((store.outcomes().len(), store.missing(tasks(&wider)).len()), (3, 3));
    complete(&mut store, &wider);
    drop(store);
    assert_eq!(folder.open(SMALL, Limits::default()).outcomes().len(), 6);
}

#[test]
fn what_is_of_another_file_or_program_is_put_aside() {
    let folder = Folder::new("stale");
    let mut store = folder.open(SMALL, Limits::default());
    complete(&mut store, SMALL);
    let experiment = small(SMALL);
    let again = Store::open(&folder, &experiment, "here", Limits::default());
    assert_eq!(again.map(|_| ()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert_eq!(Store::look(&folder, &experiment).unwrap().outcomes(), store.outcomes());
    let (stored, old) = (std::fs::read(store.path()).unwrap(), store.path().with_extension("jsonl.old"));
    drop(store);

    let changed = SMALL.replace("slots 10", "slots 11");
    let other = Experiment::parse("small", &changed).unwrap();
    assert!(Store::look(&folder, &other).is_err());
    assert!(folder.open(&changed, Limits::default()).outcomes().is_empty());
    assert_eq!(std::fs::read(&old).unwrap(), stored);
    assert!(Store::open(&folder, &other, "there", Limits::default()).unwrap().outcomes().is_empty());
    assert!(Store::look(&folder, &experiment).is_err());
}

#[test]
fn courses_of_the_first_seed_stay_while_there_is_room() {
    let folder = Folder::new("room");
    let mut store = folder.open(SMALL, Limits::default());
    complete(&mut store, SMALL);
    let with = |store: &Store| -> Vec<u64> {
        let courses = |outcome: &Outcome| store.courses(&outcome.point, outcome.seed).unwrap();
        let whole = store.outcomes().iter().filter(|outcome| !courses(outcome).is_empty());
        whole.map(|outcome| outcome.seed).collect()
    };
    assert_eq!(with(&store), [1, 1]);
    let first = &tasks(SMALL)[0];
    assert_eq!(store.courses(&first.point, 1).unwrap(), crate::run(first).unwrap().series, "to the last bit");
    assert!(store.outcomes().iter().all(|outcome| outcome.series.is_empty()), "they stay on disk");
    let task = &tasks(SMALL)[1];
    let digest = crate::run(task).unwrap().digest();
    assert_eq!(store.digest(&task.point, task.seed), Some(digest.as_str()), "of the whole run");

    drop(store);
    let all = Limits { courses: Courses::All, ..Limits::default() };
    let mut store = folder.open(SMALL, all);
    assert_eq!(store.missing(tasks(SMALL)).len(), 4, "those without courses");
    complete(&mut store, SMALL);
    assert_eq!(with(&store).len(), 6);

    let small = Folder::new("small");
    let mut store = small.open(SMALL, Limits { bytes: 4000, ..all });
    complete(&mut store, SMALL);
    assert!(with(&store).len() < 6 && store.curtailed() > 0 && store.outcomes().len() == 6);
    assert!(store.missing(tasks(SMALL)).is_empty(), "no run again and again");
}

#[test]
fn a_failure_is_held_until_the_run_succeeds() {
    let folder = Folder::new("failed");
    let mut store = folder.open(SMALL, Limits::default());
    let task = &tasks(SMALL)[0];
    let failure = Failure { point: task.point.clone(), seed: task.seed, why: "no".into() };
    store.keep(Err(failure.clone())).unwrap();
    store.keep(Err(failure.clone())).unwrap();
    store.finish().unwrap();
    drop(store);
    let mut store = folder.open(SMALL, Limits::default());
    assert!(store.failures().eq([&failure]) && store.missing(tasks(SMALL)).len() == 6);
    complete(&mut store, SMALL);
    drop(store);
    assert_eq!(folder.open(SMALL, Limits::default()).failures().count(), 0);
}
