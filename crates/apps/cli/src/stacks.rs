//! The stacks that run on this machine, found by their control sockets, and questions to them.

use serde_json::Value;
use sock::control::Places;
use std::error::Error;
use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest silence of a process that was asked.
const SILENCE: Duration = Duration::from_secs(30);

/// The reason why a stack was not asked.
#[derive(Debug)]
pub(crate) enum Unasked {
    /// Its process is gone.
    Gone,
    /// It is another user's.
    Refused(String),
    /// Another error.
    Failed(String),
}

impl fmt::Display for Unasked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unasked::Gone => f.write_str("the process is gone"),
            Unasked::Refused(why) | Unasked::Failed(why) => f.write_str(why),
        }
    }
}

impl Error for Unasked {}

/// Returns the control sockets of running stacks: process number and path.
pub(crate) fn sockets(pid: Option<u32>) -> Vec<(u32, PathBuf)> {
    let mut found = Places::from_environment().sockets();
    found.retain(|(number, _)| pid.is_none_or(|wanted| wanted == *number));
    found
}

/// Returns the same where there must be one.
pub(crate) fn running(pid: Option<u32>) -> Result<Vec<(u32, PathBuf)>, String> {
    let (found, dir) = (sockets(pid), Places::from_environment().directory());
    if found.is_empty() {
        return Err(match pid {
            Some(pid) => format!("process {pid} runs no stack ({} has no {pid}.sock)", dir.display()),
            None => format!(
                "no stack runs here ({} is empty); MILLSTREAM_RUN names another directory",
                dir.display()
            ),
        });
    }
    Ok(found)
}

/// Asks the stack of process `pid`.
///
/// # Errors
/// It is gone, or another user's, or does not listen.
pub(crate) fn ask(pid: u32, path: &Path, question: &str) -> Result<UnixStream, Unasked> {
    let failed = |e: std::io::Error| Unasked::Failed(format!("{}: {e}", path.display()));
    let mut socket = pio::unix_socket::connect(path).map_err(|e| match e.kind() {
        ErrorKind::ConnectionRefused => {
            // A process that was killed leaves its socket behind. Another user's is not ours to remove.
            let _ = std::fs::remove_file(path);
            Unasked::Gone
        }
        ErrorKind::NotFound => Unasked::Gone,
        ErrorKind::WouldBlock => {
            Unasked::Failed(format!("{}: too many ask at once; ask again", path.display()))
        }
        ErrorKind::PermissionDenied => Unasked::Refused(refusal(pid, path)),
        _ => failed(e),
    })?;
    socket.set_read_timeout(Some(SILENCE)).map_err(failed)?;
    writeln!(socket, "{question}").map_err(failed)?;
    Ok(socket)
}

/// Names the user who may ask.
fn refusal(pid: u32, path: &Path) -> String {
    // A socket in a directory that cannot be read has its process's user.
    let owner = std::fs::symlink_metadata(path).or_else(|_| std::fs::metadata(format!("/proc/{pid}")));
    match owner {
        Ok(meta) => {
            let user = pio::unix_socket::user_name(meta.uid());
            format!("process {pid} is {user}'s, and so is its stack: ask as {user}, or with sudo")
        }
        Err(_) => {
            format!("process {pid} is another user's, and so is its stack: ask as that user, or with sudo")
        }
    }
}

/// Returns every answer of every running stack that the caller may ask, with its process number, and names the others
/// on the standard error stream.
///
/// # Errors
/// No stack runs, or none may be asked, or one refuses the question.
pub(crate) fn answers(pid: Option<u32>, question: &str) -> Result<Vec<(u32, Value)>, Box<dyn Error>> {
    answers_among(running(pid)?, question)
}

/// As [`answers`], of the stacks in the caller's network namespace, unless the caller names a process or a directory.
pub(crate) fn answers_here(pid: Option<u32>, question: &str) -> Result<Vec<(u32, Value)>, Box<dyn Error>> {
    let found = running(pid)?;
    if pid.is_some() || std::env::var_os("MILLSTREAM_RUN").is_some_and(|dir| !dir.is_empty()) {
        return answers_among(found, question);
    }
    let namespace =
        |process: &str| std::fs::metadata(format!("/proc/{process}/ns/net")).map(|meta| meta.ino()).ok();
    let own = namespace("self");
    // Whose namespace the caller may not see is asked, and refuses.
    let is_here = |pid: u32| namespace(&pid.to_string()).is_none_or(|theirs| Some(theirs) == own);
    let (here, elsewhere): (Vec<_>, Vec<_>) = found.into_iter().partition(|(pid, _)| is_here(*pid));
    let remedy = format!("{} in other network namespaces: --all shows them", count(elsewhere.len()));
    if here.is_empty() {
        return Err(format!("no stack runs in this network namespace, {remedy}").into());
    }
    if !elsewhere.is_empty() {
        eprintln!("not shown: {remedy}");
    }
    answers_among(here, question)
}

fn count(stacks: usize) -> String {
    format!("{stacks} {}", if stacks == 1 { "process" } else { "processes" })
}

fn answers_among(found: Vec<(u32, PathBuf)>, question: &str) -> Result<Vec<(u32, Value)>, Box<dyn Error>> {
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    let count = found.len();
    for (pid, path) in found {
        match answers_of(pid, &path, question) {
            Ok(answers) => all.extend(answers),
            Err(e) => match e.downcast::<Unasked>().map(|unasked| *unasked) {
                Ok(Unasked::Refused(why)) => refused.push(why),
                Ok(other) => return Err(other.into()),
                Err(e) => return Err(e),
            },
        }
    }
    leftovers(&refused, count)?;
    Ok(all)
}

/// Names the stacks that refused the caller.
///
/// # Errors
/// All `count` stacks did.
pub(crate) fn leftovers(refused: &[String], count: usize) -> Result<(), String> {
    if !refused.is_empty() && refused.len() == count {
        return Err(refused.join("\n"));
    }
    refused.iter().for_each(|why| eprintln!("not shown: {why}"));
    Ok(())
}

/// Returns every answer of one stack, none if its process is gone.
pub(crate) fn answers_of(pid: u32, path: &Path, question: &str) -> Result<Vec<(u32, Value)>, Box<dyn Error>> {
    let socket = match ask(pid, path, question) {
        Err(Unasked::Gone) => return Ok(Vec::new()),
        socket => socket?,
    };
    let mut all = Vec::new();
    for line in BufReader::new(socket).lines() {
        let line = line.map_err(|e| match e.kind() {
            ErrorKind::WouldBlock => {
                format!("process {pid} does not answer ({} s); is it stopped?", SILENCE.as_secs())
            }
            _ => format!("{}: {e}", path.display()),
        })?;
        let mut value: Value = serde_json::from_str(&line)?;
        if let Some(error) = value["error"].as_str() {
            return Err(error.to_string().into());
        }
        value["pid"] = pid.into();
        all.push((pid, value));
    }
    Ok(all)
}
