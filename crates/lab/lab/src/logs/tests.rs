//! Goal: an experiment with the key leaves a log of each host and run, the same each time, and none without.
use crate::tests::testing::Folder;
use crate::{Experiment, run};

const TEXT: &str = r#"
        title = "Logged"
        seconds = 2
        seeds = 2
        [siftr]
        profile = "siftr-1.2"
        [path]
        rtt_ms = 20
        down_kbit = 5000
        queue = "slots 50"
        [[flow]]
        cc = "cubic"
        [vary]
        "flow.cc" = ["newreno", "cubic"]
    "#;

#[test]
fn one_log_for_each_host_and_run() {
    let folder = Folder::new("siftr");
    let experiment = Experiment::parse("logged", TEXT).unwrap();
    let mut tasks = experiment.tasks(None).unwrap();
    let silent = run(&tasks[0]).unwrap();
    tasks.iter_mut().for_each(|task| task.folders.siftr = Some(folder.to_path_buf()));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(run(&tasks[0]).unwrap(), silent, "a log changes nothing");
    let first = read("flow.cc-newreno-seed-1-sender-1.log");
    tasks.iter().for_each(|task| drop(run(task).unwrap()));
    assert_eq!(read("flow.cc-newreno-seed-1-sender-1.log"), first);
    let mut names: Vec<_> = std::fs::read_dir(&*folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names.len(), 2 * 2 * 2);
    assert_eq!(names[0], "flow.cc-cubic-seed-1-receiver-1.log");
    for name in &names {
        let text = read(name);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() > 500 && lines[0].starts_with("enable_time_secs=0\t"), "{name}");
        assert!(lines[1..lines.len() - 1].iter().all(|line| line.split(',').count() == 25));
        assert!(lines[lines.len() - 1].starts_with("disable_time_secs=2\t"));
        assert!(lines[lines.len() - 1].contains("\tnum_inbound_skipped_pkts_malloc=0\t"));
    }
}

#[test]
fn words_that_mean_nothing_are_refused() {
    for (from, to, word) in
        [("siftr-1.2", "siftr-9", "siftr.profile"), ("siftr-1.2\"", "teacup\"\nppl = 0", "siftr.ppl")]
    {
        let error = Experiment::parse("bad", &TEXT.replace(from, to)).unwrap_err();
        assert!(error.0.contains(word), "{error}");
    }
}
