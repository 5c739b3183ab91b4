//! Report on the end of a launch: its processes have written lines to a file, which are summed up, and the file is
//! removed. `millstream run` waits for the program's end and does it. Where it becomes the program instead, another
//! process waits for that one's end. That process holds a lock on the file until it has told. A program that ends in
//! order says so in the file and waits for the lock, so that the report is there before the caller of `millstream run`
//! goes on.

use pio::child::{Child, end_as};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Names the file to the library, and to the process that tells; what that is to be, as WORD:PID:FORM.
const FILE: &str = "MILLSTREAM_REPORT";
const TELLER: &str = "MILLSTREAM_TELLER";

/// How long other processes of a launch have for their end once its first one has ended.
const TIMEOUT: Duration = Duration::from_millis(500);

/// How the end is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}

impl Form {
    fn name(self) -> &'static str {
        if self == Form::Json { "json" } else { "text" }
    }
}

/// The file of a launch that is about to begin.
pub(crate) struct Launch {
    path: PathBuf,
    file: File,
}

impl Launch {
    /// Makes the file, for this process and those that it becomes and starts.
    ///
    /// # Errors
    /// There is no place for it.
    pub(crate) fn new() -> io::Result<Launch> {
        // The processes that tell leave the directory that they were started in.
        let folder = std::path::absolute(sock::control::Places::from_environment().directory())?;
        std::fs::create_dir_all(&folder)?;
        let path = folder.join(format!("launch-{}", std::process::id()));
        // One of an earlier process of this number may be left.
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Launch { path, file })
    }

    /// Gives the file to another user, who will run the program.
    pub(crate) fn give_to(&self, user: u32) -> io::Result<()> {
        std::os::unix::fs::fchown(&self.file, Some(user), None)
    }

    /// Notes that the program itself runs on the kernel.
    pub(crate) fn fell_back(&self, what: &str, why: &str) -> io::Result<()> {
        writeln!(&self.file, "kernel\t{}\t{what}\t{why}", std::process::id())
    }

    /// Notes that the program was not run: nothing is told.
    pub(crate) fn take_back(&self) -> io::Result<()> {
        writeln!(&self.file, "void\t{}", std::process::id())
    }

    /// Names the file to the library in the program that `command` is.
    pub(crate) fn name_to(&self, command: &mut Command) {
        command.env(FILE, &self.path);
    }

    /// Has a process wait for the end of this one, whatever that has become by then.
    pub(crate) fn begin(&self, form: Form) -> io::Result<()> {
        let mut first = teller(&format!("first:{}:{}", std::process::id(), form.name()), &self.path)?;
        // It has started the one that waits, which is an orphan by now: the program waits for its own alone.
        first.spawn()?.wait().map(drop)
    }

    /// Waits for the program, tells, and ends as the program has ended.
    pub(crate) fn tell_after(&self, child: &Child, form: Form) -> ! {
        let refused = |signal, e| eprintln!("millstream: signal {signal} does not reach the program: {e}");
        match child.wait(refused) {
            Ok(status) => {
                tell(child.id() as i32, &self.path, form);
                end_as(status)
            }
            Err(e) => {
                eprintln!("millstream: waiting for the program: {e}");
                std::process::exit(1)
            }
        }
    }
}

/// Waits for processes of the launch that end beside process `pid`, its first, and prints the report.
fn tell(pid: i32, path: &Path, form: Form) {
    let told =
        wait_for(pid, path).unwrap_or_else(|_| Told::of(&std::fs::read_to_string(path).unwrap_or_default()));
    // Another one may have swept it away.
    let _ = std::fs::remove_file(path);
    let text = match form {
        _ if told.is_void => return,
        Form::Json => format!("{}\n", told.json()),
        Form::Text => told.text(),
    };
    // With the reader gone nothing is told.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn teller(word: &str, path: &Path) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(TELLER, word).env(FILE, path).env_remove("LD_PRELOAD");
    // A signal from the terminal is the program's.
    command.stdin(Stdio::null()).stdout(Stdio::null()).current_dir("/").process_group(0);
    Ok(command)
}

/// Returns the role of this process, if it is a reporter. With rights that its caller lacks it is none: it removes the
/// file that the environment names.
pub(crate) fn role() -> Option<(String, OsString)> {
    if sock::elevated() {
        return None;
    }
    Some((std::env::var(TELLER).ok()?, std::env::var_os(FILE)?))
}

/// The process that tells.
pub(crate) fn run(word: &str, path: &Path) -> ExitCode {
    let mut words = word.split(':');
    let (first, pid, form) = (words.next(), words.next(), words.next().unwrap_or("text"));
    let Some(pid) = pid.and_then(|pid| pid.parse().ok()) else { return ExitCode::FAILURE };
    if first == Some("first") {
        let next = teller(&format!("then:{pid}:{form}"), path).and_then(|mut command| {
            // The lock is there before the program begins, and goes with the process that tells.
            let file = File::open(path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            command.stdin(file).spawn()
        });
        return if next.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    tell(pid, path, if form == Form::Json.name() { Form::Json } else { Form::Text });
    ExitCode::SUCCESS
}

/// Waits until the first process has ended or says that it is about to, and for those that have a stack beside it.
#[allow(clippy::disallowed_methods, reason = "the end of real processes takes real time")]
fn wait_for(pid: i32, path: &Path) -> io::Result<Told> {
    let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&changes, path, WatchFlags::MODIFY)?;
    let first = process(pid as u32);
    let mut since: Option<Instant> = None;
    loop {
        let mut told = Told::of(&std::fs::read_to_string(path)?);
        let left = if told.is_over || first.as_ref().is_none_or(has_ended) {
            let since = *since.get_or_insert_with(Instant::now);
            let others = told.untold().filter(|other| *other != pid as u32);
            told.running = others.filter(|other| process(*other).is_some_and(|it| !has_ended(&it))).collect();
            let left = TIMEOUT.saturating_sub(since.elapsed());
            if told.running.is_empty() || left.is_zero() {
                return Ok(told);
            }
            Some(left)
        } else {
            None
        };
        let others: Vec<_> = told.running.iter().filter_map(|other| process(*other)).collect();
        let waited = if left.is_some() { &others[..] } else { first.as_slice() };
        let mut rows = vec![PollFd::new(&changes, PollFlags::IN)];
        rows.extend(waited.iter().map(|process| PollFd::new(process, PollFlags::IN)));
        let left = left.map(|left| Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() });
        match poll(&mut rows, left.as_ref()) {
            Err(e) if e != rustix::io::Errno::INTR => return Err(e.into()),
            _ => {}
        }
        // What has changed is read anew.
        while rustix::io::read(&changes, &mut [0; 4096]).is_ok_and(|n| n > 0) {}
    }
}

/// A process that has not been waited for by its parent.
fn process(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()
}

fn has_ended(process: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    !matches!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)), Ok(0))
}

/// The lines of a launch, summed up.
#[derive(Default)]
struct Told {
    processes: BTreeSet<u32>,
    ended: BTreeSet<u32>,
    listeners: BTreeSet<String>,
    accepted: u64,
    connected: u64,
    bytes_in: u64,
    bytes_out: u64,
    kernels: u64,
    fallbacks: BTreeMap<(String, String), u64>,
    /// The first process is about to end.
    is_over: bool,
    /// The program was not run.
    is_void: bool,
    /// Processes that have not said what they did, because they are still there.
    running: BTreeSet<u32>,
}

impl Told {
    fn of(text: &str) -> Told {
        let mut told = Told::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            let (Some(word), Some(Ok(pid))) = (words.first(), words.get(1).map(|pid| pid.parse::<u32>()))
            else {
                continue;
            };
            let text = |at: usize| words.get(at).copied().unwrap_or_default().to_owned();
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            match *word {
                "open" => drop(told.processes.insert(pid)),
                "listen" => drop(told.listeners.insert(text(2))),
                "kernel" => *told.fallbacks.entry((text(2), text(3))).or_default() += 1,
                "over" => told.is_over = true,
                "void" => told.is_void = true,
                "end" => {
                    told.ended.insert(pid);
                    told.accepted += number(2);
                    told.connected += number(3);
                    told.bytes_in += number(4);
                    told.bytes_out += number(5);
                    told.kernels += number(6);
                }
                _ => {}
            }
        }
        told
    }

    /// Processes that have not said what they did: killed, or still there.
    fn untold(&self) -> impl Iterator<Item = u32> {
        self.processes.difference(&self.ended).copied()
    }

    fn json(&self) -> Value {
        let row = |((what, why), times): (&(String, String), &u64)| json!({"what": what, "why": why, "times": times});
        json!({
            "processes": self.processes.len(), "listeners": self.listeners, "accepted": self.accepted,
            "connected": self.connected, "bytes_in": self.bytes_in, "bytes_out": self.bytes_out,
            "kernel_connections": self.kernels, "untold": self.untold().count(), "running": self.running.len(),
            "fallbacks": self.fallbacks.iter().map(row).collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |what: String| text += &format!("millstream: {what}\n");
        if self.processes.is_empty() {
            line("nothing was on the stack".into());
        } else {
            let processes = count(self.processes.len() as u64, "process", "processes");
            let listeners: Vec<&str> = self.listeners.iter().map(String::as_str).collect();
            let listened = if listeners.is_empty() {
                String::new()
            } else {
                format!("listened at {}, ", listeners.join(", "))
            };
            let counted = format!(
                "{} accepted, {} made, {} bytes in, {} out, ",
                count(self.accepted, "connection", "connections"),
                self.connected,
                self.bytes_in,
                self.bytes_out,
            );
            let counted = if self.ended.is_empty() { "" } else { &counted };
            line(format!("on the stack: {listened}{counted}by {processes}"));
        }
        let running = self.running.len();
        for (number, what) in [(self.untold().count() - running, "killed"), (running, "still running")] {
            if number > 0 {
                let processes = count(number as u64, "process", "processes");
                line(format!("not counted: what {processes} did, {what}"));
            }
        }
        if self.kernels > 0 {
            let connections = count(self.kernels, "connection", "connections");
            line(format!("on the kernel: {connections}, over the loopback or where the link does not lead"));
        }
        for (what, why) in self.fallbacks.keys() {
            line(format!("on the kernel: {what}: {why}"));
        }
        text
    }
}

fn count(number: u64, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

#[cfg(test)]
mod tests;
