//! Goal: an experiment runs, repeats itself, says what is wrong with its file, and shows what was published (one that
//! takes seconds; `millstream lab run --all --check` runs them all).

use lab::{Experiment, Outcome, SpecError};

fn run_all(experiment: &Experiment, seeds: u64) -> Vec<Outcome> {
    experiment.tasks(Some(seeds)).unwrap().iter().map(|task| lab::run(task).unwrap()).collect()
}

/// Checks that a shipped experiment passes with one seed, with `count` verdicts.
fn holds(name: &str, count: usize) {
    let experiment = lab::shipped().unwrap().into_iter().find(|experiment| experiment.name == name).unwrap();
    let outcomes = run_all(&experiment, 1);
    let verdicts = experiment.judge(&outcomes);
    assert!(verdicts.len() == count && verdicts.iter().all(|verdict| verdict.holds), "{verdicts:#?}");
}

#[test]
fn byte_counting_halves_the_period() {
    holds("p2-abc", 6);
}

/// RFC 8257 over a step.
#[test]
fn marks_keep_the_queue_at_the_step() {
    holds("dctcp-step", 4);
}

/// draft-ietf-ccwg-bbr-06 over paths that lose.
#[test]
fn random_losses_leave_bbr_its_rate() {
    holds("bbr-loss", 8);
}

/// RFC 9332: a scalable flow beside a classic one, each in its queue.
#[test]
fn prague_and_cubic_share_a_dual_queue() {
    holds("prague-dualpi2", 16);
}

/// The paths of `cargo xtask bench beside-linux`, in virtual time: the transfers that are not
/// too long for a test.
#[test]
fn the_paths_beside_linux_cost_no_timeout_and_no_needless_segment() {
    let family = lab::shipped().unwrap().into_iter().filter(|one| one.name.starts_with("beside-linux-"));
    let mut count = 0;
    for experiment in family {
        let tasks = experiment.tasks(Some(1)).unwrap();
        let short =
            tasks.iter().filter(|task| task.spec.flows[0].bytes.is_some_and(|bytes| bytes < 50_000_000));
        let outcomes: Vec<Outcome> = short.map(|task| lab::run(task).unwrap()).collect();
        for outcome in &outcomes {
            let of = |name: &str| outcome.measures.get(name).copied().unwrap_or(f64::NAN);
            let (took, twice) = (of("took_ms"), of("duplicates"));
            println!("{} {:?}: {took:.1} ms, {twice} needless", experiment.name, outcome.point);
        }
        let verdicts = experiment.judge(&outcomes);
        let ran = verdicts.iter().filter(|verdict| verdict.seen != "no run at all");
        let missed: Vec<_> = ran.clone().filter(|verdict| !verdict.holds).collect();
        assert!(missed.is_empty(), "{}: {missed:#?}", experiment.name);
        count += ran.count();
    }
    assert!(count >= 60, "{count} verdicts");
}

const SMALL: &str = r#"
title = "Two flows and datagrams"
seconds = 10
[path]
rtt_ms = 40
down_kbit = 2000
queue = "slots 20"
loss = 0.01
[[flow]]
cc = "vegas"
count = 2
[[flow]]
cc = "cubic"
bytes = 20000
per_second = 3
[cbr]
bytes = 200
every_ms = 20
jitter_ms = 1
"#;

#[test]
fn a_seed_decides_everything() {
    let experiment = Experiment::parse("small", SMALL).unwrap();
    let (first, again) = (run_all(&experiment, 3), run_all(&experiment, 3));
    assert_eq!(first, again);
    assert_ne!(first[0].measures, first[1].measures);
    let measures = &first[0].measures;
    assert_eq!(measures["failed"], 0.0);
    assert!(measures["fct_p50_ms"] > 40.0 && measures["utilisation"] > 0.5, "{measures:?}");
}

const LOT: &str = r#"
title = "A parking lot"
seconds = 20
discard = 5
seeds = 2
[[hop]]
rtt_ms = 10
down_kbit = 4000
queue = "strict 20000"
count = 2
[[hop]]
rtt_ms = 20
down_kbit = 2000
queue = "strict 20000"
[[flow]]
cc = "newreno"
[[flow]]
cc = "newreno"
over = "each"
[[flow]]
cc = "newreno"
over = "2-3"
reverse = true
[vary]
"hop.1.rtt_ms" = [20, 40]
[[check]]
measure = "rtt_min_ms"
theory = { formula = "2 * hop.0.rtt_ms / 2", within = 0.2 }
"#;

/// A flow over three hops, one over each, and one back over two of them: all share, each line is filled and none
/// beyond its rate, and the shortest way is 10 ms.
#[test]
fn flows_over_several_hops() {
    let experiment = Experiment::parse("lot", LOT).unwrap();
    let outcomes = run_all(&experiment, 1);
    assert_eq!(outcomes.len(), 2);
    for measures in outcomes.iter().map(|outcome| &outcome.measures) {
        for hop in ["utilisation.1", "utilisation.2", "utilisation.3"] {
            assert!((0.7..0.98).contains(&measures[hop]), "{hop}: {measures:?}");
        }
        assert_eq!(measures["utilisation"], measures["utilisation.3"], "the narrowest");
        assert!(measures["line_mbit"] < 2.001 && measures["flow_mbit.3"] > 0.3, "{measures:?}");
        assert!((measures["goodput_mbit.2"] - 3.0 * measures["flow_mbit.2"]).abs() < 1e-9);
        assert!(measures["share"] < 0.5, "the long way is the poor one: {measures:?}");
        assert_eq!(measures["failed"], 0.0);
    }
    let verdicts = experiment.judge(&outcomes);
    assert!(verdicts.len() == 2 && verdicts.iter().all(|verdict| verdict.holds), "{verdicts:#?}");
}

#[test]
fn the_last_version_s_name_of_a_setting_is_taken() {
    let vary = "[vary]\n\"flow.1.bytes\" = [1000, 2000]\n";
    let new = Experiment::parse("small", &format!("{SMALL}{vary}")).unwrap();
    let old = Experiment::parse("small", &format!("{SMALL}{vary}").replace("bytes", "octets")).unwrap();
    assert_eq!(old.text(), new.text());
}

/// Returns the error of the small file when `from` is replaced by `to`.
fn complaint(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    match Experiment::parse("small", &SMALL.replace(from, to)) {
        Ok(_) => panic!("`{to}` was taken"),
        Err(SpecError(text)) => text,
    }
}

#[test]
fn a_wrong_file_says_what_is_wrong() {
    for (from, to, says) in [
        ("vegas", "magic", "no congestion control `magic`; there are cubic, newreno"),
        ("slots 20", "slots many", "queue slots: want a number, not `many`"),
        ("slots 20", "drawers 20", "queue: want `loose BYTES`"),
        ("loss = 0.01", "lost = 0.01", "unknown field `lost`"),
        ("seconds = 10", "seconds = 10\nsample_ms = 0", "sample_ms = 0: want 0.000001 to"),
        ("seconds = 10", "seconds = -1", "seconds = -1: want 0.000001 to"),
        ("loss = 0.01", "discard = \"5-\"", "path.discard: want positions like 1,5-10,30"),
        (
            "[path]",
            "[[hop]]\nrtt_ms = 1\ndown_kbit = 1\nqueue = \"slots 1\"\n[path]",
            "either `[path]` or `[[hop]]`",
        ),
        ("[path]", "[[hop]]\ncount = 65", "hop.0.count = 65: want 0 to 64"),
        ("[path]", "[[hop]]\ncount = 0", "there is no `[path]` and no `[[hop]]`"),
        (
            "count = 2",
            "over = \"2\"",
            "over: want `all`, or hops like `2` or `2-3` (flows also `each`), of which there are 1",
        ),
        (
            "[cbr]",
            "[[check]]\nmeasure = \"failed\"\ntheory = { formula = \"path.los\", within = 1 }\n[cbr]",
            "formula `path.los`: no number at `path.los`",
        ),
        ("[cbr]", "[stack]\nsacks = true\n[cbr]", "stack.sacks = true: Unknown"),
        ("[cbr]", "[vary]\n\"flow.ccc\" = [1]\n[cbr]", "unknown field `ccc`"),
        ("[cbr]", "[vary]\n\"flow.7.cc\" = [1]\n[cbr]", "no place `flow.7.cc`"),
        ("[cbr]", "[tunables.vegas]\nomega = 1\n[cbr]", "tunables.vegas.omega = 1: Tunable(Unknown)"),
        (
            "[cbr]",
            "[[check]]\nmeasure = \"beauty\"\nrange = { min = 0, max = 1 }\n[cbr]",
            "no measure `beauty`",
        ),
        ("[cbr]", "[[check]]\nmeasure = \"failed\"\n[cbr]", "a check wants one of"),
        ("[cbr]", "[[plot]]\ntitle = \"t\"\nshow = \"serie cwnd 1\"\n[cbr]", "want `series NAME`"),
        (
            "[cbr]",
            "[[plot]]\ntitle = \"t\"\nshow = \"measure failed\"\nx = \"y\"\n[cbr]",
            "`y` is not varied",
        ),
    ] {
        let text = complaint(from, to);
        assert!(text.contains(says), "{text:?} does not say {says:?}");
    }
}
