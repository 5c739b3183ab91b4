//! `lab export`, `lab task` and `lab gather`: a sweep on other machines. A plan is a folder: `tasks.jsonl` with a run a
//! line, `NAME.toml` for each experiment, and `results/ID.json` for each task that is done.

use super::COMMIT;
use super::choice::{self, Chosen};
use super::results::{self, Results};
use super::sweep::open;
use crate::command::CliResult;
use ::lab::{Brought, Courses, Experiment, Limits, Planned, Vary};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a task; a file of an experiment is far smaller.
const TASK_MAX: u64 = 1 << 20;

#[derive(clap::Args)]
pub(super) struct ExportArgs {
    /// Shipped experiments by name, or TOML files.
    #[arg(required = true)]
    experiments: Vec<String>,
    /// Parameter and its values, as for `lab sweep`.
    #[arg(long, value_name = "PLACE=VALUE,...")]
    vary: Vec<Vary>,
    /// Number of seeds for each combination of parameters; default: the file's number.
    #[arg(long)]
    seeds: Option<u64>,
    /// Keep the time series of all seeds, not only of the first.
    #[arg(long)]
    all_courses: bool,
    /// Folder for the plan.
    #[arg(short, long)]
    out: PathBuf,
}

#[derive(clap::Args)]
pub(super) struct GatherArgs {
    /// The folder of the plan.
    plan: PathBuf,
    /// Write a report even if results are missing.
    #[arg(long)]
    partial: bool,
    /// Fail if an expectation of the experiment is not met.
    #[arg(long)]
    check: bool,
}

pub(super) fn export(args: &ExportArgs) -> CliResult {
    let courses = if args.all_courses { Courses::All } else { Courses::First };
    let limits = Limits { courses, ..Limits::default() };
    let results = args.out.join("results");
    std::fs::create_dir_all(&results).map_err(|error| format!("{}: {error}", results.display()))?;
    let (mut lines, mut count) = (Vec::new(), 0);
    for chosen in choice::all(&args.experiments, false)? {
        let Chosen { experiment, .. } = choice::varied(chosen, &args.vary, &args.out)?;
        let path = args.out.join(format!("{}.toml", experiment.name));
        results::replace(&path, experiment.text().as_bytes())?;
        for planned in Planned::all(&experiment, args.seeds, limits, COMMIT)? {
            serde_json::to_writer(&mut lines, &planned)?;
            lines.push(b'\n');
            count += 1;
        }
    }
    let path = args.out.join("tasks.jsonl");
    // Results of another plan would be taken for this one's.
    if std::fs::read(&path).is_ok_and(|before| before != lines) && results.read_dir()?.next().is_some() {
        return Err(format!("{}: another plan, with results", args.out.display()).into());
    }
    results::replace(&path, &lines)?;
    outln!("{}: {count} tasks", path.display());
    Ok(())
}

pub(super) fn task() -> CliResult {
    let mut text = String::new();
    std::io::stdin().lock().take(TASK_MAX).read_to_string(&mut text)?;
    let planned: Planned = serde_json::from_str(&text).map_err(|error| format!("the task: {error}"))?;
    outln!("{}", serde_json::to_string(&planned.run(COMMIT)?)?);
    Ok(())
}

pub(super) fn gather(args: &GatherArgs) -> CliResult {
    let mut missing = Vec::new();
    let mut all = Vec::new();
    for (name, tasks) in plan(&args.plan)? {
        let path = args.plan.join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let chosen =
            Chosen { experiment: Experiment::parse(&name, &text)?, source: path.display().to_string() };
        let limits = Limits { bytes: u64::MAX, ..Limits::default() };
        let mut store = open(&args.plan, &chosen, limits)?;
        for task in tasks {
            match result(&args.plan, &task) {
                Ok(brought) => brought.keep(&mut store)?,
                Err(why) => missing.push(why.to_string()),
            }
        }
        store.finish().map_err(|error| format!("{}: {error}", store.path().display()))?;
        all.push(Results::new(chosen, store));
    }
    missing.iter().take(10).for_each(|why| eprintln!("{why}"));
    if !missing.is_empty() && !args.partial {
        return Err(format!("{} tasks have no result", missing.len()).into());
    }
    results::write(&args.plan, &all)?;
    results::print(&args.plan, &all);
    results::judge(&all, args.check)
}

/// The tasks of a plan by experiment.
fn plan(folder: &Path) -> Result<BTreeMap<String, Vec<Planned>>, Box<dyn Error>> {
    let path = folder.join("tasks.jsonl");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut tasks: BTreeMap<String, Vec<Planned>> = BTreeMap::new();
    for (nth, line) in text.lines().enumerate() {
        let planned: Planned =
            serde_json::from_str(line).map_err(|error| format!("{}:{}: {error}", path.display(), nth + 1))?;
        tasks.entry(planned.experiment.clone()).or_default().push(planned);
    }
    Ok(tasks)
}

/// How a task ended.
fn result(folder: &Path, task: &Planned) -> Result<Brought, Box<dyn Error>> {
    let path = folder.join("results").join(format!("{}.json", task.id));
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(&error))?;
    let brought: Brought = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    brought.verify(task).map_err(|error| wrong(&error))?;
    Ok(brought)
}
