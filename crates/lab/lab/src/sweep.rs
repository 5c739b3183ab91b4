//! Many runs: on all cores, kept as they come, so that a sweep that was stopped goes on where it was.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc;

use crate::run::{Outcome, run};
use crate::spec::{Experiment, Point, SpecError, Task};

/// Runs `tasks` on `threads` threads and hands each outcome to `done` as it comes, on the caller's thread. `done` may
/// stop the sweep by returning false; runs that have begun are finished, and thrown away.
///
/// # Errors
/// Those of [`run`].
pub fn sweep(tasks: &[Task], threads: usize, mut done: impl FnMut(Outcome) -> bool) -> Result<(), SpecError> {
    let queue = Mutex::new(tasks.iter());
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, tasks.len().max(1)) {
            let (send, queue) = (send.clone(), &queue);
            scope.spawn(move || {
                loop {
                    let Some(task) = queue.lock().unwrap_or_else(|broken| broken.into_inner()).next() else {
                        return;
                    };
                    // Nobody listens any more: the sweep was stopped.
                    if send.send(run(task)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        for outcome in &receive {
            if !done(outcome?) {
                break;
            }
        }
        drop(receive);
        Ok(())
    })
}

/// The first line of a file of outcomes.
#[derive(PartialEq, Serialize, Deserialize)]
struct Head {
    experiment: String,
    /// What decides a run besides its point and seed: the file and the program.
    file: String,
    version: String,
}

impl Head {
    fn of(experiment: &Experiment) -> Head {
        Head {
            experiment: experiment.name.clone(),
            file: experiment.text().into(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

/// Outcomes on disk, a line of JSON each behind a first line that says what they are of.
pub struct Store {
    path: PathBuf,
    file: File,
    outcomes: Vec<Outcome>,
}

impl Store {
    /// Opens `NAME.jsonl` in `folder` (which is made) and reads the outcomes in it. A file of another version of the
    /// experiment or the program is begun anew; a last line that was cut off is dropped.
    ///
    /// # Errors
    /// The folder or the file cannot be made, read or written.
    pub fn open(folder: &Path, experiment: &Experiment) -> io::Result<Store> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{}.jsonl", experiment.name));
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let head = Head::of(experiment);
        let (outcomes, whole) = read(&mut file, &head)?;
        file.set_len(whole)?;
        file.seek(SeekFrom::End(0))?;
        if whole == 0 {
            append(&mut file, &head)?;
        }
        Ok(Store { path, file, outcomes })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Those of `tasks` that it does not hold yet.
    pub fn missing(&self, tasks: Vec<Task>) -> Vec<Task> {
        let held: HashSet<(&Point, u64)> =
            self.outcomes.iter().map(|outcome| (&outcome.point, outcome.seed)).collect();
        tasks.into_iter().filter(|task| !held.contains(&(&task.point, task.seed))).collect()
    }

    /// Keeps an outcome.
    ///
    /// # Errors
    /// It cannot be written; it is held in memory all the same.
    pub fn keep(&mut self, outcome: Outcome) -> io::Result<()> {
        let written = append(&mut self.file, &outcome);
        self.outcomes.push(outcome);
        written
    }
}

/// The outcomes behind a first line like `head`, and the octets of whole lines; nothing if the first line is another.
fn read(file: &mut File, head: &Head) -> io::Result<(Vec<Outcome>, u64)> {
    let mut lines = BufReader::new(file);
    let mut line = String::new();
    let mut whole = lines.read_line(&mut line)? as u64;
    if serde_json::from_str::<Head>(&line).ok().as_ref() != Some(head) {
        return Ok((Vec::new(), 0));
    }
    let mut outcomes = Vec::new();
    loop {
        line.clear();
        let len = lines.read_line(&mut line)? as u64;
        match serde_json::from_str(&line) {
            Ok(outcome) if line.ends_with('\n') => outcomes.push(outcome),
            _ => return Ok((outcomes, whole)),
        }
        whole += len;
    }
}

fn append(file: &mut File, row: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(row)?;
    line.push(b'\n');
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    //! Goal: a sweep brings each run once, however many threads; a store goes on after a kill and refuses what is
    //! stale.
    use super::*;

    const FILE: &str = r#"
        title = "Small"
        seconds = 1
        seeds = 3
        [path]
        rtt_ms = 10
        down_kbit = 1000
        queue = "slots 10"
        [[flow]]
        cc = "newreno"
        [vary]
        "path.rtt_ms" = [10, 20]
    "#;

    fn all(threads: usize, tasks: &[Task]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        sweep(tasks, threads, |outcome| {
            outcomes.push(outcome);
            true
        })
        .unwrap();
        outcomes.sort_by(|a, b| (&a.point, a.seed).cmp(&(&b.point, b.seed)));
        outcomes
    }

    #[test]
    fn threads_change_nothing() {
        let experiment = Experiment::parse("small", FILE).unwrap();
        let tasks = experiment.tasks(None).unwrap();
        let outcomes = all(1, &tasks);
        assert_eq!(outcomes.len(), 6);
        assert_eq!(outcomes, all(4, &tasks));
        let mut seen = 0;
        sweep(&tasks, 2, |_| {
            seen += 1;
            false
        })
        .unwrap();
        assert_eq!(seen, 1, "stopped");
    }

    #[test]
    fn a_store_goes_on_where_it_was_cut_off() {
        let folder = std::env::temp_dir().join(format!("millstream-lab-{}", std::process::id()));
        let experiment = Experiment::parse("small", FILE).unwrap();
        let tasks = || experiment.tasks(None).unwrap();
        let mut store = Store::open(&folder, &experiment).unwrap();
        for outcome in all(2, &tasks()[..3]) {
            store.keep(outcome).unwrap();
        }
        let (path, kept) = (store.path().to_owned(), store.outcomes().to_vec());
        drop(store);
        let mut text = std::fs::read(&path).unwrap();
        text.extend_from_slice(b"{\"point\":{},\"se");
        std::fs::write(&path, &text).unwrap();
        let store = Store::open(&folder, &experiment).unwrap();
        assert_eq!(store.outcomes(), kept);
        assert_eq!(store.missing(tasks()).len(), 3);

        let changed = Experiment::parse("small", &FILE.replace("slots 10", "slots 11")).unwrap();
        assert!(Store::open(&folder, &changed).unwrap().outcomes().is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
