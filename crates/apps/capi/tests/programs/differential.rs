//! One program, compiled against the kernel's calls and against ours, says the same: every return value and errno.

use crate::installed::{compile, prefix};
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "crates/apps/capi/tests/c/semantics.c";
/// It asks for what a compiler warns of.
const FLAGS: [&str; 3] = ["-Wno-nonnull", "-Wno-stringop-overflow", "-Wno-stringop-overread"];
/// Fewer would mean that it ended early.
const CHECKS: usize = 1_600;

/// Where we differ, and why: part of what a check is called.
const DIFFERENT: &[(&str, &str)] = &[
    ("SO_RCVLOWAT to -1", "the kernel cuts it to half its own largest buffer, we to ours"),
    ("SO_PRIORITY to", "root may go beyond 6; here nobody is root"),
    ("SO_RCVBUF to -1", "a negative size is refused"),
    ("SO_SNDBUF to -1", "a negative size is refused"),
    ("TCP_SYNCNT", "0 until it is set"),
    ("read end: read into NULL", "an empty pipe is asked after the memory, not before it"),
    ("connection: SO_REUSEADDR", "a connection has nothing left to bind and keeps no such flag"),
    ("connection: IP_FREEBIND", "the same"),
];

fn run(program: &Path, argument: &str) -> Vec<String> {
    let output = Command::new("timeout")
        .args(["120".as_ref(), program.as_os_str(), argument.as_ref()])
        .env("MILLSTREAM_RUN", prefix())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let end: String = text.lines().rev().take(3).collect::<Vec<_>>().join(" < ");
    assert!(output.status.success(), "{}: {end}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn calls_answer_as_the_kernels_do() {
    let kernel = run(&compile(SOURCE, "semantics-kernel", &FLAGS), "");
    let ours = compile(SOURCE, "semantics", &[&FLAGS[..], &["-DMILLSTREAM"]].concat());
    let meet = std::env::temp_dir().join(format!("ms-capi-{}", std::process::id()));
    let ours = run(&ours, &meet.to_string_lossy());
    let count = kernel.iter().filter(|line| !line.starts_with('#')).count();
    assert!(count >= CHECKS, "{count} checks");
    assert_eq!(kernel.len(), ours.len(), "they went different ways");
    let mut section = "";
    let (mut odd, mut used) = (Vec::new(), vec![false; DIFFERENT.len()]);
    for (kernel, ours) in kernel.iter().zip(&ours) {
        if kernel.starts_with('#') {
            section = kernel;
        }
        if kernel == ours {
            continue;
        }
        match DIFFERENT.iter().position(|(what, _)| kernel.contains(what)) {
            Some(known) => used[known] = true,
            None => odd.push(format!("{section}: kernel: {kernel}; ours: {ours}")),
        }
    }
    assert!(odd.is_empty(), "{} of {count}:\n{}", odd.len(), odd.join("\n"));
    let gone: Vec<_> =
        DIFFERENT.iter().zip(&used).filter(|(_, used)| !**used).map(|(row, _)| row.0).collect();
    assert!(gone.is_empty(), "no difference any more: {gone:?}");
}
