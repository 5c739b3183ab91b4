//! One program, compiled against the kernel's calls and against ours, says the same: every return value and errno.

use crate::installed::{compile, prefix};
use bench::same::{Known, compare};
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "crates/apps/capi/tests/c/semantics.c";
/// It asks for what a compiler warns of.
const FLAGS: [&str; 3] = ["-Wno-nonnull", "-Wno-stringop-overflow", "-Wno-stringop-overread"];
/// Fewer would mean that it ended early.
const CHECKS: usize = 1_650;

/// Where we differ, and why: part of what a check is called.
const DIFFERENT: &[Known] = &[
    ("SO_RCVLOWAT to -1", "the kernel cuts it to half its own largest buffer, we to ours"),
    ("SO_PRIORITY to", "root may go beyond 6; here nobody is root"),
    ("SO_RCVBUF to -1", "a negative size is refused"),
    ("SO_SNDBUF to -1", "a negative size is refused"),
    ("TCP_SYNCNT", "0 until it is set"),
    ("read end: read into NULL", "an empty pipe is asked after the memory, not before it"),
    ("connection: SO_REUSEADDR", "a connection has nothing left to bind and keeps no such flag"),
    ("connection: IP_FREEBIND", "the same"),
];

fn run(program: &Path, argument: &str) -> String {
    let output = Command::new("timeout")
        .args(["120".as_ref(), program.as_os_str(), argument.as_ref()])
        .env("MILLSTREAM_RUN", prefix())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let end: String = text.lines().rev().take(3).collect::<Vec<_>>().join(" < ");
    assert!(output.status.success(), "{}: {end}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn calls_answer_as_the_kernels_do() {
    let kernel = run(&compile(SOURCE, "semantics-kernel", &FLAGS), "");
    let ours = compile(SOURCE, "semantics", &[&FLAGS[..], &["-DMILLSTREAM"]].concat());
    let meet = std::env::temp_dir().join(format!("ms-capi-{}", std::process::id()));
    let ours = run(&ours, &meet.to_string_lossy());
    compare(&kernel, &ours, CHECKS, DIFFERENT).unwrap_or_else(|differences| panic!("{differences}"));
}
