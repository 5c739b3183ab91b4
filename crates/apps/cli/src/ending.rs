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
mod tests;
