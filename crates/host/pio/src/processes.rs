//! Processes that hold what a link needs: an XDP program of an interface, or queues of a tap.

use std::fmt;
use std::fs;
use std::path::Path;

/// A process that has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) command: String,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.command, self.pid)
    }
}

/// Most processes looked at, so that the answer comes while the user still waits for it.
const PROCESSES_MAX: usize = 50_000;

/// Processes of the caller's network namespace that hold an XDP link to interface `ifindex`, as far as we may look into
/// them. In another namespace another interface has that index.
pub(crate) fn holders(ifindex: u32) -> Vec<Process> {
    find("anon_inode:bpf_link", |fdinfo| is_link_to(fdinfo, ifindex))
}

/// Other processes of the caller's network namespace that have queues of a tap, as far as we may look into them.
pub(crate) fn tap_holders(name: &str) -> Vec<Process> {
    let mut all = find("/dev/net/tun", |fdinfo| field(fdinfo, "iff") == Some(name));
    all.retain(|holder| holder.pid != std::process::id());
    all
}

/// Processes of the caller's network namespace with a descriptor that leads `to` there and is described so.
fn find(to: &str, is: impl Fn(&str) -> bool) -> Vec<Process> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let here = fs::read_link("/proc/thread-self/ns/net").ok();
    // Threads of a process may be in several namespaces.
    let is_here = |process: &Path| {
        let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
        let mut namespaces = threads.map(|thread| fs::read_link(thread.path().join("ns/net")).ok());
        here.is_some() && namespaces.any(|namespace| namespace == here)
    };
    let pids =
        processes.take(PROCESSES_MAX).filter_map(|p| p.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let path = |pid: u32| Path::new("/proc").join(pid.to_string());
    pids.filter(|&pid| holds(&path(pid), to, &is) && is_here(&path(pid)))
        .map(|pid| Process { pid, command: command(pid) })
        .collect()
}

fn command(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).map_or_else(|_| "?".into(), |c| c.trim().to_owned())
}

fn holds(process: &Path, to: &str, is: impl Fn(&str) -> bool) -> bool {
    let Ok(fds) = fs::read_dir(process.join("fd")) else { return false };
    fds.flatten().any(|fd| {
        fs::read_link(fd.path()).is_ok_and(|there| there.as_os_str() == to)
            && fs::read_to_string(process.join("fdinfo").join(fd.file_name())).is_ok_and(|info| is(&info))
    })
}

/// Does the description of a BPF link say that it is an XDP one to this interface?
fn is_link_to(fdinfo: &str, ifindex: u32) -> bool {
    let number = field(fdinfo, "ifindex").and_then(|value| value.parse().ok());
    field(fdinfo, "link_type") == Some("xdp") && number == Some(ifindex)
}

/// The value of a line of a descriptor's description.
fn field<'t>(fdinfo: &'t str, name: &str) -> Option<&'t str> {
    let mut lines = fdinfo.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| *key == name).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests;
