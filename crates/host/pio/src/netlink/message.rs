//! rtnetlink messages (RFC 3549): bytes to facts, and requests to bytes.
//!
//! The kernel is trusted, the bytes are not: nothing here panics or reads outside, whatever comes in.

use crate::port::Route;
use base::Addr;

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;

/// Cuts `len` bytes, rounded up to a multiple of four, off the front of `rest`.
fn cut<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (item, padded) = (rest.get(..len)?, len.next_multiple_of(4).min(rest.len()));
    *rest = &rest[padded..];
    Some(item)
}

pub(super) fn ne16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_ne_bytes(*b))
}

pub(super) fn ne32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

/// An address of `family` from exactly as many bytes as it has.
fn addr(family: u8, bytes: &[u8]) -> Option<Addr> {
    match i32::from(family) {
        libc::AF_INET => bytes.try_into().ok().map(Addr::v4),
        // A mapped address never is on an interface, and would turn into another family.
        libc::AF_INET6 => bytes.try_into().ok().map(Addr::v6).filter(|addr| !addr.is_v4()),
        _ => None,
    }
}

/// A network interface of the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Index, unique in the network namespace.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Largest IP packet, bytes.
    pub mtu: usize,
    /// Bytes of the largest super-segment that is sent on it; 0 if the kernel does not say.
    pub super_max: usize,
    /// Receive queues that the kernel made for it, of which a driver may use fewer; 0 if the kernel does not say.
    pub rx_queues: u16,
    /// Index of the bridge, bond or VRF that it belongs to.
    pub master: Option<u32>,
    /// Link-layer address (zeros if it has none of six bytes).
    pub mac: [u8; 6],
    /// Is it up, with a carrier?
    pub up: bool,
    /// Is it the loopback interface?
    pub loopback: bool,
}

/// One message of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Message<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) seq: u32,
    pub(super) body: &'a [u8],
}

/// The messages of a datagram; ends at the first that is malformed.
pub(super) struct Messages<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let len = ne32(self.0, 0)? as usize;
        if len < HEADER {
            return None;
        }
        let item = cut(&mut self.0, len)?;
        Some(Message {
            kind: ne16(item, 4)?,
            flags: ne16(item, 6)?,
            seq: ne32(item, 8)?,
            body: &item[HEADER..],
        })
    }
}

/// The attributes after a message's fixed part; ends at the first that is malformed.
pub(super) struct Attributes<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (len, kind) = (usize::from(ne16(self.0, 0)?), ne16(self.0, 2)?);
        if len < 4 {
            return None;
        }
        // The two high bits say "nested" and "network byte order".
        Some((kind & 0x3fff, &cut(&mut self.0, len)?[4..]))
    }
}

/// Fact in a message. `gone` in all of them: it exists no more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fact {
    Link {
        link: Interface,
        gone: bool,
    },
    Addr {
        index: u32,
        addr: Addr,
        prefix: u8,
        gone: bool,
    },
    Route {
        hops: Vec<(u32, Route)>,
        replaces: bool,
        gone: bool,
    },
    Neighbour {
        index: u32,
        addr: Addr,
        mac: Option<[u8; 6]>,
        gone: bool,
    },
    /// The dump is complete.
    Done,
    /// The answer to a request: 0 or an errno.
    Answer(i32),
}

impl Fact {
    /// The fact in a message, if it is one that matters here.
    pub(super) fn of(message: &Message<'_>) -> Option<Fact> {
        let body = message.body;
        match message.kind {
            libc::RTM_NEWLINK | libc::RTM_DELLINK => link(body, message.kind == libc::RTM_DELLINK),
            libc::RTM_NEWADDR | libc::RTM_DELADDR => address(body, message.kind == libc::RTM_DELADDR),
            libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => neighbour(body, message.kind == libc::RTM_DELNEIGH),
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                let replaces = message.flags & libc::NLM_F_REPLACE as u16 != 0;
                route(body, replaces, message.kind == libc::RTM_DELROUTE)
            }
            kind if kind == libc::NLMSG_DONE as u16 => Some(Fact::Done),
            kind if kind == libc::NLMSG_ERROR as u16 => {
                let code = ne32(body, 0)? as i32;
                Some(Fact::Answer(code.saturating_neg()))
            }
            _ => None,
        }
    }
}

/// Attributes of a link, which are younger than some of the headers that programs are built with.
const GSO_MAX_SIZE: u16 = 41;
const GSO_IPV4_MAX_SIZE: u16 = 63;

/// `struct ifinfomsg`: family, pad, type (16), index (32), flags (32), change (32).
fn link(body: &[u8], gone: bool) -> Option<Fact> {
    let flags = ne32(body, 8)? as i32;
    // A carrier that is lost leaves IFF_LOWER_UP at once, and IFF_RUNNING when a worker of the kernel comes to it; with
    // one that is back the kernel sends only from IFF_RUNNING on.
    let all = libc::IFF_UP | libc::IFF_RUNNING | libc::IFF_LOWER_UP;
    let up = flags & all == all;
    let loopback = flags & libc::IFF_LOOPBACK != 0;
    let mut link = Interface {
        index: ne32(body, 4)?,
        name: String::new(),
        mtu: 0,
        super_max: 0,
        rx_queues: 0,
        master: None,
        mac: [0; 6],
        up,
        loopback,
    };
    // Bridges send messages of their own family about their ports, which say nothing of the link itself.
    if body[0] != libc::AF_UNSPEC as u8 {
        return None;
    }
    for (kind, value) in Attributes(body.get(16..)?) {
        match kind {
            libc::IFLA_IFNAME => {
                let name = value.split(|&b| b == 0).next().unwrap_or_default();
                link.name = String::from_utf8_lossy(name).into_owned();
            }
            libc::IFLA_MTU => link.mtu = ne32(value, 0)? as usize,
            GSO_MAX_SIZE | GSO_IPV4_MAX_SIZE => link.super_max = link.super_max.max(ne32(value, 0)? as usize),
            libc::IFLA_NUM_RX_QUEUES => link.rx_queues = u16::try_from(ne32(value, 0)?).unwrap_or(u16::MAX),
            libc::IFLA_MASTER => link.master = ne32(value, 0),
            libc::IFLA_ADDRESS => link.mac = value.try_into().unwrap_or_default(),
            _ => {}
        }
    }
    Some(Fact::Link { link, gone })
}

/// `struct ifaddrmsg`: family, prefix length, flags, scope (8 each), index (32).
fn address(body: &[u8], gone: bool) -> Option<Fact> {
    let (family, prefix, index) = (*body.first()?, *body.get(1)?, ne32(body, 4)?);
    let mut flags = u32::from(*body.get(2)?);
    let (mut local, mut address) = (None, None);
    for (kind, value) in Attributes(body.get(8..)?) {
        match kind {
            libc::IFA_LOCAL => local = addr(family, value),
            libc::IFA_ADDRESS => address = addr(family, value),
            libc::IFA_FLAGS => flags = ne32(value, 0)?,
            _ => {}
        }
    }
    // RFC 4862, section 5.4: no packet may come from an address before it is known to be ours alone. The
    // kernel reports it again then.
    let tentative = flags & libc::IFA_F_TENTATIVE != 0 && flags & libc::IFA_F_OPTIMISTIC == 0;
    let refused = flags & libc::IFA_F_DADFAILED != 0;
    let addr = local.or(address)?;
    let prefix = prefix.min(if addr.is_v4() { 32 } else { 128 });
    Some(Fact::Addr { index, addr, prefix, gone: gone || tentative || refused })
}

/// `struct ndmsg`: family, three of padding, index (32), state (16), flags, type.
fn neighbour(body: &[u8], gone: bool) -> Option<Fact> {
    let (family, index, state) = (*body.first()?, ne32(body, 4)?, ne16(body, 8)?);
    let (mut address, mut mac) = (None, None);
    for (kind, value) in Attributes(body.get(12..)?) {
        match kind {
            libc::NDA_DST => address = addr(family, value),
            libc::NDA_LLADDR => mac = value.try_into().ok(),
            _ => {}
        }
    }
    let usable =
        libc::NUD_REACHABLE | libc::NUD_STALE | libc::NUD_DELAY | libc::NUD_PROBE | libc::NUD_PERMANENT;
    // Multicast maps to a link-layer address by rule, without a neighbour entry (NOARP).
    if state & libc::NUD_NOARP != 0 {
        return None;
    }
    // A first probe under way is neither success nor failure.
    if !gone && state & usable == 0 && state & libc::NUD_FAILED == 0 {
        return None;
    }
    Some(Fact::Neighbour { index, addr: address?, mac, gone: gone || state & usable == 0 || mac.is_none() })
}

/// Content of one route message before it is spread over its next hops.
struct Path {
    index: Option<u32>,
    gateway: Option<Addr>,
}

/// `struct rtmsg`: family, dst_len, src_len, tos, table, protocol, scope, type (8 each), flags (32).
fn route(body: &[u8], replaces: bool, gone: bool) -> Option<Fact> {
    let (family, prefix) = (*body.first()?, *body.get(1)?);
    let (table, kind, flags) = (*body.get(4)?, *body.get(7)?, ne32(body, 8)?);
    let dst = match i32::from(family) {
        libc::AF_INET => Addr::UNSPECIFIED_V4,
        libc::AF_INET6 => Addr::UNSPECIFIED_V6,
        _ => return None,
    };
    if kind != libc::RTN_UNICAST || flags & libc::RTM_F_CLONED != 0 {
        return None;
    }
    let prefix = prefix.min(if dst.is_v4() { 32 } else { 128 });
    let mut base = Route { dst, prefix, gateway: None, src: None, metric: 0, mtu: None };
    let mut table = u32::from(table);
    let mut single = Path { index: None, gateway: None };
    let mut paths = Vec::new();
    for (kind, value) in Attributes(body.get(12..)?) {
        match kind {
            libc::RTA_DST => base.dst = addr(family, value)?,
            libc::RTA_PREFSRC => base.src = addr(family, value),
            libc::RTA_PRIORITY => base.metric = ne32(value, 0)?,
            libc::RTA_TABLE => table = ne32(value, 0)?,
            libc::RTA_METRICS => {
                const RTAX_MTU: u16 = 2;
                let mtu = Attributes(value).find(|&(kind, _)| kind == RTAX_MTU);
                base.mtu = mtu.and_then(|(_, value)| ne32(value, 0));
            }
            libc::RTA_MULTIPATH => paths = multipath(family, value),
            _ => single.read(family, kind, value),
        }
    }
    if table != u32::from(libc::RT_TABLE_MAIN) {
        return None;
    }
    paths.push(single);
    let hops =
        paths.into_iter().filter_map(|path| Some((path.index?, Route { gateway: path.gateway, ..base })));
    Some(Fact::Route { hops: hops.collect(), replaces, gone })
}

impl Path {
    fn read(&mut self, family: u8, kind: u16, value: &[u8]) {
        match kind {
            libc::RTA_OIF => self.index = ne32(value, 0),
            libc::RTA_GATEWAY => self.gateway = addr(family, value),
            // A gateway of the other family (RFC 5549): family (16), then the address.
            libc::RTA_VIA => {
                let family = ne16(value, 0).and_then(|family| u8::try_from(family).ok());
                self.gateway = family.and_then(|family| addr(family, value.get(2..)?));
            }
            _ => {}
        }
    }
}

/// `struct rtnexthop` after one another: length (16), flags, weight (8 each), index (32), then attributes.
fn multipath(family: u8, mut rest: &[u8]) -> Vec<Path> {
    let mut paths = Vec::new();
    while let (Some(len), Some(index)) = (ne16(rest, 0), ne32(rest, 4)) {
        let len = usize::from(len);
        if len < 8 {
            break;
        }
        let Some(item) = cut(&mut rest, len) else { break };
        let mut path = Path { index: Some(index), gateway: None };
        Attributes(&item[8..]).for_each(|(kind, value)| path.read(family, kind, value));
        paths.push(path);
    }
    paths
}

/// A request under construction.
pub(super) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of `kind` whose fixed part is `body`.
    pub(super) fn new(kind: u16, flags: i32, body: &[u8]) -> Request {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((flags | libc::NLM_F_REQUEST) as u16).to_ne_bytes());
        bytes.extend_from_slice(body);
        let mut request = Request { bytes };
        request.pad();
        request
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Append an attribute.
    pub(super) fn attribute(mut self, kind: u16, value: &[u8]) -> Request {
        self.bytes.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// Append an address as an attribute.
    pub(super) fn address(self, kind: u16, addr: Addr) -> Request {
        match addr.v4_bytes() {
            Some(bytes) => self.attribute(kind, &bytes),
            None => self.attribute(kind, &addr.bytes()),
        }
    }

    /// Append an attribute whose value is what `inner` appends.
    pub(super) fn nest(mut self, kind: u16, inner: impl FnOnce(Request) -> Request) -> Request {
        let at = self.bytes.len();
        self = inner(self.attribute(kind, &[]));
        let len = (self.bytes.len() - at) as u16;
        self.bytes[at..at + 2].copy_from_slice(&len.to_ne_bytes());
        self
    }

    /// Append plain bytes (the fixed part of a nested message).
    pub(super) fn bytes(mut self, bytes: &[u8]) -> Request {
        self.bytes.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// The finished request with sequence number `seq`.
    pub(super) fn finish(mut self, seq: u32) -> Vec<u8> {
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&seq.to_ne_bytes());
        self.bytes
    }
}

/// The address family of an address, as byte.
pub(super) fn family(addr: Addr) -> u8 {
    if addr.is_v4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}
