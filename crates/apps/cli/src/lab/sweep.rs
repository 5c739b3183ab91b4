//! `lab run`, `lab sweep` and `lab report`: everything an experiment's file and the command line ask for, on all cores.

use super::choice::{self, Chosen};
use super::keep::Keep;
use super::progress::Progress;
use super::results::{self, Results};
use super::{COMMIT, expect};
use crate::command::{CliResult, at_once};
use ::lab::{Courses, Expectation, Limits, Point, Store, Task, Vary};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Shipped experiments by name or the first part of it (`p7` is `p7-topology` and `p7-round-trip`), or TOML files.
    #[arg(required_unless_present = "all")]
    experiments: Vec<String>,
    /// Run all shipped experiments.
    #[arg(long, conflicts_with = "experiments")]
    all: bool,
    #[command(flatten)]
    engine: Engine,
    /// Fail if an expectation of the experiment is not met.
    #[arg(long)]
    check: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Compare with results of `lab record`: a file, or a folder with a file per experiment. Fails if a mean is outside
    /// its tolerance.
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// With --expect: fail also if a run differs from the recorded one in any byte.
    #[arg(long, requires = "expect")]
    exact: bool,
}

#[derive(clap::Args)]
pub(super) struct SweepArgs {
    #[command(flatten)]
    args: Args,
    /// Parameter and its values, such as path.rtt_ms=10,20,40, instead of the file's or in addition. Can be repeated;
    /// every combination is run.
    #[arg(long, value_name = "PLACE=VALUE,...", required = true)]
    vary: Vec<Vary>,
}

/// How runs are done and kept.
#[derive(clap::Args)]
pub(super) struct Engine {
    /// Number of seeds for each combination of parameters; default: the file's number.
    #[arg(long)]
    pub(super) seeds: Option<u64>,
    /// Number of concurrent runs; 0 is one per processor.
    #[arg(short, long, default_value_t = 0)]
    jobs: usize,
    /// Keep the time series of all seeds, not only of the first.
    #[arg(long)]
    all_courses: bool,
    /// Disk space in MiB for the runs of an experiment; beyond it, only measures are kept.
    #[arg(long, default_value_t = 1024)]
    disk: u64,
    /// Folder for the runs, report.html and the tables.
    #[arg(short, long, default_value = "lab-results")]
    pub(super) out: PathBuf,
    #[command(flatten)]
    keep: Keep,
}

impl Engine {
    pub(super) fn limits(&self) -> Limits {
        let courses = if self.all_courses { Courses::All } else { Courses::First };
        Limits { courses, bytes: self.disk.saturating_mul(1 << 20) }
    }

    /// Opens the results of earlier runs.
    fn look(&self, chosen: &Chosen) -> Result<Store, Box<dyn Error>> {
        let name = &chosen.experiment.name;
        let store = Store::look(&self.out, &chosen.experiment);
        Ok(store.map_err(|error| format!("{name} in {}: {error}", self.out.display()))?)
    }

    /// Runs what is missing, with so many seeds each.
    pub(super) fn complete(&self, chosen: &Chosen, seeds: Option<u64>) -> Result<Store, Box<dyn Error>> {
        let mut store = open(&self.out, chosen, self.limits())?;
        let mut tasks = chosen.experiment.tasks(seeds)?;
        tasks.iter_mut().for_each(|task| self.keep.tell(task, &chosen.experiment.name, &self.out));
        let all = tasks.len() as u64;
        let missing = store.missing(tasks);
        let done = all - missing.len() as u64;
        if self.keep.asks() && done > 0 {
            let (name, out) = (&chosen.experiment.name, self.out.display());
            eprintln!(
                "{name}: {done} runs in {out} were done before, and are not run again for a log or a capture"
            );
        }
        let (name, path) = (&chosen.experiment.name, store.path().to_owned());
        let groups = ::lab::alike(missing)?;
        let copies: usize = groups.iter().map(|group| group.others.len()).sum();
        if copies > 0 {
            eprintln!(
                "{name}: {copies} runs are equal to others but for parameters without effect; made once"
            );
        }
        let tasks: Vec<Task> = groups.iter().map(|group| group.task.clone()).collect();
        let mut others: BTreeMap<(Point, u64), Vec<Point>> =
            groups.into_iter().map(|group| ((group.task.point, group.task.seed), group.others)).collect();
        let progress = Progress::begin(name, done, all, &path)?;
        let mut written = Ok(());
        ::lab::sweep(&tasks, at_once(self.jobs), |ended| {
            let key = match &ended {
                Ok(outcome) => (outcome.point.clone(), outcome.seed),
                Err(failure) => (failure.point.clone(), failure.seed),
            };
            let others = others.remove(&key).unwrap_or_default();
            let (count, failed) = (1 + others.len() as u64, ended.is_err());
            written = progress.keep(count, failed, || {
                for point in others {
                    store.keep(::lab::renamed(&ended, point))?;
                }
                store.keep(ended)
            });
            written.is_ok()
        });
        drop(progress);
        let ended = written.and_then(|()| if tasks.is_empty() { Ok(()) } else { store.finish() });
        ended.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(store)
    }
}

/// The runs of an experiment that lie in `folder`.
pub(super) fn open(folder: &Path, chosen: &Chosen, limits: Limits) -> Result<Store, Box<dyn Error>> {
    let store = Store::open(folder, &chosen.experiment, &program()?, limits);
    Ok(store.map_err(|error| format!("{} in {}: {error}", chosen.experiment.name, folder.display()))?)
}

/// Returns the identity of this program: another build of one version may bring other bytes.
fn program() -> Result<String, Box<dyn Error>> {
    let file = std::fs::metadata(std::env::current_exe()?)?;
    let built = file.modified()?.duration_since(std::time::UNIX_EPOCH)?.as_nanos();
    Ok(format!("{} {COMMIT} {} {built}", env!("CARGO_PKG_VERSION"), file.len()))
}

pub(super) fn run(args: &Args) -> CliResult {
    go(args, &[], true)
}

pub(super) fn sweep(args: &SweepArgs) -> CliResult {
    go(&args.args, &args.vary, true)
}

pub(super) fn report(args: &Args) -> CliResult {
    go(args, &[], false)
}

fn go(args: &Args, vary: &[Vary], runs: bool) -> CliResult {
    let mut all = Vec::new();
    let mut expected = Vec::new();
    for chosen in choice::all(&args.experiments, args.all)? {
        let chosen = choice::varied(chosen, vary, &args.engine.out)?;
        let expectation = args.expect.as_deref().map(|path| expect::read(path, &chosen)).transpose()?;
        let seeds = args.engine.seeds.or(expectation.as_ref().map(|expectation| expectation.seeds));
        let store = if runs { args.engine.complete(&chosen, seeds)? } else { args.engine.look(&chosen)? };
        expected.push(expectation);
        all.push(Results::new(chosen, store));
    }
    results::write(&args.engine.out, &all)?;
    if args.json {
        results::print_json(&all);
    } else {
        results::print(&args.engine.out, &all);
    }
    results::judge(&all, args.check)?;
    let pairs: Vec<(&Expectation, &Results)> = expected
        .iter()
        .zip(&all)
        .filter_map(|(expectation, results)| Some((expectation.as_ref()?, results)))
        .collect();
    expect::compare(&pairs, args.exact, args.json)
}
