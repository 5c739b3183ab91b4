//! Capabilities of this process where it is: root has them, and who is root in a user namespace (user_namespaces(7)).

/// May this process make and configure interfaces where it is?
pub fn is_privileged() -> bool {
    has_capability(CAP_NET_ADMIN)
}

/// The right to change interfaces, addresses and routes (capabilities(7)).
pub const CAP_NET_ADMIN: u32 = 12;
/// The right to packet sockets.
pub const CAP_NET_RAW: u32 = 13;
/// The right to lock memory beyond the limit.
pub const CAP_IPC_LOCK: u32 = 14;
/// The right to load BPF programs.
pub const CAP_BPF: u32 = 39;

/// Returns true if this thread has the capability with this number in effect (capabilities(7)).
pub fn has_capability(number: u32) -> bool {
    crate::user::effective()
        .is_ok_and(|rights| 1_u64.checked_shl(number).is_some_and(|bit| rights & bit != 0))
}
