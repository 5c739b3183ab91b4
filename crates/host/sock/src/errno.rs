//! POSIX error numbers: they exist only here and at the APIs. Below, errors are small enums.

use stack::OpError;

macro_rules! errnos {
    ($($name:ident = $value:expr, $text:literal;)+) => {
        /// A POSIX error number, as the socket calls of Linux give them.
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct Errno(i32);

        impl Errno {
            $(#[doc = $text] pub const $name: Errno = Errno($value);)+

            /// The symbolic name, `EAGAIN`.
            pub fn name(self) -> &'static str {
                match self.0 { $(v if v == $value => stringify!($name),)+ _ => "E?" }
            }

            /// Returns the message of the error.
            pub fn text(self) -> &'static str {
                match self.0 { $(v if v == $value => $text,)+ _ => "unknown error" }
            }
        }
    };
}

errnos! {
    EPERM = libc::EPERM, "not permitted";
    EAGAIN = libc::EAGAIN, "would block; try again";
    EBADF = libc::EBADF, "bad descriptor";
    EINVAL = libc::EINVAL, "invalid argument";
    EFAULT = libc::EFAULT, "buffer too small";
    ENOTSOCK = libc::ENOTSOCK, "not a socket";
    EOPNOTSUPP = libc::EOPNOTSUPP, "operation not supported by this descriptor";
    ENOPROTOOPT = libc::ENOPROTOOPT, "no such option";
    EAFNOSUPPORT = libc::EAFNOSUPPORT, "address family not supported";
    EADDRINUSE = libc::EADDRINUSE, "address in use";
    EADDRNOTAVAIL = libc::EADDRNOTAVAIL, "address not available";
    EACCES = libc::EACCES, "permission denied";
    ENETUNREACH = libc::ENETUNREACH, "network unreachable";
    EHOSTUNREACH = libc::EHOSTUNREACH, "host unreachable";
    ENETDOWN = libc::ENETDOWN, "the interface is down";
    ENOBUFS = libc::ENOBUFS, "out of buffers";
    EISCONN = libc::EISCONN, "already connected";
    ENOTCONN = libc::ENOTCONN, "not connected";
    EALREADY = libc::EALREADY, "already connecting";
    EINPROGRESS = libc::EINPROGRESS, "connecting";
    ECONNREFUSED = libc::ECONNREFUSED, "connection refused";
    ECONNRESET = libc::ECONNRESET, "connection reset by peer";
    ECONNABORTED = libc::ECONNABORTED, "connection aborted";
    ETIMEDOUT = libc::ETIMEDOUT, "timed out";
    EPIPE = libc::EPIPE, "this half of the connection is closed";
    EDESTADDRREQ = libc::EDESTADDRREQ, "destination address required";
    EMFILE = libc::EMFILE, "too many descriptors";
    EEXIST = libc::EEXIST, "already there";
    ENOENT = libc::ENOENT, "no such thing";
    ELOOP = libc::ELOOP, "epoll descriptors watch each other in a circle or too deep";
    ENODEV = libc::ENODEV, "no such device";
    ERANGE = libc::ERANGE, "beyond the bounds of what is set";
    EDOM = libc::EDOM, "value out of range";
    EINTR = libc::EINTR, "interrupted";
    EIO = libc::EIO, "input/output error";
    EMSGSIZE = libc::EMSGSIZE, "too long";
    EKEYREJECTED = libc::EKEYREJECTED, "the peer has a key of another kind, or none where one is required";
    EBUSY = libc::EBUSY, "in use";
    ENOMEM = libc::ENOMEM, "too many of them";
    ENOMSG = libc::ENOMSG, "no message of this kind: a report, not an error";
}

impl Errno {
    /// The number.
    pub const fn raw(self) -> i32 {
        self.0
    }
}

impl core::fmt::Debug for Errno {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl core::fmt::Display for Errno {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({})", self.text(), self.name())
    }
}

impl std::error::Error for Errno {}

impl From<Errno> for std::io::Error {
    fn from(e: Errno) -> Self {
        std::io::Error::from_raw_os_error(e.0)
    }
}

impl From<OpError> for Errno {
    fn from(e: OpError) -> Self {
        match e {
            OpError::AddrInUse => Errno::EADDRINUSE,
            OpError::AddrNotAvailable => Errno::EADDRNOTAVAIL,
            OpError::Denied => Errno::EACCES,
            OpError::NetUnreachable => Errno::ENETUNREACH,
            OpError::NoBuffers => Errno::ENOBUFS,
            OpError::NoDescriptors => Errno::EMFILE,
            OpError::Family => Errno::EAFNOSUPPORT,
            OpError::NoControl => Errno::ENOENT,
            OpError::UnfairControl => Errno::EPERM,
            OpError::KeyRejected => Errno::EKEYREJECTED,
            OpError::Over => Errno::ENETDOWN,
            _ => Errno::EINVAL,
        }
    }
}

impl From<tcp::Error> for Errno {
    fn from(e: tcp::Error) -> Self {
        match e {
            tcp::Error::Refused => Errno::ECONNREFUSED,
            tcp::Error::Reset => Errno::ECONNRESET,
            tcp::Error::TimedOut => Errno::ETIMEDOUT,
            tcp::Error::HostUnreachable => Errno::EHOSTUNREACH,
            tcp::Error::NetUnreachable => Errno::ENETUNREACH,
            tcp::Error::Aborted => Errno::ECONNABORTED,
            tcp::Error::BrokenPipe => Errno::EPIPE,
            tcp::Error::NetDown => Errno::ENETDOWN,
        }
    }
}
