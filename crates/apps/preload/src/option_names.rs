//! Names of socket options, for people: a number and a level tell nobody anything.

use libc::{self as c, c_int};

macro_rules! names {
    ($($name:ident)+) => { &[$((c::$name, stringify!($name))),+] };
}

const SOCKET: &[(c_int, &str)] = names! {
    SO_DEBUG SO_REUSEADDR SO_DONTROUTE SO_BROADCAST SO_SNDBUF SO_RCVBUF SO_KEEPALIVE SO_OOBINLINE SO_PRIORITY
    SO_LINGER SO_REUSEPORT SO_RCVLOWAT SO_RCVTIMEO SO_SNDTIMEO SO_BINDTODEVICE SO_ATTACH_FILTER
    SO_DETACH_FILTER SO_TIMESTAMP SO_TIMESTAMPNS SO_TIMESTAMPING SO_SNDBUFFORCE SO_RCVBUFFORCE SO_PASSCRED
    SO_PASSSEC SO_MARK SO_RXQ_OVFL SO_PEEK_OFF SO_LOCK_FILTER SO_SELECT_ERR_QUEUE SO_BUSY_POLL
    SO_MAX_PACING_RATE SO_ATTACH_BPF SO_ATTACH_REUSEPORT_CBPF SO_ATTACH_REUSEPORT_EBPF SO_INCOMING_CPU
    SO_INCOMING_NAPI_ID SO_ZEROCOPY SO_TXTIME SO_BINDTOIFINDEX SO_PREFER_BUSY_POLL SO_BUSY_POLL_BUDGET
};

const TCP: &[(c_int, &str)] = names! {
    TCP_NODELAY TCP_MAXSEG TCP_CORK TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_SYNCNT TCP_LINGER2
    TCP_DEFER_ACCEPT TCP_WINDOW_CLAMP TCP_QUICKACK TCP_CONGESTION TCP_MD5SIG TCP_THIN_LINEAR_TIMEOUTS
    TCP_THIN_DUPACK TCP_USER_TIMEOUT TCP_REPAIR TCP_FASTOPEN TCP_TIMESTAMP TCP_NOTSENT_LOWAT TCP_SAVE_SYN
    TCP_REPAIR_WINDOW TCP_FASTOPEN_CONNECT TCP_ULP TCP_MD5SIG_EXT TCP_FASTOPEN_KEY TCP_FASTOPEN_NO_COOKIE
    TCP_ZEROCOPY_RECEIVE TCP_INQ
};

const IP: &[(c_int, &str)] = names! {
    IP_TOS IP_TTL IP_OPTIONS IP_RECVOPTS IP_RETOPTS IP_PKTINFO IP_MTU_DISCOVER IP_RECVERR IP_RECVTTL
    IP_RECVTOS IP_FREEBIND IP_TRANSPARENT IP_RECVORIGDSTADDR IP_MINTTL IP_BIND_ADDRESS_NO_PORT IP_MULTICAST_IF
    IP_MULTICAST_TTL IP_MULTICAST_LOOP IP_MULTICAST_ALL IP_UNICAST_IF
};

const IPV6: &[(c_int, &str)] = names! {
    IPV6_UNICAST_HOPS IPV6_V6ONLY IPV6_RECVPKTINFO IPV6_RECVHOPLIMIT IPV6_RECVTCLASS IPV6_TCLASS
    IPV6_MTU_DISCOVER IPV6_MTU IPV6_RECVERR IPV6_MULTICAST_IF IPV6_MULTICAST_HOPS IPV6_MULTICAST_LOOP
    IPV6_FREEBIND IPV6_TRANSPARENT IPV6_DONTFRAG IPV6_AUTOFLOWLABEL
};

/// Returns an option's name in C, or its numbers where it has none here.
pub(crate) fn of(level: c_int, name: c_int) -> String {
    let table = match level {
        c::SOL_SOCKET => SOCKET,
        c::IPPROTO_TCP => TCP,
        c::IPPROTO_IP => IP,
        c::IPPROTO_IPV6 => IPV6,
        _ => &[],
    };
    let known = table.iter().find(|(number, _)| *number == name);
    known.map_or_else(|| format!("socket option {name} of level {level}"), |(_, text)| (*text).to_owned())
}

#[cfg(test)]
mod tests {
    //! Goal: names of options that programs set.
    use super::*;

    #[test]
    fn options_have_their_names() {
        assert_eq!(of(6, 9), "TCP_DEFER_ACCEPT");
        assert_eq!(of(c::SOL_SOCKET, c::SO_PRIORITY), "SO_PRIORITY");
        assert_eq!(of(0, 13), "IP_RECVTOS");
        assert_eq!(of(41, 26), "IPV6_V6ONLY");
        assert_eq!(of(6, 9_999), "socket option 9999 of level 6");
        assert_eq!(of(77, 1), "socket option 1 of level 77");
    }
}
