//! Beds whose process was killed before it could take them away.
//!
//! A bed's namespaces and its folder are named after the process that made them, so one that no living process has is
//! out of use.

use super::sh;
use std::path::Path;

/// Prefix of every bed's namespaces and folder.
pub(super) const PREFIX: &str = "ms-bench-";

/// Takes away what beds of processes that are gone have left. Others may do the same at the same time, and what
/// belongs to another user stays, which standard error is told.
pub(super) fn sweep() {
    let list = || sh("ip", &["netns", "list"]).unwrap_or_default();
    for name in names(&list()).filter(|name| is_stale(name, is_alive)) {
        end_programs(&name);
        if let Err(error) = sh("ip", &["netns", "del", &name])
            && names(&list()).any(|left| left == name)
        {
            eprintln!("millstream-bench: of a process that is gone: {error}");
        }
    }
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        if is_stale(&entry.file_name().to_string_lossy(), is_alive)
            && let Err(error) = std::fs::remove_dir_all(entry.path())
            && error.kind() != std::io::ErrorKind::NotFound
        {
            eprintln!("millstream-bench: of a process that is gone: {}: {error}", entry.path().display());
        }
    }
}

/// Servers outlive a process that is killed, and keep the namespace alive.
fn end_programs(name: &str) {
    let running = sh("ip", &["netns", "pids", name]).unwrap_or_default();
    for pid in running.split_whitespace() {
        // It may have ended meanwhile; one that is another user's is told of with its namespace.
        let _ = sh("kill", &["-KILL", pid]);
    }
}

/// The namespaces that `ip netns list` lists.
fn names(list: &str) -> impl Iterator<Item = String> {
    list.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned)
}

/// Is it a bed's, of a process that is not `alive`? `ms-bench-s-PID-N`, `ms-bench-c-PID-N`, `ms-bench-PID-N`.
fn is_stale(name: &str, alive: impl Fn(u32) -> bool) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    let rest = rest.strip_prefix("s-").or_else(|| rest.strip_prefix("c-")).unwrap_or(rest);
    let Some((pid, number)) = rest.split_once('-') else { return false };
    match (pid.parse(), number.parse::<u32>()) {
        (Ok(pid), Ok(_)) => !alive(pid),
        _ => false,
    }
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests;
