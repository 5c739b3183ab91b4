//! Goal: every form of the notation is read, and what only looks like one is not.
use super::*;

fn read(text: &str) -> Vec<String> {
    let show = |Citation { rfc, target }| match target {
        Target::Clause(id) => format!("{rfc} {id}"),
        Target::Section(number) => format!("{rfc} s{number}"),
    };
    citations(text).into_iter().map(show).collect()
}

#[test]
fn every_form() {
    assert_eq!(read("see (RFC 9293, MUST-14)."), ["9293 MUST-14"]);
    assert_eq!(
        read("RFC 9293, MUST-14, MUST-65 and SHLD-5: so"),
        ["9293 MUST-14", "9293 MUST-65", "9293 SHLD-5"]
    );
    assert_eq!(read("RFC 9293 (MUST-7) asks"), ["9293 MUST-7"]);
    assert_eq!(read("(RFC 5961, 3.2-1; RFC 9293, MAY-12)"), ["5961 3.2-1", "9293 MAY-12"]);
    assert_eq!(read("RFC 6298, rules 5.4 to 5.6, and"), ["6298 5-4", "6298 5-5", "6298 5-6"]);
    assert_eq!(read("RFC 6298, rules 5.2 and 5.3."), ["6298 5-2", "6298 5-3"]);
    assert_eq!(read("RFC 9293, sections 3.8.6 and 3.7.4)"), ["9293 s3.8.6", "9293 s3.7.4"]);
    assert_eq!(read("RFC 7323, appendix A.1-2"), ["7323 A.1-2"]);
}

#[test]
fn what_is_no_clause() {
    assert!(read("RFC 9293 would fall back; RFC 9293's diagram; RFC-9293, MUST-1; RFC x, MUST-1").is_empty());
    assert!(read("RFC 5961: MUST-1").is_empty(), "a colon ends it");
    assert!(read("RFC 793. MUST-1 is next").is_empty());
    assert_eq!(read("RFC 9293, MUST-1. MUST-2"), ["9293 MUST-1"], "a sentence ends it");
    assert_eq!(read("RFC 9293, MUST-1 and then MUST-2"), ["9293 MUST-1"]);
    assert!(read("RFC 9293, 3.10.7.2").is_empty(), "a bare number names no clause");
}
