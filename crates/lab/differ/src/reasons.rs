//! The table of explained differences of both kinds of input. A difference that no row explains fails a run. The rows
//! stand in the pages, too: `cargo xtask differ reasons` writes them there.

mod calls;
mod row;
mod rows;

pub use row::{CALLS, Kind, Row};

use crate::progress::Counts;
use std::collections::BTreeMap;
use std::path::Path;

/// Returns the rows of a kind.
pub fn of(kind: Kind) -> impl Iterator<Item = &'static Row> {
    if kind == Kind::Packets { rows::ROWS } else { calls::ROWS }.iter()
}

/// Returns the row whose predicate has this name.
pub fn by_key(kind: Kind, key: &str) -> Option<&'static Row> {
    of(kind).find(|row| row.key == key)
}

/// Returns the rows of a kind as a table in Markdown.
pub fn table(kind: Kind) -> String {
    let rows: String = of(kind).map(|row| format!("| {} | {} |\n", row.name, row.reason)).collect();
    format!("| Difference | Reason |\n|---|---|\n{rows}")
}

/// Returns what each row explained, and the rows that explained nothing, as lines for people. `used` has the seeds of
/// each row.
pub fn usage(kind: Kind, used: &BTreeMap<&'static str, Vec<u64>>, counts: Counts) -> String {
    let mut text = String::new();
    for (name, seeds) in used {
        text += &format!("explained: {name}: {}\n", seeds_text(seeds));
    }
    let unused: Vec<&str> = of(kind).map(|row| row.name).filter(|name| !used.contains_key(name)).collect();
    if !unused.is_empty() {
        text += &format!("rows that {} inputs did not use: {}\n", counts.inputs, unused.join("; "));
    }
    text
}

/// Returns how many seeds there are, and the first of them.
pub fn seeds_text(seeds: &[u64]) -> String {
    let shown: Vec<String> = seeds.iter().take(8).map(u64::to_string).collect();
    format!("{} (seeds {}{})", seeds.len(), shown.join(", "), if seeds.len() > 8 { ", ..." } else { "" })
}

/// Marks around a table in a page.
const BEGIN: &str = "<!-- cargo xtask differ reasons: begin -->\n";
const END: &str = "<!-- cargo xtask differ reasons: end -->\n";
/// Pages with a table, from the root of the tree.
const PAGES: &[(&str, Kind)] = &[("docs/BOUNDARY.md", CALLS), ("docs/SUITES.md", Kind::Packets)];

/// Writes the tables into the pages under `root`, or with `checks` compares them.
///
/// # Errors
/// A page cannot be read or written, or, with `checks`, has another table: the names of these pages.
pub fn pages(root: &Path, checks: bool) -> Result<(), String> {
    let mut stale = Vec::new();
    for (name, kind) in PAGES {
        let path = root.join(name);
        let of_page = |why: String| format!("{}: {why}", path.display());
        let page = std::fs::read_to_string(&path).map_err(|e| of_page(e.to_string()))?;
        let parts = page.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
        let (head, tail) = parts.ok_or_else(|| {
            of_page(format!("the lines `{}` and `{}` are missing", BEGIN.trim(), END.trim()))
        })?;
        let new = format!("{head}{BEGIN}{}{END}{tail}", table(*kind));
        if new == page {
            continue;
        }
        if checks {
            stale.push(*name);
        } else {
            std::fs::write(&path, new).map_err(|e| of_page(e.to_string()))?;
        }
    }
    match stale.is_empty() {
        true => Ok(()),
        false => {
            Err(format!("not up to date: {}; `cargo xtask differ reasons` writes them", stale.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests;
