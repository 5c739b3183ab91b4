//! Names that calls and assertions use, and their numbers. The numbers are Linux's: those that FreeBSD has under the
//! same name mean the same option here, whatever its number is there.

use libc as c;

macro_rules! symbols {
    ($($name:ident)+) => { &[$((stringify!($name), c::$name as i64)),+] };
}

/// Constants from libc.
const LIBC: &[(&str, i64)] = symbols! {
    AF_INET AF_INET6 AF_UNSPEC AF_UNIX PF_INET PF_INET6 SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_NONBLOCK SOCK_CLOEXEC
    IPPROTO_IP IPPROTO_IPV6 IPPROTO_TCP IPPROTO_UDP IPPROTO_ICMP IPPROTO_ICMPV6 INADDR_ANY
    SOL_SOCKET SOL_TCP SOL_IP SOL_IPV6
    SO_ACCEPTCONN SO_BROADCAST SO_BINDTODEVICE SO_DEBUG SO_DOMAIN SO_DONTROUTE SO_ERROR SO_KEEPALIVE SO_LINGER SO_MARK
    SO_OOBINLINE SO_PRIORITY SO_PROTOCOL SO_RCVBUF SO_RCVLOWAT SO_RCVTIMEO SO_REUSEADDR SO_REUSEPORT SO_SNDBUF
    SO_SNDLOWAT SO_SNDTIMEO SO_TIMESTAMP SO_TIMESTAMPING SO_TIMESTAMPNS SO_TYPE SO_ZEROCOPY SO_MAX_PACING_RATE
    TCP_CONGESTION TCP_CORK TCP_DEFER_ACCEPT TCP_FASTOPEN TCP_FASTOPEN_CONNECT TCP_FASTOPEN_KEY
    TCP_FASTOPEN_NO_COOKIE TCP_INFO TCP_INQ TCP_KEEPCNT TCP_KEEPIDLE TCP_KEEPINTVL TCP_LINGER2 TCP_MAXSEG TCP_MD5SIG
    TCP_NODELAY TCP_NOTSENT_LOWAT TCP_QUICKACK TCP_SYNCNT TCP_THIN_DUPACK TCP_THIN_LINEAR_TIMEOUTS TCP_TIMESTAMP
    TCP_ULP TCP_USER_TIMEOUT TCP_WINDOW_CLAMP
    SO_BUSY_POLL SO_INCOMING_CPU SO_PEEK_OFF
    IPV6_FREEBIND IP_TRANSPARENT IPV6_TRANSPARENT IPV6_PMTUDISC_DO IPV6_PMTUDISC_DONT IPV6_PMTUDISC_PROBE
    IPV6_PMTUDISC_WANT
    IP_FREEBIND IP_MTU IP_MTU_DISCOVER IP_RECVERR IP_TOS IP_TTL IP_PMTUDISC_DO IP_PMTUDISC_DONT IP_PMTUDISC_PROBE
    IP_PMTUDISC_WANT IPV6_HOPLIMIT IPV6_MTU IPV6_MTU_DISCOVER IPV6_RECVERR IPV6_TCLASS IPV6_UNICAST_HOPS IPV6_V6ONLY
    F_GETFL F_SETFL F_GETFD F_SETFD F_DUPFD FD_CLOEXEC O_RDONLY O_WRONLY O_RDWR O_NONBLOCK O_CREAT O_TRUNC
    MSG_CTRUNC MSG_DONTROUTE MSG_DONTWAIT MSG_EOR MSG_ERRQUEUE MSG_FASTOPEN MSG_MORE MSG_NOSIGNAL MSG_OOB MSG_PEEK
    MSG_TRUNC MSG_WAITALL MSG_ZEROCOPY
    SHUT_RD SHUT_WR SHUT_RDWR FIONREAD TIOCOUTQ
    POLLERR POLLHUP POLLIN POLLNVAL POLLOUT POLLPRI POLLRDBAND POLLRDHUP POLLRDNORM POLLWRBAND POLLWRNORM
    EPOLLERR EPOLLET EPOLLEXCLUSIVE EPOLLHUP EPOLLIN EPOLLONESHOT EPOLLOUT EPOLLPRI EPOLLRDHUP EPOLLRDNORM
    EPOLLWRNORM EPOLL_CTL_ADD EPOLL_CTL_DEL EPOLL_CTL_MOD SPLICE_F_MOVE SPLICE_F_MORE SPLICE_F_NONBLOCK
    EACCES EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT EAGAIN EALREADY EBADF EBUSY ECONNABORTED ECONNREFUSED ECONNRESET
    EDESTADDRREQ EDOM EEXIST EFAULT EHOSTDOWN EHOSTUNREACH EINPROGRESS EINTR EINVAL EIO EISCONN ELOOP EMFILE EMSGSIZE
    ENETDOWN ENETUNREACH ENFILE ENOBUFS ENODEV ENOENT ENOMEM ENOMSG ENOPROTOOPT ENOSPC ENOSYS ENOTCONN ENOTSOCK
    EKEYREJECTED ENOTSUP EOPNOTSUPP EPERM EPIPE EPROTO EPROTONOSUPPORT ESPIPE ETIMEDOUT EWOULDBLOCK
};

/// Constants that libc lacks or names differently.
const OTHERS: &[(&str, i64)] = &[
    ("SIOCINQ", 0x541b),
    ("SIOCOUTQ", 0x5411),
    ("SIOCOUTQNSD", 0x894b),
    ("EPOLLRDBAND", 0x80),
    ("EPOLLWRBAND", 0x200),
    ("TCP_TX_DELAY", 37),
    ("TCP_RTO_MIN_US", 45),
    ("TCP_DELACK_MAX_US", 46),
    ("TCP_CCALGOOPT", 65),
    ("TCP_CM_INQ", 36),
    ("TCP_MD5SIG_EXT", 32),
    ("TCP_MD5SIG_FLAG_PREFIX", 1),
    ("TCP_AO_ADD_KEY", 38),
    ("TCP_AO_DEL_KEY", 39),
    ("TCP_AO_INFO", 40),
    ("TCP_AO_GET_KEYS", 41),
    ("TCP_AO_KEYF_EXCLUDE_OPT", 2),
    ("SCM_TIMESTAMPING", 37),
    ("SO_EE_ORIGIN_ZEROCOPY", 5),
    ("SO_EE_ORIGIN_TIMESTAMPING", 4),
    ("SO_EE_CODE_ZEROCOPY_COPIED", 1),
    ("SCM_TSTAMP_SND", 0),
    ("SCM_TSTAMP_SCHED", 1),
    ("SCM_TSTAMP_ACK", 2),
    ("SOF_TIMESTAMPING_TX_HARDWARE", 1),
    ("SOF_TIMESTAMPING_TX_SOFTWARE", 1 << 1),
    ("SOF_TIMESTAMPING_RX_HARDWARE", 1 << 2),
    ("SOF_TIMESTAMPING_RX_SOFTWARE", 1 << 3),
    ("SOF_TIMESTAMPING_SOFTWARE", 1 << 4),
    ("SOF_TIMESTAMPING_RAW_HARDWARE", 1 << 6),
    ("SOF_TIMESTAMPING_OPT_ID", 1 << 7),
    ("SOF_TIMESTAMPING_TX_SCHED", 1 << 8),
    ("SOF_TIMESTAMPING_TX_ACK", 1 << 9),
    ("SOF_TIMESTAMPING_OPT_CMSG", 1 << 10),
    ("SOF_TIMESTAMPING_OPT_TSONLY", 1 << 11),
    ("SOF_TIMESTAMPING_OPT_ID_TCP", 1 << 16),
    ("IPTOS_DSCP_CS1", 8 << 2),
    ("IPTOS_DSCP_CS2", 16 << 2),
    ("IPTOS_DSCP_CS3", 24 << 2),
    ("IPTOS_DSCP_CS4", 32 << 2),
    ("IPTOS_DSCP_CS5", 40 << 2),
    ("IPTOS_DSCP_CS6", 48 << 2),
    ("IPTOS_DSCP_CS7", 56 << 2),
    ("IPTOS_DSCP_EF", 46 << 2),
    // States: Linux's names, then FreeBSD's for the same.
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCPI_ESTABLISHED", 1),
    ("TCPI_SYN_SENT", 2),
    ("TCPI_SYN_RECEIVED", 3),
    ("TCPI_FIN_WAIT_1", 4),
    ("TCPI_FIN_WAIT_2", 5),
    ("TCPI_TIME_WAIT", 6),
    ("TCPI_CLOSED", 7),
    ("TCPI_CLOSE_WAIT", 8),
    ("TCPI_LAST_ACK", 9),
    ("TCPI_LISTEN", 10),
    ("TCPI_CLOSING", 11),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCPI_OPT_SYN_DATA", 32),
    ("TCPI_ECN_MODE_DISABLED", 0),
    ("TCPI_ECN_MODE_RFC3168", 1),
    ("TCPI_ECN_MODE_ACCECN", 2),
    ("TCPI_ECN_MODE_PENDING", 3),
    ("TCP_ACCECN_ACE_FAIL_SEND", 1),
    ("TCP_ACCECN_ACE_FAIL_RECV", 2),
    ("TCP_ACCECN_OPT_FAIL_SEND", 4),
    ("TCP_ACCECN_OPT_FAIL_RECV", 8),
    ("TCP_ACCECN_OPT_NOT_SEEN", 0),
    ("TCP_ACCECN_OPT_EMPTY_SEEN", 1),
    ("TCP_ACCECN_OPT_COUNTER_SEEN", 2),
    ("TCP_ACCECN_OPT_FAIL_SEEN", 3),
    ("TCPI_OPT_USEC_TS", 64),
    ("TCPI_OPT_TFO_CHILD", 128),
    ("TCP_INFINITE_SSTHRESH", 0x7fff_ffff),
];

/// The number of a name.
pub(super) fn find(name: &str) -> Option<i64> {
    LIBC.iter().chain(OTHERS).find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// The name of an error number.
pub fn errno_name(number: i32) -> String {
    let row = LIBC.iter().find(|(name, value)| {
        *value == i64::from(number) && name.starts_with('E') && !name.starts_with("EPOLL")
    });
    row.map_or_else(|| format!("error {number}"), |(name, _)| name.to_string())
}

/// Fields of `struct tcp_info` by their names, with offset and bytes (include/uapi/linux/tcp.h).
const INFO: &[(&str, usize, usize)] = &[
    ("tcpi_state", 0, 1),
    ("tcpi_ca_state", 1, 1),
    ("tcpi_retransmits", 2, 1),
    ("tcpi_probes", 3, 1),
    ("tcpi_backoff", 4, 1),
    ("tcpi_options", 5, 1),
    ("tcpi_rto", 8, 4),
    ("tcpi_ato", 12, 4),
    ("tcpi_snd_mss", 16, 4),
    ("tcpi_rcv_mss", 20, 4),
    ("tcpi_unacked", 24, 4),
    ("tcpi_sacked", 28, 4),
    ("tcpi_lost", 32, 4),
    ("tcpi_retrans", 36, 4),
    ("tcpi_fackets", 40, 4),
    ("tcpi_last_data_sent", 44, 4),
    ("tcpi_last_ack_sent", 48, 4),
    ("tcpi_last_data_recv", 52, 4),
    ("tcpi_last_ack_recv", 56, 4),
    ("tcpi_pmtu", 60, 4),
    ("tcpi_rcv_ssthresh", 64, 4),
    ("tcpi_rtt", 68, 4),
    ("tcpi_rttvar", 72, 4),
    ("tcpi_snd_ssthresh", 76, 4),
    ("tcpi_snd_cwnd", 80, 4),
    ("tcpi_advmss", 84, 4),
    ("tcpi_reordering", 88, 4),
    ("tcpi_rcv_rtt", 92, 4),
    ("tcpi_rcv_space", 96, 4),
    ("tcpi_total_retrans", 100, 4),
    ("tcpi_pacing_rate", 104, 8),
    ("tcpi_max_pacing_rate", 112, 8),
    ("tcpi_bytes_acked", 120, 8),
    ("tcpi_bytes_received", 128, 8),
    ("tcpi_segs_out", 136, 4),
    ("tcpi_segs_in", 140, 4),
    ("tcpi_notsent_bytes", 144, 4),
    ("tcpi_min_rtt", 148, 4),
    ("tcpi_data_segs_in", 152, 4),
    ("tcpi_data_segs_out", 156, 4),
    ("tcpi_delivery_rate", 160, 8),
    ("tcpi_busy_time", 168, 8),
    ("tcpi_rwnd_limited", 176, 8),
    ("tcpi_sndbuf_limited", 184, 8),
    ("tcpi_delivered", 192, 4),
    ("tcpi_delivered_ce", 196, 4),
    ("tcpi_bytes_sent", 200, 8),
    ("tcpi_bytes_retrans", 208, 8),
    ("tcpi_dsack_dups", 216, 4),
    ("tcpi_reord_seen", 220, 4),
    ("tcpi_rcv_ooopack", 224, 4),
    ("tcpi_snd_wnd", 228, 4),
    ("tcpi_rcv_wnd", 232, 4),
    ("tcpi_rehash", 236, 4),
    ("tcpi_total_rto", 240, 2),
    ("tcpi_total_rto_recoveries", 242, 2),
    ("tcpi_total_rto_time", 244, 4),
    ("tcpi_received_ce", 248, 4),
    ("tcpi_delivered_e1_bytes", 252, 4),
    ("tcpi_delivered_e0_bytes", 256, 4),
    ("tcpi_delivered_ce_bytes", 260, 4),
    ("tcpi_received_e1_bytes", 264, 4),
    ("tcpi_received_e0_bytes", 268, 4),
    ("tcpi_received_ce_bytes", 272, 4),
];

/// A field of `struct tcp_info`; some are bits of a byte.
pub(super) fn info_field(info: &[u8], name: &str) -> Option<i128> {
    match name {
        "tcpi_snd_wscale" => return info.get(6).map(|byte| i128::from(byte & 15)),
        "tcpi_delivery_rate_app_limited" => return info.get(7).map(|byte| i128::from(byte & 1)),
        "tcpi_fastopen_client_fail" => return info.get(7).map(|byte| i128::from(byte >> 1 & 3)),
        "tcpi_rcv_wscale" => return info.get(6).map(|byte| i128::from(byte >> 4)),
        "tcpi_ecn_mode" => return info.get(276).map(|byte| i128::from(byte & 3)),
        "tcpi_accecn_opt_seen" => return info.get(276).map(|byte| i128::from(byte >> 2 & 3)),
        "tcpi_accecn_fail_mode" => return info.get(276).map(|byte| i128::from(byte >> 4)),
        _ => {}
    }
    let (_, at, len) = INFO.iter().find(|(known, ..)| *known == name)?;
    let bytes = info.get(*at..at + len)?;
    let mut word = [0; 8];
    // The layout is the machine's; all machines this runs on are little-endian.
    word[..*len].copy_from_slice(bytes);
    Some(i128::from(u64::from_le_bytes(word)))
}
