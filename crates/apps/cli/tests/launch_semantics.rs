//! Goal: a launched program cannot tell. A C program puts questions to the C library, once plainly and once under the
//! launcher, with the kernel of another namespace at the other end: every return value and errno is the same, but for
//! what stands here with its reason.

use bench::bed::{Bed, sh};
use bench::same::{Known, compare};

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
const SHARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../capi/tests/c");
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c");
/// They ask for what a compiler warns of.
const FLAGS: [&str; 5] = [
    "-DLAUNCHED",
    "-Wno-nonnull",
    "-Wno-stringop-overflow",
    "-Wno-stringop-overread",
    "-Wno-deprecated-declarations",
];

/// Where we differ from the C API's questions, and why.
const SEMANTICS: &[Known] = &[
    ("SO_RCVLOWAT to -1", "the kernel cuts it to half its own largest buffer, we to ours"),
    ("SO_RCVBUF to -1", "a negative size is refused"),
    ("SO_SNDBUF to -1", "a negative size is refused"),
    ("connection: TCP_SYNCNT", "the stack's default is 7"),
];

/// Where we differ from those that only a launched program can ask.
const LAUNCHED: &[Known] = &[
    ("an urgent byte", "the stack knows no urgent data: the byte stays among the others"),
    ("io_uring_setup", "a ring would move bytes past the launcher; ENOSYS makes programs do without"),
];

fn run(bed: &Bed, program: &[&str]) -> String {
    let args = [&program[1..], &[bed.client.as_str()]].concat();
    bed.in_ns_within(&bed.server, 120, program[0], &args).unwrap_or_else(|e| panic!("{program:?}: {e}"))
}

/// Both runs of a program say the same; `least` fewer checks would mean that it ended early.
fn compare_runs(source: &str, least: usize, known: &[Known]) {
    let Some(bed) = Bed::if_root(true) else { return };
    let program = bed.dir.join("program").to_string_lossy().into_owned();
    let include = format!("-I{SHARED}");
    sh("cc", &[&FLAGS[..], &[&include, "-pthread", "-o", &program, source]].concat()).expect("it compiles");
    // The kernel remembers ports in TIME-WAIT, and so does not come first.
    let ours = run(&bed, &[MILLSTREAM, "run", "--link", "xdp:ms0", "--", &program]);
    let kernel = run(&bed, &[&program]);
    compare(&kernel, &ours, least, known).unwrap_or_else(|differences| panic!("{differences}"));
}

/// How many signals, unless `MILLSTREAM_SIGNALS` says another number: 100,000 take some minutes.
const SIGNALS: &str = "3000";

#[test]
fn no_signal_is_lost_while_a_call_waits() {
    let Some(bed) = Bed::if_root(true) else { return };
    let program = bed.dir.join("program").to_string_lossy().into_owned();
    let (include, source) = (format!("-I{SHARED}"), format!("{OWN}/signals.c"));
    sh("cc", &["-DLAUNCHED", &include, "-pthread", "-o", &program, &source]).expect("it compiles");
    let count = std::env::var("MILLSTREAM_SIGNALS").unwrap_or_else(|_| SIGNALS.to_owned());
    let args = ["run", "--link", "xdp:ms0", "--", &program, &bed.client, &count];
    let said = bed.in_ns_within(&bed.server, 1_200, MILLSTREAM, &args).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(said, format!("{count} signals, 0 lost\n"));
}

#[test]
fn calls_answer_as_without_the_launcher() {
    compare_runs(&format!("{SHARED}/semantics.c"), 1_550, SEMANTICS);
}

#[test]
fn what_only_launched_programs_ask_is_answered_as_without_the_launcher() {
    compare_runs(&format!("{OWN}/launched.c"), 1_500, LAUNCHED);
}
