//! Goal: a user who writes a policy of his own, in C or in Rust, builds it as the examples are built, names it in
//! an experiment, and sees his law in the window: not a law of ours under another name.

use lab::{Experiment, Outcome};
use std::path::{Path, PathBuf};
use std::process::Command;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples");

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn example_in_c() -> PathBuf {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    run(Command::new("make")
        .args(["-s", "-C", &format!("{EXAMPLES}/cc-c")])
        .arg(format!("OUT={}", out.display())));
    out.join("libmimd.so")
}

fn example_in_rust() -> PathBuf {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cc-rust");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--offline", "--locked", "--quiet", "--manifest-path"]);
    run(cargo.arg(format!("{EXAMPLES}/cc-rust/Cargo.toml")).arg("--target-dir").arg(&out));
    out.join("debug/libcc_aimd.so")
}

/// One flow alone on 12 Mbit/s with a queue of 20 packets: a hundred segments are the path's, and what one reduction
/// leaves is less than that. Round trips of 100 ms, but for the last segments before a loss.
///
/// The share that a reduction leaves is a little less than the law's on average: now and then one follows another.
fn sawtooth(library: &Path, policy: &str, tunables: &str) -> Outcome {
    let text = format!(
        r#"
        title = "A policy of one's own"
        policies = [{library:?}]
        seconds = 120
        discard = 30
        seeds = 1
        [path]
        rtt_ms = 100
        down_kbit = 12000
        queue = "slots 20"
        [[flow]]
        cc = "{policy}"
        [tunables.{policy}]
        {tunables}
        "#
    );
    let experiment = Experiment::parse("own", &text).unwrap();
    lab::run(&experiment.tasks(None).unwrap()[0]).unwrap()
}

fn within(outcome: &Outcome, measure: &str, from: f64, to: f64) {
    let value = outcome.measures.get(measure).copied().unwrap_or(f64::NAN);
    assert!((from..=to).contains(&value), "{measure} is {value}, not {from} to {to}: {:?}", outcome.measures);
}

#[test]
fn the_example_in_c_multiplies() {
    let library = example_in_c();
    // One segment for a hundred: 1.01 a round trip, and 0.88 is made good in ln(1/0.88) / ln(1.01) = 12.8 of them.
    let outcome = sawtooth(&library, "mimd", "");
    within(&outcome, "kept", 0.82, 0.89);
    within(&outcome, "period_s", 1.3, 2.6);
    within(&outcome, "utilisation", 0.9, 1.0);
    // Half of it, and a round trip multiplies by 1.02: 35 of them.
    let outcome = sawtooth(&library, "mimd", "keep = 50\nper_segment = 50");
    within(&outcome, "kept", 0.43, 0.51);
    within(&outcome, "period_s", 3.3, 5.2);
}

#[test]
fn the_example_in_rust_adds_what_it_is_told_to() {
    let library = example_in_rust();
    let outcome = sawtooth(&library, "aimd", "");
    within(&outcome, "kept", 0.60, 0.71);
    // Two segments a round trip, ten round trips a second, the first few of them in recovery.
    within(&outcome, "growth_1s", 14.0, 21.0);
    // One segment more and half of it less is NewReno, to the byte.
    let outcome = sawtooth(&library, "aimd", "a = 1\nb = 50");
    let newreno = sawtooth(&library, "newreno", "");
    assert_eq!(outcome, newreno);
    assert!(outcome.series.len() > 1 && outcome.measures["cwnd_mean"] > 50.0);
}

#[test]
fn what_cannot_be_loaded_is_told_when_the_file_is_read() {
    let file = |policies: &str| {
        let path = "[path]\nrtt_ms = 10\ndown_kbit = 1000\nqueue = \"slots 9\"";
        let rest = format!("title = \"\"\nseconds = 1\n{path}\n[[flow]]\ncc = \"mimd\"\n");
        Experiment::parse("x", &format!("policies = {policies}\n{rest}")).err().unwrap().0
    };
    assert!(file("[\"/no/such.so\"]").contains("/no/such.so: No such file"), "{}", file("[\"/no/such.so\"]"));
    let library = example_in_c().display().to_string();
    assert!(
        file(&format!("[{library:?}, {library:?}]")).contains("there is a congestion control mimd already")
    );
    assert!(file("[]").contains("no congestion control `mimd`; there are cubic"));
}
