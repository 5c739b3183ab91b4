//! The one tool for people who change the code: `cargo xtask help`.
#![forbid(unsafe_code)]

mod attacks;
mod cards;
mod check;
mod ci;
mod deny;
mod differ;
mod extending;
mod lab;
mod left_out;
mod metadata;
mod outcome;
mod python;
mod rfc;
mod run;
mod suites;
mod test_report;
mod tidy;
mod venv;
mod wasm;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use outcome::Outcome;

/// The one tool for people who change the code.
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
enum Command {
    /// Everything that must hold before a change lands, or the named steps
    Ci {
        #[arg(value_parser = ci::names())]
        step: Vec<String>,
    },
    Check(check::Options),
    /// Run tests, and end them, and what they leave behind, when none ends for so long
    Tests {
        /// Longest time in which no test ends
        seconds: u64,
        /// Longest time for all of them together, seconds
        #[arg(long, value_name = "SECONDS")]
        within: Option<u64>,
        /// Command that runs tests, as `cargo test` does
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Sizes, left-overs, forbidden unsafe, who may import whom
    Tidy,
    /// The files of a crate that lead to each other by what they import
    Circles {
        package: Option<String>,
    },
    /// Write headers and manual pages of the library for C programs from its functions
    Headers,
    /// Prove that core/* imports nothing: no I/O, no clock, no operating system
    Wasm,
    /// Licences, sources and known vulnerabilities of dependencies
    Deny,
    /// The documentation, without warnings; `--open` shows it
    #[command(override_usage = "cargo xtask docs [--open]")]
    Docs(Passed),
    /// Write docs/RFC.md: RFC clauses, the code that obeys them, the tests that prove it
    Rfc {
        /// Compare the page with what would be written
        #[arg(long)]
        check: bool,
        /// Compare the lists of clauses with the documents instead, rfcN.txt in FOLDER
        #[arg(long, value_name = "FOLDER", conflicts_with = "check")]
        text: Option<PathBuf>,
    },
    /// Drive a fuzz target with seeded mutations, on stable; without TARGET, list them
    #[command(override_usage = "\
        cargo xtask fuzz [TARGET|all] [--runs N] [--seed S] [--only INDEX] [--file PATH] [--release]")]
    Fuzz(Passed),
    /// Run a benchmark; without NAME, list them
    ///
    /// `--all` runs kernel, ours and peers in turns, `report` makes a page of it, and `picture` its picture.
    #[command(override_usage = "cargo xtask bench [NAME] [--json] [ARGUMENT...]
       cargo xtask bench --all [--quick] [--only NAME,...] [--json FILE]")]
    Bench(Passed),
    /// Attack servers beside honest clients, in virtual time and as real processes, and print tables
    Attacks {
        /// Fewer clients and fewer kills
        #[arg(long)]
        small: bool,
    },
    Cards(cards::Options),
    Suites(suites::Options),
    /// Generated inputs on the kernel and on the stack, compared (docs/SUITES.md)
    ///
    /// calls|packets: run generated programs of socket calls, or generated peers, on both, and compare (root).
    /// faults: plant faults in a copy of the tree, one at a time, and tell which of them those runs find.
    /// reasons: write the tables of differences on purpose into docs/BOUNDARY.md and docs/SUITES.md.
    #[command(verbatim_doc_comment)]
    #[command(
        override_usage = "cargo xtask differ calls|packets [--seed N] [--runs N] [--minutes M] [--explain]
       cargo xtask differ faults [--minutes M] [WORDS...]
       cargo xtask differ reasons [--check]"
    )]
    Differ(Passed),
    /// The functions that a segment passes on its way, counted in the built program
    #[command(override_usage = "cargo xtask walk [in] [out]")]
    Walk(Passed),
}

/// Arguments that another program reads.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
struct Passed {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let outcome = match Command::parse_from(&words) {
        Command::Ci { step } => ci::ci(&step),
        Command::Check(options) => check::check(&options),
        Command::Tests { seconds, within, command } => tests(seconds, within, &command),
        Command::Tidy => tidy::tidy(),
        Command::Circles { package } => tidy::circles(package.as_deref()),
        Command::Headers => headers(),
        Command::Wasm => wasm::prove(),
        Command::Deny => deny::deny(),
        Command::Docs(Passed { arguments }) => docs(&arguments),
        Command::Rfc { text: Some(folder), .. } => rfc::recount(&folder),
        Command::Rfc { check, .. } => rfc::rfc(check),
        Command::Fuzz(Passed { arguments }) => fuzz(&arguments),
        Command::Bench(Passed { arguments }) => bench(&arguments),
        Command::Attacks { small } => attacks::attacks(small),
        Command::Cards(options) => cards::cards(&options, &words[2..]),
        Command::Suites(options) => suites::suites(&options),
        Command::Differ(Passed { arguments }) => differ::differ(&arguments),
        Command::Walk(Passed { arguments }) => benchmark(&[], &[vec!["walk".into()], arguments].concat()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask {}: {why}", words[1]);
            ExitCode::FAILURE
        }
    }
}

/// Runs tests as the gate does.
fn tests(seconds: u64, within: Option<u64>, command: &[String]) -> Outcome {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let run = run::tool(program).args(arguments);
    let limit = within.map_or(Duration::MAX, Duration::from_secs);
    if run.check_within(Duration::from_secs(seconds), limit)? {
        return Ok(());
    }
    Err(format!("they did not end within {} s", limit.as_secs()))
}

/// The test that compares headers and manual pages with the functions, told to write them.
fn headers() -> Outcome {
    run::cargo(&["test", "--quiet", "--locked", "--package", "millstream-capi", "--test", "header"])
        .env("MILLSTREAM_BLESS", "1")
        .check()
}

/// `cargo doc` of every room, warnings refused.
fn docs(rest: &[String]) -> Outcome {
    run::cargo(&["doc", "--workspace", "--no-deps", "--locked"])
        .args(rest)
        .env("RUSTDOCFLAGS", "-D warnings")
        .check()
}

/// The stable driver of the fuzz targets (`crates/lab/fuzz`); `--release` for the long runs.
fn fuzz(rest: &[String]) -> Outcome {
    let release = rest.iter().any(|argument| argument == "--release");
    let arguments = rest.iter().filter(|argument| *argument != "--release");
    let profile = if release { "fuzz" } else { "dev" };
    run::cargo(&["run", "--quiet", "--locked", "--package", "millstream-fuzz", "--profile", profile, "--"])
        .args(arguments)
        .check()
}

/// Benchmarks are measured as they ship: with everything the optimiser can see.
fn bench(rest: &[String]) -> Outcome {
    if rest.first().is_some_and(|name| name == "picture") {
        return lab::picture(&rest[1..]);
    }
    // The link benchmarks start our command and its launcher, so they have to be as fresh as those are.
    run::build_launcher("dist")?;
    // The comparison switches prefetching off, too; the program that counts instructions does not want to pay for the
    // switch.
    let all = rest.iter().any(|argument| argument == "--all");
    benchmark(if all { &["--features", "prefetch-switch"] } else { &[] }, rest)
}

/// A benchmark that does not need our command.
fn benchmark(build: &[&str], rest: &[String]) -> Outcome {
    run::cargo(&["run", "--quiet", "--locked", "--package", "millstream-bench", "--profile", "dist"])
        .args(build)
        .args(["--"])
        .args(rest)
        .check()
}

#[cfg(test)]
mod tests;
