//! Rows about sockets of Multipath TCP.

use super::row::{CALLS, Kind, Row};

/// The rows. A pattern is as narrow as its reason.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "the protocol of a Multipath TCP socket",
        kind: Kind::Calls { goes_on: true },
        key: "getsockopt SO_PROTOCOL, of Multipath TCP: 0 len ? 0x0601* | 0 len ? 0x0600*",
        reason: "RFC 8684, section 3.7, has a host do without Multipath TCP where the other one does not have it. Here \
                 a socket of IPPROTO_MPTCP is one of TCP from the beginning, and `SO_PROTOCOL` tells so.",
    },
    Row {
        name: "ioctl of a Multipath TCP socket",
        kind: Kind::Calls { goes_on: true },
        key: "ioctl 0x????, of Multipath TCP: * | 0 0",
        reason: "Linux's Multipath TCP has no `SIOCATMARK`, and its `FIONREAD` tells of a byte where there is no \
                 connection. Here the socket is one of TCP (RFC 8684, section 3.7).",
    },
    Row {
        name: "errors of options of a Multipath TCP socket",
        kind: Kind::Calls { goes_on: true },
        key: "?etsockopt *, of Multipath TCP: -1 E* | -1 E*",
        reason: "Linux looks for the option and at the value in another order than for TCP, which the socket is here \
                 (RFC 8684, section 3.7).",
    },
    Row {
        name: "options of a Multipath TCP socket",
        kind: Kind::Calls { goes_on: true },
        key: "?etsockopt *, of Multipath TCP: -1 EOPNOTSUPP | *",
        reason: "Linux knows few options of such a socket. Here it is one of TCP (RFC 8684, section 3.7), with all of \
                 TCP's.",
    },
    Row {
        name: "options of IPv6 of a Multipath TCP socket of IPv4",
        kind: Kind::Calls { goes_on: true },
        key: "getsockopt IPV6_*, of Multipath TCP: 0 len * | -1 EOPNOTSUPP",
        reason: "Linux tells some options of IPv6, such as `IPV6_V6ONLY`, of such a socket of IPv4, too. Here it is \
                 one of TCP (RFC 8684, section 3.7), which has none of that level.",
    },
    Row {
        name: "keepalive values of a Multipath TCP socket",
        kind: CALLS,
        key: "setsockopt TCP_KEEP*, of Multipath TCP: 0 | -1 EINVAL",
        reason: "Linux looks at these values only when such a socket has a connection. Here it is one of TCP (RFC \
                 8684, section 3.7), which looks at once.",
    },
    Row {
        name: "reads of nothing from a Multipath TCP socket",
        kind: CALLS,
        key: "rec* of *, of Multipath TCP: *0* | -1 ENOTCONN",
        reason: "Linux does not look at the state of such a socket for a read of nothing. Here it is one of TCP (RFC \
                 8684, section 3.7), which does.",
    },
    Row {
        name: "MSG_OOB of a Multipath TCP socket",
        kind: CALLS,
        key: "rec*MSG_OOB*, of Multipath TCP: *-1 ENOTCONN | *-1 EINVAL",
        reason: "Linux does not look at the flag for such a socket. Here it is one of TCP (RFC 8684, section 3.7), of \
                 which it is EINVAL where there is no urgent data.",
    },
];
