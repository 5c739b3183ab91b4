//! The tool asks the kernel, not its plug-in, for the TCP_INFO that a script's `%{ }%` is about, and gives a script's
//! shell lines to a shell, which changes the machine. With the library in LD_PRELOAD as well, these functions stand
//! before the C library's: the plug-in answers for its descriptors, and sysctls, routes and queues are its stack's.

use crate::interface;
use crate::kernel;
use crate::memory::{self, Errno};
use crate::plug::Plug;
use libc::{c_char, c_int, c_void, socklen_t};
use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The plug-in of this process; a tool has one at a time.
static LIVE: Mutex<Weak<Plug>> = Mutex::new(Weak::new());

/// This plug-in answers from now on.
pub(crate) fn announce(plug: &Arc<Plug>) {
    *LIVE.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(plug);
}

/// system(3): what a script's shell line asks for happens to the plug-in's stack; a line that it does not understand is
/// the machine's.
///
/// # Safety
/// As system(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn system(command: *const c_char) -> c_int {
    /// Status in waitpid(2) of a shell that ended with 1.
    const FAILED: c_int = 1 << 8;
    let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    // SAFETY: the caller's contract: nothing, or a string.
    let line =
        (!command.is_null()).then(|| unsafe { CStr::from_ptr(command) }).and_then(|line| line.to_str().ok());
    if let (Some(plug), Some(line)) = (live, line) {
        match plug.shell(line) {
            Ok(true) => return 0,
            Ok(false) => {}
            Err(why) => {
                eprintln!("millstream_drill: `{line}`: {why}");
                return FAILED;
            }
        }
    }
    kernel::system(command)
}

/// getsockopt(2): the plug-in's for its descriptors, the kernel's for all others.
///
/// # Safety
/// As getsockopt(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    let Some(plug) = live.filter(|plug| plug.has(fd)) else {
        return kernel::getsockopt(fd, level, name, value as usize, len as usize);
    };
    interface::guarded("getsockopt", || {
        // SAFETY: the caller's contract.
        let bytes = interface::option(&plug, fd, level, name, unsafe { memory::value(len) }? as usize)?;
        // SAFETY: the caller's contract.
        let put: Result<(), Errno> = unsafe { memory::put_sized(&bytes, value, len) };
        put.map(|()| 0)
    }) as c_int
}
