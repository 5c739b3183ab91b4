//! The results of a program on both sides, line by line.

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
fn step_of(line: &str) -> Option<usize> {
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

/// Circumstances of a step that a row may ask for.
fn context(steps: &[Step], at: usize, before: &[String], is_crash: bool) -> &'static str {
    // A call that slept is told when later steps are done.
    let last = before.iter().filter_map(|line| step_of(line)).max().unwrap_or(0);
    let done = &steps[..steps.len().min(at.max(last) + 1)];
    // A read keeps its pointer while it sleeps, and what it takes is missed later.
    let is_bad = |step: &Step| {
        (step.name == "recv" && step.arg(4) != 0)
            || (is_crash && (step.kind().contains("unmapped") || step.kind().contains("over the edge")))
            || (is_crash && matches!(step.name, "accept" | "name") && step.arg(step.args.len() - 1) == 5)
    };
    let has_child = done.iter().any(|step| step.name == "child");
    let otherwise = if done.iter().any(is_bad) { ", bad pointers" } else { "" };
    if is_crash {
        return otherwise;
    }
    if has_child {
        return ", after a child";
    }
    let sleepers =
        || before.iter().filter(|line| line.ends_with(": asleep")).filter_map(|line| step_of(line));
    let Some(first) = sleepers().next() else { return otherwise };
    let closes = |step: &Step| step.name == "close" || (step.name == "dup" && matches!(step.arg(2), 1 | 2));
    if done.iter().skip(first).any(closes) {
        ", closed while a call slept"
    } else if sleepers()
        .filter(|at| steps.get(*at).is_some_and(|step| matches!(step.name, "recv" | "accept")))
        .count()
        > 1
    {
        ", several reads asleep"
    } else {
        otherwise
    }
}

fn difference(steps: &[Step], before: &[String], kernel: String, stack: String) -> Difference {
    let at = step_of(&kernel).max(step_of(&stack)).unwrap_or(steps.len());
    let call = steps.get(at).map_or_else(|| "the end".to_owned(), Step::kind)
        + context(steps, at, before, stack.ends_with("crashes"));
    let results = format!("{} | {}", short(&kernel), short(&stack));
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
