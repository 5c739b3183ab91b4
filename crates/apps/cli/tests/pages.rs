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
    ("cluster.py", "needs a cluster; the gate's step `lab` makes one"),
    ("--capture", "writes gigabytes"),
];

/// The commands of [`CARD`].
macro_rules! card {
    () => {
        "\
ip link set lo up
mount -t tmpfs tmpfs /srv && mkdir /srv/www && echo hello > /srv/www/index.html
unshare --net sleep 300 & PEER=$!; disown
until [ \"$(readlink /proc/$PEER/ns/net)\" != \"$(readlink /proc/self/ns/net)\" ]; do sleep 0.01; done
ip link add eth0 type veth peer name peer0 && ip link set peer0 netns $PEER
nsenter -t $PEER -n sh -ec 'ip link set lo up; ip addr add 10.0.0.7/24 dev peer0; ip link set peer0 up'
ip addr add 10.0.0.2/24 dev eth0 && ip link set eth0 up && ip route add default via 10.0.0.7
"
    };
}

/// Blocks that run all the same, by their page and their first words, and what is there before. Servers among their
/// commands are ended after [`LIFE`] seconds, and must have run until then.
const RUN: &[(&str, &str, &str)] = &[
    ("DRILL.md", "millstream drill --profile rfc backoff.pkt", ""),
    ("GUIDE.md", "unshare --user", ""),
    ("GUIDE.md", "millstream serve --link nic:eth0 --dir", CARD),
    ("GUIDE.md", "millstream run --link nic:eth0 -- nginx", CARD),
    ("GUIDE.md", "millstream ss   ", SERVER),
    ("GUIDE.md", "sudo millstream doctor eth0", CARD),
    ("GUIDE.md", "millstream serve --link nic:eth0 --reuse-port", CARD),
    ("GUIDE.md", "millstream sysctl -a", SERVER),
    ("GUIDE.md", "ip netns add mid", "mount -t tmpfs tmpfs /run\n"),
    ("GUIDE.md", "millstream serve --link xdp:eth0 --dir /srv/www --path", CARD),
    ("LAUNCHER.md", "millstream run --link nic:eth0 -- nginx", FILES),
    ("OBSERVING.md", "millstream sysctl -a", SERVER),
    ("OBSERVING.md", "millstream sysctl net.inet.siftr", SERVER),
    ("OBSERVING.md", "cat > flow.h", ""),
    ("POLICIES.md", "millstream serve --link tap:mst0", ""),
    ("POLICIES.md", "make -C examples/cc-c", SERVER),
    ("POLICIES.md", "millstream sysctl net.inet.tcp.cc.libraries", POLICY),
];

/// Seconds after which a server is ended.
const LIFE: u32 = 5;

/// A network card eth0 with a neighbour, which is the gateway, and files to serve.
const CARD: &str = card!();

/// And an HTTP server, that neighbour.
const FILES: &str = concat!(
    card!(),
    "\
nsenter -t $PEER -n ip addr add 10.0.0.1/24 dev peer0 && echo hello > /srv/www/file
nsenter -t $PEER -n python3 -m http.server 80 --directory /srv/www >/dev/null 2>&1 & disown
"
);

/// A server of this stack that runs, and its process number where a page has one.
const SERVER: &str = "\
mount -t tmpfs tmpfs /var/log
$REAL serve --link tap:mst0,host=10.0.0.2/24 --address 10.0.0.1/24 --set control=full >server.txt & SERVER=$!; disown
until $REAL sysctl net.inet.tcp.cc.algorithm >/dev/null 2>&1; do kill -0 $SERVER; sleep 0.1; done
";

/// And a policy that it has loaded.
const POLICY: &str = "\
mount -t tmpfs tmpfs /var/log
$REAL serve --link tap:mst0,host=10.0.0.2/24 --address 10.0.0.1/24 --set control=full >server.txt & SERVER=$!; disown
until $REAL sysctl net.inet.tcp.cc.algorithm >/dev/null 2>&1; do kill -0 $SERVER; sleep 0.1; done
make -C examples/cc-c OUT=$PWD
$REAL sysctl net.inet.tcp.cc.load=$PWD/libmimd.so net.inet.tcp.cc.algorithm=mimd
";

/// Files that a page shows in the block before.
const SHOWN: &[&str] = &["backoff.pkt", "mimd.toml"];

/// Beginnings of commands, for blocks without a language.
const COMMANDS: [&str; 6] = ["millstream ", "cargo ", "make ", ".ci/", "sudo ", "python "];

struct Block {
    page: String,
    line: usize,
    /// The commands as they are typed.
    text: String,
    /// The block before, if that is of another kind.
    shown: String,
}

impl Block {
    /// Returns what is there before a block that runs in spite of its words.
    fn before(&self) -> Option<&'static str> {
        let fits =
            |(page, words, _): &&(&str, &str, &str)| self.page == *page && self.text.starts_with(words);
        RUN.iter().find(fits).map(|(.., before)| *before)
    }

    fn why_not(&self) -> Option<&'static str> {
        if self.before().is_some() {
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
    let mut shown = String::new();
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
                if commands.is_empty() {
                    shown = lines.join("\n") + "\n";
                } else {
                    let (page, text) = (name.clone(), commands.join("\n") + "\n");
                    found.push(Block { page, line: *line, text, shown: std::mem::take(&mut shown) });
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
        let fresh = Fresh(folder);
        fresh.program("sudo", "exec \"$@\"");
        // It may not be installed; rows of PROGRAMS.md run it.
        fresh.program("nginx", "exec python3 -m http.server 80");
        let bounded = format!(
            "case \"$*\" in *' -- curl '*) exec {MILLSTREAM} \"$@\";; esac\n\
             case $1 in serve|run|pipe|top|iperf)\n\
             timeout {LIFE} {MILLSTREAM} \"$@\"; status=$?; [ $status = 124 ]; exit;; esac\n\
             exec {MILLSTREAM} \"$@\""
        );
        fresh.program("millstream", &bounded);
        fresh
    }

    /// A program that pages find before others of its name.
    fn program(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let folder = self.0.join("bin");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join(name), format!("#!/bin/sh\n{script}\n")).expect("a script");
        std::fs::set_permissions(folder.join(name), PermissionsExt::from_mode(0o755)).expect("it is ours");
    }

    /// Types a block into a shell, as a reader would: a command that opens another shell gets the rest.
    fn run(&self, block: &Block) {
        let path = std::env::var("PATH").unwrap_or_default();
        let folder = match block.before() {
            Some(_) if !block.text.starts_with("unshare") => self.0.join("bin"),
            _ => Path::new(MILLSTREAM).parent().expect("a folder").to_owned(),
        };
        // No control socket of a block before, whose server was killed.
        let sockets = self.0.join(format!("run-{}", block.line));
        std::fs::create_dir_all(&sockets).expect("a folder");
        for name in SHOWN.iter().filter(|name| block.text.contains(*name)) {
            std::fs::write(self.0.join(name), &block.shown).expect("a file");
        }
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
            .env("PATH", format!("{}:{path}", folder.display()))
            .env("REAL", MILLSTREAM)
            .env("MILLSTREAM_RUN", &sockets)
            .env("SHELL", "/bin/bash")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell");
        let mut keys = shell.stdin.take().expect("a pipe");
        let before = block.before().unwrap_or_default();
        let text = block.text.replace("--pid 4711", "--pid $SERVER");
        // What runs in the background must have ended well, too.
        let after = if block.text.starts_with("unshare") {
            ""
        } else {
            "for job in $(jobs -p); do wait $job; done\n"
        };
        keys.write_all([before, &text, after, "touch ran\n"].concat().as_bytes()).expect("it reads");
        drop(keys);
        let status = shell.wait().expect("it ends");
        // A command that read the keys would have left the rest out.
        let all = std::fs::remove_file(self.0.join("ran")).is_ok();
        assert!(status.success() && all, "{}:{}: {status}:\n{}", block.page, block.line, block.text);
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
    assert!(ran >= 25, "{ran} blocks ran");
}

/// A reason that no block needs is out of date.
#[test]
fn every_reason_is_needed() {
    let all = all();
    let needs = |(_, why): &&(&str, &str)| all.iter().any(|block| block.why_not() == Some(why));
    let idle: Vec<_> = NOT_RUN.iter().filter(|reason| !needs(reason)).collect();
    assert!(idle.is_empty(), "{idle:?}");
}
