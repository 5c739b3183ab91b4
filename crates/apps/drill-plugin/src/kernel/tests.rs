//! Goal: a thread that waits for another is told from one that runs or waits for time.
use super::*;
use std::sync::mpsc::channel;

/// The line that tells this eventfd from every other one (proc(5)); nothing where the number stands for no eventfd.
fn eventfd_id(number: i32) -> Option<String> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    info.lines().find(|line| line.starts_with("eventfd-id:")).map(str::to_owned)
}

#[test]
fn descriptors_are_the_kernels_own() {
    let number = descriptor().unwrap();
    let ours = eventfd_id(number);
    assert!(ours.is_some());
    close(number);
    // The kernel may have given the number to another thread at once.
    assert_ne!(eventfd_id(number), ours);
}

#[test]
fn who_waits_for_whom() {
    assert!(!Thread::this().waits_for_another(), "this thread runs");
    let (here, there) = channel();
    let (release, hold) = channel::<()>();
    let thread = std::thread::spawn(move || {
        here.send(Thread::this()).unwrap();
        let _ = hold.recv();
    });
    let other = there.recv().unwrap();
    let seen = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        other.waits_for_another()
    });
    assert!(seen, "it waits for the channel");
    assert!(!other.is_gone());
    drop(release);
    thread.join().unwrap();
    let gone = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(2));
        other.is_gone()
    });
    assert!(gone, "it has ended");
}
