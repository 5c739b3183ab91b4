//! `cargo xtask suites`: suites of other projects, on the kernel and under `millstream run`, test by test.
//!
//! Each run has namespaces of its own: network, processes and mounts. It ends with this process, however that ends.

mod compare;
mod known;
mod output;
mod page;
mod rows;

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::run::now;
use crate::{Outcome, run};
use compare::{Comparison, Side};
use page::Entry;
use rows::{LEFT_OUT, Part, SUITES, Suite};

/// Run suites of other projects on the kernel and on the stack, and compare the results of each test (root).
///
/// The stack's side runs under `millstream run`. `.ci/setup suites` fetches and builds the suites. A row is SUITE/PART,
/// such as cpython/test_ssl. Without arguments every row is run, and the table of docs/SUITES.md is written. A
/// difference must be listed in xtask/src/suites/known.rs with its cause, and a listed one must be there.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// CPython's select, selectors and socketserver, and the quick part of socket
    #[arg(long)]
    short: bool,
    /// Rows that have each of these words, as cpython/test_ssl or libuv; may be repeated
    #[arg(long, value_name = "WORD/WORD...")]
    only: Vec<String>,
    /// Name the rows, run none
    #[arg(long)]
    list: bool,
    /// Leave docs/SUITES.md as it is
    #[arg(long)]
    keep_page: bool,
}

impl Options {
    /// Was this row asked for?
    fn wants(&self, suite: &Suite, part: &Part) -> bool {
        let has = |words: &String| words.split('/').all(|word| word == suite.name || word == part.name);
        (!self.short || part.short) && (self.only.is_empty() || self.only.iter().any(has))
    }

    fn rows(&self) -> Vec<(&'static Suite, &'static Part)> {
        let all = SUITES.iter().flat_map(|suite| suite.parts.iter().map(move |part| (suite, part)));
        all.filter(|(suite, part)| self.wants(suite, part)).collect()
    }
}

/// The folder into which `.ci/suites` fetches a suite.
fn folder(suite: &Suite) -> PathBuf {
    run::target_dir().join("suites").join(suite.name)
}

/// Returns the missing requirements, in words; `None` if all is there.
fn missing(rows: &[(&Suite, &Part)]) -> Option<String> {
    if let Some((suite, _)) = rows.iter().find(|(suite, _)| !folder(suite).join("complete").exists()) {
        return Some(format!("the suite {} is not in {}", suite.name, folder(suite).display()));
    }
    let unshare = ["--net", "--pid", "--fork", "--mount", "--mount-proc", "ip", "link", "add", "ms0"];
    let veth = ["type", "veth", "peer", "name", "ms1"];
    run::tool("unshare").args(unshare).args(veth).output().err().map(|error| {
        format!("namespaces are not permitted here ({})", error.lines().nth(1).unwrap_or(&error))
    })
}

/// `cargo xtask suites`.
pub(crate) fn suites(options: &Options) -> Outcome {
    let rows = options.rows();
    if rows.is_empty() {
        return Err(format!("no row has these words: {}; `--list` names them", options.only.join(" ")));
    }
    if options.list {
        rows.iter().for_each(|(suite, part)| println!("{}/{}  {}", suite.name, part.name, suite.about));
        return Ok(());
    }
    if let Some(what) = missing(&rows) {
        return Err(format!("{what}; `.ci/setup suites` brings what is needed, as root"));
    }
    run::build_launcher("dev")?;
    let (begin, count) = (now(), rows.len());
    let mut wrong = Vec::new();
    for (number, (suite, part)) in (1..).zip(rows) {
        let seconds = now().duration_since(begin).as_secs();
        println!("[{number}/{count}, {} min {} s] {}/{}", seconds / 60, seconds % 60, suite.name, part.name);
        let entry = compared(suite, part, options.short)?;
        print!("{}", entry.comparison.told());
        wrong.extend(entry.comparison.wrong());
        if !options.short {
            page::keep(&entry)?;
        }
    }
    if !options.keep_page && !options.short {
        page::write()?;
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let list: String = wrong.iter().map(|line| format!("\n  {line}")).collect();
    Err(format!("{} differences are not as xtask/src/suites/known.rs lists them:{list}", wrong.len()))
}

/// The step of `cargo xtask ci`.
pub(crate) fn short() -> Outcome {
    let options = Options { short: true, keep_page: true, ..Options::default() };
    if let Some(what) = missing(&options.rows()) {
        crate::left_out::tell(&format!("{what}; `.ci/setup suites` brings what is needed, as root"));
        return Ok(());
    }
    suites(&options)
}

/// Runs one part on the kernel and on the stack.
fn compared(suite: &Suite, part: &Part, short: bool) -> Result<Entry, String> {
    let kernel = once(suite, part, false, short)?;
    let stack = once(suite, part, true, short)?;
    let comparison = Comparison::of(format!("{}/{}", suite.name, part.name), kernel, stack);
    let version = folder(suite).join("version");
    let version = fs::read_to_string(&version).map_err(|error| format!("{}: {error}", version.display()))?;
    let day = run::tool("date").args(["+%F"]).output()?.trim().into();
    Ok(Entry { comparison, version: version.trim().into(), day })
}

/// Sets up the namespaces' link, and runs the rest of the arguments as a child: process 1 gets no signals by default.
/// The process that tells the launch's report ends a little later than the launch.
const INSIDE: &str = "\
set -e
ip link set lo up
# Addresses of IPv6 are there at once.
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
ip link add ms0 type veth peer name ms1
ip addr add 10.77.0.1/16 dev ms0
ip link set ms0 up
ip link set ms1 up
mount -t tmpfs tmpfs \"$W\"
mount -t tmpfs tmpfs /run
set +e
\"$@\"
end=$?
while pgrep -x millstream >/dev/null; do sleep 0.02; done
exit $end";

/// Runs a part once. Its output is kept in the folder logs.
fn once(suite: &Suite, part: &Part, launched: bool, short: bool) -> Result<Side, String> {
    let told = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let logs = run::target_dir().join("suites/logs");
    fs::create_dir_all(&logs).map_err(|error| told(&logs, error))?;
    let place = if launched { "stack" } else { "kernel" };
    let log = logs.join(format!("{}.{}.{place}", suite.name, part.name));
    let file = File::create(&log).map_err(|error| told(&log, error))?;
    let second = file.try_clone().map_err(|error| told(&log, error))?;
    // Names of UNIX sockets are short, so this folder is not below the build's.
    let work = std::env::temp_dir().join(format!("ms-suites-{}", std::process::id()));
    fs::create_dir_all(&work).map_err(|error| told(&work, error))?;
    let millstream = run::target_dir().join("debug/millstream");
    let millstream = millstream.display().to_string();
    let launcher = [&millstream, "run", "--link", "packet:ms0", "--json", "--"];
    let launcher = if launched { &launcher[..] } else { &[] };
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount"])
        .args(["--mount-proc", "sh", "-c", INSIDE, "suite"])
        .args(launcher)
        .args(["sh", "-c", suite.command])
        .env("S", folder(suite))
        .env("W", &work)
        .env("PART", part.name)
        .env("LEFT_OUT", if short { LEFT_OUT } else { "" })
        .env("TMPDIR", &work)
        .env("LC_ALL", "C.UTF-8")
        .env("MILLSTREAM_LOOPBACK", "all")
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(second)
        .spawn()
        .map_err(|error| format!("setpriv: {error}"))?;
    let (begin, limit) = (now(), Duration::from_secs(part.limit));
    let end = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break ended(status),
            None if now().duration_since(begin) > limit => {
                child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
                break format!("killed after {} s", part.limit);
            }
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    fs::remove_dir(&work).map_err(|error| told(&work, error))?;
    let output = fs::read(&log).map_err(|error| told(&log, error))?;
    let output = String::from_utf8_lossy(&output);
    let took = now().duration_since(begin);
    let results = suite.format.read(&output);
    Ok(Side { results, end, ends_on_stack: output::on_the_stack(&output), took })
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown end".into(),
    }
}

#[cfg(test)]
mod tests;
