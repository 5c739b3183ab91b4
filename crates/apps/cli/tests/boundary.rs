//! Goal: docs/BOUNDARY.md is true. Every row of the boundary's table is asked on the kernel and under the launcher,
//! with the kernel of another namespace at the other end, and its verdict is what the answers say: a row that is "same"
//! differs nowhere, one that "differs" does so where it says and nowhere else, one that is "refused" fails with its
//! error.

use bench::bed::{Bed, sh};
use sock::boundary::{Ask, Row, Verdict, rows};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
const SHARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../capi/tests/c");
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c");

/// The states of a connection of the stack, as questions begin.
const CONNECTIONS: [&str; 2] = ["accepted, set", "connected, set"];

fn values(ask: Ask) -> Vec<(String, Vec<u8>)> {
    let ints = |all: &[i32]| all.iter().map(|n| (n.to_string(), n.to_ne_bytes().to_vec())).collect();
    match ask {
        Ask::Ints(all) | Ask::LengthAfter(all) => ints(all),
        Ask::Read(_) | Ask::ReadLength(_) => ints(&[1]),
        Ask::Bytes(all) => all.iter().map(|(text, bytes)| ((*text).to_owned(), bytes.to_vec())).collect(),
        Ask::Part => Vec::new(),
    }
}

/// The table of options in C. A number that the system's headers know otherwise does not compile.
fn header() -> String {
    let (mut checks, mut lists, mut table) = (String::new(), String::new(), String::new());
    for row in rows() {
        let Some(number) = row.number else { continue };
        let name = row.name;
        let _ = writeln!(checks, "#if defined({name}) && {name} != {number}\n#error {name}\n#endif");
        let values = values(row.ask);
        let (room, shows) = match row.ask {
            Ask::Ints(_) => (4, 1),
            Ask::LengthAfter(_) => (4, 0),
            Ask::Bytes(_) => (32, 1),
            Ask::Read(room) => (room, 1),
            Ask::ReadLength(room) => (room, 0),
            Ask::Part => continue,
        };
        let _ = writeln!(lists, "static const struct value values_{name}[] = {{");
        for (text, bytes) in &values {
            let bytes: String = bytes.iter().fold(String::new(), |mut all, byte| {
                let _ = write!(all, "\\x{byte:02x}");
                all
            });
            let len = bytes.len() / 4;
            let _ = writeln!(lists, "    {{ \"{text}\", \"{bytes}\", {len} }},");
        }
        let (level, count) = (row.manual.level(), values.len());
        let _ = writeln!(lists, "}};");
        let _ = writeln!(
            table,
            "    {{ \"{name}\", {level}, {number}, {room}, {shows}, {count}, values_{name} }},"
        );
    }
    format!("{checks}{lists}static const struct option OPTIONS[] = {{\n{table}}};\n")
}

/// The answers of a run: by row, its lines.
fn sections(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut at = "";
    for line in text.lines() {
        match line.strip_prefix("# ") {
            Some(name) => at = name,
            None => all.entry(at).or_default().push(line),
        }
    }
    all
}

/// The complaints about one row, given the answers of both sides.
fn judge(row: &Row, kernel: &[&str], stack: &[&str]) -> Vec<String> {
    if kernel.is_empty() || stack.is_empty() {
        return vec!["it was not asked".into()];
    }
    let mut found = Vec::new();
    let (mut left, mut seen) = (stack.iter().copied().peekable(), Vec::new());
    // A call that fails on one side has no value there: lines are joined by their questions.
    let question = |line: &str| line.split([':', '=']).next().unwrap_or_default().trim().to_owned();
    for line in kernel {
        let other = left.next_if(|other| question(other) == question(line));
        if other != Some(*line) {
            seen.push((question(line), format!("kernel: {line}; stack: {}", other.unwrap_or("nothing"))));
        }
        // Lines that only the stack has.
        while let Some(more) = left.peek()
            && !kernel.iter().any(|line| question(line) == question(more))
        {
            seen.push((question(more), format!("kernel: nothing; stack: {more}")));
            left.next();
        }
    }
    seen.extend(left.map(|more| (question(more), format!("kernel: nothing; stack: {more}"))));
    let starts = |question: &str, places: &[&str]| places.iter().any(|place| question.starts_with(place));
    match row.verdict {
        Verdict::Same => found.extend(seen.into_iter().map(|(_, text)| text)),
        Verdict::Differs(places, how) => {
            for place in places.iter().filter(|place| !seen.iter().any(|(at, _)| starts(at, &[place]))) {
                found.push(format!("no difference any more at \"{place}\": {how}"));
            }
            found.extend(seen.into_iter().filter(|(at, _)| !starts(at, places)).map(|(_, text)| text));
        }
        Verdict::Refused(errno, _) => {
            let is_set = |line: &&&str| {
                starts(line, &CONNECTIONS)
                    && [", get", ", length", ", value"].iter().all(|more| !line.contains(more))
            };
            let ours: Vec<&str> = stack.iter().filter(is_set).copied().collect();
            if ours.is_empty() || !ours.iter().all(|line| line.ends_with(&format!(" = -1 {errno}"))) {
                found.push(format!("it is not refused with {errno}: {ours:?}"));
            }
            if !kernel.iter().filter(is_set).any(|line| line.ends_with(" = 0")) {
                found.push("the kernel refuses it as well".into());
            }
            let elsewhere = seen.into_iter().filter(|(at, _)| {
                !starts(
                    at,
                    &["accepted", "connected", "before listen, accepted", "before connect, connected"],
                )
            });
            found.extend(elsewhere.map(|(_, text)| text));
        }
    }
    found
}

fn run(bed: &Bed, program: &[&str]) -> String {
    let args = [&program[1..], &[bed.client.as_str()]].concat();
    bed.in_ns_within(&bed.server, 240, program[0], &args).unwrap_or_else(|e| panic!("{program:?}: {e}"))
}

#[test]
fn a_verdict_that_is_not_true_is_found() {
    let row = |verdict| Row { verdict, ..*rows().next().expect("a row") };
    let (same, differs) = (row(Verdict::Same), row(Verdict::Differs(&["accepted, set 1"], "it differs")));
    let refused = row(Verdict::Refused("EINVAL", "for a reason"));
    let kernel = ["new, get = 0", "accepted, set 1 = 0", "accepted, value: 01"];
    let stack = ["new, get = 0", "accepted, set 1 = -1 EINVAL"];
    let said = |row: &Row, stack: &[&str]| judge(row, &kernel, stack).len();
    // The same, different in one place and in two, and not asked at all.
    assert_eq!([said(&same, &kernel), said(&same, &stack), said(&same, &[])], [0, 2, 1]);
    let other = ["new, get = 0", "accepted, set 1 = -1 EINVAL", "accepted, value: 01"];
    assert_eq!([said(&differs, &kernel), said(&differs, &other), said(&differs, &stack)], [1, 0, 1]);
    // It is not refused; it is, with this error and with another; and a new socket tells something else.
    assert_eq!([said(&refused, &kernel), said(&refused, &stack)], [1, 0]);
    assert_eq!(said(&refused, &["new, get = 0", "accepted, set 1 = -1 EPERM"]), 1);
    assert_eq!(said(&refused, &["new, get = 7", "accepted, set 1 = -1 EINVAL"]), 1);
}

#[test]
fn every_verdict_is_true() {
    let Some(bed) = Bed::if_root(true) else { return };
    let dir = bed.dir.to_string_lossy().into_owned();
    std::fs::write(bed.dir.join("rows.h"), header()).expect("a file");
    let program = bed.dir.join("boundary").to_string_lossy().into_owned();
    let (source, includes) = (format!("{OWN}/boundary.c"), [format!("-I{dir}"), format!("-I{SHARED}")]);
    let flags = [
        "-DLAUNCHED",
        "-Wall",
        "-Werror",
        "-Wno-unused-function",
        "-Wno-stringop-overflow",
        "-Wno-stringop-overread",
        "-pthread",
    ];
    sh("cc", &[&flags[..], &[&includes[0], &includes[1], "-o", &program, &source]].concat())
        .expect("it compiles");
    // The program listens at ports of its own choice, from 3,000 on.
    for ns in [&bed.server, &bed.client] {
        bed.in_ns(ns, "sysctl", &["-qw", "net.ipv4.ip_local_port_range=30000 60000"])
            .expect("a range of ports");
    }
    // The kernel remembers ports in TIME-WAIT, and so does not come first.
    let stack = run(&bed, &[MILLSTREAM, "run", "--link", "xdp:ms0", "--", &program]);
    let kernel = run(&bed, &[&program]);
    if let Some(to) = std::env::var_os("MILLSTREAM_ANSWERS") {
        let to = std::path::PathBuf::from(to);
        std::fs::write(to.join("kernel"), &kernel).expect("a file");
        std::fs::write(to.join("stack"), &stack).expect("a file");
    }
    let (kernel, stack) = (sections(&kernel), sections(&stack));
    let mut found = Vec::new();
    for row in rows() {
        let [plain, ours] = [&kernel, &stack].map(|run| run.get(row.name).map_or(&[][..], Vec::as_slice));
        found.extend(judge(row, plain, ours).into_iter().map(|text| format!("{}: {text}", row.name)));
    }
    for name in kernel.keys().chain(stack.keys()) {
        if !rows().any(|row| row.name == *name) {
            found.push(format!("{name}: asked, but not in the table"));
        }
    }
    assert!(found.is_empty(), "{} of {} rows:\n{}", found.len(), rows().count(), found.join("\n"));
}
