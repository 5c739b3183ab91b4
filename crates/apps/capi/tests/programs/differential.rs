//! One program, compiled against the kernel's calls and against ours, says the same: every return value and errno.

use crate::installed::{compile, prefix};
use bench::same::{Known, compare};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

const SOURCE: &str = "crates/apps/capi/tests/c/semantics.c";
/// It asks for what a compiler warns of.
const FLAGS: [&str; 3] = ["-Wno-nonnull", "-Wno-stringop-overflow", "-Wno-stringop-overread"];
/// Fewer would mean that it ended early.
const CHECKS: usize = 1_650;

/// Where we differ, and why: part of what a check is called.
const DIFFERENT: &[Known] = &[
    ("SO_RCVLOWAT to -1", "the kernel cuts it to half its own largest buffer, we to ours"),
    ("SO_RCVBUF to -1", "a negative size is refused"),
    ("SO_SNDBUF to -1", "a negative size is refused"),
    ("TCP_SYNCNT", "the stack's default is 7"),
];

/// A command that runs another where nothing has taken a port, nor left one in TIME-WAIT. Who is not root shares the
/// machine's ports.
fn alone() -> Command {
    if !bench::bed::is_root() {
        return Command::new("env");
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
    command
}

fn run(program: &Path, argument: &str, mode: &str) -> String {
    let output = alone()
        .args(["timeout".as_ref(), "200".as_ref(), program.as_os_str(), argument.as_ref()])
        .env("MILLSTREAM_RUN", prefix())
        .env("MODE", mode)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let end: String = text.lines().rev().take(3).collect::<Vec<_>>().join(" < ");
    assert!(output.status.success(), "{}: {end}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    text
}

/// Compares what the program says of the kernel, once for all, with what it says of us in this mode.
fn differ(mode: &str) -> Result<(), String> {
    static KERNEL: OnceLock<String> = OnceLock::new();
    let kernel = KERNEL.get_or_init(|| run(&compile(SOURCE, "semantics-kernel", &FLAGS), "", mode));
    let ours = compile(SOURCE, &format!("semantics-{mode}"), &[&FLAGS[..], &["-DMILLSTREAM"]].concat());
    let meet = std::env::temp_dir().join(format!("ms-capi-{mode}-{}", std::process::id()));
    let ours = run(&ours, &meet.to_string_lossy(), mode);
    compare(kernel, &ours, CHECKS, DIFFERENT)
}

#[test]
fn calls_answer_as_the_kernels_do() {
    differ("direct").unwrap_or_else(|differences| panic!("{differences}"));
}

#[test]
fn calls_answer_as_the_kernels_do_in_paired_mode() {
    differ("paired").unwrap_or_else(|differences| panic!("{differences}"));
}
