//! Programs with more rights than their caller.

/// Returns true if this process has rights that the user who started it lacks: its file has capabilities or is
/// set-user-ID or set-group-ID (AT_SECURE).
///
/// Such a process must not do what its environment or arguments say where that would use the rights for something else:
/// it reads no settings from the environment and loads no code.
pub fn elevated() -> bool {
    // SAFETY: takes and returns a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
