//! Goal: a process that became a user has the rights of its link and no others, and so have its programs.
use super::*;
use crate::open::kind::{RAW, STEER};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Returns a program's view of its rights after `change`: a line for each set of rights.
fn seen(change: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Option<String> {
    if !is_root() {
        eprintln!("skipped: only root can become another user");
        return None;
    }
    let mut command = Command::new("grep");
    command.args(["-E", "^(Uid|Cap(Prm|Eff|Amb))", "/proc/self/status"]);
    // SAFETY: between fork and exec, in a child whose other threads are gone; what allocates there is glibc's
    // malloc, which a fork leaves usable.
    unsafe {
        command.pre_exec(change);
    }
    let output = command.output().expect("grep runs");
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// They belong to the unprivileged user, and have these rights.
fn check_seen(seen: &str, rights: Rights) {
    let uid = seen.lines().find(|line| line.starts_with("Uid")).expect("a line");
    assert!(!uid.split_whitespace().any(|uid| uid == "0"), "{uid}");
    let sets: Vec<_> = seen.lines().filter_map(|line| line.strip_prefix("Cap")).collect();
    assert_eq!(sets.len(), 3, "{seen}");
    for set in sets {
        assert!(set.ends_with(&format!("{rights:016x}")), "{set}");
    }
}

#[test]
fn rights_are_the_links_and_no_more() {
    let user = User::called("nobody").expect("every system has it");
    let links = [("packet:eth0", RAW), ("xdp:eth0,mode=generic", STEER), ("shm:/x", NO_RIGHTS)];
    for (link, rights) in
        links.map(|(link, rights)| (Some(link), rights)).into_iter().chain([(None, NO_RIGHTS)])
    {
        let user = user.clone();
        let enter = move || user.enter(link).map_err(|e| io::Error::other(e.to_string()));
        let Some(seen) = seen(enter) else { return };
        check_seen(&seen, rights);
    }
}

#[test]
fn who_gives_up_root_keeps_the_links_rights_and_its_programs_do_not() {
    let give_up = || {
        // SAFETY: numbers alone.
        let refused = give_up_root("nic:eth0", || unsafe { libc::setresuid(u32::MAX - 1, 0, 1) });
        // SAFETY: as above.
        let done = give_up_root("nic:eth0", || unsafe { libc::setuid(65_534) });
        let status = std::fs::read_to_string("/proc/thread-self/status")?;
        let held = |set| status.contains(&format!("{set}:\t{STEER:016x}"));
        let all = done == 0 && refused == 0 && held("CapPrm") && held("CapEff");
        if all { Ok(()) } else { Err(io::Error::other(status)) }
    };
    if let Some(seen) = seen(give_up) {
        check_seen(&seen, NO_RIGHTS);
    }
}

#[test]
fn users_that_there_are_not() {
    let refused = User::called("no such user").expect_err("there is none").to_string();
    assert!(refused.contains("no such user"), "{refused}");
    assert!(User::called("a\0b").is_err());
}
