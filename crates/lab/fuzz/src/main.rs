//! `cargo xtask fuzz TARGET|all [--runs N] [--seed S] [--only INDEX] [--file PATH]`.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::thread;

use fuzz::{TARGETS, Target, drive};

const RUNS: u64 = 100_000;

struct Options {
    targets: Vec<&'static Target>,
    runs: u64,
    seed: u64,
    only: Option<u64>,
    file: Option<String>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        TARGETS.iter().for_each(|target| println!("{:<16} {}", target.name, target.help));
        return ExitCode::SUCCESS;
    }
    match parse(&arguments)
        .and_then(|options| options.targets.iter().try_for_each(|target| fulfil(&options, target)))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options { targets: Vec::new(), runs: RUNS, seed: 0, only: None, file: None };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "all" => options.targets.extend(TARGETS),
            "--runs" => options.runs = number(value()?)?,
            "--seed" => options.seed = number(value()?)?,
            "--only" => options.only = Some(number(value()?)?),
            "--file" => options.file = Some(value()?.clone()),
            name => options.targets.push(fuzz::target(name).ok_or(format!("no fuzz target `{name}`"))?),
        }
    }
    if options.targets.is_empty() { Err("name a target, or `all`".into()) } else { Ok(options) }
}

/// Digits, with `_` between them for people.
fn number(text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|error| format!("`{text}`: {error}"))
}

fn fulfil(options: &Options, target: &'static Target) -> Result<(), String> {
    if let Some(path) = &options.file {
        let data = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        (target.run)(&data);
        println!("{:<16} survives {path}", target.name);
        return Ok(());
    }
    if let Some(index) = options.only {
        return drive::replay(target, options.seed, index).map(drop).map_err(|failure| failure.to_string());
    }
    let threads = thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let done =
        drive::drive(target, options.seed, options.runs, threads).map_err(|failure| failure.to_string())?;
    let operations = target.operations.map_or(String::new(), |_| format!(", {done} operations,"));
    println!(
        "{:<16} {} inputs{operations} of seed {} without a failure",
        target.name, options.runs, options.seed
    );
    Ok(())
}
