//! Everything that must hold before a change lands, in the order in which it fails fastest.

use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser};

use crate::{Outcome, cards, deny, differ, extending, lab, left_out, python, rfc, run, suites, tidy, wasm};

struct Step {
    name: &'static str,
    what: &'static str,
    run: fn() -> Outcome,
}

/// Steps that run only by name: they build much, or take long, and find little that the others miss.
const ASKED: &[Step] = &[
    Step { name: "dpdk-hosts", what: "whole hosts over DPDK's software devices", run: dpdk_hosts },
    Step { name: "experiments", what: "the expectations of every experiment", run: lab::experiments },
    Step {
        name: "extending",
        what: "what docs/EXTENDING.md adds, added to a copy of the tree",
        run: extending::extending,
    },
];

const STEPS: &[Step] = &[
    Step { name: "fmt", what: "the code is formatted", run: fmt },
    Step { name: "tidy", what: "sizes, left-overs, unsafe, imports", run: tidy::tidy },
    Step { name: "rfc", what: "RFC clauses have code and tests", run: rfc::check },
    Step { name: "deny", what: "licences, sources, advisories", run: deny::deny },
    Step { name: "clippy", what: "no warning, tests included", run: clippy },
    Step { name: "wasm", what: "core/* imports nothing", run: wasm::prove },
    Step { name: "test", what: "every test of the workspace", run: test },
    Step { name: "dpdk", what: "links through DPDK, where it is installed", run: dpdk },
    Step { name: "budgets", what: "hot paths cost no more instructions than written down", run: budgets },
    Step { name: "lab", what: "reports in a browser, a cluster, both builds", run: lab::lab },
    Step { name: "python", what: "the wheel: built, installed, its tests", run: python::python },
    Step { name: "cards", what: "guests with real network drivers, the short form", run: cards::short },
    Step { name: "suites", what: "CPython's sockets on the kernel and on the stack", run: suites::short },
    Step {
        name: "differ-calls",
        what: "2,000 generated programs of calls, here and on the kernel",
        run: differ_calls,
    },
    Step {
        name: "differ-packets",
        what: "1,000 generated peers, here and on the kernel",
        run: differ_packets,
    },
    Step { name: "docs", what: "documentation without warnings", run: docs },
    Step { name: "fuzz", what: "a short run of every fuzz target", run: fuzz },
];

/// Iterations of each target here; long runs are for `cargo xtask fuzz`.
const FUZZ_RUNS: &str = "20000";

fn all() -> impl Iterator<Item = &'static Step> {
    STEPS.iter().chain(ASKED)
}

/// Names of the steps, with what each holds.
pub(crate) fn names() -> impl Into<clap::builder::ValueParser> {
    PossibleValuesParser::new(all().map(|step| PossibleValue::new(step.name).help(step.what)))
}

pub(crate) fn ci(names: &[String]) -> Outcome {
    if names.is_empty() {
        for Step { name, what, .. } in ASKED {
            left_out::tell(&format!("{name}, {what}: `cargo xtask ci {name}` runs it"));
        }
    }
    let named = |step: &&Step| names.iter().any(|name| name == step.name);
    let steps: Vec<_> = if names.is_empty() { STEPS.iter().collect() } else { all().filter(named).collect() };
    let mut report = String::new();
    let mut failed = Vec::new();
    for step in steps {
        println!("== {}: {}", step.name, step.what);
        let begin = run::now();
        let outcome = (step.run)();
        let took = run::now().duration_since(begin);
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        report += &format!("  {:<11} {word:<7} {:>6.1} s\n", step.name, took.as_secs_f64());
        if let Err(why) = outcome {
            eprintln!("{why}");
            failed.push(format!("\n{}: {why}", step.name));
        }
    }
    print!("== summary\n{report}{}", left_out::all());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed:{}", failed.concat())) }
}

pub(crate) fn fmt() -> Outcome {
    run::cargo(&["fmt", "--all", "--check"]).check()
}

fn clippy() -> Outcome {
    run::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"])
        .check()
}

/// The longest time in which no test ends: tests end the programs that they start after five minutes, and say which.
const SILENCE: Duration = Duration::from_secs(10 * 60);

/// Builds tests, which takes as long as it takes, then runs them.
fn tests(selection: &[&str], more: &[&str]) -> Outcome {
    run::cargo(&[&["test", "--locked", "--no-run"], selection].concat()).check()?;
    run::cargo(&[&["test", "--locked"], selection, more].concat()).check_tests(SILENCE)
}

fn test() -> Outcome {
    tests(&["--workspace"], &["--no-fail-fast", "--", "--show-output"])
}

/// Is there a DPDK to build with? Nothing is installed for it.
fn has_dpdk() -> bool {
    let found = run::tool("pkg-config").args(["--atleast-version=22.11", "libdpdk"]).output().is_ok();
    if !found {
        left_out::tell(
            "there is no DPDK 22.11 here; `.ci/setup dpdk` or `apt-get install libdpdk-dev` brings it",
        );
    }
    found
}

/// The port, over DPDK's software devices.
fn dpdk() -> Outcome {
    if !has_dpdk() {
        return Ok(());
    }
    let port = ["--package", "millstream-pio", "--features", "dpdk"];
    let clippy = [&["clippy", "--all-targets", "--quiet", "--locked"], &port[..], &["--", "-D", "warnings"]];
    run::cargo(&clippy.concat()).check()?;
    tests(&[&["--lib"], &port[..]].concat(), &["dpdk"])
}

/// The command over them, with the kernel's clients.
fn dpdk_hosts() -> Outcome {
    if !has_dpdk() {
        return Ok(());
    }
    tests(&["--package", "millstream", "--features", "dpdk", "--test", "dpdk"], &[])
}

fn differ_calls() -> Outcome {
    if !run::is_root()? {
        left_out::tell(
            "programs of calls need network namespaces: `sudo cargo xtask ci differ-calls` runs them",
        );
        return Ok(());
    }
    differ::differ(&["calls".into(), "--runs".into(), "2000".into()])
}

fn differ_packets() -> Outcome {
    if !run::is_root()? {
        left_out::tell(
            "generated peers need a network namespace: `sudo cargo xtask ci differ-packets` runs them",
        );
        return Ok(());
    }
    differ::differ(&["packets".into(), "--runs".into(), "1000".into()])
}

fn budgets() -> Outcome {
    crate::benchmark(&[], &["budgets".into()])
}

fn docs() -> Outcome {
    crate::docs(&["--quiet".into()])
}

fn fuzz() -> Outcome {
    crate::fuzz(&["all".into(), "--runs".into(), FUZZ_RUNS.into()])
}
