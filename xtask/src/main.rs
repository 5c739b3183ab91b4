//! The one tool for people who change the code: `cargo xtask help`.
#![forbid(unsafe_code)]

mod attacks;
mod cards;
mod ci;
mod deny;
mod differ;
mod extending;
mod lab;
mod left_out;
mod metadata;
mod outcome;
mod pgo;
mod python;
mod rfc;
mod run;
mod suites;
mod test_report;
mod tidy;
mod venv;
mod wasm;
mod watch;

use std::process::ExitCode;

use outcome::Outcome;

const HELP: &str = "\
cargo xtask COMMAND

  ci [STEP...]         everything that must hold before a change lands, or the named steps
  tests SECONDS COMMAND...
                       run tests, and end them, and what they leave behind, when none ends for so long
  tidy                 sizes, left-overs, forbidden unsafe, who may import whom
  circles [CRATE]      the files of a crate that lead to each other by what they import
  headers              write headers and manual pages of the library for C programs from its functions
  wasm                 prove that core/* imports nothing: no I/O, no clock, no operating system
  deny                 licences, sources and known vulnerabilities of dependencies
  docs [--open]        the documentation, without warnings
  rfc [--check]        write docs/RFC.md: RFC clauses, the code that obeys them, the tests that prove it
  rfc --text FOLDER    compare the lists of clauses with the documents, rfcN.txt in FOLDER
  fuzz [TARGET] [--runs N] [--seed S] [--release]
                       drive a fuzz target with seeded mutations, on stable; without TARGET, list them
  bench [NAME] [--json] [ARGUMENT...]
                       run a benchmark; without NAME, list them
  bench --all [--quick] [--only NAME,...] [--json FILE]
                       kernel, ours and peers in turns; `bench report` makes a page of it, `bench picture` its picture
  attacks [--small]    attack servers beside honest clients, in virtual time and as real processes, and print tables
  cards [--short] [--only WORDS]
                       boot guests with real network drivers and try the links in them; `cards --help` says more
  suites [--short] [--only WORDS]
                       run suites of other projects on the kernel and on the stack; `suites --help` says more
  differ calls|packets [--seed N] [--runs N] [--minutes M] [--explain]
                       run generated programs of socket calls, or generated peers, on the kernel and on the stack,
                       and compare (root; docs/SUITES.md)
  differ faults [--minutes M] [WORDS...]
                       plant faults in a copy of the tree, one at a time, and tell which of them those runs find
  differ reasons [--check]
                       write the tables of differences on purpose into docs/BOUNDARY.md and docs/SUITES.md
  walk [in] [out]      the functions that a segment passes on its way, counted in the built program
  pgo                  build everything laid out by what it does under load (profile-guided), into target/pgo
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", [].as_slice()),
    };
    let outcome = match command {
        "ci" => ci::ci(rest),
        "attacks" => attacks::attacks(rest),
        "cards" => cards::cards(rest),
        "suites" => suites::suites(rest),
        "tests" => tests(rest),
        "tidy" => tidy::tidy(),
        "circles" => tidy::circles(rest.first().map(String::as_str)),
        "headers" => headers(),
        "wasm" => wasm::prove(),
        "deny" => deny::deny(),
        "differ" => differ::differ(rest),
        "docs" => docs(rest),
        "rfc" => rfc::rfc(rest),
        "fuzz" => fuzz(rest),
        "bench" => bench(rest),
        "pgo" => pgo::pgo(),
        "walk" => benchmark(&[], &[vec!["walk".into()], rest.to_vec()].concat()),
        "help" | "-h" | "--help" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("no command `{other}`\n\n{HELP}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask {command}: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs tests as the gate does.
fn tests(rest: &[String]) -> Outcome {
    let [seconds, program, arguments @ ..] = rest else {
        return Err(format!("a limit and a command\n\n{HELP}"));
    };
    let seconds = seconds.parse().map_err(|_| format!("`{seconds}` is no number of seconds"))?;
    run::tool(program).args(arguments).check_tests(std::time::Duration::from_secs(seconds))
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
    let build = ["build", "--quiet", "--locked", "--profile", "dist"];
    run::cargo(&build).args(["--package", "millstream", "--package", "millstream-preload"]).check()?;
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
