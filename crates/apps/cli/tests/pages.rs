//! Goal: the commands of the pages work as they are written: each block runs in a fresh folder, in the order of its
//! page, or a reason says why it does not run here.
//!
//! Needs root for namespaces, and says so.
#![forbid(unsafe_code)]

use bench::bed::is_root;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// A block with one of these words does not run here; the first that fits counts.
const NOT_RUN: &[(&str, &str)] = &[
    ("make install-c", "installs"),
    ("apt-get", "installs"),
    ("pip install", "installs from the network"),
    (".ci/setup", "installs"),
    ("make ", "is the gate itself, the demo, or needs an installed library"),
    ("cargo ", "is a step of the gate, or measures for minutes"),
    ("eth0", "names a network card of the reader's"),
    ("./echo", "needs an installed library; `capi/tests/programs` runs the program"),
    ("/dev/tcp", "asks the Python program above it; the wheel's tests run one"),
    ("examples/python", "needs an installed wheel; its tests run the programs"),
    ("--profile freebsd .", "needs the suite of FreeBSD"),
    ("packetdrill", "needs the original tool or suites of others"),
    ("serve ...", "stands for further arguments"),
    ("millstream top", "runs until it is ended, on a terminal"),
    ("millstream sysctl", "sets values of a stack that runs; `control` tests do"),
    ("millstream serve", "serves until it is ended; the block after it needs a compiled policy"),
    ("millstream pipe", "runs until it is ended; `pipe` tests run one"),
    ("bpftrace", "needs bpftrace"),
    ("flow.h", "needs bpftrace"),
    ("cluster.py", "needs a cluster; the gate's step `lab` makes one"),
    ("backoff.pkt", "needs the script above it, which `drill` tests run"),
    ("mimd.toml", "needs the file above it and a compiled policy"),
    ("--capture", "writes gigabytes"),
];

/// Blocks that run all the same, by their first words.
const RUN: &[&str] = &["unshare --user"];

/// Beginnings of commands, for blocks without a language.
const COMMANDS: [&str; 5] = ["millstream ", "cargo ", "make ", ".ci/", "sudo "];

struct Block {
    page: String,
    line: usize,
    /// The commands as they are typed.
    text: String,
}

impl Block {
    fn why_not(&self) -> Option<&'static str> {
        if RUN.iter().any(|words| self.text.starts_with(words)) {
            return None;
        }
        NOT_RUN.iter().find(|(word, _)| self.text.contains(word)).map(|(_, why)| *why)
    }
}

/// Returns the command blocks of a page.
fn blocks(page: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let name = page.file_name().expect("a name").to_string_lossy().into_owned();
    let mut found = Vec::new();
    let mut open: Option<(usize, &str, Vec<&str>)> = None;
    for (line, text) in (1..).zip(text.lines()) {
        let fence = text.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(language)) => open = Some((line, language, Vec::new())),
            (Some((_, _, lines)), None) => lines.push(text),
            (Some((line, language, lines)), Some(_)) => {
                let typed =
                    |line: &&str| line.strip_prefix("$ ").or(line.strip_prefix("# ")).map(String::from);
                let is_command = |line: &&str| COMMANDS.iter().any(|begin| line.starts_with(begin));
                let commands: Vec<String> = match *language {
                    "console" => lines.iter().filter_map(typed).collect(),
                    "sh" => lines.iter().map(|line| (*line).to_string()).collect(),
                    "" if lines.first().is_some_and(is_command) => {
                        lines.iter().map(|line| (*line).to_string()).collect()
                    }
                    _ => Vec::new(),
                };
                if !commands.is_empty() {
                    found.push(Block { page: name.clone(), line: *line, text: commands.join("\n") + "\n" });
                }
                open = None;
            }
            (None, None) => {}
        }
    }
    found
}

fn all() -> Vec<Block> {
    let pages = std::fs::read_dir(format!("{ROOT}/docs")).expect("pages").flatten().map(|entry| entry.path());
    let mut pages: Vec<PathBuf> =
        pages.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.sort();
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|name| Path::new(ROOT).join(name)));
    pages.iter().flat_map(|page| blocks(page)).collect()
}

/// A folder in which a page's blocks run; what they start ends with each block.
struct Fresh(PathBuf);

impl Fresh {
    fn new(page: &str) -> Fresh {
        let folder = std::env::temp_dir().join(format!("millstream-page-{page}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let root = std::fs::canonicalize(ROOT).expect("the checkout");
        for name in ["crates", "examples"] {
            std::os::unix::fs::symlink(root.join(name), folder.join(name)).expect("a link");
        }
        Fresh(folder)
    }

    /// Types a block into a shell, as a reader would: a command that opens another shell gets the rest.
    fn run(&self, block: &Block) {
        let path = std::env::var("PATH").unwrap_or_default();
        let folder = Path::new(MILLSTREAM).parent().expect("a folder").display();
        let mut shell = Command::new("timeout")
            .args([
                "-s",
                "KILL",
                "300",
                "unshare",
                "--net",
                "--pid",
                "--mount-proc",
                "--fork",
                "--kill-child",
            ])
            .args(["bash", "-e"])
            .current_dir(&self.0)
            .env("PATH", format!("{folder}:{path}"))
            .env("MILLSTREAM_RUN", &self.0)
            .env("SHELL", "/bin/bash")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        let mut keys = shell.stdin.take().expect("a pipe");
        keys.write_all(block.text.as_bytes()).expect("it reads");
        drop(keys);
        let status = shell.wait().expect("it ends");
        assert!(status.success(), "{}:{}: {status}:\n{}", block.page, block.line, block.text);
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("it can be removed");
    }
}

#[test]
fn every_block_runs_or_says_why_not() {
    if !is_root() {
        return;
    }
    let mut fresh: Option<(String, Fresh)> = None;
    let mut ran = 0;
    for block in all().iter().filter(|block| block.why_not().is_none()) {
        eprintln!("{}:{}", block.page, block.line);
        if fresh.as_ref().is_none_or(|(page, _)| *page != block.page) {
            fresh = Some((block.page.clone(), Fresh::new(&block.page)));
        }
        fresh.as_ref().expect("made above").1.run(block);
        ran += 1;
    }
    assert!(ran >= 5, "{ran} blocks ran");
}

/// A reason that no block needs is out of date.
#[test]
fn every_reason_is_needed() {
    let all = all();
    let needs = |(_, why): &&(&str, &str)| all.iter().any(|block| block.why_not() == Some(why));
    let idle: Vec<_> = NOT_RUN.iter().filter(|reason| !needs(reason)).collect();
    assert!(idle.is_empty(), "{idle:?}");
}
