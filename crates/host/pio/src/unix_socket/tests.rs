//! Goal: a socket is private from its first moment, and each end learns the other's user.
use super::*;

#[test]
fn a_listener_that_does_not_accept_is_not_waited_for() {
    let path = std::env::temp_dir().join(format!("ms-full-{}", std::process::id()));
    let _listener = listen_privately(&path).expect("a socket");
    let mut waiting = Vec::new();
    let full = loop {
        match connect(&path) {
            Ok(stream) => waiting.push(stream),
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    assert!(waiting.len() >= BACKLOG as usize);
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!(connect(&path).expect_err("it is gone").kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_socket_is_private_whatever_the_umask() {
    let path = std::env::temp_dir().join(format!("ms-local-{}", std::process::id()));
    // SAFETY: a number; the umask of this process matters to no other test here.
    let before = unsafe { libc::umask(0) };
    let listener = listen_privately(&path);
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    let listener = listener.expect("a listener");
    assert_eq!(std::fs::symlink_metadata(&path).expect("a socket").mode() & 0o777, PRIVATE);
    let client = UnixStream::connect(&path).expect("it listens");
    let (server, _) = listener.accept().expect("a client");
    assert_eq!(peer_user(&client).expect("a user"), own_user());
    assert_eq!(peer_user(&server).expect("a user"), own_user());
    std::fs::remove_file(&path).expect("it is there");
}

#[test]
fn a_path_that_is_too_long_is_said_to_be() {
    let refused = listen_privately(Path::new(&"x".repeat(200))).expect_err("too long");
    assert!(refused.to_string().contains("at most 107"), "{refused}");
}

#[test]
fn users_have_names() {
    assert_eq!(user_name(0), "user root");
    assert_eq!(user_name(4_000_000_000), "user 4000000000");
}
