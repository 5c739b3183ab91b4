//! Tests that did not run: a test that lacks something (root, a tool, a kernel's feature) says so in a line that begins
//! with `skipped:`, and passes. Nobody sees what a passing test says, so the step counts those lines.

use std::io::{BufRead, Write};

/// A reader of what `cargo test -- --show-output` writes.
#[derive(Default)]
pub(crate) struct LeftOut {
    /// What comes now is what passing tests have said.
    of_passing: bool,
    /// The test whose words come now.
    test: String,
    /// Tests and their reasons.
    all: Vec<(String, String)>,
}

impl LeftOut {
    /// Takes a line. Returns true if it is for people to see: what passing tests say is not.
    fn take(&mut self, line: &str) -> bool {
        if line == "successes:" {
            self.of_passing = true;
        } else if line == "failures:" || line.starts_with("test result:") {
            self.of_passing = false;
        }
        if !self.of_passing {
            return true;
        }
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.test = name.into();
        }
        let is_first = self.all.last().is_none_or(|(test, _)| *test != self.test);
        if let Some(why) = reason(line).filter(|_| is_first) {
            self.all.push((self.test.clone(), why.into()));
        }
        false
    }

    /// Shows what comes, as far as it is for people, and keeps what it says of tests that did not run.
    pub(crate) fn read(mut self, from: impl BufRead, mut to: impl Write) -> LeftOut {
        for line in from.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            if self.take(&line) {
                // A terminal that is gone is no reason to end the tests.
                let _ = writeln!(to, "{line}");
            }
        }
        self
    }

    /// Returns the tests that did not run by their reasons, as a text; nothing where all ran.
    pub(crate) fn report(&self) -> String {
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
    //! Goal: a test that did not run is counted once, with its reason; failures stay visible.
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
        let left_out = LeftOut::default().read(SAID.as_bytes(), &mut shown);
        let report = left_out.report();
        assert!(report.starts_with("LEFT OUT: 3 tests"), "{report}");
        assert!(report.contains("  2 (no AF_XDP): a::tired, b::tired\n"), "{report}");
        assert!(report.contains("  1 (network namespaces need root): root\n"), "{report}");
        let shown = String::from_utf8(shown).expect("text");
        assert!(
            shown.contains("test a::tired ... ok") && shown.contains("but it failed all the same"),
            "{shown}"
        );
        assert!(!shown.contains("hello"), "{shown}");
    }

    #[test]
    fn nothing_is_said_where_all_ran() {
        let said = "running 1 test\ntest a ... ok\n\nsuccesses:\n\nsuccesses:\n    a\n\ntest result: ok.\n";
        assert_eq!(LeftOut::default().read(said.as_bytes(), Vec::new()).report(), "");
    }
}
