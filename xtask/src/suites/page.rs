//! Results of the rows: kept in files, so that runs of single rows add up, and shown as the table of docs/SUITES.md.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::compare::{Comparison, Difference, cause, told_ends};
use super::known::KNOWN;
use super::rows::SUITES;
use crate::run;

const PAGE: &str = "docs/SUITES.md";
const BEGIN: &str = "<!-- cargo xtask suites: begin -->";
const END: &str = "<!-- cargo xtask suites: end -->";

/// A row that was run.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) comparison: Comparison,
    /// Version of the suite.
    pub(super) version: String,
    /// The day on which it was run.
    pub(super) day: String,
}

fn results() -> PathBuf {
    run::target_dir().join("suites/results.tsv")
}

impl Entry {
    /// The row, then its differences, as lines of one table.
    fn lines(&self) -> String {
        let Comparison { row, tests, passed_kernel, passed_stack, seconds: [kernel, stack], .. } =
            &self.comparison;
        let ends = told_ends(self.comparison.ends_on_stack);
        let Entry { version, day, .. } = self;
        let mut lines = format!(
            "{row}\t{tests}\t{passed_kernel}\t{passed_stack}\t{ends}\t{kernel}\t{stack}\t{version}\t{day}\n"
        );
        for Difference { test, kernel, stack } in &self.comparison.differences {
            lines += &format!("{row}\t{}\t{kernel}\t{stack}\n", test.replace(['\t', '\n'], " "));
        }
        lines
    }

    fn read(line: &str) -> Option<Entry> {
        let parts: Vec<_> = line.split('\t').collect();
        let [row, tests, passed_kernel, passed_stack, ends, kernel, stack, version, day] = parts[..] else {
            return None;
        };
        let comparison = Comparison {
            row: row.into(),
            tests: tests.parse().ok()?,
            passed_kernel: passed_kernel.parse().ok()?,
            passed_stack: passed_stack.parse().ok()?,
            ends_on_stack: ends.parse().ok(),
            seconds: [kernel.parse().ok()?, stack.parse().ok()?],
            differences: Vec::new(),
        };
        Some(Entry { comparison, version: version.into(), day: day.into() })
    }
}

/// Reads the rows that lines tell of.
fn entries(text: &str) -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    for line in text.lines() {
        if let Some(entry) = Entry::read(line) {
            entries.insert(entry.comparison.row.clone(), entry);
        } else if let [row, test, kernel, stack] = line.split('\t').collect::<Vec<_>>()[..]
            && let Some(entry) = entries.get_mut(row)
        {
            let difference = Difference { test: test.into(), kernel: kernel.into(), stack: stack.into() };
            entry.comparison.differences.push(difference);
        }
    }
    entries
}

fn kept(path: &Path) -> Result<BTreeMap<String, Entry>, String> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(entries(&text))
}

/// Keeps an entry, instead of an older one of the same row.
pub(super) fn keep(entry: &Entry) -> Result<(), String> {
    let path = results();
    let mut all = kept(&path)?;
    all.insert(entry.comparison.row.clone(), entry.clone());
    let text: String = all.values().map(Entry::lines).collect();
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes the table of all rows that were kept into the page.
pub(super) fn write() -> Result<(), String> {
    let path = run::root().join(PAGE);
    let told = |error: std::io::Error| format!("{PAGE}: {error}");
    let page = fs::read_to_string(&path).map_err(told)?;
    let (before, rest) = page.split_once(BEGIN).ok_or(format!("{PAGE} has no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).ok_or(format!("{PAGE} has no line {END}"))?;
    fs::write(&path, format!("{before}{BEGIN}\n{}{END}{after}", table(&kept(&results())?))).map_err(told)
}

/// Makes the table of the rows, in the order in which they are run, and the list of differences.
fn table(entries: &BTreeMap<String, Entry>) -> String {
    let mut text = String::from(
        "| Suite | Version | Tests | Passed on the kernel | Passed here | Different | Ends of connections on the stack \
         | Seconds | Run on |\n|---|---|---:|---:|---:|---:|---:|---:|---|\n",
    );
    let mut list = String::new();
    for suite in SUITES {
        for part in suite.parts {
            let row = format!("{}/{}", suite.name, part.name);
            let Some(Entry { comparison: found, version, day }) = entries.get(&row) else { continue };
            let [kernel, stack] = found.seconds;
            text += &format!(
                "| {row} | {version} | {} | {} | {} | {} | {} | {kernel}, {stack} | {day} |\n",
                found.tests,
                found.passed_kernel,
                found.passed_stack,
                found.differences.len(),
                told_ends(found.ends_on_stack),
            );
            for Difference { test, kernel, stack } in &found.differences {
                let cause = cause(KNOWN, &row, test).unwrap_or("**not known**");
                let test = test.replace('|', "\\|");
                list += &format!("| {row} | `{test}` | {kernel} | {stack} | {cause} |\n");
            }
        }
    }
    if list.is_empty() {
        return text + "\nNo test differs.\n";
    }
    text + "\n| Row | Test | On the kernel | Here | Cause |\n|---|---|---|---|---|\n" + &list
}

#[cfg(test)]
mod tests;
