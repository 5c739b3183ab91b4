//! Goal: a test that did not run is counted once, with its reason; failures stay visible, and are told at the end.
use super::*;

const SAID: &str = "
running 4 tests
test a::plain ... ok
test a::tired ... ok

successes:

---- a::plain stdout ----
hello

---- a::tired stdout ----
SKIPPED: no AF_XDP
skipped: something else, too

---- b::tired stdout ----
skipped: no AF_XDP

successes:
    a::plain
    a::tired

failures:

---- a::broken stdout ----
skipped: but it failed all the same

thread 'a::broken' panicked at a.rs:1:2:
1 is not 2
 left: 1
 right: 2
note: run with a backtrace
further words

failures:
    a::broken

test result: FAILED. 2 passed; 1 failed
running 1 test

successes:

---- root stdout ----
skipped: network namespaces need root

test result: ok. 1 passed
";

fn report(said: &str, mut to: impl Write) -> TestReport {
    let mut report = TestReport::default();
    for line in said.lines() {
        report.line(line, &mut to);
    }
    report.end_of_binary();
    report
}

#[test]
fn tests_that_did_not_run_are_counted() {
    let mut shown = Vec::new();
    let report = report(SAID, &mut shown);
    let left_out = report.left_out().expect("a text");
    assert!(left_out.starts_with("3 tests"), "{left_out}");
    assert!(left_out.contains("  2 (no AF_XDP): a::tired, b::tired\n"), "{left_out}");
    assert!(left_out.contains("  1 (network namespaces need root; run it as root): root\n"), "{left_out}");
    let shown = String::from_utf8(shown).expect("text");
    assert!(
        shown.contains("test a::tired ... ok") && shown.contains("but it failed all the same"),
        "{shown}"
    );
    assert!(!shown.contains("hello"), "{shown}");
    let told = "\n  a::broken\n    skipped: but it failed all the same\n    \
                    thread 'a::broken' panicked at a.rs:1:2:\n    1 is not 2\n     left: 1\n     right: 2\n    \
                    note: run with a backtrace";
    assert_eq!(report.failures(), told);
}

#[test]
fn a_binary_that_crashed_is_a_failure() {
    let said = "running 2 tests\ntest a ... ok\nrunning 1 test\ntest b ... ok\n\ntest result: ok.\n";
    let report = report(said, Vec::new());
    assert_eq!(report.failures(), "\n  a test binary ended without a result, after\n    test a ... ok");
}

#[test]
fn nothing_is_said_where_all_ran() {
    let said = "running 1 test\ntest a ... ok\n\nsuccesses:\n\nsuccesses:\n    a\n\ntest result: ok.\n";
    let report = report(said, Vec::new());
    assert_eq!((report.left_out(), report.failures()), (None, String::new()));
}

#[test]
fn tests_that_take_long_are_known_until_they_end() {
    let long = "test b has been running for over 60 seconds";
    let mut report = report("running 3 tests\ntest a has been running for over 60 seconds", Vec::new());
    assert_eq!(
        [long, "chatter", "test c ... ok", "test a ... ok"].map(|line| report.line(line, &mut Vec::new())),
        [false, false, true, true]
    );
    assert_eq!(report.unended(), "; these hung: b");
}
