//! Goal: files that other users put into shared directories stop no stack, and files of processes that were killed are
//! gone once the next stack has started.
//!
//! Needs root for network namespaces and to be another user; without it every test says that it was skipped.

use bench::bed::{Bed, Server, sh};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
/// The directories in which root's processes may meet.
const SHARED: [&str; 2] = ["/run/millstream/shared", "/dev/shm/millstream-0"];

#[allow(clippy::disallowed_methods, reason = "real programs take real time")]
fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < until, "{what}: not within 60 s");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A server on `link`; it has said that it serves.
fn serve(bed: &Bed, link: &str, more: &[&str]) -> Server {
    let args = [&["serve", "--link", link, "--listen", "0.0.0.0:80"], more].concat();
    bed.start(&bed.server, Path::new(MILLSTREAM), &args).expect("it serves")
}

/// The files that processes in the bed's first namespace share.
fn files(bed: &Bed) -> Vec<PathBuf> {
    let network = std::fs::metadata(Path::new("/run/netns").join(&bed.server)).expect("a namespace").ino();
    let part = format!(".{network}.");
    let all = SHARED.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten();
    all.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains(&part)).collect()
}

/// FIFOs of the user nobody where stacks look; gone when dropped.
struct Traps(Vec<String>);

impl Traps {
    fn new() -> Traps {
        // The second is where root would meet if /run could not be written.
        let names = ["/dev/shm/millstream.xdp.x", "/dev/shm/millstream-0", "/dev/shm/millstream.0.x"];
        let made = names.into_iter().filter(|name| {
            let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "mkfifo", name];
            sh("setpriv", &nobody).is_ok()
        });
        Traps(made.map(str::to_owned).collect())
    }
}

impl Drop for Traps {
    fn drop(&mut self) {
        for name in &self.0 {
            if let Err(e) = std::fs::remove_file(name) {
                eprintln!("{name}: {e}");
            }
        }
    }
}

/// Each stack that starts sweeps, so one test at a time looks at what is left behind.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn files_of_other_users_stop_no_stack() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let traps = Traps::new();
    assert!(!traps.0.is_empty(), "nothing can put files into /dev/shm");
    for link in ["xdp:ms0", "packet:ms0", "nic:ms0"] {
        let share: &[&str] = if link == "xdp:ms0" { &[] } else { &["--set", "share=5", "--reuse-port"] };
        let server = serve(&bed, link, share);
        server.stop().expect("it ends");
    }
}

#[test]
fn files_of_killed_processes_are_swept() {
    let Some(bed) = Bed::if_root(true) else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let kill = |server: Server| {
        sh("kill", &["-KILL", &server.pid().to_string()]).expect("it runs");
        drop(server);
    };
    let killed = serve(&bed, "packet:ms0", &["--set", "share=5", "--reuse-port"]);
    let group = files(&bed);
    assert!(!group.is_empty(), "a group has a file");
    kill(killed);
    assert_eq!(files(&bed), group, "it is left behind");
    // A stack that shares nothing sweeps, too, and so does one of another link.
    let killed = serve(&bed, "xdp:ms0", &[]);
    let notes = files(&bed);
    assert!(!notes.is_empty() && group.iter().all(|file| !notes.contains(file)), "{notes:?}");
    kill(killed);
    wait("the kernel takes the program off the interface", || {
        sh("ip", &["-n", &bed.server, "link", "show", "ms0"]).is_ok_and(|text| !text.contains("xdp"))
    });
    let server = serve(&bed, "packet:ms0", &[]);
    assert_eq!(files(&bed), [] as [PathBuf; 0], "nothing is shared now");
    server.stop().expect("it ends");
}

/// Ways to open what lies at a path.
const OPENS: &[&str] = &[
    "File::open(",
    "File::create(",
    "OpenOptions::new()",
    "File::options()",
    "fs::read(",
    "fs::read_to_string(",
    "fs::write(",
    "UnixStream::connect(",
    "libc::open(",
    "libc::bind(",
    "libc::connect(",
    "rustix::fs::open",
];

/// The sources of what users run, without tests: how many opens each has.
fn opens(folder: &Path, root: &Path, found: &mut Vec<(String, usize)>) {
    for path in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
        if path.is_dir() {
            opens(&path, root, found);
        } else if name.ends_with(".rs")
            && name.contains("/src/")
            && !name.contains("test")
            && !name.contains("fuzz")
        {
            let text = std::fs::read_to_string(&path).expect("a source");
            let count = OPENS.iter().map(|open| text.matches(open).count()).sum();
            if count > 0 {
                found.push((name, count));
            }
        }
    }
}

/// An open that is added gets a row in docs/SECURITY.md: who names the path, and what keeps it from being a trap.
#[test]
fn every_open_of_a_path_is_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the tree");
    let mut found = Vec::new();
    for part in ["apps", "host"] {
        opens(&root.join("crates").join(part), &root.join("crates"), &mut found);
    }
    let page = std::fs::read_to_string(root.join("docs/SECURITY.md")).expect("a page");
    let (_, table) = page.split_once("## Every open of a path").expect("its section");
    let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let mut listed: Vec<(String, usize)> = Vec::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let first = row.split('|').nth(1).expect("a cell");
        for place in first.split(',') {
            let (name, count) = place.trim().rsplit_once(' ').expect("`FILE` COUNT");
            listed.push((name.trim_matches('`').to_owned(), count.parse().expect("a number")));
        }
    }
    found.sort();
    listed.sort();
    assert_eq!(found, listed, "opens in the sources, and those in docs/SECURITY.md");
}
