//! Goal: a remark is found with its item and place, whatever stands around it.
use super::*;

fn said(text: &str) -> Vec<(Option<String>, Place, String)> {
    said_in("crates/core/tcp/src/a.rs", text)
}

fn said_in(path: &str, text: &str) -> Vec<(Option<String>, Place, String)> {
    let mut found: Vec<_> = remarks(path, text).into_iter().map(|r| (r.item, r.place, r.text)).collect();
    found.retain(|(_, _, text)| text.contains("RFC"));
    found
}

fn row(item: &str, place: Place, text: &str) -> (Option<String>, Place, String) {
    (Some(item.into()), place, text.into())
}

#[test]
fn before_and_within_functions() {
    let text = "//! RFC 1.\nuse x;\nimpl A {\n    /// RFC 2,\n    /// more.\n    #[inline(always)]\n    pub(crate) \
                    const fn f<'a>(x: &'a str) -> char {\n        if x { '{' } else { '\\'' } // RFC 3\n    }\n}\n\
                    // RFC 4\nconst B: u8 = 1; // no\n/// RFC 5\nstruct C {\n    /// RFC 6\n    d: u8,\n}\n";
    let found = said(text);
    assert_eq!(found[0], (None, Place::Code, "RFC 1.".into()));
    let rest = [("f", "RFC 2, more."), ("f", "RFC 3"), ("B", "RFC 4"), ("C", "RFC 5"), ("C", "RFC 6")];
    assert_eq!(found[1..], rest.map(|(item, text)| row(item, Place::Code, text)));
}

#[test]
fn tests_and_their_helpers() {
    let text = "fn code() { /* RFC 1 */ }\n#[cfg(test)]\nmod tests {\n    //! RFC 2\n    fn help() { // RFC 3\n}\n\
                    /// RFC 4\n    #[test]\n    fn it() { assert!(x, \"RFC 5 \\\n          on\"); }\n}\n";
    let expected = [
        row("code", Place::Code, "RFC 1"),
        row("tests", Place::Help, "RFC 2"),
        row("help", Place::Help, "RFC 3"),
        row("it", Place::Test, "RFC 4"),
        row("it", Place::Test, "RFC 5 on"),
    ];
    assert_eq!(said(text), expected);
    let in_tests = said_in("crates/a/tests/b.rs", "fn help() { // RFC 1\n}\n#[test]\n// RFC 2\nfn it() {}\n");
    assert_eq!(in_tests, [row("help", Place::Help, "RFC 1"), row("it", Place::Test, "RFC 2")]);
}

#[test]
fn braces_and_comments_in_strings() {
    let text = "fn a() { let x = \"{ // RFC 1\"; let y = r#\"\"}\"# ; let z = b'{'; let w = b\"}\"; }\n\
                    /// RFC 2\nfn b() {}\n";
    assert_eq!(said(text), [row("a", Place::Code, "{ // RFC 1"), row("b", Place::Code, "RFC 2")]);
}
