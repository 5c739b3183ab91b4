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
mod tests {
    //! Goal: each rule is found on its line, on both sides of its threshold.
    use super::*;

    #[test]
    fn length_and_width() {
        assert!(complaints("a.rs", &"x\n".repeat(LINES_MAX)).is_empty());
        assert_eq!(complaints("a.rs", &"x\n".repeat(LINES_MAX + 1)).len(), 1);
        assert!(complaints("a.md", &"x\n".repeat(LINES_MAX + 1)).is_empty());
        let umlauts = "ü".repeat(COLUMNS_MAX);
        assert!(complaints("a.rs", &umlauts).is_empty());
        assert_eq!(complaints("a.rs", &format!("\n{umlauts}ü")), ["a.rs:2: wider than 120 columns"]);
    }

    #[test]
    fn left_overs() {
        for (pattern, _) in LEFT_OVER {
            let text = format!("fn f() {{\n    {pattern})\n}}\n");
            let found = complaints("src/a.rs", &text);
            assert_eq!(found.len(), 1, "{pattern}");
            assert!(found[0].starts_with("src/a.rs:2: "), "{found:?}");
            assert!(complaints("notes.md", &text).is_empty());
        }
    }

    #[test]
    fn dead_code() {
        for pattern in KEPT_ALIVE {
            let text = format!("#!{pattern}\n");
            assert_eq!(complaints("crates/a/src/lib.rs", &text).len(), 1, "{pattern}");
            assert!(complaints("crates/a/tests/common/mod.rs", &text).is_empty());
        }
    }

    #[test]
    fn doc_comments_begin_with_the_noun_or_the_verb() {
        let text = |word: &str, mark: &str| format!("fn f() {{}}\n    {mark} {word} it does.\nfn g() {{}}\n");
        for (word, mark) in BEGINNINGS.iter().flat_map(|word| [(word, "///"), (word, "//!")]) {
            let found = complaints("src/a.rs", &text(word, mark));
            assert_eq!(found.len(), 1, "{word} {mark}");
            assert!(found[0].starts_with("src/a.rs:2: a doc comment begins with"), "{found:?}");
            assert!(complaints("notes.md", &text(word, mark)).is_empty());
            assert!(complaints("src/a.rs", &text(word, "//")).is_empty(), "not a doc comment");
        }
        let after = |before: &str| complaints("src/a.rs", &format!("/// {before}\n/// Who waits.\n")).len();
        assert_eq!((after(""), after("# Errors"), after("The thread of the one")), (1, 1, 0));
        for word in ["Whatever", "Whole", "The samelier", "what", "Returns what"] {
            assert!(complaints("src/a.rs", &text(word, "///")).is_empty(), "{word}");
        }
    }

    #[test]
    fn foreign_words_are_found_in_every_kind_of_file_and_case() {
        for word in FOREIGN_WORDS {
            assert_eq!(complaints("README.md", &format!("x {} y", word.to_uppercase())).len(), 1, "{word}");
        }
        assert!(complaints("README.md", "User-Agent: curl; the session ends with FIN").is_empty());
    }
}
