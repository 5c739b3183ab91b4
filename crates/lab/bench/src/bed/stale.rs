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
mod tests {
    //! Goal: what a killed process left is gone with the next bed, and what a living one has stays.
    use super::*;
    use crate::bed::Bed;
    use std::process::{Command, Stdio};

    #[test]
    fn a_bed_belongs_to_its_process() {
        let alive = |pid| pid == 7;
        for (name, stale) in [
            ("ms-bench-s-8-0", true),
            ("ms-bench-c-8-12", true),
            ("ms-bench-8-0", true),
            ("ms-bench-s-7-0", false),
            ("ms-bench-7-0", false),
            ("ms-bench-", false),
            ("ms-bench-s-8", false),
            ("ms-bench-peers-1", false),
            ("ms-other-8-0", false),
            ("8-0", false),
        ] {
            assert_eq!(is_stale(name, alive), stale, "{name}");
        }
        let listed: Vec<_> = names("ms-bench-s-8-0 (id: 3)\nblue\n").collect();
        assert_eq!(listed, ["ms-bench-s-8-0", "blue"]);
    }

    /// The number of a process that was and is no more.
    fn gone() -> u32 {
        let mut child = Command::new("true").stdin(Stdio::null()).spawn().expect("it runs");
        let pid = child.id();
        child.wait().expect("it ends");
        pid
    }

    #[test]
    fn what_a_killed_process_left_is_swept() {
        let Some(living) = Bed::if_root(true) else { return };
        let pid = gone();
        let (left, folder) = (format!("{PREFIX}s-{pid}-0"), format!("{PREFIX}{pid}-0"));
        let folder = std::env::temp_dir().join(folder);
        sh("ip", &["netns", "add", &left]).expect("a namespace");
        std::fs::create_dir_all(folder.join("deep")).expect("a folder");
        // A server that nothing ended; it would end by itself.
        let sleeps = ["netns", "exec", &left, "sleep", "60"];
        let mut server = Command::new("ip").args(sleeps).stdin(Stdio::null()).spawn().expect("it runs");
        let begun = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !sh("ip", &["netns", "pids", &left]).expect("a list").trim().is_empty()
        });
        assert!(begun);
        drop(Bed::new(true).expect("a bed"));
        let there: Vec<_> = names(&sh("ip", &["netns", "list"]).expect("a list")).collect();
        assert!(!there.contains(&left) && !folder.exists(), "{there:?}");
        assert!(there.contains(&living.server) && there.contains(&living.client) && living.dir.exists());
        assert!(!server.wait().expect("was ended").success());
    }
}
