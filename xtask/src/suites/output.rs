//! Results of single tests, read from the output of a suite.

use std::collections::BTreeMap;

/// Results by the name of the test.
pub(super) type Results = BTreeMap<String, Result>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Result {
    Passed,
    Failed,
    /// The suite left it out.
    Skipped,
    /// It began, and the suite did not tell its end.
    Unfinished,
    /// The suite did not come to it.
    Missing,
}

impl Result {
    pub(super) fn word(self) -> &'static str {
        match self {
            Result::Passed => "passed",
            Result::Failed => "failed",
            Result::Skipped => "skipped",
            Result::Unfinished => "unfinished",
            Result::Missing => "missing",
        }
    }
}

/// Kinds of output.
#[derive(Clone, Copy, Debug)]
pub(super) enum Format {
    /// Python's unittest, verbose: `test_it (module.Class.test_it) ... ok`.
    Unittest,
    /// libevent's: `group/test: [forking] OK`.
    Tinytest,
    /// `ok 1 - name`, `not ok 2 - name`.
    Tap,
    /// That of `prove -v`: a line `file .. ` begins the tests of a file.
    Prove,
    /// Rust's, one test at a time: `test name ... ok`. A line `program name` begins the tests of a program.
    Libtest,
    /// That of PHP's run-tests.php: `PASS title [file.phpt]`.
    Phpt,
    /// JUnit's console, details testfeed: `JUnit Jupiter > Class > method() :: SUCCESSFUL`.
    Testfeed,
}

impl Format {
    pub(super) fn read(self, output: &str) -> Results {
        match self {
            Format::Unittest => unittest(output),
            Format::Tinytest => tinytest(output),
            Format::Tap => tap(output, false),
            Format::Prove => tap(output, true),
            Format::Libtest => libtest(output),
            Format::Phpt => phpt(output),
            Format::Testfeed => testfeed(output),
        }
    }
}

/// The name of the test that a line of unittest begins, without the module that all have.
fn unittest_name(line: &str) -> Option<String> {
    let (method, rest) = line.split_once(" (")?;
    let (class, _) = rest.split_once(')')?;
    let word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_.".contains(c));
    if !(word(method) && word(class) && class.starts_with("test")) {
        return None;
    }
    Some(if class.ends_with(&format!(".{method}")) { class.into() } else { format!("{class}.{method}") })
}

/// Other output may come between a test's name and its result.
fn unittest(output: &str) -> Results {
    let mut results = Results::new();
    let mut current: Option<String> = None;
    for line in output.lines() {
        // A list of what failed follows, with the same names.
        if line.starts_with("======") {
            current = None;
        }
        if let Some(name) = unittest_name(line) {
            results.entry(name.clone()).or_insert(Result::Unfinished);
            current = Some(name);
        }
        let Some(name) = &current else { continue };
        let end = line.rsplit_once("... ").map_or(line, |(_, end)| end);
        let result = match end {
            "ok" | "expected failure" => Result::Passed,
            "FAIL" | "ERROR" | "unexpected success" => Result::Failed,
            _ if end.starts_with("skipped") => Result::Skipped,
            _ if line.ends_with("ok") && !line.ends_with("... ok") => Result::Passed,
            _ => continue,
        };
        // A subtest that failed has its line, and the test then none that says ok.
        results.insert(name.clone(), result);
        current = None;
    }
    results
}

fn tinytest(output: &str) -> Results {
    let mut results = Results::new();
    for line in output.lines() {
        let Some((name, rest)) = line.split_once(": ") else { continue };
        if !name.contains('/') || name.contains(' ') {
            continue;
        }
        let rest = rest.trim_end();
        let result = if rest.ends_with("OK") {
            Result::Passed
        } else if rest.ends_with("SKIPPED") || rest.ends_with("DISABLED") {
            Result::Skipped
        } else {
            Result::Failed
        };
        results.insert(name.into(), result);
    }
    results
}

fn tap(output: &str, files: bool) -> Results {
    let mut results = Results::new();
    let mut file = "";
    for line in output.lines() {
        if let Some((name, _)) = line.split_once(" ..").filter(|(name, _)| files && name.ends_with(".t")) {
            file = name.rsplit_once("] ").map_or(name, |(_, name)| name);
        }
        let (passed, rest) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => continue,
        };
        let (number, name) = rest.split_once(" - ").unwrap_or((rest, ""));
        let (name, mark) = name.split_once(" # ").unwrap_or((name, ""));
        let number = number.split(' ').next().unwrap_or_default();
        let name = if files { format!("{file} {number} {name}") } else { name.to_string() };
        let mark = if mark.is_empty() { rest.split_once(" # ").map_or("", |(_, mark)| mark) } else { mark };
        let result = match passed {
            _ if mark.to_lowercase().starts_with("skip") => Result::Skipped,
            true => Result::Passed,
            // A failure that the suite expects.
            false if mark.to_lowercase().starts_with("todo") => Result::Skipped,
            false => Result::Failed,
        };
        results.insert(name.trim().into(), result);
    }
    results
}

/// Output that does not go through Rust's print macros comes between a test's name and its result.
fn libtest(output: &str) -> Results {
    let (mut results, mut program, mut current) = (Results::new(), "", None);
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("program ") {
            program = name;
        }
        if let Some((name, _)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
            let name = format!("{program} {}", name.trim_end_matches(" - should panic"));
            results.insert(name.clone(), Result::Unfinished);
            current = Some(name);
        }
        let Some(name) = &current else { continue };
        let result = match line.rsplit(' ').next().unwrap_or_default() {
            "ok" => Result::Passed,
            "FAILED" => Result::Failed,
            "ignored" => Result::Skipped,
            _ => continue,
        };
        results.insert(name.clone(), result);
        current = None;
    }
    results
}

fn phpt(output: &str) -> Results {
    let mut results = Results::new();
    // The line that tells which test runs is overwritten.
    for line in output.lines().map(|line| line.rsplit('\r').next().unwrap_or_default()) {
        let Some((word, rest)) = line.split_once(' ') else { continue };
        let Some((file, _)) = rest.rsplit_once(".phpt]") else { continue };
        let result = match word {
            "PASS" => Result::Passed,
            "FAIL" | "LEAK" | "WARN" | "BORK" => Result::Failed,
            // XFAIL: a failure that the suite expects.
            "SKIP" | "XFAIL" => Result::Skipped,
            _ => continue,
        };
        let file = file.rsplit_once('[').map_or(file, |(_, file)| file);
        // A list of what failed follows; it has no other results.
        results.entry(file.into()).or_insert(result);
    }
    results
}

fn testfeed(output: &str) -> Results {
    let mut results = Results::new();
    for line in output.lines() {
        let Some((path, word)) = line.rsplit_once(" :: ") else { continue };
        // Engines and classes have results, too.
        let [_engine, class, test @ ..] = &path.split(" > ").collect::<Vec<_>>()[..] else { continue };
        let result = match word {
            "STARTED" => Result::Unfinished,
            "SUCCESSFUL" => Result::Passed,
            "FAILED" => Result::Failed,
            "SKIPPED" | "ABORTED" => Result::Skipped,
            _ => continue,
        };
        if !test.is_empty() {
            results.insert(format!("{class}.{}", test.join(".")), result);
        }
    }
    results
}

/// Returns the number of ends of connections that the launcher's report, a line of JSON, has on the stack; `None` if
/// there is no report.
pub(super) fn on_the_stack(output: &str) -> Option<u64> {
    let mut reports = output.lines().rev().filter_map(|line| {
        let report: serde_json::Value = serde_json::from_str(&line[line.find("{\"accepted\"")?..]).ok()?;
        Some(report["accepted"].as_u64()? + report["connected"].as_u64()?)
    });
    reports.next()
}

#[cfg(test)]
mod tests;
