//! Goal: the original tool, with this plug-in, gives our own scripts the verdicts that `millstream drill` gives them.
//!
//! The tool is PACKETDRILL=path or `packetdrill` in PATH; without it there is nothing to compare with, and the test
//! says so. It needs the right to lock memory, as the tool always does.

mod common;

use drill::original::Original;
use drill::run::{Config, Outcome, Profile};
use drill::suite::{meant_for, run_file, scripts};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The tool's messages on a script with unknown words.
const NOT_ITS_LANGUAGE: &[&str] = &[
    "parse error",
    "semantic error",
    "unknown symbol",
    "Unknown system call",
    "unable to find fd with script fd",
    "unsupported getsockopt value type",
    "Expected ... or NULL for buffer",
    // A pacing rate of 64 bits.
    "Unsupported getsockopt optlen: 8",
    // bind() to an address that is not the script's own.
    "Bad type; actual: sockaddr_in expected: ellipsis",
    // Names of Linux's later headers in assertions.
    "NameError: name 'TCP",
];

/// Scripts that mean something else to the tool.
const OTHERWISE: &[(&str, &str)] = &[
    (
        "cookies/",
        "a second SYN with another number is the first client's to the tool, another client's to us",
    ),
    ("half-open/", "to the tool a packet without a socket belongs to nothing, and so does the answer"),
    ("ipv6/closed-port", "the same"),
    ("sockets/backlog", "as for cookies"),
    ("handshake/timestamps-not-offered", "the tool echoes only timestamps that it has seen"),
    ("options/timestamps-unasked", "the same"),
    ("rto/", "a timeout computed to the microsecond; the tool's clock goes on while it looks"),
    ("tcp-info/", "the same"),
    ("pacing/window-rate", "the same of a rate"),
];

/// A SYN after the first is the first client's to the tool, and may be another client's to us.
fn has_several_clients(source: &str) -> bool {
    source.contains("listen(") && source.matches("< S ").count() > 1
}

/// The tool, if there is one.
fn tool() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("PACKETDRILL") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("packetdrill")).find(|tool| tool.is_file())
}

/// The profile to run a script under: the first that it is meant for.
fn profile(source: &str) -> &str {
    meant_for(source).and_then(|mut names| names.next()).unwrap_or("linux")
}

#[test]
fn both_tools_say_the_same_of_our_scripts() {
    let Some(tool) = tool() else {
        println!("skipped: there is no packetdrill in PATH, and PACKETDRILL names none");
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/drill/suites");
    let root = root.canonicalize().expect("the suites");
    let all = scripts(std::slice::from_ref(&root)).expect("readable suites");
    let (next, complaints, same, other) =
        (AtomicUsize::new(0), Mutex::new(Vec::new()), AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(script) = all.get(number) else { return };
            let source = std::fs::read_to_string(script).expect("a readable script");
            let config =
                Config { profile: Profile::named(profile(&source)).unwrap_or_default(), ..Config::default() };
            let ours = run_file(script, &config).outcome == Outcome::Passed;
            let original = Original { tool: tool.clone(), library: common::library() };
            let theirs = match original.run(script, &source, &config).outcome {
                Outcome::Passed => None,
                Outcome::Failed { why, .. } | Outcome::Unsupported(why) => Some(why),
            };
            let name = script.strip_prefix(&root).unwrap_or(script).display().to_string();
            let excused = |why: &str| {
                has_several_clients(&source)
                    || NOT_ITS_LANGUAGE.iter().any(|words| why.contains(words))
                    || OTHERWISE.iter().any(|(begin, _)| name.starts_with(begin))
            };
            match theirs {
                None if ours => same.fetch_add(1, Ordering::Relaxed),
                Some(why) if !ours || excused(&why) => other.fetch_add(1, Ordering::Relaxed),
                theirs => {
                    let verdict = theirs.unwrap_or("passed".into());
                    complaints
                        .lock()
                        .expect("no panic")
                        .push(format!("{name}: ours {ours}, theirs {verdict}"));
                    continue;
                }
            };
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8)) {
            scope.spawn(work);
        }
    });
    let complaints = complaints.into_inner().expect("no panic");
    println!(
        "{} of {} scripts pass both ways, {} are not in the tool's language or mean something else to it",
        same.into_inner(),
        all.len(),
        other.into_inner()
    );
    assert!(complaints.is_empty(), "{} differ:\n{}", complaints.len(), complaints.join("\n"));
}
