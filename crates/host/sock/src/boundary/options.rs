//! Options, by level and number.

use super::Ask::{Bytes, Ints, LengthAfter, Part, Read, ReadLength};
use super::Manual::{Ip, Ipv6, Socket, Tcp};
use super::{Row, Value, option};

const ON: &[i32] = &[1, 0];
const LINGERS: &[Value] = &[
    ("on, 7 s", &[1, 0, 0, 0, 7, 0, 0, 0]),
    ("on, -1 s", &[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
    ("off", &[0, 0, 0, 0, 0, 0, 0, 0]),
    ("on, 4,294,968 s", &[1, 0, 0, 0, 0x38, 0x89, 0x41, 0]),
    ("four bytes", &[1, 0, 0, 0]),
];
const TIMES: &[Value] = &[
    ("1.5 s", &[1, 0, 0, 0, 0, 0, 0, 0, 0x20, 0xa1, 7, 0, 0, 0, 0, 0]),
    ("0", &[0; 16]),
    ("two million us", &[0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x84, 0x1e, 0, 0, 0, 0, 0]),
    ("eight bytes", &[0; 8]),
];
const NAMES: &[Value] = &[("cubic", b"cubic"), ("reno", b"reno"), ("nosuch", b"nosuch")];
const DEVICES: &[Value] = &[("ms0", b"ms0\0"), ("nosuch", b"nosuch\0"), ("none", b"\0")];
const RATES: &[Value] = &[
    ("1,000,000 in 4 bytes", &[0x40, 0x42, 0x0f, 0]),
    ("10 GB/s in 8 bytes", &[0, 0xe4, 0x0b, 0x54, 2, 0, 0, 0]),
    ("none", &[0xff; 8]),
];

/// The questions about connections of the stack.
const CONNECTIONS: &[&str] =
    &["accepted", "connected", "before listen, accepted", "before connect, connected"];
/// Those about an option that can only be set.
const SET: &[&str] = &["accepted", "connected"];

const SET_AND_READ: &[&str] = &[
    "accepted, get",
    "accepted, set 1",
    "connected, get",
    "connected, set 1",
    "before listen, accepted",
    "before connect, connected",
];

const UNKNOWN: &str = "The stack does not know it; it does nothing to data on Linux's TCP.";
const NO_HEADERS: &str = "The stack sends no IP options or extension headers.";
const NOT_QUEUED: &str = "ICMP errors end up in SO_ERROR, as without it; they are not queued.";
const POLLS: &str = "The setting spin_us makes the stack poll.";
const NO_AO: &str = "The stack has TCP-AO; this kernel was built without it.";
const FOR_RAW: &str = "ENOPROTOOPT. For raw sockets; reading it fails.";
const FOR_DATAGRAMS: &str = "ENOPROTOOPT. For datagrams; reading it fails.";
const NO_CHECKPOINTS: &str = "ENOPROTOOPT. Connections of the stack are not taken over by checkpoints.";
const FOR_UNIX: &str = "ENOPROTOOPT. For UNIX sockets; the error is another.";
const NO_FILTERS: &str = "ENOPROTOOPT. The stack runs no socket filters.";
const DEALS: &str = "ENOPROTOOPT. The stack deals connections among listeners itself.";
const OTHER: &str = "ENOPROTOOPT. The error is another.";
const WITHOUT_NEW: &str =
    "The option of the same name without _NEW is known; on 64-bit machines C libraries use that.";

/// Every option.
pub(super) const ROWS: &[Row] = &[
    option(Socket, "SO_DEBUG", 1, Ints(ON)),
    option(Socket, "SO_REUSEADDR", 2, Ints(ON)),
    option(Socket, "SO_TYPE", 3, Read(4)),
    option(Socket, "SO_ERROR", 4, Read(4)),
    option(Socket, "SO_DONTROUTE", 5, Ints(ON)).unknown("The stack sends by its routes alone."),
    option(Socket, "SO_BROADCAST", 6, Ints(ON)),
    option(Socket, "SO_SNDBUF", 7, Ints(&[65_536, 1])).differs(
        &["accepted, value", "connected, value"],
        "The default is 131,072 bytes; the kernel's follows tcp_wmem and the connection.",
    ),
    option(Socket, "SO_RCVBUF", 8, Ints(&[65_536, 1])),
    option(Socket, "SO_KEEPALIVE", 9, Ints(ON)),
    option(Socket, "SO_OOBINLINE", 10, Ints(ON)),
    option(Socket, "SO_NO_CHECK", 11, Ints(ON)),
    option(Socket, "SO_PRIORITY", 12, Ints(&[6, 0, 7, -1])),
    option(Socket, "SO_LINGER", 13, Bytes(LINGERS)),
    option(Socket, "SO_BSDCOMPAT", 14, Ints(ON)).unknown(UNKNOWN),
    option(Socket, "SO_REUSEPORT", 15, Ints(ON)),
    option(Socket, "SO_PASSCRED", 16, Ints(ON)).differs(CONNECTIONS, FOR_UNIX),
    option(Socket, "SO_PEERCRED", 17, Read(12)),
    option(Socket, "SO_RCVLOWAT", 18, Ints(&[4, 1, 0])),
    option(Socket, "SO_SNDLOWAT", 19, Ints(ON)),
    option(Socket, "SO_RCVTIMEO", 20, Bytes(TIMES)),
    option(Socket, "SO_SNDTIMEO", 21, Bytes(TIMES)),
    option(Socket, "SO_BINDTODEVICE", 25, Bytes(DEVICES)),
    option(Socket, "SO_ATTACH_FILTER", 26, Part).unknown("The stack runs no socket filters."),
    option(Socket, "SO_DETACH_FILTER", 27, Ints(&[0])).differs(SET, NO_FILTERS),
    option(Socket, "SO_PEERNAME", 28, Read(16)).differs(CONNECTIONS, "ENOPROTOOPT. getpeername tells it."),
    option(Socket, "SO_TIMESTAMP", 29, Ints(ON)),
    option(Socket, "SO_ACCEPTCONN", 30, Read(4)),
    option(Socket, "SO_PEERSEC", 31, Read(64)),
    option(Socket, "SO_SNDBUFFORCE", 32, Ints(&[65_536, 1])).unknown("SO_SNDBUF sets the buffer."),
    option(Socket, "SO_RCVBUFFORCE", 33, Ints(&[65_536, 1])).unknown("SO_RCVBUF sets the buffer."),
    option(Socket, "SO_PASSSEC", 34, Ints(ON)).differs(CONNECTIONS, FOR_UNIX),
    option(Socket, "SO_TIMESTAMPNS", 35, Ints(ON)),
    option(Socket, "SO_MARK", 36, Ints(&[7, 0])),
    option(Socket, "SO_TIMESTAMPING", 37, Ints(&[0x18, 0, 0x8000_0000_u32 as i32])),
    option(Socket, "SO_PROTOCOL", 38, Read(4)),
    option(Socket, "SO_DOMAIN", 39, Read(4)),
    option(Socket, "SO_RXQ_OVFL", 40, Ints(ON)),
    option(Socket, "SO_WIFI_STATUS", 41, Ints(ON)).unknown(UNKNOWN),
    option(Socket, "SO_PEEK_OFF", 42, Ints(&[2, 0, -1])),
    option(Socket, "SO_NOFCS", 43, Ints(ON)).unknown(UNKNOWN),
    option(Socket, "SO_LOCK_FILTER", 44, Ints(&[0])).unknown("The stack runs no socket filters."),
    option(Socket, "SO_SELECT_ERR_QUEUE", 45, Ints(ON)).unknown("Reports in the error queue are POLLERR."),
    option(Socket, "SO_BUSY_POLL", 46, Ints(&[50, 0, -1])).unknown(POLLS),
    option(Socket, "SO_MAX_PACING_RATE", 47, Bytes(RATES)),
    option(Socket, "SO_BPF_EXTENSIONS", 48, Read(4)).differs(CONNECTIONS, NO_FILTERS),
    option(Socket, "SO_INCOMING_CPU", 49, LengthAfter(&[0])),
    option(Socket, "SO_ATTACH_BPF", 50, Ints(&[-1])).differs(SET, NO_FILTERS),
    option(Socket, "SO_ATTACH_REUSEPORT_CBPF", 51, Part).differs(&["accepted"], DEALS),
    option(Socket, "SO_ATTACH_REUSEPORT_EBPF", 52, Ints(&[-1])).differs(SET, DEALS),
    option(Socket, "SO_CNX_ADVICE", 53, Ints(&[1])).unknown("The stack has one path."),
    option(Socket, "SO_MEMINFO", 55, ReadLength(64))
        .differs(CONNECTIONS, "ENOPROTOOPT. `millstream ss` and `stat` tell it."),
    option(Socket, "SO_INCOMING_NAPI_ID", 56, ReadLength(4))
        .differs(CONNECTIONS, "ENOPROTOOPT. The setting spin_us makes the stack poll."),
    option(Socket, "SO_COOKIE", 57, ReadLength(8))
        .differs(CONNECTIONS, "ENOPROTOOPT. The kernel's number of a socket; the stack's sockets have none."),
    option(Socket, "SO_PEERGROUPS", 59, Read(64)).differs(CONNECTIONS, FOR_UNIX),
    option(Socket, "SO_ZEROCOPY", 60, Ints(&[1, 0, 2])),
    option(Socket, "SO_TXTIME", 61, Bytes(&[("CLOCK_MONOTONIC", &[1, 0, 0, 0, 0, 0, 0, 0])]))
        .unknown("Ports take no dates of departure; SO_MAX_PACING_RATE paces."),
    option(Socket, "SO_BINDTOIFINDEX", 62, Ints(&[0, 99_999])),
    option(Socket, "SO_TIMESTAMP_NEW", 63, Ints(ON)).unknown(WITHOUT_NEW),
    option(Socket, "SO_TIMESTAMPNS_NEW", 64, Ints(ON)).unknown(WITHOUT_NEW),
    option(Socket, "SO_TIMESTAMPING_NEW", 65, Ints(&[0x18, 0])).unknown(WITHOUT_NEW),
    option(Socket, "SO_RCVTIMEO_NEW", 66, Bytes(TIMES)),
    option(Socket, "SO_SNDTIMEO_NEW", 67, Bytes(TIMES)),
    option(Socket, "SO_DETACH_REUSEPORT_BPF", 68, Ints(&[0])).differs(SET, DEALS),
    option(Socket, "SO_PREFER_BUSY_POLL", 69, Ints(ON)).unknown(POLLS),
    option(Socket, "SO_BUSY_POLL_BUDGET", 70, Ints(&[8, 0])).unknown(POLLS),
    option(Socket, "SO_NETNS_COOKIE", 71, ReadLength(8))
        .differs(CONNECTIONS, "ENOPROTOOPT. The kernel's number of a socket; the stack's sockets have none."),
    option(Socket, "SO_BUF_LOCK", 72, Ints(&[3, 0, 4]))
        .unknown("The stack's memory is shared by other rules."),
    option(Socket, "SO_RESERVE_MEM", 73, Ints(&[0]))
        .differs(CONNECTIONS, "ENOPROTOOPT. The stack's memory is shared by other rules."),
    option(Socket, "SO_TXREHASH", 74, Ints(&[1, 0, 2])).unknown("The stack has one path."),
    option(Socket, "SO_RCVMARK", 75, Ints(ON)).unknown("Packets of the stack have no mark."),
    option(Tcp, "TCP_NODELAY", 1, Ints(ON)),
    option(Tcp, "TCP_MAXSEG", 2, Ints(&[1_000, 87, 32_768])),
    option(Tcp, "TCP_CORK", 3, Ints(ON)),
    option(Tcp, "TCP_KEEPIDLE", 4, Ints(&[60, 0, 32_768])),
    option(Tcp, "TCP_KEEPINTVL", 5, Ints(&[30, 0, 32_768])),
    option(Tcp, "TCP_KEEPCNT", 6, Ints(&[3, 0, 128])),
    option(Tcp, "TCP_SYNCNT", 7, Ints(&[3, 0, 128]))
        .differs(&["accepted, value", "connected, value"], "The default is 7, not 6."),
    option(Tcp, "TCP_LINGER2", 8, Ints(&[30, 0, -1, 200])),
    option(Tcp, "TCP_DEFER_ACCEPT", 9, Ints(&[5, 0])),
    option(Tcp, "TCP_WINDOW_CLAMP", 10, Ints(&[65_536, 0])).differs(
        &[
            "accepted, value",
            "accepted, set 0",
            "connected, value",
            "connected, set 0",
            "before listen, accepted",
            "before connect, connected",
        ],
        "0, no clamp, is the default and may be set on a connection; the kernel has a clamp always.",
    ),
    option(Tcp, "TCP_INFO", 11, ReadLength(256)),
    option(Tcp, "TCP_QUICKACK", 12, Ints(ON)),
    option(Tcp, "TCP_CONGESTION", 13, Bytes(NAMES)),
    option(Tcp, "TCP_MD5SIG", 14, Part),
    option(Tcp, "TCP_THIN_LINEAR_TIMEOUTS", 16, Ints(&[1, 0, 2]))
        .unknown("The stack's timeouts back off for thin streams as well."),
    option(Tcp, "TCP_THIN_DUPACK", 17, Ints(&[1, 0, 2])),
    option(Tcp, "TCP_USER_TIMEOUT", 18, Ints(&[5_000, 0, -1])),
    option(Tcp, "TCP_REPAIR", 19, Ints(&[0]))
        .unknown("Connections of the stack are not taken over by checkpoints."),
    option(Tcp, "TCP_REPAIR_QUEUE", 20, Ints(&[0])).differs(CONNECTIONS, NO_CHECKPOINTS),
    option(Tcp, "TCP_QUEUE_SEQ", 21, ReadLength(4)).differs(CONNECTIONS, NO_CHECKPOINTS),
    option(Tcp, "TCP_REPAIR_OPTIONS", 22, Ints(&[0])).differs(SET, NO_CHECKPOINTS),
    option(Tcp, "TCP_FASTOPEN", 23, Ints(&[5, 0])).differs(
        &["before connect, connected"],
        "Set before connect it is not told on the connection, where it means nothing.",
    ),
    option(Tcp, "TCP_TIMESTAMP", 24, ReadLength(4))
        .differs(CONNECTIONS, "ENOPROTOOPT. The timestamp clock is not told."),
    option(Tcp, "TCP_NOTSENT_LOWAT", 25, Ints(&[16_384, 0])),
    option(Tcp, "TCP_CC_INFO", 26, ReadLength(64))
        .differs(CONNECTIONS, "ENOPROTOOPT. TCP_CCALGOOPT and `millstream ss` tell a policy's state."),
    option(Tcp, "TCP_SAVE_SYN", 27, Ints(&[1, 0, 3])).unknown("The stack keeps no SYNs."),
    option(Tcp, "TCP_SAVED_SYN", 28, Read(128)).differs(CONNECTIONS, "ENOPROTOOPT. The stack keeps no SYNs."),
    option(Tcp, "TCP_REPAIR_WINDOW", 29, ReadLength(20)).differs(CONNECTIONS, NO_CHECKPOINTS),
    option(Tcp, "TCP_FASTOPEN_CONNECT", 30, Ints(&[0, 1, 2])),
    option(Tcp, "TCP_ULP", 31, Bytes(&[("nosuch", b"nosuch")])).differs(
        CONNECTIONS,
        "ENOPROTOOPT. No upper-layer protocols: kernel TLS is not there, and libraries encrypt \
         themselves.",
    ),
    option(Tcp, "TCP_MD5SIG_EXT", 32, Part),
    option(Tcp, "TCP_FASTOPEN_KEY", 33, Bytes(&[("16 bytes", &[7; 16]), ("15 bytes", &[7; 15])])).refused(
        "EINVAL",
        "The keys that hold are told, 32 bytes; they are a listener's, and setting them on a connection \
         is EINVAL.",
    ),
    option(Tcp, "TCP_FASTOPEN_NO_COOKIE", 34, Ints(&[1, 0, 2])).differs(
        &["before listen, accepted", "before connect, connected"],
        "It is not told on the connection, where it means nothing.",
    ),
    option(Tcp, "TCP_ZEROCOPY_RECEIVE", 35, ReadLength(64))
        .differs(CONNECTIONS, "ENOPROTOOPT. Nothing is mapped; a read copies."),
    option(Tcp, "TCP_INQ", 36, Ints(&[1, 0, 2])),
    option(Tcp, "TCP_TX_DELAY", 37, Ints(&[0])).unknown("`millstream pipe` and `--path` delay."),
    option(Tcp, "TCP_AO_ADD_KEY", 38, Part)
        .differs(&["accepted, set zeros", "accepted, set too short"], NO_AO),
    option(Tcp, "TCP_AO_DEL_KEY", 39, Part)
        .differs(&["accepted, set zeros", "accepted, set too short"], NO_AO),
    option(Tcp, "TCP_AO_INFO", 40, Read(48)).differs(SET_AND_READ, NO_AO),
    option(Tcp, "TCP_AO_GET_KEYS", 41, Read(304)).differs(SET_AND_READ, NO_AO),
    option(Tcp, "TCP_AO_REPAIR", 42, Read(16)),
    option(Tcp, "TCP_IS_MPTCP", 43, Read(4)).differs(
        CONNECTIONS,
        "ENOPROTOOPT. A socket of Multipath TCP is taken as TCP, and SO_PROTOCOL tells so.",
    ),
    option(Tcp, "TCP_RTO_MAX_MS", 44, Ints(&[60_000, 1])).unknown("The upper bound is the stack's."),
    option(Tcp, "TCP_RTO_MIN_US", 45, Ints(&[50_000, 0])).differs(
        &[
            "accepted, set 50000",
            "accepted, set 0",
            "connected, set 50000",
            "connected, set 0",
            "before listen, accepted",
            "before connect, connected",
        ],
        "Microseconds are exact; the kernel rounds up to ticks.",
    ),
    option(Tcp, "TCP_DELACK_MAX_US", 46, Ints(&[20_000, 0])).differs(
        &["accepted, value", "connected, value"],
        "The default is 40,000 (the setting delayed_ack); the kernel's is 200,000.",
    ),
    option(Ip, "IP_TOS", 1, Ints(&[0x10, 0, 0xb8, 0xff])),
    option(Ip, "IP_TTL", 2, Ints(&[33, 255, 0, 256, -1])),
    option(Ip, "IP_HDRINCL", 3, Ints(&[1])).differs(CONNECTIONS, FOR_RAW),
    option(Ip, "IP_OPTIONS", 4, Bytes(&[("none", &[]), ("three NOPs and an end", &[1, 1, 1, 0])]))
        .unknown(NO_HEADERS),
    option(Ip, "IP_ROUTER_ALERT", 5, Ints(ON)).differs(CONNECTIONS, FOR_RAW),
    option(Ip, "IP_RECVOPTS", 6, Ints(ON)),
    option(Ip, "IP_RETOPTS", 7, Ints(ON)),
    option(Ip, "IP_PKTINFO", 8, Ints(ON)),
    option(Ip, "IP_PKTOPTIONS", 9, Read(64)).differs(
        CONNECTIONS,
        "ENOPROTOOPT. The stack does not know it; it does nothing to data on Linux's TCP.",
    ),
    option(Ip, "IP_MTU_DISCOVER", 10, Ints(&[0, 1, 2, 3, 4, 5, 6])),
    option(Ip, "IP_RECVERR", 11, Ints(ON)).unknown(NOT_QUEUED),
    option(Ip, "IP_RECVTTL", 12, Ints(ON)),
    option(Ip, "IP_RECVTOS", 13, Ints(ON)),
    option(Ip, "IP_MTU", 14, Read(4)),
    option(Ip, "IP_FREEBIND", 15, Ints(ON)),
    option(Ip, "IP_IPSEC_POLICY", 16, Ints(&[1])).differs(SET, OTHER),
    option(Ip, "IP_XFRM_POLICY", 17, Ints(&[1])).differs(SET, OTHER),
    option(Ip, "IP_PASSSEC", 18, Ints(ON)),
    option(Ip, "IP_TRANSPARENT", 19, Ints(ON)).unknown("The stack is not a transparent proxy."),
    option(Ip, "IP_RECVORIGDSTADDR", 20, Ints(ON)),
    option(Ip, "IP_MINTTL", 21, Ints(&[1, 0, 256])).unknown("The stack does not drop by TTL."),
    option(Ip, "IP_NODEFRAG", 22, Ints(ON)).differs(CONNECTIONS, FOR_RAW),
    option(Ip, "IP_CHECKSUM", 23, Ints(ON)),
    option(Ip, "IP_BIND_ADDRESS_NO_PORT", 24, Ints(ON)),
    option(Ip, "IP_RECVFRAGSIZE", 25, Ints(ON))
        .differs(CONNECTIONS, "ENOPROTOOPT. For datagrams; the error is another."),
    option(Ip, "IP_RECVERR_RFC4884", 26, Ints(ON)).unknown(NOT_QUEUED),
    option(Ip, "IP_MULTICAST_IF", 32, Bytes(&[("any", &[0; 4]), ("an address", &[10, 77, 0, 1])]))
        .differs(CONNECTIONS, FOR_DATAGRAMS),
    option(Ip, "IP_MULTICAST_TTL", 33, Ints(&[5, 256])).differs(CONNECTIONS, FOR_DATAGRAMS),
    option(Ip, "IP_MULTICAST_LOOP", 34, Ints(ON)).unknown("For datagrams."),
    option(Ip, "IP_ADD_MEMBERSHIP", 35, Bytes(&[("239.1.1.1", &[239, 1, 1, 1, 10, 77, 0, 1])]))
        .differs(SET, OTHER),
    option(Ip, "IP_DROP_MEMBERSHIP", 36, Bytes(&[("239.1.1.1", &[239, 1, 1, 1, 10, 77, 0, 1])]))
        .differs(SET, OTHER),
    option(Ip, "IP_MULTICAST_ALL", 49, Ints(ON)).unknown("For datagrams."),
    option(Ip, "IP_UNICAST_IF", 50, Ints(&[0])).unknown("The stack has one link."),
    option(Ip, "IP_LOCAL_PORT_RANGE", 51, Ints(&[0, 0x9c40_7530_u32 as i32]))
        .unknown("The range is the stack's; on a connection it would do nothing."),
    option(Ip, "IP_PROTOCOL", 52, Read(4)).differs(CONNECTIONS, "ENOPROTOOPT. SO_PROTOCOL tells it."),
    option(Ipv6, "IPV6_ADDRFORM", 1, Ints(&[2])).differs(CONNECTIONS, OTHER),
    option(Ipv6, "IPV6_2292PKTINFO", 2, Ints(ON)).unknown(UNKNOWN),
    option(Ipv6, "IPV6_2292PKTOPTIONS", 6, Read(64)).unknown(UNKNOWN),
    option(Ipv6, "IPV6_CHECKSUM", 7, Ints(&[2])),
    option(Ipv6, "IPV6_2292HOPLIMIT", 8, Ints(ON)).unknown(UNKNOWN),
    option(Ipv6, "IPV6_UNICAST_HOPS", 16, Ints(&[33, 255, 0, 256, -1])),
    option(Ipv6, "IPV6_MULTICAST_IF", 17, Ints(&[0])).differs(CONNECTIONS, FOR_DATAGRAMS),
    option(Ipv6, "IPV6_MULTICAST_HOPS", 18, Ints(&[5, 256])).differs(CONNECTIONS, FOR_DATAGRAMS),
    option(Ipv6, "IPV6_MULTICAST_LOOP", 19, Ints(ON)).unknown("For datagrams."),
    option(Ipv6, "IPV6_ROUTER_ALERT", 22, Ints(&[0])).differs(CONNECTIONS, FOR_RAW),
    option(Ipv6, "IPV6_MTU_DISCOVER", 23, Ints(&[0, 1, 2, 3, 4, 5, 6])),
    option(Ipv6, "IPV6_MTU", 24, Ints(&[1_280, 1]))
        .unknown("The path MTU is found and can be read; it cannot be set."),
    option(Ipv6, "IPV6_RECVERR", 25, Ints(ON)).unknown(NOT_QUEUED),
    option(Ipv6, "IPV6_V6ONLY", 26, Ints(ON)),
    option(Ipv6, "IPV6_MULTICAST_ALL", 29, Ints(ON)).unknown("For datagrams."),
    option(Ipv6, "IPV6_ROUTER_ALERT_ISOLATE", 30, Ints(ON)).unknown("For raw sockets; reading it fails."),
    option(Ipv6, "IPV6_RECVERR_RFC4884", 31, Ints(ON)).unknown(NOT_QUEUED),
    option(Ipv6, "IPV6_FLOWLABEL_MGR", 32, Ints(&[1]))
        .differs(CONNECTIONS, "ENOPROTOOPT. The stack chooses flow labels."),
    option(Ipv6, "IPV6_FLOWINFO_SEND", 33, Ints(ON)).unknown("The stack chooses flow labels."),
    option(Ipv6, "IPV6_HDRINCL", 36, Ints(ON)),
    option(Ipv6, "IPV6_RECVPKTINFO", 49, Ints(ON)),
    option(Ipv6, "IPV6_PKTINFO", 50, Bytes(&[("any", &[0; 20])])).differs(
        &["listener, set any", "accepted, set any", "connected, set any", "before listen, set any"],
        "The source address is what bind says; on a listener the kernel's part of it, bound to the \
         loopback's device, says EINVAL.",
    ),
    option(Ipv6, "IPV6_RECVHOPLIMIT", 51, Ints(ON)),
    option(Ipv6, "IPV6_HOPLIMIT", 52, Ints(&[5])),
    option(Ipv6, "IPV6_RECVHOPOPTS", 53, Ints(ON)),
    option(Ipv6, "IPV6_HOPOPTS", 54, Bytes(&[("none", &[])])).unknown(NO_HEADERS),
    option(Ipv6, "IPV6_RTHDRDSTOPTS", 55, Bytes(&[("none", &[])])).unknown(NO_HEADERS),
    option(Ipv6, "IPV6_RECVRTHDR", 56, Ints(ON)),
    option(Ipv6, "IPV6_RTHDR", 57, Bytes(&[("none", &[])])).unknown(NO_HEADERS),
    option(Ipv6, "IPV6_RECVDSTOPTS", 58, Ints(ON)),
    option(Ipv6, "IPV6_DSTOPTS", 59, Bytes(&[("none", &[])])).unknown(NO_HEADERS),
    option(Ipv6, "IPV6_RECVPATHMTU", 60, Ints(ON)),
    option(Ipv6, "IPV6_PATHMTU", 61, ReadLength(32)).differs(CONNECTIONS, "ENOPROTOOPT. IPV6_MTU tells it."),
    option(Ipv6, "IPV6_DONTFRAG", 62, Ints(ON)).unknown("The stack never sends fragments."),
    option(Ipv6, "IPV6_RECVTCLASS", 66, Ints(ON)),
    option(Ipv6, "IPV6_TCLASS", 67, Ints(&[0x20, 0, 0xff, 256, -1])),
    option(Ipv6, "IPV6_AUTOFLOWLABEL", 70, Ints(ON)).unknown("The stack chooses flow labels."),
    option(Ipv6, "IPV6_ADDR_PREFERENCES", 72, Ints(&[1, 2])).unknown("The stack has the link's addresses."),
    option(Ipv6, "IPV6_MINHOPCOUNT", 73, Ints(&[1, 0, 256])).unknown("The stack does not drop by TTL."),
    option(Ipv6, "IPV6_RECVORIGDSTADDR", 74, Ints(ON)),
    option(Ipv6, "IPV6_TRANSPARENT", 75, Ints(ON)).unknown("The stack is not a transparent proxy."),
    option(Ipv6, "IPV6_UNICAST_IF", 76, Ints(&[0])).unknown("The stack has one link."),
    option(Ipv6, "IPV6_RECVFRAGSIZE", 77, Ints(ON)),
    option(Ipv6, "IPV6_FREEBIND", 78, Ints(ON)),
];
