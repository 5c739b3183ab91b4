//! `cargo xtask differ`: generated inputs on this stack and on the kernel, compared.
#![forbid(unsafe_code)]

use differ::options::{HELP, Options};
use differ::{calls, faults, packets, reasons};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((kind, rest)) if kind == "calls" => Options::of(rest).and_then(|options| calls::run(&options)),
        Some((kind, rest)) if kind == "packets" => peers(rest),
        Some((kind, rest)) if kind == "reasons" => tables(rest),
        Some((kind, rest)) if kind == "faults" => faults::run(rest),
        _ => Err(format!(
            "differ calls|packets [OPTION...]\n{HELP}\ndiffer reasons [--check]\n{}",
            faults::HELP
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("differ: {why}");
            ExitCode::FAILURE
        }
    }
}

fn peers(arguments: &[String]) -> Result<(), String> {
    let options = Options::of(arguments)?;
    packets::tell(&packets::run(&options)?, &options)
}

fn tables(arguments: &[String]) -> Result<(), String> {
    let checks = match arguments {
        [] => false,
        [one] if one == "--check" => true,
        _ => return Err("reasons has one option, --check".into()),
    };
    reasons::pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.."), checks)
}
