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
mod tests {
    //! Goal: a folder is run as its scripts are meant, and what is named itself is run in any case.
    use super::*;

    #[test]
    fn a_setting_that_would_change_nothing_is_counted_by_name() {
        let source = "`sysctl -q net.ipv4.tcp_syncookies=1 net.ipv4.tcp_sack=1`\n\
                      0 `sysctl net.ipv4.tcp_syncookies=0`\n";
        let report = run(Path::new("x.pkt"), source, &Config::default());
        let told = summary(&[report.clone(), report]).unsupported;
        assert_eq!(
            told.into_iter().collect::<Vec<_>>(),
            [("the sysctl net.ipv4.tcp_syncookies=0 (this stack has 1)".into(), 2)]
        );
    }

    #[test]
    fn a_script_for_other_profiles_is_left_out_of_its_folder() {
        let dir = std::env::temp_dir().join(format!("millstream-suite-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (name, head) in
            [("all", ""), ("bsd", "// profiles: freebsd\n"), ("two", "// x\n// profiles: linux rfc\n")]
        {
            std::fs::write(dir.join(name).with_extension("pkt"), format!("{head}0 `true`\n")).unwrap();
        }
        let left = |named: &[PathBuf], profile| {
            let mut found = scripts(named).unwrap();
            let out = leave_out(&mut found, named, profile).unwrap();
            let stem = |path: &PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
            (found.iter().map(stem).collect::<Vec<_>>().join(" "), out)
        };
        let here = [dir.clone()];
        assert_eq!(left(&here, Profile::Linux), ("all two".into(), 1));
        assert_eq!(left(&here, Profile::Freebsd), ("all bsd".into(), 1));
        assert_eq!(left(&[dir.join("two.pkt")], Profile::Freebsd), ("two".into(), 0), "asked for by name");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
