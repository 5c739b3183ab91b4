//! Goal: a sweep that is killed goes on where it was and ends as if nothing had been; tasks run one by one bring the
//! same; what was recorded is found again, and what moved is told.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");

const SMALL: &str = r#"
title = "Small"
seconds = 20
seeds = 5
[path]
rtt_ms = 10
down_kbit = 4000
queue = "slots 20"
loss = 0.001
[[flow]]
cc = "newreno"
count = 2
"#;

const GRID: [&str; 4] = ["--vary", "path.rtt_ms=10,20,40", "--vary", "flow.cc=cubic,htcp"];
const RUNS: usize = 3 * 2 * 5;

/// A folder of its own, with `small.toml` in it.
struct Desk(PathBuf);

impl Desk {
    fn new(name: &str) -> Desk {
        let folder = std::env::temp_dir().join(format!("millstream-desk-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("small.toml"), SMALL).unwrap();
        Desk(folder)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(MILLSTREAM);
        command.arg("lab").args(arguments).current_dir(&self.0);
        command
    }

    fn lab(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Must succeed; what it said.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.lab(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Must fail; what it complained of.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.lab(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn read(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.0.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn sweep<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [["sweep", "small.toml", "-o", "out"].as_slice(), &GRID, more].concat()
}

/// Files that a sweep leaves.
const FILES: [&str; 6] = [
    "out/small.jsonl",
    "out/small.toml",
    "out/report.csv",
    "out/report.html",
    "out/report.parquet",
    "out/series.parquet",
];

fn lines(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count())
}

fn kill_when(mut child: Child, enough: impl Fn() -> bool) {
    // Bounded: the sweep ends by itself.
    while !enough() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    // A process that has ended just now cannot be killed; the test holds then, too.
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn a_killed_sweep_goes_on() {
    let (killed, straight) = (Desk::new("killed"), Desk::new("straight"));
    let path = killed.0.join("out/small.jsonl");
    for goal in [3, 9] {
        let child = killed
            .command(&sweep(&["--jobs", "2"]))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        kill_when(child, || lines(&path) > goal);
    }
    assert!(lines(&path) > 3, "runs were kept");
    killed.done(&sweep(&["--jobs", "3"]));
    straight.done(&sweep(&["--jobs", "1"]));
    assert_eq!(lines(&path), 1 + RUNS);
    for file in FILES {
        assert_eq!(killed.read(file), straight.read(file), "{file}");
    }
    killed.done(&["report", "out/small.toml", "-o", "out"]);
    for file in FILES {
        assert_eq!(killed.read(file), straight.read(file), "{file}: reported again");
    }
    assert!(killed.refused(&["report", "p2-abc", "-o", "out"]).contains("p2-abc in out: "));
}

/// Off a terminal each finished run may have a line; Ctrl-C names the command that goes on, and that command does.
#[test]
fn a_stopped_sweep_names_the_command_that_goes_on() {
    let desk = Desk::new("stopped");
    let sweep = sweep(&["--jobs", "1", "--vary", "path.queue=slots 20,slots 40"]);
    let child = desk.command(&sweep).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let path = desk.0.join("out/small.jsonl");
    while lines(&path) <= 3 {
        std::thread::sleep(Duration::from_millis(2));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    let kept = lines(&path) - 1;
    let told = format!("small: {kept} of {} runs are kept in out/small.jsonl. This command", 2 * RUNS);
    assert!(kept < 2 * RUNS && said.contains(&told), "{said}");
    let again = said.trim_end().lines().last().unwrap().trim();
    let output = Command::new("sh").args(["-c", again]).current_dir(&desk.0).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && said.ends_with(&format!("small: {0} of {0} runs\n", 2 * RUNS)),
        "{said}"
    );
    assert_eq!(lines(&path) - 1, 2 * RUNS);
}

/// Runs that a parameter cannot change are made once, and the files are as if they had been made again.
#[test]
fn what_a_parameter_cannot_change_is_not_repeated() {
    let (desk, apart) = (Desk::new("alike"), Desk::new("apart"));
    let vary = ["--vary", "flow.cc=cubic,newreno", "--vary", "tunables.newreno.abc_limit=1,2"];
    let words = [&["sweep", "small.toml", "--seeds", "2", "-o", "out"][..], &vary].concat();
    let output = desk.lab(&words);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("small: 2 runs are equal to others but for"), "{said}");
    // One after the other, so that none has another to be equal to.
    apart.done(&[&["export", "small.toml", "--seeds", "2", "-o", "out"][..], &vary].concat());
    for line in String::from_utf8(apart.read("out/tasks.jsonl")).unwrap().lines() {
        let task: serde_json::Value = serde_json::from_str(line).unwrap();
        let mut child =
            apart.command(&["task"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        let name = format!("out/results/{}.json", task["id"].as_str().unwrap());
        std::fs::write(apart.0.join(name), child.wait_with_output().unwrap().stdout).unwrap();
    }
    apart.done(&["gather", "out"]);
    assert_eq!(desk.read("out/small.jsonl"), apart.read("out/small.jsonl"));
}

#[test]
fn an_expectation_that_fails_says_why() {
    let desk = Desk::new("why");
    let check = "[[check]]\nmeasure = \"goodput_mbit\"\nrange = { min = 5, max = 6 }\n";
    std::fs::write(desk.0.join("small.toml"), format!("{SMALL}{check}")).unwrap();
    let output = desk.lab(&["run", "small.toml", "--seeds", "3", "--check", "-o", "out"]);
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[1], "  FAILS  goodput_mbit (Mbit/s) within 5 .. 6");
    assert!(lines[3].starts_with("         of 3 runs: the 95 % interval of the mean is 3."), "{said}");
    assert!(lines[3].ends_with("expected 5 to 6") && !output.status.success(), "{said}");
}

#[test]
fn tasks_bring_what_a_sweep_brings() {
    let (tasks, straight) = (Desk::new("tasks"), Desk::new("alone"));
    straight.done(&sweep(&["--seeds", "2"]));
    tasks.done(&[["export", "small.toml", "--seeds", "2", "-o", "out"].as_slice(), &GRID].concat());
    let plan = String::from_utf8(tasks.read("out/tasks.jsonl")).unwrap();
    assert_eq!(plan.lines().count(), 12);
    assert!(tasks.refused(&["gather", "out"]).contains("12 tasks have no result"));
    for line in plan.lines() {
        let task: serde_json::Value = serde_json::from_str(line).unwrap();
        let mut child =
            tasks.command(&["task"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let name = format!("out/results/{}.json", task["id"].as_str().unwrap());
        std::fs::write(tasks.0.join(name), output.stdout).unwrap();
    }
    tasks.done(&["gather", "out"]);
    for file in FILES {
        assert_eq!(tasks.read(file), straight.read(file), "{file}");
    }
    let wider = tasks.refused(&["export", "small.toml", "-o", "out"]);
    assert!(wider.contains("another plan, with results"), "{wider}");
}

#[test]
fn what_was_recorded_is_found_again() {
    let desk = Desk::new("recorded");
    desk.done(&["record", "small.toml", "--seeds", "3", "--to", "kept"]);
    let said = desk.done(&["run", "small.toml", "--expect", "kept", "--exact", "-o", "again"]);
    assert!(said.contains("small: 3 of 3 runs are the recorded bytes"), "{said}");

    let recorded = String::from_utf8(desk.read("kept/small.toml")).unwrap();
    let digest = recorded.split('"').find(|word| word.len() == 32 && *word != basis(&recorded)).unwrap();
    let replay = desk.done(&["replay", "small.toml", "--seed", "1", "--digest", digest]);
    assert!(replay.contains(digest), "{replay}");
    assert!(desk.read("lab-replay/packets.pcapng").starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]));
    desk.refused(&["replay", "small.toml", "--seed", "2", "--digest", digest]);

    let utilisation = recorded.lines().find(|line| line.starts_with("utilisation")).unwrap();
    let moved = recorded.replace(utilisation, "utilisation = [0.5, 0.01]").replace(digest, &"0".repeat(32));
    std::fs::write(desk.0.join("kept/small.toml"), moved).unwrap();
    let output = desk.lab(&["run", "small.toml", "--expect", "kept", "-o", "again"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success() && said.contains("MOVED AWAY   utilisation: 0.50000 -> "), "{said}");
    assert!(said.contains("2 of 3 runs are the recorded bytes"), "{said}");
}

/// `run` and `replay` leave the same logs and captures, in the folders they are told.
#[test]
fn what_hosts_write_down_is_the_same_again() {
    let desk = Desk::new("kept");
    let words = ["--siftr", "logs", "--capture", "caught"];
    desk.done(&[&["run", "small.toml", "--seeds", "1", "-o", "out"][..], &words].concat());
    let files = ["logs/small/seed-1-sender-1.log", "caught/small/seed-1-sender-1.pcapng"];
    let first = files.map(|file| desk.read(file));
    assert!(first.iter().all(|bytes| bytes.len() > 100_000));
    files.iter().for_each(|file| std::fs::remove_file(desk.0.join(file)).unwrap());
    let again = desk.lab(&[&["run", "small.toml", "--seeds", "1", "-o", "out"][..], &words].concat());
    assert!(String::from_utf8_lossy(&again.stderr).contains("1 runs in out were done before"));
    desk.done(&[&["replay", "small.toml", "--film", "0"][..], &words].concat());
    assert_eq!(files.map(|file| desk.read(file)), first);

    let keys = format!("{SMALL}\n[siftr]\nprofile = \"siftr-1.2\"\n[capture]\nkeep = 64\n");
    std::fs::write(desk.0.join("keys.toml"), keys).unwrap();
    desk.done(&["run", "keys.toml", "--seeds", "1", "-o", "out"]);
    desk.done(&["replay", "keys.toml", "--film", "0", "-o", "one"]);
    for file in ["keys.siftr/seed-1-receiver-1.log", "keys.capture/seed-1-receiver-1.pcapng"] {
        let [run, replay] = ["out", "one"].map(|folder| desk.read(&format!("{folder}/{file}")));
        assert!(run == replay && run.len() > 50_000, "{file}");
    }
}

fn basis(recorded: &str) -> &str {
    recorded.lines().find_map(|line| line.strip_prefix("basis = ")).unwrap().trim_matches('"')
}

#[test]
fn a_wrong_grid_is_told() {
    let desk = Desk::new("wrong");
    for (vary, says) in [
        ("flow.cc=magic", "no congestion control `magic`"),
        ("flow.cc", "want PLACE=VALUE"),
        ("path.nothing=1", "unknown field `nothing`"),
    ] {
        let said = desk.refused(&["sweep", "small.toml", "--vary", vary]);
        assert!(said.contains(says), "{said}");
    }
    let said = desk.refused(&["replay", "p2-abc"]);
    assert!(said.contains("which `stack.sack`? There are true, false"), "{said}");
}
