//! Goal: the page's blocks fit the tree as it is, and one that does not fit is told.
use super::*;

#[test]
fn differences_are_made_where_they_fit_once() {
    let text = "a\nb\n\nc\nb\n";
    assert_eq!(changed(text, " a\n+x\n b\n@@\n-c\n+d\n").as_deref(), Ok("a\nx\nb\n\nd\nb\n"));
    assert_eq!(changed(text, " b\n\n-c\n").as_deref(), Ok("a\nb\n\nb\n"));
    for wrong in [" b\n+x\n", "-e\n"] {
        assert!(changed(text, wrong).is_err(), "{wrong}");
    }
}

#[test]
fn blocks_belong_to_the_file_named_last() {
    let page = "1. **`a.rs`**: one\n\n   ```diff\n   +x\n\n    y\n   ```\n\
                    in **`b/tests/c.rs`**:\n\n```rust\nz\n```\n";
    let found = blocks(page).expect("blocks");
    let seen: Vec<_> = found.iter().map(|one| (one.file, one.is_diff, one.text.as_str())).collect();
    assert_eq!(seen, [("a.rs", true, "+x\n\n y\n"), ("b/tests/c.rs", false, "z\n")]);
    assert!(is_source("a.rs") && !is_source("b/tests/c.rs") && !is_source("b/fuzz.rs"));
}

/// All three recipes, each on what those before it left; to build and run that takes `cargo xtask ci extending`.
#[test]
fn the_page_fits_the_tree() {
    let files = extended(&read(PAGE).expect("the page")).unwrap_or_else(|why| panic!("{why}"));
    assert!(files.len() > 10);
}
