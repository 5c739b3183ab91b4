//! docs/ARCHITECTURE.md names files and functions: each exists.

use std::fs;

use crate::run;

/// The page.
const PAGE: &str = "docs/ARCHITECTURE.md";
/// Heading of its table of questions.
const QUESTIONS: &str = "## Where is ...?\n";

/// Every file and name of the page that does not exist; `paths` are those of the tree.
pub(super) fn complaints(paths: &[&str]) -> Vec<String> {
    match fs::read_to_string(run::root().join(PAGE)) {
        Ok(page) => {
            wrong(&page, paths, |path| fs::read_to_string(run::root().join(path)).unwrap_or_default())
        }
        Err(error) => vec![format!("{PAGE}: {error}")],
    }
}

fn wrong(page: &str, paths: &[&str], read: impl Fn(&str) -> String) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(page.lines()) {
        let words = line.split(|letter: char| !(letter.is_alphanumeric() || "_/.-".contains(letter)));
        for word in
            words.filter(|word| word.ends_with(".rs") && !paths.iter().any(|path| is_named(path, word)))
        {
            found.push(format!("{PAGE}:{number}: there is no `{word}`"));
        }
    }
    let table = page.split_once(QUESTIONS).map_or("", |(_, rest)| rest);
    let table = table.split_once("\n## ").map_or(table, |(table, _)| table);
    for row in table.lines().filter(|line| line.starts_with("| ") && line.contains('`')) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [_, _, files, names] = cells[..] else {
            found.push(format!("{PAGE}: not a question, an answer, files and names: {row}"));
            continue;
        };
        let texts: Vec<String> = quoted(files).map(&read).collect();
        for name in quoted(names).filter(|name| !texts.iter().any(|text| defines(text, name))) {
            found.push(format!("{PAGE}: no `{name}` in {}", files.trim()));
        }
    }
    found
}

/// Words in back quotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns true if `word` is `path`, or `CRATE/FILE.rs` for a file in the folder `src` of a crate.
fn is_named(path: &str, word: &str) -> bool {
    let short = |(folder, file): (&str, &str)| {
        let name = folder.rsplit('/').next().unwrap_or_default();
        word.split_once('/') == Some((name, file))
    };
    path == word || path.split_once("/src/").is_some_and(short)
}

/// Returns true if the text of a file defines `name`.
fn defines(text: &str, name: &str) -> bool {
    const KINDS: [&str; 6] = ["fn", "struct", "enum", "trait", "const", "macro_rules!"];
    let at = |kind: &&str| {
        let head = format!("{kind} {name}");
        text.match_indices(&head).any(|(at, _)| {
            let next = text[at + head.len()..].chars().next();
            !next.is_some_and(|next| next.is_alphanumeric() || next == '_')
        })
    };
    KINDS.iter().any(at)
}

#[cfg(test)]
mod tests;
