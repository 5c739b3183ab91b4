//! Errors of operations.

/// An operation failed; the APIs turn it into errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OpError {
    /// EADDRINUSE.
    AddrInUse,
    /// EADDRNOTAVAIL: no such local address, or no ephemeral port left.
    AddrNotAvailable,
    /// EACCES.
    Denied,
    /// ENETUNREACH: no route.
    NetUnreachable,
    /// ENOBUFS: connections, TIME-WAIT entries or chunks are exhausted.
    NoBuffers,
    /// EMFILE: the process has no descriptors left for what keeps a port from the kernel.
    NoDescriptors,
    /// EINVAL.
    Invalid,
    /// EAFNOSUPPORT.
    Family,
    /// ENOENT: no such congestion control.
    NoControl,
    /// EPERM: this congestion control takes more than one flow's share, and that is not allowed here.
    UnfairControl,
    /// EKEYREJECTED: the peer has no key, and one is required.
    KeyRejected,
    /// ENETDOWN: a panic has ended the core.
    Over,
}
