//! Whether a change is sane, in minutes and without root: format, tidy, clippy, and the tests of the crates that
//! changed and of those that depend on them, nearest first, as far as the time goes.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::metadata::{self, Package};
use crate::run::{Run, now};
use crate::{Outcome, ci, left_out, run, tidy};

/// Whether a change is sane, in 5 minutes and without root: `make check`
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Commit to compare the tree with; by default where the branch left origin/main
    #[arg(long, value_name = "COMMIT")]
    since: Option<String>,
    /// Longest time, minutes; what does not fit is left out and named
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_440))]
    minutes: u64,
}

/// Arguments of `cargo test` for tests inside of a crate.
const UNIT: &[&str] = &["--lib", "--bins"];
/// Arguments for those in its folder `tests`.
const TESTS: &[&str] = &["--test", "*"];

pub(crate) fn check(options: &Options) -> Outcome {
    let since = match &options.since {
        Some(commit) => commit.clone(),
        None => where_it_left_main()?,
    };
    let packages = metadata::workspace()?;
    let Plan { changed, dependents } = Plan::of(&packages, &changed_paths(&since)?, run::root());
    println!("changed since {since}: {}", listed(&changed));
    println!("crates that use them: {}", listed(&dependents));
    let end = now() + Duration::from_secs(options.minutes * 60);
    let mut steps = Steps { end, failed: Vec::new(), late: Vec::new() };
    steps.take("fmt", ci::fmt());
    steps.take("tidy", tidy::tidy());
    steps.must(&changed, clippy);
    steps.must(&changed, |packages| tests(packages, UNIT));
    let (quick, slow): (Vec<_>, Vec<_>) =
        changed.iter().filter(|package| package.has_tests).partition(|package| is_quick(package));
    quick.into_iter().for_each(|package| steps.may(tests(&[package], TESTS)));
    if !dependents.is_empty() {
        steps.may(clippy(&dependents));
    }
    dependents.iter().for_each(|package| steps.may(tests(&[package], UNIT)));
    if !steps.late.is_empty() {
        left_out::tell(&format!("no time was left (--minutes gives more):\n{}", steps.late.join("\n")));
    }
    for package in slow {
        left_out::tell(&format!("tests that take long or need root: `cargo test -p {}`", package.name));
    }
    left_out::tell(
        "tests/ of crates that use what changed, suites, budgets, pages: `make test` has everything",
    );
    print!("== summary\n{}", left_out::all());
    if steps.failed.is_empty() { Ok(()) } else { Err(format!("failed:\n{}", steps.failed.join("\n"))) }
}

/// Steps of which none begins or goes on after the end.
struct Steps {
    end: Instant,
    failed: Vec<String>,
    /// Commands for which no time was left.
    late: Vec<String>,
}

impl Steps {
    fn take(&mut self, name: &str, outcome: Outcome) {
        println!("== {name}: {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        self.failed.extend(outcome.err());
    }

    /// Runs `step` as long as there is time. Returns false if it was ended, or did not begin.
    fn ends(&mut self, step: Run) -> bool {
        let left = self.end.saturating_duration_since(now());
        if left.is_zero() {
            return false;
        }
        let name = step.shown();
        println!("== {name}");
        match step.check_within(Duration::MAX, left) {
            Ok(ended) => ended,
            Err(why) => {
                self.take(&name, Err(why));
                true
            }
        }
    }

    /// A step without which nothing is known of the change.
    fn must(&mut self, packages: &[&Package], step: impl FnOnce(&[&Package]) -> Run) {
        if packages.is_empty() {
            return;
        }
        let step = step(packages);
        let name = step.shown();
        if !self.ends(step) {
            self.failed.push(format!(
                "`{name}` did not end in time: what it has built is kept, so run this again, or with --minutes 20"
            ));
        }
    }

    /// A step that is left out where there is no time for it.
    fn may(&mut self, step: Run) {
        let name = step.shown();
        if !self.ends(step) {
            self.late.push(format!("  {name}"));
        }
    }
}

fn clippy(packages: &[&Package]) -> Run {
    let run = run::cargo(&["clippy", "--locked", "--quiet", "--all-targets"]).args(selection(packages));
    run.args(["--", "-D", "warnings"])
}

/// Tests of `packages`; those that need root say so and pass where there is none.
fn tests(packages: &[&Package], which: &[&str]) -> Run {
    let has_library = |package: &&Package| package.roots.iter().any(|root| root.ends_with("/lib.rs"));
    // cargo refuses `--lib` where there is no library.
    let which = which.iter().filter(|word| **word != "--lib" || packages.iter().any(has_library));
    let run = run::cargo(&["test", "--locked", "--no-fail-fast"]).args(selection(packages)).args(which);
    run.args(["--", "--show-output"])
}

fn selection<'a>(packages: &'a [&Package]) -> impl Iterator<Item = &'a str> {
    packages.iter().flat_map(|package| ["-p", &package.name])
}

/// Returns true if the tests in `tests/` of a crate play in virtual time, or in this process alone.
fn is_quick(package: &Package) -> bool {
    ["/crates/core/", "/crates/host/"].iter().any(|folder| package.manifest.contains(folder))
}

fn listed(packages: &[&Package]) -> String {
    if packages.is_empty() {
        return "none".into();
    }
    packages.iter().map(|package| package.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The crates that a change touches.
struct Plan<'a> {
    changed: Vec<&'a Package>,
    /// Crates that use them, the nearest first.
    dependents: Vec<&'a Package>,
}

impl<'a> Plan<'a> {
    /// Paths are those of git, from `root`.
    fn of(packages: &'a [Package], paths: &[String], root: &Path) -> Plan<'a> {
        // The crate in the deepest folder that holds the file.
        let owner = |path: &String| {
            let folder = |package: &Package| Path::new(&package.manifest).parent().map(Path::to_owned);
            let holds = |package: &&Package| {
                folder(package).is_some_and(|folder| root.join(path).starts_with(folder))
            };
            packages.iter().filter(holds).max_by_key(|package| package.manifest.len())
        };
        let names: BTreeSet<&str> =
            paths.iter().filter_map(owner).map(|package| package.name.as_str()).collect();
        let changed = packages.iter().filter(|package| names.contains(package.name.as_str())).collect();
        let mut plan = Plan { changed, dependents: Vec::new() };
        // Lint levels, versions and flags of everything.
        const EVERYWHERE: [&str; 6] = [
            "Cargo.toml",
            "Cargo.lock",
            "clippy.toml",
            "rustfmt.toml",
            "rust-toolchain.toml",
            ".cargo/config.toml",
        ];
        let everywhere = paths.iter().any(|path| EVERYWHERE.contains(&path.as_str()));
        let mut reached = names;
        loop {
            let uses = |list: &[String]| list.iter().any(|name| reached.contains(name.as_str()));
            let next = |package: &&Package| everywhere || uses(&package.dependencies);
            let is_new = |package: &&Package| !reached.contains(package.name.as_str());
            let ring: Vec<_> = packages.iter().filter(is_new).filter(next).collect();
            if ring.is_empty() {
                break;
            }
            reached.extend(ring.iter().map(|package| package.name.as_str()));
            plan.dependents.extend(ring);
        }
        // Crates that only their tests lead to: nothing that uses them changes.
        let for_tests = |package: &&Package| {
            let uses = package.test_dependencies.iter().any(|name| reached.contains(name.as_str()));
            uses && !reached.contains(package.name.as_str())
        };
        plan.dependents.extend(packages.iter().filter(for_tests));
        plan
    }
}

/// Returns the commit where this branch left origin/main, or HEAD where there is no such branch.
fn where_it_left_main() -> Result<String, String> {
    let known = run::tool("git").args(["branch", "--remotes", "--list", "origin/main"]).output()?;
    if known.trim().is_empty() {
        return Ok("HEAD".into());
    }
    Ok(run::tool("git").args(["merge-base", "origin/main", "HEAD"]).output()?.trim().into())
}

/// Returns the files that differ from those of the commit, in the working tree too.
fn changed_paths(since: &str) -> Result<Vec<String>, String> {
    let git = |arguments: &[&str]| run::tool("git").args(arguments).output();
    let tracked = git(&["diff", "--name-only", "--no-renames", "-z", since])?;
    let untracked = git(&["ls-files", "-z", "--others", "--exclude-standard"])?;
    Ok((tracked + &untracked).split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests;
