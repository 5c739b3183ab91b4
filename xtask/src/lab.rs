//! What proves the laboratory's tools from outside: a browser, a cluster, a reader of Parquet, and two builds.

use std::fs;
use std::path::PathBuf;

use crate::{Outcome, run};

/// Where the tests in Python and what they need are listed.
const FOLDER: &str = "crates/lab/lab/python";

pub(crate) fn lab() -> Outcome {
    same_in_both_builds()?;
    run::cargo(&["build", "--quiet", "--locked", "--package", "millstream"]).check()?;
    run::tool(&python()?.to_string_lossy())
        .args(["-B", "-m", "unittest", "discover", "-s", FOLDER])
        .env("MILLSTREAM", run::target_dir().join("debug/millstream"))
        .check()
}

/// The same runs bring the same octets, whatever the optimiser did.
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

/// An environment of its own with the packages that are listed, made when the list is another than last time.
fn python() -> Result<PathBuf, String> {
    let folder = run::target_dir().join("lab-python");
    let list = format!("{FOLDER}/requirements-test.txt");
    let read =
        |path: PathBuf| fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()));
    let wanted = read(run::root().join(FOLDER).join("requirements.txt"))? + &read(run::root().join(&list))?;
    let (python, made) = (folder.join("bin/python"), folder.join("made-of.txt"));
    if fs::read_to_string(&made).is_ok_and(|made| made == wanted) {
        return Ok(python);
    }
    run::tool("python3").args(["-m", "venv", "--clear"]).args([&folder]).check()?;
    // Networks fail for a moment.
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "5", "-r", &list];
    run::tool(&python.to_string_lossy()).args(install).check()?;
    fs::write(&made, wanted).map_err(|error| format!("{}: {error}", made.display()))?;
    Ok(python)
}
