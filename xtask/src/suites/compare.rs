//! The results of a row on both sides, and their differences.

use std::collections::BTreeSet;
use std::time::Duration;

use super::known::{KNOWN, Known};
use super::output::{Result, Results};

/// One run of a part.
pub(super) struct Side {
    pub(super) results: Results,
    /// How it ended, in words.
    pub(super) end: String,
    /// Ends of connections on the stack, if the launch told them.
    pub(super) ends_on_stack: Option<u64>,
    pub(super) took: Duration,
}

impl Side {
    fn passed(&self) -> usize {
        self.results.values().filter(|result| **result == Result::Passed).count()
    }

    fn result(&self, test: &str) -> Result {
        self.results.get(test).copied().unwrap_or(Result::Missing)
    }
}

/// A test whose results differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) test: String,
    pub(super) kernel: String,
    pub(super) stack: String,
}

#[derive(Clone, Debug)]
pub(super) struct Comparison {
    /// SUITE/PART.
    pub(super) row: String,
    pub(super) tests: usize,
    pub(super) passed_kernel: usize,
    pub(super) passed_stack: usize,
    /// Ends of connections that were on the stack, if the launch told them.
    pub(super) ends_on_stack: Option<u64>,
    pub(super) seconds: [u64; 2],
    pub(super) differences: Vec<Difference>,
}

impl Comparison {
    pub(super) fn of(row: String, kernel: Side, stack: Side) -> Comparison {
        let tests: BTreeSet<&String> = kernel.results.keys().chain(stack.results.keys()).collect();
        let differing = tests.iter().filter(|test| kernel.result(test) != stack.result(test));
        let mut differences: Vec<_> = differing
            .map(|test| Difference {
                test: test.to_string(),
                kernel: kernel.result(test).word().into(),
                stack: stack.result(test).word().into(),
            })
            .collect();
        // A test that fails changes the end as well.
        if differences.is_empty() && kernel.end != stack.end {
            differences.push(Difference {
                test: "its end".into(),
                kernel: kernel.end.clone(),
                stack: stack.end.clone(),
            });
        }
        Comparison {
            row,
            tests: tests.len(),
            passed_kernel: kernel.passed(),
            passed_stack: stack.passed(),
            ends_on_stack: stack.ends_on_stack,
            seconds: [kernel.took.as_secs(), stack.took.as_secs()],
            differences,
        }
    }

    /// Returns lines for a person who waits.
    pub(super) fn told(&self) -> String {
        let mut text = format!(
            "  {} tests, {} passed on the kernel ({} s), {} on the stack ({} s), {} ends of connections there\n",
            self.tests,
            self.passed_kernel,
            self.seconds[0],
            self.passed_stack,
            self.seconds[1],
            told_ends(self.ends_on_stack)
        );
        for Difference { test, kernel, stack } in &self.differences {
            let cause = cause(KNOWN, &self.row, test).unwrap_or("NOT LISTED");
            text += &format!("  {test}: {kernel} on the kernel, {stack} on the stack: {cause}\n");
        }
        text
    }

    /// Returns everything that is not as the list of known differences says.
    pub(super) fn wrong(&self) -> Vec<String> {
        self.wrong_by(KNOWN)
    }

    fn wrong_by(&self, known: &[Known]) -> Vec<String> {
        if self.tests == 0 {
            return vec![format!("{}: no test ran", self.row)];
        }
        let new = self.differences.iter().filter(|found| cause(known, &self.row, &found.test).is_none());
        let new = new.map(|Difference { test, kernel, stack }| {
            format!("{}: {test}: {kernel} on the kernel, {stack} on the stack", self.row)
        });
        let found = |known: &Known| self.differences.iter().any(|found| found.test == known.test);
        let gone = known.iter().filter(|known| known.always && known.row == self.row && !found(known));
        let gone = gone.map(|known| format!("{}: {}: listed, and no longer different", self.row, known.test));
        new.chain(gone).collect()
    }
}

/// Returns the number of ends of connections in words.
pub(super) fn told_ends(ends: Option<u64>) -> String {
    ends.map_or("-".into(), |ends| ends.to_string())
}

/// Returns the cause of a known difference.
pub(super) fn cause<'a>(known: &'a [Known], row: &str, test: &str) -> Option<&'a str> {
    known.iter().find(|known| known.row == row && known.test == test).map(|known| known.cause)
}

#[cfg(test)]
mod tests;
