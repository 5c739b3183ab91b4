//! `lab replay`: one run again, with everything that can be seen of it.

use super::choice;
use super::keep::Keep;
use super::results::replace;
use crate::command::CliResult;
use ::lab::{Film, Outcome, Point};
use std::fmt::Write;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Shipped experiment by name, or a TOML file.
    experiment: String,
    /// Combination, PLACE=VALUE,...: a value for each parameter that the file varies, and optionally for others.
    #[arg(long, default_value = "", value_parser = ::lab::point)]
    point: std::collections::BTreeMap<String, String>,
    /// Seed of the run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Largest size of the packet capture in MiB; 0 captures nothing.
    #[arg(long, default_value_t = 256)]
    film: u64,
    /// Digest that the run must have; otherwise the command fails.
    #[arg(long)]
    digest: Option<String>,
    /// Folder for outcome.json, series.csv and packets.pcapng.
    #[arg(short, long, default_value = "lab-replay")]
    out: PathBuf,
    #[command(flatten)]
    keep: Keep,
}

pub(super) fn replay(args: &Args) -> CliResult {
    let point: &Point = &args.point;
    let experiment = choice::find(&args.experiment)?.experiment.only(point)?;
    let mut task = experiment.tasks(Some(args.seed))?.pop().ok_or("a seed is 1 or more")?;
    args.keep.tell(&mut task, &experiment.name, &args.out);
    std::fs::create_dir_all(&args.out).map_err(|error| format!("{}: {error}", args.out.display()))?;
    let outcome = if args.film == 0 {
        ::lab::run(&task)?
    } else {
        let path = args.out.join("packets.pcapng");
        let file = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let film = Film::new(BufWriter::new(file), args.film << 20);
        let (outcome, packets, missed) = ::lab::replay(&task, film)?;
        outln!("{}: {packets} packets, {missed} beyond --film", path.display());
        outcome
    };
    let digest = outcome.digest();
    let mut text = serde_json::to_string_pretty(&outcome)?;
    text.push('\n');
    replace(&args.out.join("outcome.json"), text.as_bytes())?;
    replace(&args.out.join("series.csv"), series(&outcome).as_bytes())?;
    for (measure, value) in &outcome.measures {
        outln!("{measure:<20} {value}");
    }
    outln!("digest {digest}");
    match &args.digest {
        Some(wanted) if *wanted != digest => Err(format!("the run is not {wanted}").into()),
        _ => Ok(()),
    }
}

/// A row for each point of a course.
fn series(outcome: &Outcome) -> String {
    let mut table = String::from("name,time,value\n");
    for (name, course) in &outcome.series {
        for (time, value) in course {
            writeln!(table, "{name},{time},{value}").expect("a string takes everything");
        }
    }
    table
}
