//! The program's limit of address space (RLIMIT_AS). What the stack maps in the program's process is not the program's:
//! its pools and the memory that groups share take 60 MB of addresses at first, most of which no page is ever behind,
//! and more with its connections. So a program that limits itself has that much more, and is told what it has set.

use crate::real;
use crate::{relay, stack};
use capi::memory::is_nowhere;
use libc::{RLIM_INFINITY, c_int, c_uint, pid_t, rlim_t, rlimit};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Addresses that the stack of a process may take, and what its parent's took.
const RESERVE: rlim_t = 1 << 30;

/// How much the kernel's soft and hard limits are above what the program has set.
static ABOVE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

fn is_own(pid: pid_t) -> bool {
    pid == 0 || u32::try_from(pid) == Ok(std::process::id())
}

/// The program's limit as the kernel has to have it; `None` where the kernel is to refuse it.
fn raised(asked: rlimit, now: rlimit) -> Option<rlimit> {
    let told = told(now);
    if asked.rlim_cur > asked.rlim_max || asked.rlim_max > told.rlim_max && told.rlim_max != RLIM_INFINITY {
        return None;
    }
    // Infinity is the largest number.
    let hard = asked.rlim_max.saturating_add(RESERVE).min(now.rlim_max);
    Some(rlimit { rlim_cur: asked.rlim_cur.saturating_add(RESERVE).min(hard), rlim_max: hard })
}

/// The kernel's limit as the program has set it.
fn told(now: rlimit) -> rlimit {
    let less = |limit: rlim_t, above: &AtomicU64| match limit {
        RLIM_INFINITY => limit,
        limit => limit.saturating_sub(above.load(Ordering::Relaxed)),
    };
    rlimit { rlim_cur: less(now.rlim_cur, &ABOVE[0]), rlim_max: less(now.rlim_max, &ABOVE[1]) }
}

/// The C library's functions.
type Both = unsafe fn(pid_t, c_uint, *const rlimit, *mut rlimit) -> c_int;
type Set = unsafe fn(c_uint, *const rlimit) -> c_int;
type Get = unsafe fn(c_uint, *mut rlimit) -> c_int;

/// A program that forbids itself new processes forbids the stack its threads: the last of them is made before.
fn before_limit(resource: c_uint, new: *const rlimit) {
    if resource == libc::RLIMIT_NPROC && !new.is_null() && stack::opened().is_some() {
        relay::begin_thread();
    }
}

/// # Safety
/// C's contract of prlimit(2), whose way to the C library is `real`.
unsafe fn both(pid: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit, real: Both) -> c_int {
    // SAFETY: the caller's arguments.
    let kernels = |new: *const rlimit| unsafe { real(pid, resource, new, old) };
    if is_own(pid) {
        before_limit(resource, new);
    }
    if resource != libc::RLIMIT_AS || !is_own(pid) || !stack::is_launched() {
        return kernels(new);
    }
    let mut before = rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `before` is writable.
    if unsafe { real(0, resource, null(), &raw mut before) } != 0 {
        return kernels(new);
    }
    // What leads nowhere is the kernel's to complain of.
    // SAFETY: C's contract.
    let asked = (!is_nowhere(new)).then(|| unsafe { new.read_unaligned() });
    let raised = asked.and_then(|asked| raised(asked, before));
    let done = kernels(raised.as_ref().map_or(new, |raised| raised));
    if done != 0 {
        return done;
    }
    if !is_nowhere(old) {
        // SAFETY: C's contract; the kernel has just written there.
        unsafe { old.write_unaligned(told(before)) };
    }
    if let Some(asked) = asked {
        let set = raised.unwrap_or(asked);
        ABOVE[0].store(set.rlim_cur - asked.rlim_cur, Ordering::Relaxed);
        ABOVE[1].store(set.rlim_max - asked.rlim_max, Ordering::Relaxed);
    }
    done
}

/// # Safety
/// C's contract of setrlimit(2).
unsafe fn set(resource: c_uint, new: *const rlimit, real: Set) -> c_int {
    let ours = resource == libc::RLIMIT_AS && !new.is_null();
    before_limit(resource, new);
    // SAFETY: the caller's arguments.
    unsafe { if ours { both(0, resource, new, null_mut(), real::prlimit) } else { real(resource, new) } }
}

/// # Safety
/// C's contract of getrlimit(2).
unsafe fn get(resource: c_uint, old: *mut rlimit, real: Get) -> c_int {
    let ours = resource == libc::RLIMIT_AS && !old.is_null();
    // SAFETY: the caller's arguments.
    unsafe { if ours { both(0, resource, null(), old, real::prlimit) } else { real(resource, old) } }
}

pub(crate) unsafe fn setrlimit(resource: c_uint, new: *const rlimit) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { set(resource, new, real::setrlimit) }
}

pub(crate) unsafe fn getrlimit(resource: c_uint, old: *mut rlimit) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { get(resource, old, real::getrlimit) }
}

pub(crate) unsafe fn prlimit(pid: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { both(pid, resource, new, old, real::prlimit) }
}

pub(crate) unsafe fn setrlimit64(resource: c_uint, new: *const rlimit) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { set(resource, new, real::setrlimit64) }
}

pub(crate) unsafe fn getrlimit64(resource: c_uint, old: *mut rlimit) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { get(resource, old, real::getrlimit64) }
}

pub(crate) unsafe fn prlimit64(pid: pid_t, resource: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { both(pid, resource, new, old, real::prlimit64) }
}

#[cfg(test)]
mod tests;
