//! A network of one's own without being root: a user namespace in which this process is root over a fresh
//! network namespace (user_namespaces(7)).

use std::fmt;
use std::io;

/// Why a process could not have a network of its own.
#[derive(Debug)]
#[non_exhaustive]
pub enum UsernsError {
    /// The process has more than one thread already: enter first thing in `main`.
    Threads,
    /// The machine's owner does not allow it.
    Forbidden,
    /// Too many namespaces exist.
    TooMany,
    /// Anything else the kernel said, and at what.
    Os {
        /// Attempted action.
        doing: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
}

impl fmt::Display for UsernsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UsernsError::Threads => {
                f.write_str("a process must enter a user namespace before it starts threads")
            }
            UsernsError::Forbidden => f.write_str(
                "this machine forbids user namespaces to ordinary users; allow them with \
                 `sysctl kernel.unprivileged_userns_clone=1` or \
                 `sysctl kernel.apparmor_restrict_unprivileged_userns=0` (as root), or run as root",
            ),
            UsernsError::TooMany => {
                f.write_str("no more user namespaces; raise `sysctl user.max_user_namespaces` (as root)")
            }
            UsernsError::Os { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for UsernsError {}

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

/// Enter a new user namespace as its root, with a new network namespace whose loopback interface is up.
/// Everything started afterwards lives there too and sees nothing of the machine's network. It ends with its
/// last process.
pub fn enter() -> Result<(), UsernsError> {
    // SAFETY: these two only ask for numbers.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: changes the namespaces of this process and touches no memory.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) } != 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::EINVAL) => UsernsError::Threads,
            Some(libc::EPERM | libc::EACCES) => UsernsError::Forbidden,
            Some(libc::ENOSPC | libc::EUSERS) => UsernsError::TooMany,
            _ => UsernsError::Os { doing: "unshare", error },
        });
    }
    let write = |path: &'static str, text: String| match std::fs::write(path, text) {
        // Some kernels let a namespace be entered but leave it powerless (AppArmor): the maps are then
        // refused.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(UsernsError::Forbidden),
        Err(error) => Err(UsernsError::Os { doing: path, error }),
        Ok(()) => Ok(()),
    };
    // Before an ordinary user may map a group, setgroups must be given up.
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    const LOOPBACK: u32 = 1;
    crate::netlink::set_link(LOOPBACK, true, None).map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => UsernsError::Forbidden,
        _ => UsernsError::Os { doing: "bring the loopback interface up", error },
    })
}
