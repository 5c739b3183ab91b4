//! `cargo xtask differ`: generated inputs on this stack and on the kernel, compared.
#![forbid(unsafe_code)]

use differ::options::{HELP, Options};
use differ::{calls, packets};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((kind, rest)) if kind == "calls" => Options::of(rest).and_then(|options| calls::run(&options)),
        Some((kind, rest)) if kind == "packets" => peers(rest),
        _ => Err(format!("differ calls|packets [OPTION...]\n{HELP}")),
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
