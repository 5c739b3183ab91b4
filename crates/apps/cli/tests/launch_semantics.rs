//! Goal: a launched program cannot tell. One C program puts the C door's questions to the C library, once plainly and
//! once under the launcher, with the kernel of another namespace at the other end: every return value and errno is the
//! same, but for what stands here with its reason.

use bench::bed::{Bed, sh};
use std::path::Path;

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../capi/tests/c/semantics.c");
/// It asks for what a compiler warns of.
const FLAGS: [&str; 4] = ["-DLAUNCHED", "-Wno-nonnull", "-Wno-stringop-overflow", "-Wno-stringop-overread"];
/// Fewer would mean that it ended early.
const CHECKS: usize = 1_500;

/// Where we differ, and why: part of what a check is called.
const DIFFERENT: &[(&str, &str)] = &[
    ("SO_RCVLOWAT to -1", "the kernel cuts it to half its own largest buffer, we to ours"),
    ("SO_PRIORITY to", "root may go beyond 6; the stack knows no root"),
    ("SO_RCVBUF to -1", "a negative size is refused"),
    ("SO_SNDBUF to -1", "a negative size is refused"),
    ("connection: TCP_SYNCNT", "0 until it is set"),
    ("connection: SO_REUSEADDR", "a connection has nothing left to bind and keeps no such flag"),
    ("connection: IP_FREEBIND", "the same"),
];

fn run(bed: &Bed, program: &[&str]) -> Vec<String> {
    let all = [&["120"], program, &[bed.client.as_str()]].concat();
    let said = bed.in_ns(&bed.server, "timeout", &all).unwrap_or_else(|e| panic!("{program:?}: {e}"));
    said.lines().map(str::to_owned).collect()
}

#[test]
fn calls_answer_as_without_the_launcher() {
    let Some(bed) = Bed::if_root(true) else { return };
    let program = bed.dir.join("semantics").to_string_lossy().into_owned();
    sh("cc", &[&FLAGS[..], &["-o", &program, SOURCE]].concat()).expect("it compiles");
    assert!(Path::new(&program).exists());
    // The kernel remembers ports in TIME-WAIT, and so does not come first.
    let ours = run(&bed, &[MILLSTREAM, "run", "--link", "xdp:ms0", "--", &program]);
    let kernel = run(&bed, &[&program]);
    let count = kernel.iter().filter(|line| !line.starts_with('#')).count();
    assert!(count >= CHECKS, "{count} checks");
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
    assert_eq!(kernel.len(), ours.len(), "they went different ways");
    let gone: Vec<_> =
        DIFFERENT.iter().zip(&used).filter(|(_, used)| !**used).map(|(row, _)| row.0).collect();
    assert!(gone.is_empty(), "no difference any more: {gone:?}");
}
