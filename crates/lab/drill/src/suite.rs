//! Many scripts at once.

use crate::run::{Config, Outcome, Profile, Report, run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every script under these paths, folders walked through, in order.
///
/// # Errors
/// A path that cannot be read, in a sentence.
pub fn scripts(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in paths {
        collect(path, true, &mut found)?;
    }
    Ok(found)
}

/// Names of the profiles that a script is meant for, as its line `// profiles:` has them; `None`: all.
pub fn meant_for(source: &str) -> Option<impl Iterator<Item = &str>> {
    let line = source.lines().find_map(|line| line.strip_prefix("// profiles: "));
    line.map(str::split_whitespace)
}

/// Takes out of `found` what says that it is meant for other profiles, and is not one of `named` itself; how many those
/// are.
///
/// # Errors
/// A script that cannot be read, in a sentence.
pub fn leave_out(found: &mut Vec<PathBuf>, named: &[PathBuf], profile: Profile) -> Result<usize, String> {
    let all = found.len();
    let mut kept = Vec::with_capacity(all);
    for path in found.drain(..) {
        let source = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let source = String::from_utf8_lossy(&source);
        let meant = meant_for(&source)
            .is_none_or(|mut names| names.any(|name| Profile::named(name) == Some(profile)));
        if meant || named.contains(&path) {
            kept.push(path);
        }
    }
    *found = kept;
    Ok(all - found.len())
}

fn collect(path: &Path, named: bool, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let told = |e: std::io::Error| format!("{}: {e}", path.display());
    if !path.is_dir() {
        if named || path.extension().is_some_and(|extension| extension == "pkt") {
            path.metadata().map_err(told)?;
            found.push(path.into());
        }
        return Ok(());
    }
    let entries: Result<Vec<_>, _> = std::fs::read_dir(path).map_err(told)?.collect();
    let mut inside: Vec<PathBuf> = entries.map_err(told)?.iter().map(|entry| entry.path()).collect();
    inside.sort();
    inside.iter().try_for_each(|path| collect(path, false, found))
}

/// Runs each script, on this many threads; the reports come in the order of the paths.
pub fn run_all(paths: &[PathBuf], config: &Config, threads: usize) -> Vec<Report> {
    let next = AtomicUsize::new(0);
    let reports: Mutex<Vec<(usize, Report)>> = Mutex::new(Vec::with_capacity(paths.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, paths.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(path) = paths.get(index) else { return };
                    let report = run_file(path, config);
                    reports.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, report));
                }
            });
        }
    });
    let mut reports = reports.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    reports.sort_by_key(|(index, _)| *index);
    reports.into_iter().map(|(_, report)| report).collect()
}

/// Runs the script in a file. A panic of the stack is a failure of the script that caused it.
pub fn run_file(path: &Path, config: &Config) -> Report {
    let failed = |why: String| Report {
        path: path.into(),
        outcome: Outcome::Failed { line: 1, why },
        timeline: Vec::new(),
    };
    let source = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) => return failed(format!("cannot be read: {e}")),
    };
    match std::panic::catch_unwind(|| run(path, &source, config)) {
        Ok(report) => report,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
            failed(format!("the stack panicked: {}", text.unwrap_or_default()))
        }
    }
}

/// How many ended how.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Scripts that passed.
    pub passed: usize,
    /// Scripts that failed.
    pub failed: usize,
    /// Scripts that ask for something that is not here, by what it is.
    pub unsupported: BTreeMap<String, usize>,
}

/// Counts the outcomes.
pub fn summary(reports: &[Report]) -> Summary {
    let mut summary = Summary::default();
    for report in reports {
        match &report.outcome {
            Outcome::Passed => summary.passed += 1,
            Outcome::Failed { .. } => summary.failed += 1,
            Outcome::Unsupported(what) => *summary.unsupported.entry(what.clone()).or_default() += 1,
        }
    }
    summary
}

#[cfg(test)]
mod tests;
