//! `millstream lab`: experiments in virtual time.

use crate::{CliResult, at_once};
use ::lab::report::{self, Chapter};
use ::lab::{Experiment, Store, Verdict, shipped, sweep};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};

/// Arguments of the command.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the shipped experiments, or the measures.
    List {
        /// List what is measured instead.
        #[arg(long)]
        measures: bool,
    },
    /// Run experiments and write a report. Stopped, it goes on where it was.
    Run(RunArgs),
    /// Write the report again from what was run before.
    Report(RunArgs),
}

#[derive(clap::Args)]
struct RunArgs {
    /// Shipped experiments by name, or TOML files.
    #[arg(required_unless_present = "all")]
    experiments: Vec<String>,
    /// All shipped experiments.
    #[arg(long, conflicts_with = "experiments")]
    all: bool,
    /// Seeds for each combination of parameters, instead of the file's number.
    #[arg(long)]
    seeds: Option<u64>,
    /// Runs at the same time; 0 means one for each processor.
    #[arg(short, long, default_value_t = 0)]
    jobs: usize,
    /// Fail if something expected did not come out.
    #[arg(long)]
    check: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Folder for outcomes, report.html and report.csv.
    #[arg(short, long, default_value = "lab-results")]
    out: PathBuf,
}

/// Lists, runs, reports.
pub(crate) fn run(args: Args) -> CliResult {
    match args.command {
        Command::List { measures } => list(measures),
        Command::Run(args) => run_all(&args, true),
        Command::Report(args) => run_all(&args, false),
    }
}

fn list(measures: bool) -> CliResult {
    if measures {
        ::lab::measures().iter().for_each(|(name, help)| println!("{name:<18} {help}"));
        return Ok(());
    }
    for experiment in shipped()? {
        let runs = experiment.tasks(None)?.len();
        println!("{:<20} {runs:>4} runs  {}", experiment.name, experiment.spec().title);
    }
    Ok(())
}

fn chosen(args: &RunArgs) -> Result<Vec<Experiment>, Box<dyn std::error::Error>> {
    let shipped = shipped()?;
    if args.all {
        return Ok(shipped);
    }
    let find = |name: &String| -> Result<Experiment, Box<dyn std::error::Error>> {
        if let Some(known) = shipped.iter().find(|experiment| experiment.name == *name) {
            return Ok(known.clone());
        }
        let path = Path::new(name);
        if path.extension().is_none() {
            let names: Vec<&str> = shipped.iter().map(|experiment| experiment.name.as_str()).collect();
            return Err(
                format!("no experiment {name}; there are {}, and files *.toml", names.join(", ")).into()
            );
        }
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        let stem = path.file_stem().map_or(name.as_str().into(), |stem| stem.to_string_lossy());
        Ok(Experiment::parse(&stem, &text)?)
    };
    args.experiments.iter().map(find).collect()
}

fn run_all(args: &RunArgs, runs: bool) -> CliResult {
    let experiments = chosen(args)?;
    let mut stores = Vec::new();
    for experiment in &experiments {
        let mut store =
            Store::open(&args.out, experiment).map_err(|error| format!("{}: {error}", args.out.display()))?;
        if runs {
            complete(args, experiment, &mut store)?;
        }
        stores.push(store);
    }
    let verdicts: Vec<Vec<Verdict>> = experiments
        .iter()
        .zip(&stores)
        .map(|(experiment, store)| experiment.judge(store.outcomes()))
        .collect();
    let rows = experiments.iter().zip(&stores).zip(&verdicts);
    let chapters: Vec<Chapter<'_>> = rows
        .map(|((experiment, store), verdicts)| Chapter { experiment, outcomes: store.outcomes(), verdicts })
        .collect();
    let page = args.out.join("report.html");
    std::fs::write(&page, report::html(&chapters)).map_err(|error| format!("{}: {error}", page.display()))?;
    let table = args.out.join("report.csv");
    std::fs::write(&table, report::csv(&chapters))
        .map_err(|error| format!("{}: {error}", table.display()))?;
    if args.json {
        print_json(&chapters)
    } else {
        print(&chapters, &page)
    }
    let failed = verdicts.iter().flatten().filter(|verdict| !verdict.holds).count();
    if args.check && failed > 0 {
        return Err(format!("{failed} expectations do not hold").into());
    }
    Ok(())
}

/// Runs what `store` does not hold yet.
fn complete(args: &RunArgs, experiment: &Experiment, store: &mut Store) -> CliResult {
    let tasks = experiment.tasks(args.seeds)?;
    let all = tasks.len() as u64;
    let missing = store.missing(tasks);
    let style = ProgressStyle::with_template("{prefix:<20} {bar:40} {pos}/{len} runs, {eta} left")?;
    let bar = ProgressBar::new(all).with_style(style).with_prefix(experiment.name.clone());
    bar.set_position(all - missing.len() as u64);
    let mut written = Ok(());
    sweep(&missing, at_once(args.jobs), |outcome| {
        written = store.keep(outcome);
        bar.inc(1);
        written.is_ok()
    })?;
    bar.finish_and_clear();
    written.map_err(|error| format!("{}: {error}", store.path().display()).into())
}

fn print(chapters: &[Chapter<'_>], page: &Path) {
    for Chapter { experiment, outcomes, verdicts } in chapters {
        println!("{} ({} runs)", experiment.spec().title, outcomes.len());
        for Verdict { expected, at, seen, holds } in *verdicts {
            let mark = if *holds { "holds" } else { "FAILS" };
            let place = if at.is_empty() { String::new() } else { format!(" [{at}]") };
            println!("  {mark}  {expected}{place}\n         {seen}");
        }
    }
    println!("report: {}", page.display());
}

fn print_json(chapters: &[Chapter<'_>]) {
    let rows: Vec<_> = chapters
        .iter()
        .map(|Chapter { experiment, outcomes, verdicts }| {
            let name = &experiment.name;
            serde_json::json!({ "experiment": name, "runs": outcomes.len(), "verdicts": verdicts })
        })
        .collect();
    println!("{}", serde_json::json!({ "experiments": rows }));
}
