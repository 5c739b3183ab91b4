//! The C library's own functions, which calls of the table lead to. Each is looked for when it is first called.

#![allow(non_snake_case, reason = "the C library's names")]

use crate::calls::{Destructor, Entry, List, Start, on_descriptors, others};
use capi::boundary::Failure;
use libc::{FILE, uid_t};
use libc::{
    c_char, c_int, c_long, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t,
    off_t, pid_t, pollfd, pthread_attr_t, pthread_t, rlimit, sighandler_t, sigset_t, size_t, sockaddr,
    socklen_t, ssize_t, stat, timespec, timeval,
};
use libc::{posix_spawn_file_actions_t, posix_spawnattr_t};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The C library's function of this name; NULL if it has none.
pub(crate) fn resolve(name: &CStr, slot: &AtomicPtr<c_void>) -> *mut c_void {
    // SAFETY: a string that ends in NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    slot.store(found, Ordering::Release);
    found
}

/// Returns the error of a call that this system's C library lacks.
fn missing<R: Failure>() -> R {
    set_errno(libc::ENOSYS);
    R::FAILURE
}

/// The calling thread's `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: the C library gives every thread an errno of its own.
    unsafe { *libc::__errno_location() }
}

/// Sets it.
pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

macro_rules! real {
    ($($text:literal $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty => $handler:path;)+) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name($($arg: $ty),*) -> $ret {
            static SLOT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name holds no NUL"),
            };
            let mut found = SLOT.load(Ordering::Acquire);
            if found.is_null() {
                found = resolve(NAME, &SLOT);
                if found.is_null() {
                    return missing();
                }
            }
            // SAFETY: the C library's function of this name has this type, and the caller keeps its contract.
            unsafe {
                let call: unsafe extern "C-unwind" fn($($ty),*) -> $ret = std::mem::transmute(found);
                call($($arg),*)
            }
        }
    )+};
}

on_descriptors!(real);
others!(real);
