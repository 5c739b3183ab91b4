//! Tests that did not run, and tests that failed. A test that lacks something (root, a tool, a kernel's feature) says
//! so in a line that begins with `skipped:`, and passes. Nothing sees what a passing test says, so the step counts
//! those lines. What a failed test said stands far up in the output, so the step repeats its beginning at the end.

use std::io::{BufRead, Write};

/// Lines of a failed test that are repeated at the end: the assertion and its values.
const REPEATED: usize = 6;

/// Source of the next words.
#[derive(Clone, Copy, Default, PartialEq)]
enum Words {
    #[default]
    Cargo,
    Passing,
    Failed,
}

/// A reader of what `cargo test -- --show-output` writes.
#[derive(Default)]
pub(crate) struct TestReport {
    words: Words,
    /// The test whose words come now.
    test: String,
    /// Tests and their reasons.
    all: Vec<(String, String)>,
    /// Tests that failed, and the first lines of what each said.
    failed: Vec<(String, Vec<String>)>,
    /// The last line of a test binary that has begun and not yet told its result.
    running: Option<String>,
}

impl TestReport {
    /// Takes a line. Returns true if it is for people to see: what passing tests say is not.
    fn take(&mut self, line: &str) -> bool {
        let begins = line.starts_with("running ") && (line.ends_with(" test") || line.ends_with(" tests"));
        if begins && self.words == Words::Cargo {
            self.end_of_binary();
            self.running = Some(line.into());
        } else if line.starts_with("test result:") {
            self.running = None;
        } else if let Some(last) = self.running.as_mut().filter(|_| line.starts_with("test ")) {
            last.replace_range(.., line);
        }
        self.words = match line {
            "successes:" => Words::Passing,
            "failures:" => Words::Failed,
            _ if line.starts_with("test result:") => Words::Cargo,
            _ => self.words,
        };
        let named = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = named {
            self.test = name.into();
        }
        match self.words {
            Words::Cargo => {}
            Words::Failed => self.take_of_failed(line, named),
            Words::Passing => {
                let is_first = self.all.last().is_none_or(|(test, _)| *test != self.test);
                if let Some(why) = reason(line).filter(|_| is_first) {
                    self.all.push((self.test.clone(), why.into()));
                }
            }
        }
        self.words != Words::Passing
    }

    /// A binary that ended without a result has crashed: only the last line that it wrote is known.
    fn end_of_binary(&mut self) {
        if let Some(last) = self.running.take() {
            self.failed.push(("a test binary ended without a result, after".into(), vec![last]));
        }
    }

    fn take_of_failed(&mut self, line: &str, named: Option<&str>) {
        if let Some(name) = named {
            self.failed.push((name.into(), Vec::new()));
        } else if let Some((_, said)) = self.failed.last_mut() {
            // The list of names that ends the failures is no test's words.
            if !line.is_empty() && line != "failures:" && said.len() < REPEATED && !self.test.is_empty() {
                said.push(line.into());
            }
        }
        if line == "failures:" {
            self.test.clear();
        }
    }

    /// Returns the tests that failed with the beginning of what each said, as a text; nothing where none did.
    pub(crate) fn failures(&self) -> String {
        let of = |(test, said): &(String, Vec<String>)| {
            said.iter().fold(format!("\n  {test}"), |text, line| text + "\n    " + line)
        };
        self.failed.iter().map(of).collect()
    }

    /// Shows what comes, as far as it is for people, and keeps what it says of tests that did not run.
    pub(crate) fn read(mut self, from: impl BufRead, mut to: impl Write) -> TestReport {
        for line in from.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            if self.take(&line) {
                // A terminal that is gone is no reason to end the tests.
                let _ = writeln!(to, "{line}");
            }
        }
        self.end_of_binary();
        self
    }

    /// Returns the tests that did not run by their reasons, as a text; nothing where all ran.
    pub(crate) fn left_out(&self) -> String {
        if self.all.is_empty() {
            return String::new();
        }
        let mut reasons: Vec<&str> = self.all.iter().map(|(_, why)| why.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        let of = |why: &str| {
            let tests: Vec<_> =
                self.all.iter().filter(|(_, other)| other == why).map(|(test, _)| test.as_str()).collect();
            format!("  {} ({why}): {}\n", tests.len(), tests.join(", "))
        };
        let lines: String = reasons.into_iter().map(of).collect();
        format!("LEFT OUT: {} tests, or parts of them, did not run:\n{lines}", self.all.len())
    }
}

/// Returns the reason in a line that says that a test did not run.
fn reason(line: &str) -> Option<&str> {
    let word = line.get(.."skipped:".len())?;
    word.eq_ignore_ascii_case("skipped:").then(|| line[word.len()..].trim())
}

#[cfg(test)]
mod tests {
    //! Goal: a test that did not run is counted once, with its reason; failures stay visible, and are told at the end.
    use super::*;

    const SAID: &str = "
running 4 tests
test a::plain ... ok
test a::tired ... ok

successes:

---- a::plain stdout ----
hello

---- a::tired stdout ----
SKIPPED: no AF_XDP
skipped: something else, too

---- b::tired stdout ----
skipped: no AF_XDP

successes:
    a::plain
    a::tired

failures:

---- a::broken stdout ----
skipped: but it failed all the same

thread 'a::broken' panicked at a.rs:1:2:
1 is not 2
 left: 1
 right: 2
note: run with a backtrace
further words

failures:
    a::broken

test result: FAILED. 2 passed; 1 failed
running 1 test

successes:

---- root stdout ----
skipped: network namespaces need root

test result: ok. 1 passed
";

    #[test]
    fn tests_that_did_not_run_are_counted() {
        let mut shown = Vec::new();
        let report = TestReport::default().read(SAID.as_bytes(), &mut shown);
        let left_out = report.left_out();
        assert!(left_out.starts_with("LEFT OUT: 3 tests"), "{left_out}");
        assert!(left_out.contains("  2 (no AF_XDP): a::tired, b::tired\n"), "{left_out}");
        assert!(left_out.contains("  1 (network namespaces need root): root\n"), "{left_out}");
        let shown = String::from_utf8(shown).expect("text");
        assert!(
            shown.contains("test a::tired ... ok") && shown.contains("but it failed all the same"),
            "{shown}"
        );
        assert!(!shown.contains("hello"), "{shown}");
        let told = "\n  a::broken\n    skipped: but it failed all the same\n    \
                    thread 'a::broken' panicked at a.rs:1:2:\n    1 is not 2\n     left: 1\n     right: 2\n    \
                    note: run with a backtrace";
        assert_eq!(report.failures(), told);
    }

    #[test]
    fn a_binary_that_crashed_is_a_failure() {
        let said = "running 2 tests\ntest a ... ok\nrunning 1 test\ntest b ... ok\n\ntest result: ok.\n";
        let report = TestReport::default().read(said.as_bytes(), Vec::new());
        assert_eq!(report.failures(), "\n  a test binary ended without a result, after\n    test a ... ok");
    }

    #[test]
    fn nothing_is_said_where_all_ran() {
        let said = "running 1 test\ntest a ... ok\n\nsuccesses:\n\nsuccesses:\n    a\n\ntest result: ok.\n";
        let report = TestReport::default().read(said.as_bytes(), Vec::new());
        assert_eq!((report.left_out(), report.failures()), (String::new(), String::new()));
    }
}
