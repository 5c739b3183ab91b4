//! Descriptors, families, and the events of epoll and poll.

/// A descriptor of one [`crate::Sockets`]; not a kernel descriptor.
pub type Fd = i32;

/// Address family of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// AF_INET.
    V4,
    /// AF_INET6; speaks IPv4 too unless IPV6_V6ONLY is set.
    V6,
}

/// Readiness bits of epoll and poll, with Linux's values.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ready(pub u32);

impl Ready {
    /// Nothing.
    pub const NONE: Ready = Ready(0);
    /// EPOLLIN: data, the peer's end, or a connection to accept.
    pub const IN: Ready = Ready(0x001);
    /// EPOLLOUT: room to write.
    pub const OUT: Ready = Ready(0x004);
    /// EPOLLERR: an error is pending; always reported.
    pub const ERR: Ready = Ready(0x008);
    /// EPOLLHUP: both directions are over; always reported.
    pub const HUP: Ready = Ready(0x010);
    /// EPOLLRDHUP: the peer closed its direction.
    pub const RDHUP: Ready = Ready(0x2000);
    /// EPOLLET: report edges, not levels.
    pub const EDGE: Ready = Ready(1 << 31);
    /// EPOLLONESHOT: report once, then stay silent until modified.
    pub const ONESHOT: Ready = Ready(1 << 30);
    /// POLLNVAL: not a descriptor (poll only).
    pub const INVALID: Ready = Ready(0x020);
    /// EPOLLEXCLUSIVE: cannot be modified, and goes with few other bits; here one waits for each socket anyway.
    pub const EXCLUSIVE: Ready = Ready(1 << 28);
    /// Other names of IN and OUT, EPOLLRDNORM and EPOLLWRNORM, stand so many places above them.
    const NAMES: u32 = 6;

    /// Any bit of `other`?
    pub const fn any(self, other: Ready) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds the other names of IN and OUT.
    pub(crate) const fn in_all_names(self) -> Ready {
        Ready(self.0 | (self.0 & (Ready::IN.0 | Ready::OUT.0)) << Ready::NAMES)
    }

    /// Adds EPOLLPRI, EPOLLRDBAND and EPOLLWRBAND to edges: on Linux data and room wake those that watch for these.
    pub(crate) const fn with_urgent(self) -> Ready {
        let data = if self.any(Ready::IN) { 0x082 } else { 0 };
        Ready(self.0 | data | if self.any(Ready::OUT) { 0x200 } else { 0 })
    }

    /// May an epoll set watch for this with EPOLLEXCLUSIVE?
    pub(crate) const fn may_be_exclusive(self) -> bool {
        let known = Ready::IN.0 | Ready::OUT.0 | Ready::ERR.0 | Ready::HUP.0 | Ready::EDGE.0;
        self.0 & !(known | Ready::EXCLUSIVE.0) == 0
    }
}

impl core::ops::BitOr for Ready {
    type Output = Ready;
    fn bitor(self, rhs: Ready) -> Ready {
        Ready(self.0 | rhs.0)
    }
}

impl core::ops::BitAnd for Ready {
    type Output = Ready;
    fn bitand(self, rhs: Ready) -> Ready {
        Ready(self.0 & rhs.0)
    }
}

impl core::ops::BitOrAssign for Ready {
    fn bitor_assign(&mut self, rhs: Ready) {
        self.0 |= rhs.0;
    }
}

/// An event of [`crate::Sockets::epoll_wait`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EpollEvent {
    /// Ready events.
    pub ready: Ready,
    /// The user's word.
    pub data: u64,
}

/// Operation of [`crate::Sockets::epoll_ctl`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpollOp {
    /// Watch a descriptor for these bits.
    Add(EpollEvent),
    /// Watch it for other bits.
    Modify(EpollEvent),
    /// Watch it no more.
    Delete,
}

/// One row of [`crate::Sockets::poll`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PollFd {
    /// The descriptor; negative ones are skipped.
    pub fd: Fd,
    /// Requested events.
    pub interest: Ready,
    /// Returned events.
    pub ready: Ready,
}
