//! The results of a program on both sides, line by line.

use super::circumstances::circumstance;
use super::reasons::{self, Row};
use super::step::Step;
use std::collections::BTreeSet;

/// The outcome of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No difference but those that rows explain: the names of these.
    Explained(BTreeSet<&'static str>),
    /// A difference without a row, by its key, and the line of each side.
    Found(Difference),
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// The call and both results without amounts: `CALL: KERNEL | STACK`.
    pub(super) key: String,
    /// Both results alone.
    pub(super) results: String,
    /// The line of the kernel.
    pub(super) kernel: String,
    /// The line under the launcher.
    pub(super) stack: String,
}

/// The step that a line is about.
pub(super) fn step_of(line: &str) -> Option<usize> {
    line.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// A line without its number, sums and amounts.
fn short(line: &str) -> String {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(':').trim();
    let mut words = Vec::new();
    let mut left = rest.split(' ');
    while let Some(word) = left.next() {
        match word {
            "sum" => {
                left.next();
            }
            _ if word.len() > 1 && word.bytes().all(|c| c.is_ascii_digit()) => words.push("n"),
            _ => words.push(word),
        }
    }
    words.join(" ")
}

fn difference(steps: &[Step], before: &[String], kernel: String, stack: String) -> Difference {
    // A call that woke on one side alone is what differs, not the step after it. Calls that a step wakes are told in
    // their order, so of two that differ the first one sleeps on the other side.
    let woke = |line: &str, other: &str| {
        line.contains(" woke:") && (!other.contains(" woke:") || step_of(line) < step_of(other))
    };
    let asleep = "asleep".to_owned();
    let (at, results) = match (woke(&kernel, &stack), woke(&stack, &kernel)) {
        (true, false) => (step_of(&kernel), [short(&kernel), asleep]),
        (false, true) => (step_of(&stack), [asleep, short(&stack)]),
        _ => (step_of(&kernel).max(step_of(&stack)), [short(&kernel), short(&stack)]),
    };
    let at = at.unwrap_or(steps.len());
    let call = steps.get(at).map_or_else(|| "the end".to_owned(), Step::kind)
        + circumstance(steps, at, before, stack.ends_with("crashes"));
    let results = results.join(" | ");
    Difference { key: format!("{call}: {results}"), results, kernel, stack }
}

/// Compares the results of `steps`.
pub(super) fn compare(steps: &[Step], kernel: &[String], stack: &[String]) -> Verdict {
    let mut explained = BTreeSet::new();
    for at in 0..kernel.len().max(stack.len()) {
        let line = |side: &[String]| side.get(at).cloned().unwrap_or_else(|| "nothing".to_owned());
        let (plain, ours) = (line(kernel), line(stack));
        if plain == ours {
            continue;
        }
        let found = difference(steps, &kernel[..at.min(kernel.len())], plain, ours);
        let Some(Row { name, goes_on, .. }) = reasons::explains(&found.key) else {
            return Verdict::Found(found);
        };
        explained.insert(*name);
        if !goes_on || step_of(&found.kernel) != step_of(&found.stack) {
            break;
        }
    }
    Verdict::Explained(explained)
}

#[cfg(test)]
mod tests;
