//! Goal: what a killed process left is gone with the next bed, and what a living one has stays.
use super::*;
use crate::bed::Bed;
use std::process::{Command, Stdio};

#[test]
fn a_bed_belongs_to_its_process() {
    let alive = |pid| pid == 7;
    for (name, stale) in [
        ("ms-bench-s-8-0", true),
        ("ms-bench-c-8-12", true),
        ("ms-bench-8-0", true),
        ("ms-bench-s-7-0", false),
        ("ms-bench-7-0", false),
        ("ms-bench-", false),
        ("ms-bench-s-8", false),
        ("ms-bench-peers-1", false),
        ("ms-other-8-0", false),
        ("8-0", false),
    ] {
        assert_eq!(is_stale(name, alive), stale, "{name}");
    }
    let listed: Vec<_> = names("ms-bench-s-8-0 (id: 3)\nblue\n").collect();
    assert_eq!(listed, ["ms-bench-s-8-0", "blue"]);
}

/// The number of a process that was and is no more.
fn gone() -> u32 {
    let mut child = Command::new("true").stdin(Stdio::null()).spawn().expect("it runs");
    let pid = child.id();
    child.wait().expect("it ends");
    pid
}

#[test]
fn what_a_killed_process_left_is_swept() {
    let Some(living) = Bed::if_root(true) else { return };
    let pid = gone();
    let (left, folder) = (format!("{PREFIX}s-{pid}-0"), format!("{PREFIX}{pid}-0"));
    let folder = std::env::temp_dir().join(folder);
    sh("ip", &["netns", "add", &left]).expect("a namespace");
    std::fs::create_dir_all(folder.join("deep")).expect("a folder");
    // A server that nothing ended; it would end by itself.
    let sleeps = ["netns", "exec", &left, "sleep", "60"];
    let mut server = Command::new("ip").args(sleeps).stdin(Stdio::null()).spawn().expect("it runs");
    let begun = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        !sh("ip", &["netns", "pids", &left]).expect("a list").trim().is_empty()
    });
    assert!(begun);
    drop(Bed::new(true).expect("a bed"));
    let there: Vec<_> = names(&sh("ip", &["netns", "list"]).expect("a list")).collect();
    assert!(!there.contains(&left) && !folder.exists(), "{there:?}");
    assert!(there.contains(&living.server) && there.contains(&living.client) && living.dir.exists());
    assert!(!server.wait().expect("was ended").success());
}
