//! Signals that ask a command to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Has each of `signals` set `stop`. The second one ends the process as if nothing handled it, so a command that hangs
/// can always be ended.
pub(crate) fn on(signals: &[i32], stop: &Arc<AtomicBool>) -> io::Result<()> {
    for &signal in signals {
        // In this order: the first signal finds the flag unset.
        signal_hook::flag::register_conditional_default(signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
}
