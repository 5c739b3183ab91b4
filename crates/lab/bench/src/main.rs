//! `millstream-bench NAME`: what `cargo xtask bench` runs.
#![forbid(unsafe_code)]

use bench::{ALL, Plan};
use clap::Parser;
use std::process::ExitCode;

/// Run a benchmark and print its figures.
#[derive(Parser)]
struct Args {
    /// Which; without a name, lists them.
    name: Option<String>,
    /// A B A B pairs.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds each measurement lasts.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Print only JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let Some(name) = args.name else {
        for bench in ALL {
            println!("{:<14} {}", bench.name, bench.help);
        }
        return ExitCode::SUCCESS;
    };
    let Some(bench) = ALL.iter().find(|bench| bench.name == name) else {
        let names: Vec<_> = ALL.iter().map(|bench| bench.name).collect();
        eprintln!("millstream-bench: no benchmark \"{name}\"; there are {}", names.join(", "));
        return ExitCode::FAILURE;
    };
    match (bench.run)(&Plan { rounds: args.rounds.max(1), seconds: args.seconds }) {
        Ok(figures) if args.json => println!("{figures}"),
        Ok(figures) => println!("{}", serde_json::to_string_pretty(&figures).unwrap_or_default()),
        Err(e) => {
            eprintln!("millstream-bench: {name}: {e}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
