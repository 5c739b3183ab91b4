//! Tests as a child process, watched: one that hangs is told and ended, and so is what tests leave behind.
//!
//! This process is the reaper of all that the tests start (`PR_SET_CHILD_SUBREAPER`): a daemon that left its parent
//! is a child of this process then, and ends with the tests, so that it cannot hold their output open.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

use crate::run::now;
use crate::test_report::TestReport;

/// The time between two looks at processes that have ended.
const LOOK: Duration = Duration::from_millis(50);

/// The longest wait for processes that were killed.
const KILLING: Duration = Duration::from_secs(10);

/// Lines of output between the reader and this thread.
const LINES: usize = 1024;

/// Outcome of watched tests.
pub(crate) struct Watched {
    /// Results of the tests.
    pub(crate) report: TestReport,
    /// Exit status; `None` if no test ended for too long, or all together took too long.
    pub(crate) status: Option<ExitStatus>,
    /// Did all together take too long?
    pub(crate) is_late: bool,
    /// Processes that were still there at the end, and were ended: numbers and command lines.
    pub(crate) left: Vec<(u32, String)>,
}

/// Runs `command` until it ends, until none of its tests has ended for `silence`, or for `limit` at most, and shows its
/// output in `to`.
///
/// # Errors
/// It cannot be started, or what it started does not end.
pub(crate) fn watch(
    mut command: Command,
    silence: Duration,
    limit: Duration,
    mut to: impl Write,
) -> Result<Watched, String> {
    set_child_subreaper(Some(getpid())).map_err(|error| error.to_string())?;
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let lines = lines_of(&mut child);
    let mut report = TestReport::default();
    let begin = now();
    let (mut last, mut is_open) = (begin, true);
    let status = loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                if report.line(&line, &mut to) {
                    last = now();
                }
                if now().duration_since(begin) <= limit {
                    continue;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                is_open = false;
                std::thread::sleep(LOOK);
            }
        }
        reap(child.id());
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break Some(status);
        }
        if now().duration_since(last) > silence || now().duration_since(begin) > limit {
            break None;
        }
    };
    let is_late = status.is_none() && now().duration_since(begin) > limit;
    let left = end_descendants()?;
    // All that could write is gone; what it wrote may still be on its way.
    while is_open {
        match lines.recv_timeout(KILLING) {
            Ok(line) => {
                report.line(&line, &mut to);
            }
            Err(_) => is_open = false,
        }
    }
    reap(child.id());
    child.wait().map_err(|error| error.to_string())?;
    if !is_late {
        report.end_of_binary();
    }
    Ok(Watched { report, status, is_late, left })
}

/// Lines that a child writes.
fn lines_of(child: &mut Child) -> Receiver<String> {
    let (give, take) = sync_channel(LINES);
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
            lines.map(|line| String::from_utf8_lossy(&line).into_owned()).try_for_each(|line| give.send(line))
        });
    }
    take
}

/// Takes the exit statuses of orphans, which have no other parent; `child` is waited for elsewhere.
fn reap(child: u32) {
    for pid in children(std::process::id()).into_iter().filter(|pid| *pid != child && has_ended(*pid)) {
        // One that another thread has waited for meanwhile is gone as well.
        let _ = waitpid(pid_of(pid), WaitOptions::NOHANG);
    }
}

fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Ends everything that this process and its children have started. Returns what there was.
fn end_descendants() -> Result<Vec<(u32, String)>, String> {
    let all = || descendants(std::process::id()).into_iter().filter(|(pid, _)| !has_ended(*pid));
    let found: Vec<_> = all().collect();
    let begin = now();
    // Until none is left: one that is killed may have started another meanwhile.
    loop {
        let left: Vec<_> = all().collect();
        if left.is_empty() {
            return Ok(found);
        }
        if now().duration_since(begin) > KILLING {
            return Err(format!("these do not end when they are killed:{}", told(&left)));
        }
        for pid in left.iter().filter_map(|(pid, _)| pid_of(*pid)) {
            // It may have ended by itself; whether it did is looked at again.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(LOOK);
    }
}

/// Processes for a person: a line each.
pub(crate) fn told(processes: &[(u32, String)]) -> String {
    processes.iter().map(|(pid, line)| format!("\n  {pid}  {line}")).collect()
}

/// Returns true if a process has ended, and only its status is left.
fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything.
    stat.rsplit(')')
        .next()
        .is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z") || rest.starts_with(" X"))
}

fn children(of: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// Returns the descendants of a process: their numbers and command lines.
fn descendants(of: u32) -> Vec<(u32, String)> {
    let mut all = Vec::new();
    for pid in children(of) {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        all.push((pid, line.replace('\0', " ").trim_end().into()));
        all.extend(descendants(pid));
    }
    all
}
