//! Rows of programs of socket calls, in the order of the page.

use super::row::{CALLS, Kind, Row};

/// All rows of this kind. A predicate is as narrow as its reason.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "a call that sleeps holds its descriptor",
        kind: CALLS,
        key: "*, closed while a call slept: *",
        reason: "On Linux a call that sleeps in another thread keeps a closed connection open until it returns. Here \
                 close(2) closes, as its manual page warns under `Multithreaded processes and close()`.",
    },
    Row {
        name: "a reset within a call",
        kind: CALLS,
        key: "sendmmsg*: lens * | lens *",
        reason: "The second message meets the peer's reset for the first if that was processed by then. On veth, a \
                 link without a delay, it may be, on either side; sendmmsg(2) says how many were sent.",
    },
    Row {
        name: "a relayed connection",
        kind: CALLS,
        key: "*, after a child: *",
        reason: "A connection that a child uses is relayed by a thread of its parent (LAUNCHER.md, `Fork`): errors and \
                 ends come later, a reset comes as the end, and the parent's own descriptors of it end with the \
                 child's.",
    },
    Row {
        name: "several reads of one socket",
        kind: CALLS,
        key: "*, several reads asleep: *",
        reason: "Which of several calls that sleep for data of one socket, or for events of one set, gets them is not \
                 defined: recv(2), accept(2) and epoll_wait(2) promise no order.",
    },
    Row {
        name: "SIOCOUTQ after a reset",
        kind: Kind::Calls { goes_on: true },
        key: "ioctl 0x5411, one end closed: 0 * | 0 0",
        reason: "RFC 9293, section 3.10.7.4: segment queues are flushed at a reset, so nothing is unsent. Linux counts \
                 what was not acknowledged, and after connect(2) to AF_UNSPEC a number of its own.",
    },
    Row {
        name: "SIOCOUTQNSD after a reset",
        kind: Kind::Calls { goes_on: true },
        key: "ioctl 0x894b, one end closed: 0 * | 0 0",
        reason: "As `SIOCOUTQ` (RFC 9293, section 3.10.7.4): Linux counts what was not sent when the reset came.",
    },
    Row {
        name: "a read over the edge of what is mapped",
        kind: CALLS,
        key: "re*, over the edge*:* ? | -1 EFAULT",
        reason: "Linux reads packet by packet as they lie in its queue, where later ones are merged with earlier ones \
                 or not, and returns what it had read before the fault. Here data has no such borders: what a read \
                 would take is looked at first, and recv(2) takes nothing then (EFAULT).",
    },
    Row {
        name: "an error behind the first message of recvmmsg",
        kind: CALLS,
        key: "s*, behind a recvmmsg of bad pointers: -1 EFAULT | *",
        reason: "Linux keeps EFAULT of a later message as the socket's error, so a send fails with it. recvmmsg(2) \
                 has it for the next call of recvmmsg, and here that finds the pointer itself.",
    },
    Row {
        name: "data held back by MSG_MORE",
        kind: CALLS,
        key: "*, data held back: *",
        reason: "Data that MSG_MORE holds back leaves at the latest after 200 ms (tcp(7), `TCP_CORK`). Here a segment \
                 of the peer lets it go before; on Linux one with data does, unless its window and acknowledgment are \
                 those of the one before. What the peer has read, `SIOCOUTQ`, and the peer's close tell which, and so \
                 does what the peer sends behind its shutdown(2), as it resets if something comes after that.",
    },
    Row {
        name: "timestamps that are asked for late",
        kind: Kind::Calls { goes_on: true },
        key: "recvmsg*, stamps asked for late: flags * name ? cmsg 1:?? ? | flags * name ? ?",
        reason: "Data that came before `SO_TIMESTAMP` (socket(7)) or the like was set has a timestamp on Linux if any \
                 socket of the machine had asked for timestamps by then, and none otherwise. Here it has none.",
    },
    Row {
        name: "a peek that sleeps beside a read",
        kind: CALLS,
        key: "recv*MSG_PEEK*, raced by a read: woke: * | woke: *",
        reason: "What a call with MSG_PEEK tells that sleeps while another one takes the data is not defined \
                 (recv(2)): Linux counts bytes again that it has seen already, and logs a bug of the application.",
    },
    Row {
        name: "a wait beside a read",
        kind: Kind::Calls { goes_on: true },
        key: "*, beside a read asleep: woke: * | woke: *",
        reason: "Of a poll(2) and a recv(2) of one socket that sleep in two threads, a reset wakes both. Whether the \
                 poll tells of the error depends on which of them runs first, on either side.",
    },
    Row {
        name: "a wait beside a read that takes all",
        kind: CALLS,
        key: "*, beside a read asleep: *asleep*",
        reason: "Of a poll(2) and a recv(2) or accept(2) of one socket that sleep in two threads, data wakes both; so \
                 does an edge a poll(2) and an epoll_wait(2) of one set. The poll goes on sleeping if the other call \
                 runs first: which does, on either side, is not defined.",
    },
    Row {
        name: "a wait for connections and pipes",
        kind: Kind::Calls { goes_on: true },
        key: "epoll_wait, of both kinds: ? ?:0x* | ? ?:0x*",
        reason: "While connections are ready, a pipe, eventfd or UNIX socket that becomes ready is told of in the \
                 eighth wait at the latest (LAUNCHER.md, `Descriptors`): a wait that finds connections seldom asks \
                 the kernel as well.",
    },
    Row {
        name: "a connect beside a read",
        kind: Kind::Calls { goes_on: true },
        key: "*, beside a connect asleep: woke: -1 * | woke: -1 *",
        reason: "Of a connect(2) and a recv(2) of one socket that sleep in two threads, or of two connect(2), the \
                 first that runs takes the error of an end. Which does is not defined.",
    },
    Row {
        name: "a connect beside a read of nothing",
        kind: Kind::Calls { goes_on: true },
        key: "rec*, beside a connect asleep: woke: -1 EPIPE | woke: 0",
        reason: "As the row before. On Linux the connect(2) takes the socket apart as its attempt ends, of which the \
                 recv(2) tells (EPIPE) if it runs later.",
    },
    Row {
        name: "a wait beside a connect",
        kind: Kind::Calls { goes_on: true },
        key: "*, beside a connect asleep: woke: ? * | woke: ? *",
        reason: "Of a poll(2) and a connect(2) of one socket that sleep in two threads, the end of the attempt wakes \
                 both. Whether the poll tells of the error depends on which of them runs first, on either side.",
    },
    Row {
        name: "window updates behind shutdown(SHUT_RD)",
        kind: CALLS,
        key: "*, filled behind a shut end: *",
        reason: "Linux sends no window update once the receiving side is shut, so a peer whose window was full goes on \
                 when its timer probes the window. RFC 9293, section 3.8.6.2.2, has the update sent, as here.",
    },
    Row {
        name: "room of a full connection",
        kind: CALLS,
        key: "psend*, of a full connection: ? | -1 EAGAIN",
        reason: "A sender whose buffers are full takes more at an acknowledgment. Linux delays one, or has a read send \
                 it (RFC 9293, section 3.8.6.3), that is sent at once here, so the peer had that room before.",
    },
    Row {
        name: "growth of a full send buffer",
        kind: CALLS,
        key: "*, of a full connection: n | -1 EAGAIN",
        reason: "How large a send buffer becomes by itself is not defined (tcp(7), `tcp_wmem`). Here it has twice the \
                 congestion window. On Linux any segment of the peer's makes it grow that finds less in flight than \
                 the congestion window, even if its window stays shut.",
    },
    Row {
        name: "growth of a full send buffer that a call waits for",
        kind: CALLS,
        key: "*, of a full connection: * | asleep",
        reason: "As the row before (tcp(7), `tcp_wmem`): the call waits here for an acknowledgment.",
    },
    Row {
        name: "room of a full connection that ends a read of nothing",
        kind: CALLS,
        key: "re*, from a full connection: *asleep*",
        reason: "Room to send wakes whatever sleeps on a socket, which ends a read of nothing. Whether there is room \
                 depends on how the send buffer grows (tcp(7), `tcp_wmem`), as in the rows before.",
    },
    Row {
        name: "room of a socket that was taken apart",
        kind: CALLS,
        key: "*, apart with TCP_NOTSENT_LOWAT: *",
        reason: "On Linux connect(2) to AF_UNSPEC leaves a number of its own for what is unsent, so a socket with \
                 `TCP_NOTSENT_LOWAT` has no room until it connects again. Here nothing is unsent.",
    },
    Row {
        name: "a read with a low-water mark",
        kind: CALLS,
        key: "*, short of SO_RCVLOWAT: *",
        reason: "A read that sleeps takes what comes, and returns with the smaller of `SO_RCVLOWAT` and what it asked \
                 for (POSIX.1, `SO_RCVLOWAT`). On Linux it sleeps until so many bytes have come since it began, even \
                 if it asked for fewer or has some, and leaves them to other calls until then.",
    },
    Row {
        name: "TCP_INQ set while a read sleeps",
        kind: Kind::Calls { goes_on: true },
        key: "recvmsg*, TCP_INQ set meanwhile: woke: flags * | woke: flags *",
        reason: "Linux looks at `TCP_INQ` when recvmsg(2) begins, and at `SO_TIMESTAMP` when it has the data. Here it \
                 looks at both when it has the data.",
    },
    Row {
        name: "two queues of a listener",
        kind: CALLS,
        key: "*, beside a queue of the link: *",
        reason: "A listener has one queue for the link's connections and one for the kernel's loopback (LAUNCHER.md), \
                 each with the whole backlog of listen(2). On Linux the link's connections may fill the only one.",
    },
    Row {
        name: "order of two queues",
        kind: CALLS,
        key: "*, of two queues: *",
        reason: "As the row before: accept(2) takes from the link's queue first. On Linux the oldest connection is \
                 first in the only one.",
    },
    Row {
        name: "options in front of a routing header that is not there",
        kind: CALLS,
        key: "*, behind IPV6_RTHDRDSTOPTS: *",
        reason: "Linux takes them without a routing header, in front of which they would stand (RFC 8200, section \
                 4.1), and counts them in the length of each packet without sending them: nothing arrives. Here \
                 there are no extension headers.",
    },
    Row {
        name: "timestamps by the options with _NEW",
        kind: Kind::Calls { goes_on: true },
        key: "recvmsg*: *flags * name ? cmsg 1:6? * | *flags * name ? ?",
        reason: "A socket that is not connected is the kernel's, which takes `SO_TIMESTAMP_NEW` and the like. On a \
                 connection of the stack they are refused, so what was set before brings nothing.",
    },
    Row {
        name: "timestamps that an option with _NEW ends",
        kind: Kind::Calls { goes_on: true },
        key: "recvmsg*, behind an option with _NEW: *flags * name * | *flags * name ? cmsg 1:?? *",
        reason: "On Linux `SO_TIMESTAMP_NEW` and the like end what the options without _NEW have begun. On a \
                 connection of the stack they are refused, so these go on.",
    },
    Row {
        name: "options for timestamps behind one with _NEW",
        kind: Kind::Calls { goes_on: true },
        key: "getsockopt SO_TIMESTAMP*, behind an option with _NEW: 0 len * | 0 len *",
        reason: "As the two rows before: on Linux `SO_TIMESTAMP_NEW` and the like change what the options without _NEW \
                 tell.",
    },
    Row {
        name: "an IPv6 connection behind one to a mapped address",
        kind: CALLS,
        key: "*, over IPv6 behind IPv4: *",
        reason: "A socket of Linux that has connected to a mapped address has the functions of IPv4 for good: what it \
                 sends over IPv6 afterwards does not arrive. RFC 3493, section 3.7, has both families of one socket, \
                 and here they work in any order.",
    },
    Row {
        name: "the loopback after a connection over the link",
        kind: CALLS,
        key: "bind to the loopback*, once connected: 0 | -1 EADDRNOTAVAIL",
        reason: "A socket that was connected over the link stays the stack's, which does not have the addresses of the \
                 kernel's loopback (LAUNCHER.md). bind(2) of a new socket succeeds there.",
    },
    Row {
        name: "a taken port of the loopback after a connection over the link",
        kind: CALLS,
        key: "bind to the loopback*, once connected: -1 EADDRINUSE | -1 EADDRNOTAVAIL",
        reason: "As the row before (LAUNCHER.md): at an address that is not there no port is looked for.",
    },
    Row {
        name: "the loopback beside a connection that was accepted",
        kind: CALLS,
        key: "bind to the loopback*, where a connection was accepted: 0 | -1 EADDRINUSE",
        reason: "A listener's port is kept with its address until its last connection is over (LAUNCHER.md).",
    },
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
        name: "options that a Multipath TCP socket lacks",
        kind: Kind::Calls { goes_on: true },
        key: "setsockopt *, of Multipath TCP: -1 ENOPROTOOPT | 0",
        reason: "As the row before (RFC 8684, section 3.7), with another error for some of them.",
    },
    Row {
        name: "options that a Multipath TCP socket forgets",
        kind: Kind::Calls { goes_on: true },
        key: "getsockopt SO_*, of Multipath TCP: 0 len ? 0x00* | 0 len ? 0x01*",
        reason: "Linux takes some options of such a socket, `SO_ZEROCOPY` and `SO_RXQ_OVFL` among them, and does not \
                 keep them. Here it is one of TCP (RFC 8684, section 3.7), which does.",
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
