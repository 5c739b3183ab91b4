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
mod tests {
    //! Goal: a difference is wrong unless it is listed, and a listed one is wrong unless it is there.
    use super::*;

    fn side(results: &[(&str, Result)], end: &str) -> Side {
        let results = results.iter().map(|(test, result)| (test.to_string(), *result)).collect();
        Side { results, end: end.into(), ends_on_stack: Some(4), took: Duration::from_secs(1) }
    }

    #[test]
    fn differences_are_found() {
        let kernel = [("a", Result::Passed), ("b", Result::Passed), ("c", Result::Failed)];
        let stack = [("a", Result::Passed), ("b", Result::Failed), ("d", Result::Passed)];
        let of = |kernel: &[_], stack: &[_], end: &str| {
            Comparison::of("suite/part".into(), side(kernel, "exit status 0"), side(stack, end))
        };
        let found = of(&kernel, &stack, "exit status 1");
        let names: Vec<_> = found.differences.iter().map(|found| found.test.as_str()).collect();
        assert_eq!(names, ["b", "c", "d"]);
        assert_eq!((found.tests, found.passed_kernel, found.passed_stack), (4, 2, 2));
        assert_eq!(found.wrong_by(&[]).len(), 3);
        let known = |test| Known { row: "suite/part", test, cause: "no urgent data", always: true };
        assert_eq!(found.wrong_by(&[known("b"), known("c"), known("d")]), [""; 0]);
        let wrong = found.wrong_by(&[known("a"), known("b"), known("c"), known("d")]);
        assert_eq!(wrong, ["suite/part: a: listed, and no longer different"]);
        let at_times = Known { always: false, ..known("a") };
        assert_eq!(found.wrong_by(&[at_times, known("b"), known("c"), known("d")]), [""; 0]);
        assert_eq!(found.wrong_by(&[Known { row: "other/part", ..known("b") }]).len(), 3);
        assert_eq!(of(&kernel, &kernel, "exit status 0").wrong_by(&[]), [""; 0]);
        let crashed = "suite/part: its end: exit status 0 on the kernel, signal 11 on the stack";
        assert_eq!(of(&kernel, &kernel, "signal 11").wrong_by(&[]), [crashed]);
        assert_eq!(of(&[], &[], "exit status 0").wrong_by(&[]), ["suite/part: no test ran"]);
    }
}
