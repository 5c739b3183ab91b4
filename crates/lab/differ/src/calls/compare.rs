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
    // A call that woke on one side alone is what differs, not the step after it.
    let woke = |line: &str| line.contains(" woke:");
    let asleep = "asleep".to_owned();
    let (at, results) = match (woke(&kernel), woke(&stack)) {
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
mod tests {
    //! Goal: the first difference without a row is found, and its key has no amounts.
    use super::*;

    fn lines(all: &[&str]) -> Vec<String> {
        all.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn keys_have_no_amounts() {
        let steps = [Step { name: "recv", args: vec![0, 50, 2, 0, 0] }];
        let Verdict::Found(found) =
            compare(&steps, &lines(&["0: 50 sum 12345678"]), &lines(&["0: -1 EAGAIN"]))
        else {
            panic!("no difference")
        };
        assert_eq!(found.key, "recv MSG_PEEK: n | -1 EAGAIN");
    }

    #[test]
    fn a_call_that_woke_on_one_side_is_named() {
        let steps = [("recv", vec![0, 50, 0, 0, 0]), ("psend", vec![0, 5, 0])];
        let steps = steps.map(|(name, args)| Step { name, args });
        let kernel = lines(&["0: asleep", "1: 5", "0 woke: 5", "0 asleep at the end"]);
        let Verdict::Found(found) = compare(&steps, &kernel, &lines(&["0: asleep", "1: 5", "2: 0"])) else {
            panic!("no difference")
        };
        assert_eq!(found.key, "recv: woke: 5 | asleep");
    }

    #[test]
    fn a_program_that_ends_early_differs() {
        let steps = [Step { name: "join", args: vec![] }];
        let verdict = compare(&steps, &lines(&["0: 1"]), &[]);
        assert!(matches!(verdict, Verdict::Found(Difference { key, .. }) if key == "join: 1 | nothing"));
        assert_eq!(
            compare(&steps, &lines(&["0: 1"]), &lines(&["0: 1"])),
            Verdict::Explained(BTreeSet::new())
        );
    }
}
