//! Which commit the program is of: runs of an experiment on several machines must be of one.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".into());
    println!("cargo:rustc-env=MILLSTREAM_COMMIT={commit}");
    // Every commit and every checkout leaves a line there.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|path| Path::new(path).exists());
    println!("cargo:rerun-if-changed={}", log.as_deref().unwrap_or("build.rs"));
}

/// Returns git's output; nothing outside a checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
