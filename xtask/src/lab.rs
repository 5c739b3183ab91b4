//! Tests of the laboratory's tools from outside: a browser, a cluster, a reader of Parquet, and two builds.

use crate::{Outcome, run, venv};

/// Where the tests in Python and what they need are listed.
const FOLDER: &str = "crates/lab/lab/python";

pub(crate) fn lab() -> Outcome {
    same_in_both_builds()?;
    let build = ["build", "--quiet", "--locked", "--package", "millstream", "--package", "millstream-bench"];
    run::cargo(&build).check()?;
    let made = run::target_dir().join("debug");
    expect(&["beside-linux"])?;
    run::tool(&python()?)
        .args(["-B", "-m", "unittest", "discover", "-s", FOLDER])
        .env("MILLSTREAM", made.join("millstream"))
        .env("MILLSTREAM_BENCH", made.join("millstream-bench"))
        .check()
}

/// Runs every shipped experiment and checks what it expects, more than a quarter of an hour of CPU time on all cores.
pub(crate) fn experiments() -> Outcome {
    run::cargo(&["build", "--quiet", "--locked", "--package", "millstream"]).check()?;
    expect(&["--all"])
}

/// Checks what these experiments expect.
fn expect(chosen: &[&str]) -> Outcome {
    let results = run::target_dir().join("lab-results");
    // Runs that are there would not be made again.
    match std::fs::remove_dir_all(&results) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", results.display()));
        }
        _ => {}
    }
    let millstream = run::target_dir().join("debug/millstream");
    run::tool(&millstream.to_string_lossy())
        .args(["lab", "run", "--check", "--out"])
        .args([&results])
        .args(chosen)
        .check()
}

/// An interpreter with what the tests need.
fn python() -> Result<String, String> {
    let lists = ["requirements.txt", "requirements-test.txt"].map(|list| format!("{FOLDER}/{list}"));
    Ok(venv::python(&venv::with("lab-python", &lists.each_ref().map(String::as_str))?))
}

/// The picture of the benchmarks' page, for the README: of bench.html, or of the page that is named.
pub(crate) fn picture(arguments: &[String]) -> Outcome {
    let page = arguments.first().map_or("bench.html", String::as_str);
    run::tool(&python()?)
        .args(["-B", &format!("{FOLDER}/screenshot_bench.py"), page, "docs/bench.png"])
        .check()
}

/// Checks that equal runs bring equal bytes in debug and release builds.
fn same_in_both_builds() -> Outcome {
    let digests = |profile: &str| {
        let example = ["--package", "millstream-lab", "--example", "digests", "--profile", profile];
        run::cargo(&["run", "--quiet", "--locked"]).args(example).output()
    };
    let (debug, release) = (digests("dev")?, digests("release")?);
    if debug.is_empty() || debug != release {
        return Err(format!("the builds disagree:\ndebug\n{debug}release\n{release}"));
    }
    println!("{} runs are the same in debug and release", debug.lines().count());
    Ok(())
}
