//! Socket options: one row per option, by Linux's numbers and layouts. What is not in the table fails with
//! ENOPROTOOPT; nothing succeeds without an effect.

mod get;
mod values;

use crate::Errno;
use crate::c;
use crate::engine::{Engine, sof};
use crate::object::{Discover, Extras, FastOpen, Kind, Stream};
use crate::sockets::{Family, Fd};
use crate::transport::Transport;
use base::Duration;
use stack::FastOpenListen;
use tcp::{FastOpenKeys, SocketOptions, State, defer};
pub(crate) use values::timeval_bytes;
use values::{int, rate, secs, timeval};

/// How a value is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// `int`, 0 or 1.
    Bool,
    /// `int` within bounds.
    Int(i32, i32),
    /// `unsigned int`.
    Word,
    /// `struct linger`.
    Linger,
    /// `struct timeval`.
    Time,
    /// A name, NUL-terminated or not.
    Name,
    /// Text: NAME=VALUE to set, and to get the name, which the value replaces. NUL-terminated or not.
    Tunable,
    /// `struct tcp_info`, cut to the buffer.
    Info,
    /// 16 or 32 bytes.
    Keys,
    /// Bytes a second: `unsigned int` or `unsigned long`, with all bits set where there is no limit.
    Rate,
    /// A struct about the keys of signed segments.
    Auth,
    /// `struct ucred`.
    Ucred,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// SOL_SOCKET, IPPROTO_TCP, ...
    pub level: i32,
    /// The option's number.
    pub name: i32,
    /// Its name in C.
    pub text: &'static str,
    /// Layout and bounds.
    pub shape: Shape,
    /// May it be set?
    pub settable: bool,
    /// One line on what it does here.
    pub help: &'static str,
    id: Id,
}

macro_rules! options {
    ($($id:ident: $level:ident $name:ident $shape:expr, $settable:literal, $help:literal;)+) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        enum Id { $($id),+ }

        /// Every option this stack knows.
        pub const TABLE: &[Row] = &[$(Row {
            level: c::$level, name: c::$name, text: stringify!($name), shape: $shape, settable: $settable,
            help: $help, id: Id::$id,
        }),+];
    };
}

const MAX: i32 = i32::MAX;
/// SO_LINGER in seconds from which a connection cuts it: it keeps milliseconds of 32 bits.
const LINGER_KEPT: u32 = u32::MAX / 1_000;
/// TCP_FIN_TIMEOUT_MAX, seconds.
const FIN_WAIT_MAX: i32 = 120;

options! {
    ReuseAddr: SOL_SOCKET SO_REUSEADDR Shape::Bool, true,
        "Allows bind to an address whose earlier connections are in TIME-WAIT.";
    ReusePort: SOL_SOCKET SO_REUSEPORT Shape::Bool, true, "Lets several listeners of this program share a port.";
    KeepAlive: SOL_SOCKET SO_KEEPALIVE Shape::Bool, true, "Probes an idle peer (RFC 9293, 3.8.4).";
    LingerFor: SOL_SOCKET SO_LINGER Shape::Linger, true,
        "Makes close wait so many seconds for unsent data; 0 resets the connection.";
    RcvBuf: SOL_SOCKET SO_RCVBUF Shape::Int(0, MAX), true,
        "Receive buffer in bytes, doubled as on Linux; ends automatic tuning.";
    SndBuf: SOL_SOCKET SO_SNDBUF Shape::Int(0, MAX), true,
        "Send buffer in bytes, doubled as on Linux; ends automatic tuning.";
    RcvTimeo: SOL_SOCKET SO_RCVTIMEO Shape::Time, true, "Longest time that recv and accept block; 0 is no limit.";
    SndTimeo: SOL_SOCKET SO_SNDTIMEO Shape::Time, true, "Longest time that send and connect block; 0 is no limit.";
    RcvLowat: SOL_SOCKET SO_RCVLOWAT Shape::Word, true,
        "Number of queued bytes from which a socket is readable; negative is the largest number.";
    SndLowat: SOL_SOCKET SO_SNDLOWAT Shape::Int(1, 1), false, "Always 1, as on Linux.";
    PendingError: SOL_SOCKET SO_ERROR Shape::Int(0, MAX), false, "Returns the pending error and clears it.";
    SockType: SOL_SOCKET SO_TYPE Shape::Int(0, MAX), false, "SOCK_STREAM.";
    Domain: SOL_SOCKET SO_DOMAIN Shape::Int(0, MAX), false, "AF_INET or AF_INET6.";
    Protocol: SOL_SOCKET SO_PROTOCOL Shape::Int(0, MAX), false, "IPPROTO_TCP.";
    AcceptConn: SOL_SOCKET SO_ACCEPTCONN Shape::Bool, false, "1 for a listener, else 0.";
    ZeroCopy: SOL_SOCKET SO_ZEROCOPY Shape::Int(0, 1), true,
        "Allows MSG_ZEROCOPY, whose completions go to the error queue.";
    Stamp: SOL_SOCKET SO_TIMESTAMP Shape::Bool, true, "Reports the arrival time of received bytes, in microseconds.";
    StampNs: SOL_SOCKET SO_TIMESTAMPNS Shape::Bool, true, "Reports the arrival time of received bytes, in nanoseconds.";
    Stamping: SOL_SOCKET SO_TIMESTAMPING Shape::Int(0, MAX), true,
        "Selects send and receive timestamps by SOF_TIMESTAMPING_* flags; software timestamps only.";
    MaxPacing: SOL_SOCKET SO_MAX_PACING_RATE Shape::Rate, true,
        "Paces the connection at no more than this many bytes per second; all bits set is no limit.";
    Mark: SOL_SOCKET SO_MARK Shape::Word, true,
        "Mark of the socket; accepted sockets inherit it. It changes no routing or filtering here.";
    Priority: SOL_SOCKET SO_PRIORITY Shape::Word, true,
        "Priority of the socket. Links have no priorities, so it has no effect. Values other than 0 to 6 need \
         CAP_NET_ADMIN or CAP_NET_RAW.";
    IncomingCpu: SOL_SOCKET SO_INCOMING_CPU Shape::Word, true,
        "Connection: the CPU that its stack runs on. Listener: the CPU on which it is preferred among those that share \
         its port.";
    PeekOff: SOL_SOCKET SO_PEEK_OFF Shape::Word, true,
        "Offset in bytes at which MSG_PEEK begins. A peek moves it forward, a read moves it back; -1 is off.";
    OobInline: SOL_SOCKET SO_OOBINLINE Shape::Bool, true, "Has no effect: urgent data is always in line.";
    Debug: SOL_SOCKET SO_DEBUG Shape::Bool, true, "Has no effect, as in Linux's TCP; 1 needs CAP_NET_ADMIN.";
    PeerCred: SOL_SOCKET SO_PEERCRED Shape::Ucred, false, "Returns no process, because the peer is on another machine.";
    NoDelay: IPPROTO_TCP TCP_NODELAY Shape::Bool, true, "Sends small segments at once (no Nagle).";
    Cork: IPPROTO_TCP TCP_CORK Shape::Bool, true, "Holds partial segments back for at most 200 ms.";
    MaxSeg: IPPROTO_TCP TCP_MAXSEG Shape::Int(88, 32_767), true,
        "Largest segment in bytes to send and to announce; set it before connect or listen.";
    KeepIdle: IPPROTO_TCP TCP_KEEPIDLE Shape::Int(1, 32_767), true,
        "Seconds of idle time before the first keepalive probe.";
    KeepIntvl: IPPROTO_TCP TCP_KEEPINTVL Shape::Int(1, 32_767), true, "Seconds between keepalive probes.";
    KeepCnt: IPPROTO_TCP TCP_KEEPCNT Shape::Int(1, 127), true,
        "Number of unanswered keepalive probes that end the connection.";
    SynCnt: IPPROTO_TCP TCP_SYNCNT Shape::Int(1, 127), true, "Number of SYN retransmissions before connect fails.";
    Linger2: IPPROTO_TCP TCP_LINGER2 Shape::Word, true,
        "Seconds that an orphan waits in FIN-WAIT-2. 0 takes the setting fin_wait2; a negative number resets the \
         connection at once.";
    DeferAccept: IPPROTO_TCP TCP_DEFER_ACCEPT Shape::Word, true,
        "Listener: seconds that accept waits for a connection's first data, rounded up to 1, 3, 7, 15, ...";
    RtoMin: IPPROTO_TCP TCP_RTO_MIN_US Shape::Int(1, 120_000_000), true,
        "Least retransmission timeout in microseconds.";
    DelackMax: IPPROTO_TCP TCP_DELACK_MAX_US Shape::Int(1, 200_000), true,
        "Longest delay of an acknowledgment in microseconds, where it is below the setting delayed_ack.";
    WindowClamp: IPPROTO_TCP TCP_WINDOW_CLAMP Shape::Int(0, MAX), true, "Largest receive window in bytes to announce.";
    ThinDupAck: IPPROTO_TCP TCP_THIN_DUPACK Shape::Int(0, 1), true, "Has no effect and reads as 0, as on Linux.";
    Inq: IPPROTO_TCP TCP_INQ Shape::Int(0, 1), true,
        "Adds the number of bytes left to read to each received message (TCP_CM_INQ).";
    TcpInfo: IPPROTO_TCP TCP_INFO Shape::Info, false, "State of the connection, in Linux's layout.";
    QuickAck: IPPROTO_TCP TCP_QUICKACK Shape::Bool, true, "Sends acknowledgments without delay.";
    Congestion: IPPROTO_TCP TCP_CONGESTION Shape::Name, true,
        "Congestion control by name; it can change on an open connection.";
    PolicyOption: IPPROTO_TCP TCP_CCALGOOPT Shape::Tunable, true,
        "Parameter of this socket's congestion control, as NAME=VALUE (FreeBSD's option number); it can change on an \
         open connection.";
    UserTimeout: IPPROTO_TCP TCP_USER_TIMEOUT Shape::Int(0, MAX), true,
        "Milliseconds that sent data may stay unacknowledged before ETIMEDOUT; 0 takes the default.";
    NotSentLowat: IPPROTO_TCP TCP_NOTSENT_LOWAT Shape::Word, true,
        "The socket is writable while fewer than half of this many bytes are unsent; 0 takes the default.";
    FastOpen: IPPROTO_TCP TCP_FASTOPEN Shape::Int(0, MAX), true,
        "Listener: largest number of Fast Open connections whose handshake is not complete; 0 is off.";
    FastOpenConnect: IPPROTO_TCP TCP_FASTOPEN_CONNECT Shape::Int(0, 1), true,
        "Delays connect until the first write, whose data goes with the SYN.";
    FastOpenNoCookie: IPPROTO_TCP TCP_FASTOPEN_NO_COOKIE Shape::Int(0, 1), true,
        "Sends data with the SYN although no cookie is known.";
    FastOpenKey: IPPROTO_TCP TCP_FASTOPEN_KEY Shape::Keys, true,
        "Keys of a listener's cookies: the one in use, and an optional second one that is accepted but not issued.";
    Md5Sig: IPPROTO_TCP TCP_MD5SIG Shape::Auth, true, "Key for MD5 signatures to and from one peer (RFC 2385).";
    Md5SigExt: IPPROTO_TCP TCP_MD5SIG_EXT Shape::Auth, true,
        "Key for MD5 signatures to and from all peers with one prefix.";
    AoAddKey: IPPROTO_TCP TCP_AO_ADD_KEY Shape::Auth, true, "Adds a master key tuple of TCP-AO (RFC 5925).";
    AoDelKey: IPPROTO_TCP TCP_AO_DEL_KEY Shape::Auth, true, "Removes a master key tuple of TCP-AO that is not in use.";
    AoInfo: IPPROTO_TCP TCP_AO_INFO Shape::Auth, true,
        "Chooses the current TCP-AO keys, requires TCP-AO, accepts ICMP errors; returns the counters.";
    AoGetKeys: IPPROTO_TCP TCP_AO_GET_KEYS Shape::Auth, false, "Returns the master key tuples of TCP-AO.";
    Tos: IPPROTO_IP IP_TOS Shape::Word, true, "DSCP of sent packets, in the lowest byte; TCP sets the ECN bits.";
    Ttl: IPPROTO_IP IP_TTL Shape::Int(1, 255), true, "Time to live of sent packets.";
    RecvTtl: IPPROTO_IP IP_RECVTTL Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RecvTos: IPPROTO_IP IP_RECVTOS Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RecvOpts: IPPROTO_IP IP_RECVOPTS Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RetOpts: IPPROTO_IP IP_RETOPTS Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    PktInfo: IPPROTO_IP IP_PKTINFO Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RecvPktInfo6: IPPROTO_IPV6 IPV6_RECVPKTINFO Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RecvHops6: IPPROTO_IPV6 IPV6_RECVHOPLIMIT Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RecvTClass: IPPROTO_IPV6 IPV6_RECVTCLASS Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    Broadcast: SOL_SOCKET SO_BROADCAST Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    NoCheck: SOL_SOCKET SO_NO_CHECK Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    Overflows: SOL_SOCKET SO_RXQ_OVFL Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    PassSecurity: IPPROTO_IP IP_PASSSEC Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RecvOriginal: IPPROTO_IP IP_RECVORIGDSTADDR Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RecvChecksum: IPPROTO_IP IP_CHECKSUM Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RecvHopOptions6: IPPROTO_IPV6 IPV6_RECVHOPOPTS Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RecvRouting6: IPPROTO_IPV6 IPV6_RECVRTHDR Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RecvOptions6: IPPROTO_IPV6 IPV6_RECVDSTOPTS Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RecvPathMtu6: IPPROTO_IPV6 IPV6_RECVPATHMTU Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RecvOriginal6: IPPROTO_IPV6 IPV6_RECVORIGDSTADDR Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    RecvFragments6: IPPROTO_IPV6 IPV6_RECVFRAGSIZE Shape::Bool, true, "Has no effect on TCP: it is for datagrams.";
    NoPort: IPPROTO_IP IP_BIND_ADDRESS_NO_PORT Shape::Bool, true,
        "Has no effect: a port that bind chose can always serve several peers.";
    FreeBind: IPPROTO_IP IP_FREEBIND Shape::Bool, true, "Allows bind to an address that the stack does not have yet.";
    FreeBind6: IPPROTO_IPV6 IPV6_FREEBIND Shape::Bool, true,
        "Allows bind to an IPv6 address that the stack does not have yet.";
    MtuDiscover: IPPROTO_IP IP_MTU_DISCOVER Shape::Int(c::IP_PMTUDISC_DONT, c::IP_PMTUDISC_OMIT), true,
        "Path MTU discovery. DF is always set; WANT and DO turn off discovery without ICMP.";
    MtuDiscover6: IPPROTO_IPV6 IPV6_MTU_DISCOVER Shape::Int(c::IPV6_PMTUDISC_DONT, c::IPV6_PMTUDISC_OMIT), true,
        "Path MTU discovery for IPv6. WANT and DO turn off discovery without ICMP.";
    Mtu: IPPROTO_IP IP_MTU Shape::Int(0, MAX), false, "Path MTU of the connection, in bytes.";
    TClass: IPPROTO_IPV6 IPV6_TCLASS Shape::Int(0, 255), true, "Traffic class of sent packets.";
    Hops: IPPROTO_IPV6 IPV6_UNICAST_HOPS Shape::Int(0, 255), true, "Hop limit of sent packets.";
    Mtu6: IPPROTO_IPV6 IPV6_MTU Shape::Int(0, MAX), false, "Path MTU of the connection, in bytes.";
    V6Only: IPPROTO_IPV6 IPV6_V6ONLY Shape::Bool, true, "Keeps IPv4 off an IPv6 socket; set it before bind.";
}

impl Id {
    /// Returns the bit of an option that is kept and told, and does nothing, as in Linux's TCP.
    fn kept(self) -> Option<u32> {
        const KEPT: [Id; 23] = [
            Id::OobInline,
            Id::RecvTtl,
            Id::RecvTos,
            Id::RecvOpts,
            Id::RetOpts,
            Id::PktInfo,
            Id::RecvPktInfo6,
            Id::RecvHops6,
            Id::RecvTClass,
            Id::Broadcast,
            Id::NoCheck,
            Id::Overflows,
            Id::PassSecurity,
            Id::RecvOriginal,
            Id::RecvChecksum,
            Id::RecvHopOptions6,
            Id::RecvRouting6,
            Id::RecvOptions6,
            Id::RecvPathMtu6,
            Id::RecvOriginal6,
            Id::RecvFragments6,
            Id::Debug,
            Id::NoPort,
        ];
        KEPT.iter().position(|kept| *kept == self).map(|at| 1 << at)
    }

    /// Returns the bit of `Settings::binding`.
    fn binding(self) -> u8 {
        match self {
            Id::ReuseAddr => 1,
            Id::ReusePort => 2,
            Id::FreeBind | Id::FreeBind6 => 4,
            _ => 8,
        }
    }

    /// The value, out of the bounds, that takes a choice back.
    fn usual(self) -> Option<i32> {
        match self {
            Id::MaxSeg => Some(0),
            Id::Ttl | Id::Hops | Id::TClass => Some(-1),
            _ => None,
        }
    }
}

/// Finds a row by Linux's numbers.
pub fn find(level: i32, name: i32) -> Option<&'static Row> {
    // Where `time_t` has 64 bits, these two have the structure of those without _NEW.
    let name = match (level, name) {
        (c::SOL_SOCKET, c::SO_RCVTIMEO_NEW) => c::SO_RCVTIMEO,
        (c::SOL_SOCKET, c::SO_SNDTIMEO_NEW) => c::SO_SNDTIMEO,
        _ => name,
    };
    TABLE.iter().find(|row| row.level == level && row.name == name)
}

/// Writes one plain option into `o`; false if `id` is not one of those.
fn set_plain(o: &mut SocketOptions, id: Id, v: i32) -> bool {
    let on = v != 0;
    match id {
        Id::KeepAlive => o.keepalive = on,
        Id::RcvBuf => o.rcvbuf = (v as u32).saturating_mul(2).max(2_304),
        Id::SndBuf => o.sndbuf = (v as u32).saturating_mul(2).max(4_608),
        Id::RcvLowat => o.rcv_lowat = u32::try_from(v).unwrap_or(MAX as u32).max(1),
        Id::NoDelay => o.nodelay = on,
        Id::Cork => o.cork = on,
        Id::MaxSeg => o.max_seg = v as u16,
        Id::KeepIdle => o.keep_idle = secs(v),
        Id::KeepIntvl => o.keep_interval = secs(v),
        Id::KeepCnt => o.keep_count = v as u8,
        Id::SynCnt => o.syn_count = v as u8,
        Id::WindowClamp => o.window_clamp = v as u32,
        Id::QuickAck => o.quickack = Some(on),
        Id::UserTimeout => o.user_timeout = Duration::from_millis(v as u64),
        Id::Linger2 => o.times.fin_wait2 = (v != 0).then(|| secs(v.clamp(0, FIN_WAIT_MAX))),
        Id::RtoMin => o.times.rto_min = Duration::from_micros(v as u64),
        Id::DelackMax => o.times.delayed_ack = Duration::from_micros(v as u64),
        Id::NotSentLowat => o.notsent_lowat = v as u32,
        // IPV6_TCLASS: -1 is the system's default (RFC 3542, 6.5).
        Id::TClass if v == -1 => o.tos = 0,
        Id::Tos | Id::TClass => o.tos = v as u8 & !3,
        Id::Ttl | Id::Hops => o.ttl = u8::try_from(v).ok(),
        _ => return false,
    }
    true
}

fn get_plain(o: &SocketOptions, id: Id) -> Option<i32> {
    Some(match id {
        Id::KeepAlive => o.keepalive.into(),
        Id::RcvLowat => o.rcv_lowat.max(1) as i32,
        Id::NoDelay => o.nodelay.into(),
        Id::Cork => o.cork.into(),
        Id::KeepIdle => o.keep_idle.as_secs() as i32,
        Id::KeepIntvl => o.keep_interval.as_secs() as i32,
        Id::KeepCnt => o.keep_count.into(),
        Id::SynCnt if o.syn_count > 0 => o.syn_count.into(),
        Id::WindowClamp => o.window_clamp as i32,
        Id::QuickAck => (o.quickack != Some(false)).into(),
        Id::UserTimeout => o.user_timeout.as_millis() as i32,
        Id::NotSentLowat => o.notsent_lowat as i32,
        Id::Tos | Id::TClass => o.tos.into(),
        Id::Ttl | Id::Hops => o.ttl.unwrap_or(64).into(),
        _ => return None,
    })
}

impl<T: Transport> Engine<T> {
    /// See [`crate::Sockets::setsockopt`].
    pub fn setsockopt(&mut self, fd: Fd, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
        self.require_socket(fd)?;
        let row = find(level, name).filter(|row| row.settable).ok_or(Errno::ENOPROTOOPT)?;
        if level == c::IPPROTO_IPV6 && self.family(fd)? == Family::V4 {
            return Err(Errno::ENOPROTOOPT);
        }
        match row.shape {
            Shape::Linger => self.set_linger(fd, value),
            Shape::Time => {
                let time = timeval(value)?;
                self.change_extras(fd, |w| if row.id == Id::RcvTimeo { w.recv = time } else { w.send = time })
            }
            Shape::Name => self.set_congestion(fd, value),
            Shape::Tunable => self.set_tunable(fd, value),
            Shape::Bool if row.id == Id::FreeBind && value.is_empty() => Err(Errno::EINVAL),
            // The one option of IPv6 whose length Linux does not look at.
            Shape::Bool if row.id == Id::RecvFragments6 && value.len() < 4 => self.set_int(fd, row.id, 0),
            Shape::Bool => self.set_int(fd, row.id, i32::from(int(level, value)? != 0)),
            Shape::Word => self.set_int(fd, row.id, int(level, value)?),
            Shape::Int(min, max) => {
                let v = int(level, value)?;
                if !(min..=max).contains(&v) && row.id.usual() != Some(v) {
                    return Err(Errno::EINVAL);
                }
                self.set_int(fd, row.id, v)
            }
            Shape::Keys => {
                let keys = FastOpenKeys::new(value).ok_or(Errno::EINVAL)?;
                self.change_fast_open(fd, |request| request.keys = Some(keys))
            }
            Shape::Rate => {
                let max_pacing = rate(value)?;
                let options = self.options(fd)?;
                self.store_options(fd, SocketOptions { max_pacing, ..options })
            }
            Shape::Auth => self.set_keys(fd, name, value),
            Shape::Info | Shape::Ucred => Err(Errno::ENOPROTOOPT),
        }
    }

    fn require_socket(&self, fd: Fd) -> Result<(), Errno> {
        match self.object(fd)?.kind {
            Kind::Fresh(_) | Kind::Listener(_) | Kind::Stream(_) => Ok(()),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    fn set_int(&mut self, fd: Fd, id: Id, v: i32) -> Result<(), Errno> {
        if id == Id::Tos && self.get_int(fd, id)? != i32::from(v as u8 & !3) {
            // As on Linux, another type of service is another priority (its rt_tos2priority).
            let priority = [0, 2, 6, 4][usize::from(v as u8 >> 3 & 3)];
            if self.extras(fd).priority != priority {
                self.change_extras(fd, |e| e.priority = priority)?;
            }
        }
        if self.is_of_other_family(fd, id)? {
            return self.set_of_other_family(fd, id, v);
        }
        if id == Id::MaxSeg && self.is_negotiated(fd) {
            return self.change_extras(fd, |e| e.max_seg = Some(v as u16));
        }
        if id == Id::MaxSeg
            && self.stream(fd).is_ok_and(|stream| self.core.state(stream.conn) == State::SynSent)
        {
            let told = self.get_int(fd, id)? as u16;
            self.change_extras(fd, |e| e.told_mss = Some(told))?;
        }
        let mut options = self.options(fd)?;
        if set_plain(&mut options, id, v) {
            self.store_options(fd, options)?;
            match id {
                Id::NoDelay if v != 0 => self.push(fd),
                Id::Cork if v == 0 => self.uncork(fd),
                Id::RcvLowat => {
                    if options.rcv_lowat > 1 || self.extras(fd).too_few > 0 {
                        self.change_extras(fd, |e| e.too_few = options.rcv_lowat - 1)?;
                    }
                    self.tell_readable(fd)?;
                }
                Id::NotSentLowat => self.tell_writable(fd)?,
                _ => {}
            }
            return Ok(());
        }
        if id == Id::Debug && v != 0 && !pio::userns::has_capability(pio::userns::CAP_NET_ADMIN) {
            return Err(Errno::EACCES);
        }
        if let Some(bit) = id.kept() {
            if v == 0 && self.extras(fd).kept & bit == 0 {
                // It is so, and takes no memory.
                return Ok(());
            }
            return self.change_extras(fd, |e| e.kept = e.kept & !bit | if v == 0 { 0 } else { bit });
        }
        match id {
            Id::ZeroCopy => return self.change_extras(fd, |e| e.zero_copy = v != 0),
            Id::Inq => return self.change_extras(fd, |e| e.inq = v != 0),
            Id::ThinDupAck => return Ok(()),
            Id::Mark => return self.change_extras(fd, |e| e.mark = v as u32),
            Id::IncomingCpu if matches!(self.object(fd)?.kind, Kind::Stream(_)) => {
                // Linux, too, tells another number after the next segment.
                return Ok(());
            }
            Id::IncomingCpu => {
                let incoming_cpu = u32::try_from(v).ok();
                return self.store_options(fd, SocketOptions { incoming_cpu, ..options });
            }
            Id::DeferAccept => {
                let timeouts = defer::timeouts_of(u32::try_from(v).unwrap_or(0));
                if !matches!(self.object(fd)?.kind, Kind::Stream(_)) {
                    self.store_options(fd, SocketOptions { defer_accept: timeouts, ..options })?;
                }
                return self.change_extras(fd, |e| e.defer_accept = timeouts);
            }
            Id::Priority if !(0..=6).contains(&v) && !may_choose_any_priority() => return Err(Errno::EPERM),
            Id::Priority => return self.change_extras(fd, |e| e.priority = v),
            Id::PeekOff => return self.change_extras(fd, |e| e.peek_offset = u32::try_from(v).ok()),
            Id::MtuDiscover | Id::MtuDiscover6 => {
                let discover = Discover::of(v)?;
                options.black_holes = !discover.heeds_icmp();
                self.store_options(fd, options)?;
                return self.change_extras(fd, |e| e.discover = discover);
            }
            Id::Stamp | Id::StampNs | Id::Stamping => return self.set_dates(fd, id, v),
            _ => {}
        }
        if id == Id::FastOpen {
            return self.change_fast_open(fd, |request| request.queue = Some(v as u32));
        }
        if id == Id::FastOpenConnect && !self.has_fast_open() {
            return Err(Errno::EOPNOTSUPP);
        }
        // What is said about binding changes nothing that is still to come once it is done. V6ONLY is too late for a
        // socket that has a port; one that the stack chose is gone with the connection.
        let has_port = |stream: &Stream| stream.again.as_ref().is_some_and(|again| again.bound.is_some());
        let is_free =
            self.has_closed(fd) && self.stream(fd).is_ok_and(|stream| stream.v6 && !has_port(stream));
        let late = matches!(id, Id::ReuseAddr | Id::ReusePort | Id::FreeBind | Id::FreeBind6)
            || id == Id::V6Only && is_free;
        self.keep_earlier(fd)?;
        let settings = match &mut self.object_mut(fd)?.kind {
            Kind::Fresh(settings) => settings,
            Kind::Listener(listener) if late => &mut listener.settings,
            Kind::Stream(stream) if late => {
                stream.binding = stream.binding & !id.binding() | if v == 0 { 0 } else { id.binding() };
                return Ok(());
            }
            _ => return Err(Errno::EINVAL),
        };
        match id {
            Id::ReuseAddr => settings.reuse_addr = v != 0,
            Id::ReusePort => settings.reuse_port = v != 0,
            Id::FreeBind | Id::FreeBind6 => settings.free_bind = v != 0,
            Id::V6Only if settings.family == Family::V4 => return Err(Errno::ENOPROTOOPT),
            Id::V6Only if settings.bound.is_some() => return Err(Errno::EINVAL),
            Id::V6Only => settings.v6_only = v != 0,
            _ if settings.deferred.is_some() => return Err(Errno::EINVAL),
            Id::FastOpenConnect => settings.fast_open.connect = v != 0,
            Id::FastOpenNoCookie => settings.fast_open.no_cookie = v != 0,
            _ => return Err(Errno::ENOPROTOOPT),
        }
        Ok(())
    }

    /// Returns true if the option is for packets of the family that this socket does not send.
    fn is_of_other_family(&self, fd: Fd, id: Id) -> Result<bool, Errno> {
        let v4 = match id {
            Id::Tos | Id::Ttl | Id::MtuDiscover => true,
            Id::TClass | Id::Hops | Id::MtuDiscover6 => false,
            _ => return Ok(false),
        };
        Ok(self.family(fd)? == Family::V6 && v4 != self.is_mapped(fd))
    }

    fn set_of_other_family(&mut self, fd: Fd, id: Id, v: i32) -> Result<(), Errno> {
        let mut other = self.extras(fd).other;
        let mut plain = SocketOptions { tos: other.tos, ttl: other.ttl, ..SocketOptions::default() };
        if set_plain(&mut plain, id, v) {
            (other.tos, other.ttl) = (plain.tos, plain.ttl);
        } else {
            other.discover = Discover::of(v)?;
        }
        if other == self.extras(fd).other {
            // It is so, and takes no memory.
            return Ok(());
        }
        self.change_extras(fd, |e| e.other = other)
    }

    /// Returns true if the connection has agreed on its segments with the peer: as on Linux, TCP_MAXSEG comes too late.
    fn is_negotiated(&self, fd: Fd) -> bool {
        let conn = self.stream(fd).map(|stream| stream.conn);
        conn.is_ok_and(|conn| !matches!(self.core.state(conn), State::SynSent | State::SynReceived))
    }

    fn set_dates(&mut self, fd: Fd, id: Id, v: i32) -> Result<(), Errno> {
        let mut dates = self.extras(fd).dates;
        match id {
            // As on Linux the two exclude each other.
            Id::Stamp => (dates.micros, dates.nanos) = (v != 0, false),
            Id::StampNs => (dates.micros, dates.nanos) = (false, v != 0),
            _ => {
                let flags = v as u32;
                if flags & !sof::KNOWN != 0 {
                    return Err(Errno::EINVAL);
                }
                if flags & sof::OPT_ID != 0 && dates.stamping & sof::OPT_ID == 0 {
                    dates.first = self.bytes_so_far(fd, flags & sof::OPT_ID_TCP != 0)?;
                }
                dates.stamping = flags;
            }
        }
        let mut options = self.options(fd)?;
        options.dated = dates.arrivals();
        self.store_options(fd, options)?;
        self.change_extras(fd, |e| e.dates = dates)
    }

    /// Bytes of the stream acknowledged, or `written`, modulo 2^32; only a connection has any (EINVAL).
    fn bytes_so_far(&mut self, fd: Fd, written: bool) -> Result<u32, Errno> {
        let conn = self.stream(fd).map_err(|_| Errno::EINVAL)?.conn;
        let info = self.core.info(self.now(), conn).ok_or(Errno::EINVAL)?;
        let waiting = if written { self.core.unsent(conn).0 } else { 0 };
        Ok((info.bytes_acked as u32).wrapping_add(waiting))
    }

    /// Changes what a socket that listens, or will, grants to clients with a cookie.
    fn change_fast_open(&mut self, fd: Fd, change: impl FnOnce(&mut FastOpenListen)) -> Result<(), Errno> {
        match &mut self.object_mut(fd)?.kind {
            Kind::Fresh(settings) => change(&mut settings.fast_open.listen),
            Kind::Listener(listener) => {
                change(&mut listener.settings.fast_open.listen);
                let (id, request) = (listener.id, listener.settings.fast_open.listen);
                self.core.set_fast_open(id, request);
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    fn fast_open(&self, fd: Fd) -> Result<FastOpen, Errno> {
        match &self.object(fd)?.kind {
            Kind::Fresh(settings) => Ok(settings.fast_open),
            Kind::Listener(listener) => Ok(listener.settings.fast_open),
            _ => Ok(FastOpen::default()),
        }
    }

    fn set_linger(&mut self, fd: Fd, value: &[u8]) -> Result<(), Errno> {
        let on = int(c::SOL_SOCKET, value)? != 0;
        let seconds = int(c::SOL_SOCKET, value.get(4..).unwrap_or_default())?;
        let mut options = self.options(fd)?;
        let (before, lingered) = (options.linger, self.lingered(fd)?);
        // As on Linux a negative number is a large one.
        let seconds = seconds as u32;
        options.linger = on.then(|| Duration::from_secs(seconds.into()));
        self.store_options(fd, options)?;
        match before {
            // A connection keeps no longer time than this.
            _ if on && seconds >= LINGER_KEPT => self.change_extras(fd, |e| e.lingered = seconds),
            // What was set last is told, although it is off.
            Some(_) if !on => self.change_extras(fd, |e| e.lingered = lingered),
            _ => Ok(()),
        }
    }

    /// Returns the seconds of SO_LINGER that were set last.
    fn lingered(&self, fd: Fd) -> Result<u32, Errno> {
        let kept =
            self.options(fd)?.linger.map(|time| time.as_secs()).filter(|kept| *kept < LINGER_KEPT.into());
        Ok(kept.map_or(self.extras(fd).lingered, |kept| kept as u32))
    }

    /// The family that the socket was made for; of an accepted one, its listener's.
    fn family(&self, fd: Fd) -> Result<Family, Errno> {
        match &self.object(fd)?.kind {
            Kind::Fresh(settings) => Ok(settings.family),
            Kind::Listener(listener) => Ok(listener.settings.family),
            Kind::Stream(stream) if stream.v6 => Ok(Family::V6),
            Kind::Stream(_) => Ok(Family::V4),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    pub(crate) fn options(&self, fd: Fd) -> Result<SocketOptions, Errno> {
        match &self.object(fd)?.kind {
            Kind::Fresh(settings) => Ok(settings.options),
            Kind::Listener(listener) => Ok(listener.settings.options),
            Kind::Stream(stream) => Ok(self.core.options(stream.conn)),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    fn store_options(&mut self, fd: Fd, options: SocketOptions) -> Result<(), Errno> {
        match &mut self.object_mut(fd)?.kind {
            Kind::Fresh(settings) => settings.options = options,
            Kind::Listener(listener) => {
                listener.settings.options = options;
                let id = listener.id;
                self.core.set_listener_options(id, options);
            }
            Kind::Stream(stream) => {
                let conn = stream.conn;
                self.core.set_options(self.now(), conn, options);
            }
            _ => return Err(Errno::ENOTSOCK),
        }
        Ok(())
    }

    /// Connections that a listener has, and that are not accepted yet, keep its options as they are.
    fn keep_earlier(&mut self, fd: Fd) -> Result<(), Errno> {
        if let Kind::Listener(listener) = &self.object(fd)?.kind {
            let queued = self.core.acceptable(listener.id);
            if let Kind::Listener(listener) = &mut self.object_mut(fd)?.kind {
                listener.keep_earlier(queued);
            }
        }
        Ok(())
    }

    fn change_extras(&mut self, fd: Fd, change: impl FnOnce(&mut Extras)) -> Result<(), Errno> {
        self.keep_earlier(fd)?;
        match &mut self.object_mut(fd)?.kind {
            Kind::Fresh(settings) => change(&mut settings.extras),
            Kind::Listener(listener) => change(&mut listener.settings.extras),
            Kind::Stream(stream) => change(stream.extras.get_or_insert_default()),
            _ => return Err(Errno::ENOTSOCK),
        }
        Ok(())
    }

    fn set_congestion(&mut self, fd: Fd, value: &[u8]) -> Result<(), Errno> {
        let end = value.iter().position(|&b| b == 0).unwrap_or(value.len());
        let name = str::from_utf8(&value[..end]).ok().filter(|_| !value.is_empty()).ok_or(Errno::EINVAL)?;
        // Linux calls its NewReno "reno".
        let name = if name == "reno" { "newreno" } else { name };
        let stream = self.stream(fd).ok().map(|stream| stream.conn);
        if stream.is_some_and(|conn| self.core.control_name(conn) == name) {
            // Even if the policy has been withdrawn: who has it keeps it.
            return Ok(());
        }
        let known = self.core.find_control(name)?;
        match &mut self.object_mut(fd)?.kind {
            Kind::Fresh(settings) => settings.choose_control(known),
            Kind::Listener(listener) => {
                listener.settings.choose_control(known);
                let id = listener.id;
                self.core.set_listener_control(id, known);
            }
            Kind::Stream(stream) => {
                let conn = stream.conn;
                self.core.set_control(self.now(), conn, known)?;
            }
            _ => return Err(Errno::ENOTSOCK),
        }
        Ok(())
    }
}

/// Returns true if SO_PRIORITY takes any value from this thread (socket(7)).
fn may_choose_any_priority() -> bool {
    use pio::userns::{CAP_NET_ADMIN, CAP_NET_RAW, has_capability};
    has_capability(CAP_NET_ADMIN) || has_capability(CAP_NET_RAW)
}
