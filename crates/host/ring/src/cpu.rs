//! Where a thread runs.

/// Returns the number of the CPU that this thread runs on, while it does.
pub fn current_cpu() -> Option<u32> {
    // SAFETY: takes nothing and only asks for a number.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(all(test, not(miri)))]
mod tests;
