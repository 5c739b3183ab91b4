//! Runs on disk, kept as they end, so that a sweep that was stopped goes on where it was.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::experiment::Experiment;
use crate::run::{Outcome, Series};
use crate::spec::{Point, Task, shown};
use crate::sweep::{Ended, Failure};

/// Of which runs the courses over time are kept; they are most of what a run brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Courses {
    /// Of the first seed: what a report draws.
    First,
    /// Of all.
    All,
}

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Runs whose courses are kept.
    pub courses: Courses,
    /// Bytes of the file; runs that end beyond it are kept with their measures only.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { courses: Courses::First, bytes: 1 << 30 }
    }
}

impl Limits {
    /// Are the courses of a run with this seed kept?
    pub(crate) fn wants_courses(&self, seed: u64) -> bool {
        self.courses == Courses::All || seed == FIRST
    }
}

/// The seed that every combination is run with.
const FIRST: u64 = 1;

/// The first line of a file of runs.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Head {
    experiment: String,
    /// Input of a run besides its point and seed: see [`Experiment::basis`].
    basis: String,
    /// And the program.
    program: String,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    Run(Run),
    Failed(Failure),
}

impl Line {
    /// Which run it is about.
    pub(crate) fn key(&self) -> (&Point, u64) {
        match self {
            Line::Run(Run { outcome, .. }) => (&outcome.point, outcome.seed),
            Line::Failed(Failure { point, seed, .. }) => (point, *seed),
        }
    }
}

/// A run that ended well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// [`Outcome::digest`] of all that it brought, before courses were left out.
    pub(crate) digest: String,
    pub(crate) outcome: Outcome,
}

impl Outcome {
    /// Stands for everything a run brought, to the last bit: parameters, seed, measures, courses, distribution.
    pub fn digest(&self) -> String {
        crate::grid::hex(&serde_json::to_vec(self).expect("numbers and texts"))
    }
}

/// Of a line about a run that ended well, its courses.
#[derive(Deserialize)]
struct CoursesOfLine {
    run: CoursesOfRun,
}

#[derive(Deserialize)]
struct CoursesOfRun {
    outcome: CoursesOfOutcome,
}

#[derive(Deserialize)]
struct CoursesOfOutcome {
    series: BTreeMap<String, Series>,
}

/// The name of a run: its parameters and its seed.
type Key = (Point, u64);

/// Where a line is in the file, its end included.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u64,
    len: usize,
}

/// A run that ended well: its measures are among the outcomes.
#[derive(Debug)]
struct Held {
    nth: usize,
    /// Digest before courses were left out.
    digest: String,
    place: Place,
    /// Its line has courses.
    courses: bool,
}

/// Runs on disk, a line of JSON each behind a first line that says what they are of. In memory are their measures;
/// courses, of which there may be more than fits there, are read when a user asks for them.
pub struct Store {
    path: PathBuf,
    file: File,
    head: Head,
    points: HashSet<Point>,
    limits: Limits,
    /// Bytes in the file.
    len: u64,
    /// Without courses.
    outcomes: Vec<Outcome>,
    held: BTreeMap<Key, Held>,
    failures: BTreeMap<Key, (Failure, Place)>,
    /// Lines about combinations that the experiment does not have now, but had and may have again.
    aside: Vec<(Key, Place)>,
    /// Runs whose courses found no room.
    curtailed: usize,
}

impl Store {
    /// Opens `NAME.jsonl` in `folder` (which is made) and reads the runs in it, those of `experiment`'s combinations.
    /// A file of another basis or another `program` is put aside as `NAME.jsonl.old` and one begun anew; a last line
    /// that was cut off is dropped.
    ///
    /// # Errors
    /// The folder or the file cannot be made, read or written; another program has it open.
    pub fn open(folder: &Path, experiment: &Experiment, program: &str, limits: Limits) -> io::Result<Store> {
        std::fs::create_dir_all(folder)?;
        let path = place(folder, experiment);
        let head =
            Head { experiment: experiment.name.clone(), basis: experiment.basis(), program: program.into() };
        let mut file = create(&path, false)?;
        let known = first_line(&mut BufReader::new(file.try_clone()?))?.is_some_and(|(seen, _)| seen == head);
        if !known && file.metadata()?.len() > 0 {
            std::fs::rename(&path, path.with_extension("jsonl.old"))?;
            file = create(&path, false)?;
        }
        file.seek(SeekFrom::Start(0))?;
        let mut store = Store::empty(path, file, head, experiment, limits);
        if known {
            let whole = store.read()?;
            store.file.set_len(whole)?;
            store.file.seek(SeekFrom::End(0))?;
            store.len = whole;
        } else {
            append(&mut store.file, &mut store.len, &line_of(&store.head)?)?;
        }
        Ok(store)
    }

    /// Reads the runs of `experiment` in `folder`, whichever program ran them, and changes nothing.
    ///
    /// # Errors
    /// There are none, or they are of another basis.
    pub fn look(folder: &Path, experiment: &Experiment) -> io::Result<Store> {
        let path = place(folder, experiment);
        let mut file = File::open(&path)?;
        let head = first_line(&mut BufReader::new(file.try_clone()?))?.map(|(head, _)| head);
        let basis = experiment.basis();
        let fits = |head: &Head| head.experiment == experiment.name && head.basis == basis;
        let head = head.filter(fits).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "its runs are of another version of the experiment")
        })?;
        file.seek(SeekFrom::Start(0))?;
        let mut store = Store::empty(path, file, head, experiment, Limits::default());
        store.read()?;
        Ok(store)
    }

    fn empty(path: PathBuf, file: File, head: Head, experiment: &Experiment, limits: Limits) -> Store {
        Store {
            path,
            file,
            head,
            points: experiment.points().into_iter().map(shown).collect(),
            limits,
            len: 0,
            outcomes: Vec::new(),
            held: BTreeMap::new(),
            failures: BTreeMap::new(),
            aside: Vec::new(),
            curtailed: 0,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The runs that ended well, without their courses.
    pub fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// The courses of a run that ended well; empty if they were not kept.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn courses(&self, point: &Point, seed: u64) -> io::Result<BTreeMap<String, Series>> {
        match self.held.get(&(point.clone(), seed)) {
            Some(held) if held.courses => {
                let line: CoursesOfLine = serde_json::from_slice(&bytes(&self.file, held.place)?)?;
                Ok(line.run.outcome.series)
            }
            _ => Ok(BTreeMap::new()),
        }
    }

    /// Those that did not.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.failures.values().map(|(failure, _)| failure)
    }

    /// [`Outcome::digest`] of a run it holds, as it was before courses were left out.
    pub fn digest(&self, point: &Point, seed: u64) -> Option<&str> {
        self.held.get(&(point.clone(), seed)).map(|held| held.digest.as_str())
    }

    /// Runs whose courses were left out because the file is full.
    pub fn curtailed(&self) -> usize {
        self.curtailed
    }

    /// Those of `tasks` that it does not hold yet; what failed is tried again.
    pub fn missing(&self, tasks: Vec<Task>) -> Vec<Task> {
        let full = self.len >= self.limits.bytes;
        let whole =
            |((_, seed), held): &(&Key, &Held)| full || !self.limits.wants_courses(*seed) || held.courses;
        let held: HashSet<(&Point, u64)> =
            self.held.iter().filter(whole).map(|((point, seed), _)| (point, *seed)).collect();
        tasks.into_iter().filter(|task| !held.contains(&(&task.point, task.seed))).collect()
    }

    /// Keeps how a run ended.
    ///
    /// # Errors
    /// It cannot be written, and is not held.
    pub fn keep(&mut self, ended: Ended) -> io::Result<()> {
        let line = match ended {
            Ok(outcome) => Line::Run(self.curtail(outcome)),
            Err(failure) => Line::Failed(failure),
        };
        self.keep_line(line)
    }

    /// Keeps how a run ended elsewhere.
    pub(crate) fn keep_line(&mut self, line: Line) -> io::Result<()> {
        let place = append(&mut self.file, &mut self.len, &line_of(&line)?)?;
        self.hold(line, place);
        Ok(())
    }

    /// Puts the file in order: a line a run, sorted by parameters and seed, so that it is the same however often the
    /// sweep was stopped and whichever process ran it.
    ///
    /// # Errors
    /// It cannot be written; what lies on disk is as before.
    pub fn finish(&mut self) -> io::Result<()> {
        let beside = self.path.with_extension("jsonl.new");
        let (mut file, mut len) = (create(&beside, true)?, 0);
        append(&mut file, &mut len, &line_of(&self.head)?)?;
        let held = self.held.iter().map(|(key, held)| (key, held.place));
        let failed = self.failures.iter().map(|(key, (_, place))| (key, *place));
        let aside = self.aside.iter().map(|(key, place)| (key, *place));
        let mut lines: Vec<(&Key, Place)> = held.chain(failed).chain(aside).collect();
        lines.sort_by(|a, b| a.0.cmp(b.0));
        let mut moved = HashMap::new();
        for (_, place) in lines {
            moved.insert(place.at, append(&mut file, &mut len, &bytes(&self.file, place)?)?);
        }
        std::fs::rename(&beside, &self.path)?;
        // Until then the old file was ours.
        (self.file, self.len) = (file, len);
        self.settle(&moved);
        Ok(())
    }

    /// Lines were sorted: what began there before lies here now.
    fn settle(&mut self, moved: &HashMap<u64, Place>) {
        let held = self.held.values_mut().map(|held| &mut held.place);
        let failed = self.failures.values_mut().map(|(_, place)| place);
        for place in held.chain(failed).chain(self.aside.iter_mut().map(|(_, place)| place)) {
            *place = moved[&place.at];
        }
        self.outcomes.sort_by(|a, b| (&a.point, a.seed).cmp(&(&b.point, b.seed)));
        self.held.values_mut().enumerate().for_each(|(nth, held)| held.nth = nth);
    }

    /// Leaves courses out that are not wanted or find no room.
    fn curtail(&mut self, mut outcome: Outcome) -> Run {
        let digest = outcome.digest();
        let wanted = self.limits.wants_courses(outcome.seed);
        let full = self.len >= self.limits.bytes;
        if !wanted || full {
            outcome.series.clear();
        }
        if full {
            outcome.delays.clear();
        }
        self.curtailed += usize::from(wanted && full);
        Run { digest, outcome }
    }

    fn hold(&mut self, line: Line, place: Place) {
        let key = (line.key().0.clone(), line.key().1);
        if !self.points.contains(&key.0) {
            return self.aside.push((key, place));
        }
        match line {
            Line::Run(Run { digest, mut outcome }) => {
                self.failures.remove(&key);
                let courses = !std::mem::take(&mut outcome.series).is_empty();
                let nth = self.held.get(&key).map_or(self.outcomes.len(), |held| held.nth);
                self.held.insert(key, Held { nth, digest, place, courses });
                match self.outcomes.get_mut(nth) {
                    Some(old) => *old = outcome,
                    None => self.outcomes.push(outcome),
                }
            }
            Line::Failed(failure) => {
                self.failures.insert(key, (failure, place));
            }
        }
    }

    /// Reads the file as far as its lines are whole: so many bytes.
    fn read(&mut self) -> io::Result<u64> {
        let mut lines = BufReader::new(self.file.try_clone()?);
        let mut whole = first_line(&mut lines)?.map_or(0, |(_, len)| len);
        let mut line = String::new();
        loop {
            line.clear();
            let len = lines.read_line(&mut line)? as u64;
            match serde_json::from_str::<Line>(&line) {
                Ok(read) if line.ends_with('\n') => self.hold(read, Place { at: whole, len: line.len() }),
                _ => return Ok(whole),
            }
            whole += len;
        }
    }
}

/// A line of the file.
fn line_of(row: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(row)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes `line` behind the `len` bytes there are.
fn append(file: &mut File, len: &mut u64, line: &[u8]) -> io::Result<Place> {
    let place = Place { at: *len, len: line.len() };
    *len += line.len() as u64;
    file.write_all(line)?;
    Ok(place)
}

/// Reads the bytes at `place`.
fn bytes(file: &File, place: Place) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; place.len];
    file.read_exact_at(&mut bytes, place.at)?;
    Ok(bytes)
}

fn place(folder: &Path, experiment: &Experiment) -> PathBuf {
    folder.join(format!("{}.jsonl", experiment.name))
}

/// A file for us alone: two sweeps that write one file would leave neither's.
fn create(path: &Path, truncate: bool) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(truncate).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(io::Error::new(io::ErrorKind::WouldBlock, "another sweep writes it"))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The head of a file and its bytes; `None` if that is no head.
fn first_line(lines: &mut impl BufRead) -> io::Result<Option<(Head, u64)>> {
    let mut line = String::new();
    let len = lines.read_line(&mut line)? as u64;
    Ok(serde_json::from_str(&line).ok().map(|head| (head, len)))
}

#[cfg(test)]
mod tests;
