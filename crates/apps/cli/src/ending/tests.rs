//! Goal: the first signal is a request, the second one ends the process.
use super::*;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::Ordering;

#[test]
fn the_second_signal_always_ends_the_process() {
    const CHILD: &str = "MILLSTREAM_TEST_ENDING";
    if std::env::var_os(CHILD).is_some() {
        let stop = Arc::default();
        on(&[SIGINT, SIGTERM], &stop).unwrap();
        signal_hook::low_level::raise(SIGINT).unwrap();
        assert!(stop.load(Ordering::Relaxed));
        signal_hook::low_level::raise(SIGTERM).unwrap();
        unreachable!("it has ended");
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "ending::tests::the_second_signal_always_ends_the_process"]).env(CHILD, "1");
    assert_eq!(child.output().unwrap().status.signal(), Some(SIGTERM));
}
