//! Options that a program sets before it is decided whose the socket becomes, and that the stack's socket gets then.

use crate::boundary::say;
use crate::description::StoredOption;
use crate::stack::Stack;
use crate::{option_names, report};
use libc::c_int;
use sock::{Errno, Sockets};
use std::sync::{Mutex, PoisonError};

/// Sets on the stack's socket what the kernel has taken for the program's. What the stack does not know is told once.
pub(crate) fn set_again(stack: &Stack, below: c_int, stored_options: &[StoredOption]) -> Result<(), Errno> {
    for stored in stored_options {
        // The stack has one device.
        if is_device(stored.level, stored.name) {
            continue;
        }
        match stack.runner.setsockopt(below, stored.level, stored.name, &stored.value) {
            Ok(()) => {}
            Err(Errno::EBADF) => return Err(Errno::EBADF),
            Err(errno) => tell_once(stored.level, stored.name, errno.name()),
        }
    }
    Ok(())
}

pub(crate) fn tell_once(level: c_int, name: c_int, why: &str) {
    static TOLD: Mutex<Vec<(c_int, c_int)>> = Mutex::new(Vec::new());
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if !told.contains(&(level, name)) {
        told.push((level, name));
        let option = option_names::of(level, name);
        say(&format!("{option} holds for the kernel's sockets alone: {why}"));
        report::fell_back(&option, "the stack does not know this option");
    }
}

/// Returns true if the option names a socket's device.
pub(crate) fn is_device(level: c_int, name: c_int) -> bool {
    level == libc::SOL_SOCKET && matches!(name, libc::SO_BINDTODEVICE | libc::SO_BINDTOIFINDEX)
}

/// Returns the device among options that were set, or 0.
pub(crate) fn device_of(stored_options: &[StoredOption]) -> c_int {
    let named = stored_options.iter().find(|stored| is_device(stored.level, stored.name));
    named.and_then(|stored| stored.value.as_slice().try_into().ok()).map_or(0, c_int::from_ne_bytes)
}
