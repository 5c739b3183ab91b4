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
