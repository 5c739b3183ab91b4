//! Goal: tests that hang are named and ended, what tests leave behind does not hold the gate, and slow tests pass.
#![forbid(unsafe_code)]

use std::process::{Command, Output};

/// Runs `script` in place of `cargo test`: no test may take longer than so many seconds.
fn tests(seconds: &str, script: &str) -> (Output, String) {
    xtask(&["tests", seconds, "sh", "-c", script])
}

fn xtask(arguments: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().expect("it runs");
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    (output, String::from_utf8(said).expect("text"))
}

fn runs(pid: &str) -> bool {
    std::path::Path::new("/proc").join(pid).exists()
}

#[test]
fn a_test_that_hangs_is_named_and_ended_whatever_others_write() {
    let script = "echo running 2 tests; echo test good ... ok; \
                  echo test bad has been running for over 60 seconds; while :; do echo chatter; sleep 0.1; done";
    let (output, said) = tests("1", script);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("no test ended for 1 s") && said.contains("these hung: bad\n"), "{said}");
    assert!(said.contains("sh -c echo running 2 tests"), "{said}");
}

#[test]
fn the_limit_is_on_silence_and_not_on_all_tests_together() {
    let script = "echo running 5 tests; for n in 1 2 3 4 5; do sleep 0.5; echo test $n ... ok; done";
    let (output, said) = tests("2", script);
    assert!(output.status.success(), "{said}");
}

#[test]
fn all_tests_together_may_have_a_limit_too() {
    let script = "echo running 2 tests; while :; do echo test a ... ok; sleep 0.1; done";
    let (output, said) = xtask(&["tests", "100", "--within", "1", "sh", "-c", script]);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("they did not end within 1 s") && !said.contains("without a result"), "{said}");
}

#[test]
fn a_daemon_that_holds_the_output_ends_with_the_tests() {
    // It has left its parent and its session, and gives up nothing by itself.
    let script = "echo running 1 test; echo test a ... ok; echo test result: ok.; \
                  setsid sh -c 'trap : TERM HUP; echo daemon $$; sleep 1000.5; :' & sleep 0.3";
    let (output, said) = tests("100", script);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("ENDED: tests left these programs behind:") && said.contains("sleep 1000.5"),
        "{said}"
    );
    let daemon = said.lines().find_map(|line| line.strip_prefix("daemon ")).expect("its number");
    assert!(!runs(daemon), "{said}");
}

#[test]
fn an_orphan_that_ended_is_gone_for_the_tests_too() {
    let script = "echo running 1 test; p=$(sh -c 'sleep 0.2 >/dev/null & echo $!'); \
                  while [ -e /proc/$p ]; do sleep 0.05; done; echo test a ... ok; echo test result: ok.";
    let (output, said) = tests("5", script);
    assert!(output.status.success(), "{said}");
}

#[test]
fn what_fails_and_what_crashes_is_told_with_the_exit_status() {
    let (output, said) = tests("5", "echo running 1 test; echo test a ... ok; exit 101");
    assert!(!output.status.success() && said.contains("exit status: 101"), "{said}");
    assert!(said.contains("a test binary ended without a result, after\n    test a ... ok"), "{said}");
    let (_, said) = tests("5", "exec /nowhere/at/all");
    assert!(said.contains("exit status: 127"), "{said}");
}
