//! One file at a time.

/// A file is read in one sitting.
const LINES_MAX: usize = 800;
const COLUMNS_MAX: usize = 120;

/// Texts that must not be left in Rust source, with the reason. Split, so that this table does not accuse itself.
const LEFT_OVER: &[(&str, &str)] = &[
    (concat!("todo", "!("), "unfinished"),
    (concat!("unimplemented", "!("), "unfinished"),
    (concat!("dbg", "!("), "debugging output"),
    (concat!("assert!(", "true"), "a check that cannot fail"),
];

/// Not in what is shipped; what several test programs share is dead in some of them.
const KEPT_ALIVE: [&str; 2] = [concat!("[allow(dead", "_code"), concat!("[allow(unu", "sed")];

/// The project speaks of networks, not of how its text came to be.
const FOREIGN_WORDS: &[&str] = &[
    concat!("clau", "de"),
    concat!("anthro", "pic"),
    concat!("chat", "gpt"),
    concat!("open", "ai"),
    concat!("co", "pilot"),
    concat!("ai-gen", "erated"),
    concat!("language ", "model"),
    concat!("coding ", "agent"),
    concat!("coding ", "session"),
    concat!("co-authored", "-by"),
    concat!("generated ", "with"),
];

/// Doc comments name the thing (a noun phrase) or say what a function does (a verb): none begins with these words.
const BEGINNINGS: [&str; 4] = ["What", "Who", "Whose", "The same"];

/// The text of a line of a doc comment.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
}

/// The forbidden word with which a paragraph of a doc comment begins at `line`, the one after `before`.
fn beginning(before: &str, line: &str) -> Option<&'static str> {
    let text = doc(line)?;
    let in_paragraph = doc(before).is_some_and(|text| !text.is_empty() && !text.starts_with('#'));
    let begins = |word: &&&str| {
        let rest = text.strip_prefix(**word);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    };
    if in_paragraph { None } else { BEGINNINGS.iter().find(begins).copied() }
}

/// Everything wrong with one file, as `path:line: what`.
pub(super) fn complaints(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let rust = path.ends_with(".rs");
    if rust && text.lines().count() > LINES_MAX {
        found.push(format!("{path}: longer than {LINES_MAX} lines: is there a second noun in it?"));
    }
    let mut before = "";
    for (number, line) in (1..).zip(text.lines()) {
        let mut complain = |what: &str| found.push(format!("{path}:{number}: {what}"));
        if rust {
            if line.chars().count() > COLUMNS_MAX {
                complain(&format!("wider than {COLUMNS_MAX} columns"));
            }
            for (pattern, why) in LEFT_OVER.iter().filter(|(pattern, _)| line.contains(pattern)) {
                complain(&format!("{why}: `{}`", pattern.trim_end_matches('(')));
            }
        }
        if rust && !path.contains("/tests/") {
            for pattern in KEPT_ALIVE.iter().filter(|pattern| line.contains(**pattern)) {
                complain(&format!("dead code kept alive: `#{pattern}`"));
            }
        }
        if let Some(word) = beginning(before, line).filter(|_| rust) {
            complain(&format!("a doc comment begins with `{word}`: begin with the noun or the verb"));
        }
        before = line;
        let lower = line.to_lowercase();
        if let Some(word) = FOREIGN_WORDS.iter().find(|word| lower.contains(**word)) {
            complain(&format!("`{word}` has no place here"));
        }
    }
    found
}

#[cfg(test)]
mod tests;
