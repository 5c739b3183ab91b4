//! The programs laid out by what they do: built once to count, run under load, and built again with the counts.

use std::path::{Path, PathBuf};

use crate::{Outcome, run};

/// Programs that run to be counted: the command and the benchmarks.
const COUNTED: &[&str] = &["millstream", "millstream-bench"];
/// Packages built with the counts: those and the libraries for C programs and for unmodified ones, which are made
/// of the same crates.
const GUIDED: &[&str] = &["millstream", "millstream-bench", "millstream-capi", "millstream-preload"];

/// Benchmarks that are counted. Nothing of a program that no load has run stays fast, so what people do must
/// be among them.
const LOADS: [&[&str]; 4] = [
    &["memory", "--rounds", "1", "--seconds", "0.3"],
    &["exactly", "bulk", "0", "300000"],
    &["exactly", "super", "0", "30000"],
    &["exactly", "receive-on", "64", "20000"],
];

/// Those that need root and a network namespace of their own: packets through AF_XDP and tap.
const LOADS_OF_ROOT: [&[&str]; 2] =
    [&["link", "--rounds", "1", "--seconds", "1"], &["bulk", "--rounds", "1", "--seconds", "1"]];

/// Builds everything with profile-guided optimisation, into `target/pgo`.
pub(crate) fn pgo() -> Outcome {
    let host = host()?;
    let merge = profdata(&host)?;
    let dir = run::target_dir().join("pgo");
    let (counts, profile) = (dir.join("counts"), dir.join("profile"));
    if counts.exists() {
        std::fs::remove_dir_all(&counts).map_err(|e| format!("{}: {e}", counts.display()))?;
    }
    println!("to count: built under {}", dir.join("counting").display());
    build(&host, &dir.join("counting"), &format!("-Cprofile-generate={}", counts.display()), COUNTED)?;
    let bench = dir.join("counting").join(&host).join("dist/millstream-bench");
    let more = if is_root()? { &LOADS_OF_ROOT[..] } else { &[] };
    if more.is_empty() {
        println!("not as root: no load over a link is among what is counted");
    }
    for load in LOADS.iter().chain(more) {
        println!("counting: {}", load.join(" "));
        run::tool(&bench.to_string_lossy()).args(*load).output()?;
    }
    let merged = ["merge", "-o", &profile.to_string_lossy(), &counts.to_string_lossy()];
    run::tool(&merge.to_string_lossy()).args(merged).check()?;
    let out = dir.join("guided");
    build(&host, &out, &format!("-Cprofile-use={}", profile.display()), GUIDED)?;
    println!("built: {}", out.join(host).join("dist").display());
    Ok(())
}

fn build(host: &str, into: &Path, flags: &str, packages: &[&str]) -> Outcome {
    // With a target of their own the flags do not reach build scripts and macros, which are not to be counted.
    let mut arguments = vec!["build", "--locked", "--profile", "dist", "--target", host];
    packages.iter().for_each(|package| arguments.extend(["--package", package]));
    run::cargo(&arguments).env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", into).check()
}

/// The machine that rustc builds for.
fn host() -> Result<String, String> {
    let version = run::tool("rustc").args(["--version", "--verbose"]).output()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say for what it builds".to_owned())
}

/// The program that merges counts, which must be of rustc's own LLVM; rustup brings it.
fn profdata(host: &str) -> Result<PathBuf, String> {
    let sysroot = run::tool("rustc").args(["--print", "sysroot"]).output()?;
    let path = Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin/llvm-profdata");
    if !path.exists() {
        run::tool("rustup").args(["component", "add", "llvm-tools"]).check()?;
    }
    if path.exists() { Ok(path) } else { Err(format!("{}: not there after all", path.display())) }
}

pub(crate) fn is_root() -> Result<bool, String> {
    Ok(run::tool("id").args(["-u"]).output()?.trim() == "0")
}
