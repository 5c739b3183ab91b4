//! Goal: the `millstream` program names its static tracepoints, and a tracer of the kernel's counts at them what the
//! stack counts, on a running server.
//!
//! Needs root for network namespaces and uprobes; without them the test of hits says that it was skipped.

use bench::bed::{Bed, SERVER_ADDR};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use usdt::{Hits, Note, POINTS, PROVIDER};

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");

fn own_notes() -> Vec<Note> {
    usdt::notes(&std::fs::read(MILLSTREAM).expect("the program")).expect("an ELF file")
}

#[test]
fn the_program_names_every_point_with_its_arguments() {
    let notes = own_notes();
    assert_eq!(notes.len(), POINTS.len(), "each has one place");
    for point in POINTS {
        let note = notes.iter().find(|note| note.name == point.name).expect(point.name);
        assert_eq!(note.place_by_base, note.place, "perf finds it");
        assert_eq!((note.provider.as_str(), note.args.split(' ').count()), (PROVIDER, point.args.len()));
    }
}

/// binutils show the tracepoints.
#[test]
fn readelf_shows_them() {
    let Ok(output) = Command::new("readelf").args(["-nW", MILLSTREAM]).output() else {
        return eprintln!("skipped: no readelf here");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    for note in own_notes() {
        let lines = format!("Provider: {}\n    Name: {}\n", note.provider, note.name);
        let (_, after) = text.split_once(&lines).unwrap_or_else(|| panic!("no {} in {text}", note.name));
        assert!(after.contains(&format!("Arguments: {}\n", note.args)), "{}", note.name);
    }
}

fn stat(bed: &Bed) -> Value {
    let output = Command::new(MILLSTREAM).args(["stat", "--json"]).env("MILLSTREAM_RUN", &bed.dir).output();
    let output = output.expect("millstream runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let first = text.lines().next();
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(first.unwrap_or_else(|| panic!("no core: {said}"))).expect("JSON")
}

/// Points, and what the stack counts there.
const COUNTED: [(&str, &str); 4] = [
    ("segment__received", "segments_in"),
    ("segment__sent", "segments_out"),
    ("accepted", "passive_opens"),
    ("timeout", "timeouts"),
];

#[test]
fn hits_are_what_the_stack_counts() {
    if !std::fs::read_to_string("/proc/self/status").unwrap_or_default().contains("Uid:\t0\t0") {
        return eprintln!("skipped: network namespaces and uprobes need root");
    }
    let bed = Bed::new(true).expect("a bed of two namespaces");
    let args = ["serve", "--link", "packet:ms0", "--listen", "[::]:80"];
    let server = bed.start(&bed.server, Path::new(MILLSTREAM), &args).expect("serve starts");
    let get = |bytes: usize| {
        let url = format!("http://{SERVER_ADDR}/{bytes}");
        bed.in_ns(&bed.client, "curl", &["-sSf", "--max-time", "20", &url]).expect("curl")
    };
    get(100_000);

    let notes = own_notes();
    let mut watched = Vec::new();
    for (point, counter) in COUNTED {
        let note = notes.iter().find(|note| note.name == point).expect(point);
        match Hits::count(Path::new(MILLSTREAM), note, server.pid()) {
            Ok(hits) => watched.push((point, counter, hits)),
            Err(error) => return eprintln!("skipped: no uprobes here: {error}"),
        }
    }
    let before = stat(&bed);
    for bytes in [1, 20_000, 3_000_000] {
        assert_eq!(get(bytes).len(), bytes);
    }
    let after = stat(&bed);
    for (point, counter, mut hits) in watched {
        let count =
            |stat: &Value| stat["tcp"][counter].as_u64().unwrap_or_else(|| panic!("{counter} in {stat}"));
        let counted = count(&after) - count(&before);
        assert_eq!(hits.so_far().expect("a count"), counted, "{point}, {counter}");
        assert!(counted >= 3 || point == "timeout", "{counted} {counter}");
    }
}
