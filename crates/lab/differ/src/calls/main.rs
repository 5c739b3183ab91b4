//! `differ-calls [--seed N] [--runs N] [--minutes M] [--explain]`: programs of socket calls on the kernel and under the
//! launcher, compared.
#![forbid(unsafe_code)]

use differ::calls::{Options, run};
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "differ-calls [--seed N] [--runs N] [--minutes M] [--explain]";

fn options(arguments: &[String]) -> Result<Options, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let mut options = Options { seed: 0, runs: 2_000, minutes: None, explain: false, to: target.join("differ") };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut number = || {
            let value = rest.next().ok_or_else(|| format!("{argument} needs a number\n{HELP}"))?;
            value.parse::<u64>().map_err(|_| format!("{argument} {value}: a whole number is needed\n{HELP}"))
        };
        match argument.as_str() {
            "--seed" => options.seed = number()?,
            "--runs" => options.runs = number()?,
            "--minutes" => {
                options.minutes = Some(number()?);
                options.runs = u64::MAX;
            }
            "--explain" => options.explain = true,
            other => return Err(format!("no option {other}\n{HELP}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match options(&arguments).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("differ calls: {why}");
            ExitCode::FAILURE
        }
    }
}
