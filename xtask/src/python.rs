//! The Python API: its wheel is built, looked at, installed and tested, in a network of its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Outcome, run, venv};

const FOLDER: &str = "crates/apps/python";

pub(crate) fn python() -> Outcome {
    let home = venv::with("python-syscalls", &[&format!("{FOLDER}/tests/requirements.txt")])?;
    let wheel = wheel(&home)?;
    let tool = |name: &str| run::tool(&home.join("bin").join(name).to_string_lossy());
    tool("abi3audit").args(["--strict", "--summary"]).args([&wheel]).check()?;
    let install =
        ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--force-reinstall"];
    tool("pip").args(install).args([&wheel]).check()?;
    let types = ["--strict", "--python-version", "3.11", "--cache-dir", "/dev/null", "--no-error-summary"];
    tool("mypy").args(types).args([&format!("{FOLDER}/millstream"), "examples/python"]).check()?;
    in_own_network(&venv::python(&home))
        .args(["-B", "-W", "error::ResourceWarning", "-m", "unittest", "discover", "-s"])
        .args([&format!("{FOLDER}/tests")])
        .env("MILLSTREAM_RUN", run::target_dir().join("python-syscalls-run"))
        .check()
}

/// Builds the wheel, of what the other steps have built already.
fn wheel(home: &Path) -> Result<PathBuf, String> {
    let out = run::target_dir().join("python-syscalls-wheel");
    if out.exists() {
        fs::remove_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    run::tool(&home.join("bin/maturin").to_string_lossy())
        .args(["build", "--quiet", "--locked", "--profile", "dev", "--compatibility", "linux"])
        .args(["--manifest-path", &format!("{FOLDER}/Cargo.toml"), "--out"])
        .args([&out])
        .env("CARGO_TARGET_DIR", run::target_dir())
        .check()?;
    let entries = fs::read_dir(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let wheel =
        entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "whl"));
    wheel.ok_or_else(|| format!("maturin left no wheel in {}", out.display()))
}

/// A program in a network namespace that ends with it, where that may be had; else tests that need one say so.
fn in_own_network(program: &str) -> run::Run {
    for rights in [vec!["--net"], vec!["--user", "--map-root-user", "--net"]] {
        if run::tool("unshare").args(&rights).args(["true"]).output().is_ok() {
            return run::tool("unshare").args(rights).args([program]).env("MILLSTREAM_TEST_NETWORK", "1");
        }
    }
    run::tool(program)
}
