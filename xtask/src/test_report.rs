//! Tests that did not run, and tests that failed. A test that lacks something (root, a tool, a kernel's feature) says
//! so in a line that begins with `skipped:`, and passes. Nothing sees what a passing test says, so the step counts
//! those lines. What a failed test said stands far up in the output, so the step repeats its beginning at the end.

use std::io::Write;

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
    /// Tests that take long and have not ended yet.
    long: Vec<String>,
}

/// Words of libtest after the name of a test that takes long.
const LONG: &str = " has been running for over ";

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

    /// Takes what a test binary says of tests as they end. Returns true if it says that one has ended, or begins.
    fn ends(&mut self, line: &str) -> bool {
        let Some(rest) = line.strip_prefix("test ") else { return line.starts_with("running ") };
        if let Some((name, _)) = rest.split_once(LONG) {
            self.long.push(name.into());
            return false;
        }
        let name = rest.split_once(" ... ").map(|(name, _)| name);
        self.long.retain(|long| name.is_some_and(|name| name != long));
        true
    }

    /// A binary that ended without a result has crashed: only the last line that it wrote is known.
    pub(crate) fn end_of_binary(&mut self) {
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

    /// Takes a line, and shows it as far as it is for people. Returns true if it says that a test has ended.
    pub(crate) fn line(&mut self, line: &str, to: &mut impl Write) -> bool {
        let ended = self.words == Words::Cargo && self.ends(line);
        if self.take(line) {
            // A terminal that is gone is no reason to end the tests.
            let _ = writeln!(to, "{line}");
        }
        ended
    }

    /// Returns which tests have begun and not ended, as far as they are known, as a text.
    pub(crate) fn unended(&self) -> String {
        match (&self.long[..], &self.running) {
            ([], Some(last)) => format!("; the last line of their program was `{last}`"),
            ([], None) => String::new(),
            (long, _) => format!("; these hung: {}", long.join(", ")),
        }
    }

    /// Returns the tests that did not run by their reasons, as a text; nothing where all ran.
    pub(crate) fn left_out(&self) -> Option<String> {
        if self.all.is_empty() {
            return None;
        }
        let mut reasons: Vec<&str> = self.all.iter().map(|(_, why)| why.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        let of = |why: &str| {
            let tests: Vec<_> =
                self.all.iter().filter(|(_, other)| other == why).map(|(test, _)| test.as_str()).collect();
            format!("  {} ({why}{}): {}\n", tests.len(), brings(why), tests.join(", "))
        };
        let lines: String = reasons.into_iter().map(of).collect();
        Some(format!("{} tests, or parts of them, did not run:\n{lines}", self.all.len()))
    }
}

/// Returns the reason in a line that says that a test did not run.
fn reason(line: &str) -> Option<&str> {
    let word = line.get(.."skipped:".len())?;
    word.eq_ignore_ascii_case("skipped:").then(|| line[word.len()..].trim())
}

/// Returns what makes tests run that did not for this reason.
fn brings(why: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| why.contains(word));
    if has(&["too busy"]) {
        "; run it when nothing else runs"
    } else if has(&["root", "permission", "nobody", "not permitted"]) {
        "; run it as root"
    } else if has(&["not installed", "is not there", "there is no", "no ethtool", "no readelf"]) {
        "; `.ci/setup programs` brings what Debian has"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests;
