//! The CPUs of a thread.

/// Returns the CPU of the calling thread, if it may run on one alone.
pub(crate) fn only_cpu() -> Option<usize> {
    match core_affinity::get_core_ids()?[..] {
        [cpu] => Some(cpu.id),
        _ => None,
    }
}

/// Puts the calling thread on CPU `cpu`; false if this machine has no such CPU for us.
pub fn pin_to(cpu: usize) -> bool {
    core_affinity::set_for_current(core_affinity::CoreId { id: cpu })
}
