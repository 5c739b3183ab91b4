//! Goal: a directory that another user could write is refused, and the error says which and what to do.
use super::*;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

fn named(dir: &Path) -> Places {
    Places { named: Some(dir.to_owned()), session: None }
}

#[test]
fn a_directory_that_others_may_write_is_refused() {
    let dir = std::env::temp_dir().join(format!("ms-places-{}", std::process::id()));
    let places = named(&dir);
    assert_eq!(places.prepare().expect("it is made"), dir);
    assert_eq!(fs::metadata(&dir).expect("it is there").mode() & 0o022, 0);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("a mode");
    let why = places.prepare().expect_err("others may write").to_string();
    assert!(why.contains(&dir.display().to_string()) && why.contains("chmod go-w"), "{why}");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777)).expect("a mode");
    places.prepare().expect("sockets of one user are not another's to replace");
    fs::write(dir.join("1.sock"), "").expect("a file");
    fs::write(dir.join("other"), "").expect("a file");
    assert_eq!(places.sockets(), [(1, dir.join("1.sock"))]);
    fs::remove_dir_all(&dir).expect("it is there");
    fs::write(&dir, "").expect("a file");
    let why = places.prepare().expect_err("a file is no directory").to_string();
    assert!(why.contains(&dir.display().to_string()), "{why}");
    fs::remove_file(&dir).expect("it is there");
}

#[test]
fn what_killed_processes_leave_is_not_listed_and_swept() {
    let dir = std::env::temp_dir().join(format!("ms-swept-{}", std::process::id()));
    let places = named(&dir);
    places.prepare().expect("it is made");
    let mut child = std::process::Command::new("true").spawn().expect("a process");
    let gone = child.id();
    child.wait().expect("it ends");
    let path = |number: u32| dir.join(format!("{number}.sock"));
    // One of a process in another PID namespace answers.
    let elsewhere = UnixListener::bind(path(u32::MAX)).expect("a socket");
    let own = UnixListener::bind(path(std::process::id())).expect("a socket");
    drop(UnixListener::bind(path(gone)).expect("a socket"));
    let there = [std::process::id(), u32::MAX].map(|number| (number, path(number)));
    assert_eq!(places.sockets(), there);
    assert!(path(gone).exists(), "who looks removes nothing");
    sweep(&dir);
    assert!(!path(gone).exists());
    assert_eq!(places.sockets(), there);
    drop((elsewhere, own));
    fs::remove_dir_all(&dir).expect("it is there");
}

#[test]
fn a_session_of_another_user_is_not_used() {
    if unix_socket::own_user() != 0 {
        return eprintln!("skipped: only root is sure that /proc/1 and a user's directory differ");
    }
    let dir = std::env::temp_dir().join(format!("ms-session-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    let places = Places { named: None, session: Some(dir.clone()) };
    assert_eq!(places.directory(), dir.join("millstream"));
    std::os::unix::fs::chown(&dir, Some(65_534), None).expect("root may");
    assert_eq!(places.directory(), Path::new(SYSTEM));
    fs::remove_dir_all(&dir).expect("it is there");
}
