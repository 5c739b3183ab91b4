//! `lab record`, and the comparison with what it wrote.

use super::choice::{self, Chosen};
use super::results::{Results, replace};
use super::sweep::Engine;
use crate::command::CliResult;
use ::lab::Expectation;
use std::error::Error;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Shipped experiments by name, or TOML files.
    #[arg(required = true)]
    experiments: Vec<String>,
    #[command(flatten)]
    engine: Engine,
    /// Folder for the expectations, NAME.toml each.
    #[arg(long, value_name = "FOLDER", default_value = "expectations")]
    to: PathBuf,
}

pub(super) fn record(args: &Args) -> CliResult {
    std::fs::create_dir_all(&args.to).map_err(|error| format!("{}: {error}", args.to.display()))?;
    for chosen in choice::all(&args.experiments, false)? {
        let seeds = args.engine.seeds.unwrap_or(chosen.experiment.spec().seeds);
        let store = args.engine.complete(&chosen, Some(seeds))?;
        let expectation = Expectation::record(&chosen.experiment, &store, seeds)?;
        let path = place(&args.to, &chosen);
        replace(&path, expectation.text().as_bytes())?;
        outln!("{}", path.display());
    }
    Ok(())
}

fn place(folder: &Path, chosen: &Chosen) -> PathBuf {
    folder.join(format!("{}.toml", chosen.experiment.name))
}

/// The expectation of an experiment: `path`, or the file of its name in it.
pub(super) fn read(path: &Path, chosen: &Chosen) -> Result<Expectation, Box<dyn Error>> {
    let path = if path.is_dir() { place(path, chosen) } else { path.to_owned() };
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(&error))?;
    Ok(Expectation::parse(&text).map_err(|error| wrong(&error))?)
}

/// Tells what moved; fails if that is more than may be.
pub(super) fn compare(pairs: &[(&Expectation, &Results)], exact: bool, json: bool) -> CliResult {
    let mut broken = Vec::new();
    for (expectation, Results { chosen, store, .. }) in pairs {
        let seen = expectation.compare(&chosen.experiment, store)?;
        let name = &chosen.experiment.name;
        if json {
            outln!("{}", serde_json::json!({ "experiment": name, "expected": seen }));
        } else {
            let same = seen.runs - seen.changed.len();
            outln!("{name}: {same} of {} runs are the recorded bytes", seen.runs);
            for (at, seed) in &seen.changed {
                outln!("  other bytes  seed {seed} [{at}]");
            }
            for moved in &seen.moved {
                outln!("  {}  {moved}", if moved.within { "moved      " } else { "MOVED AWAY " });
            }
        }
        if !seen.holds(exact) {
            broken.push(name.as_str());
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(format!("not as recorded: {}", broken.join(", ")).into()) }
}
