//! Addresses, endpoints and the key of a flow, one shape for IPv4 and IPv6.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An IP address in one shape: IPv4 lives in the mapped range `::ffff:a.b.c.d` (RFC 4291, section 2.5.5.2),
/// so one table, one comparison and one hash serve both families. A mapped IPv6 address never comes from the
/// wire as such (the stack refuses it), so the two cannot be confused.
///
/// Two halves in network significance order, so that comparing, copying and hashing take two words; packed, so that a
/// key of two of them and their ports takes 36 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C, packed(4))]
pub struct Addr {
    high: u64,
    low: u64,
}

const MAPPED: u32 = 0x0000_ffff;

impl Addr {
    /// `0.0.0.0`.
    pub const UNSPECIFIED_V4: Addr = Addr::mapped(0);
    /// `::`.
    pub const UNSPECIFIED_V6: Addr = Addr { high: 0, low: 0 };

    /// From four bytes.
    pub const fn v4(bytes: [u8; 4]) -> Self {
        Addr::mapped(u32::from_be_bytes(bytes))
    }

    const fn mapped(v4: u32) -> Self {
        Addr { high: 0, low: (MAPPED as u64) << 32 | v4 as u64 }
    }

    /// From sixteen bytes in network order.
    pub const fn v6(o: [u8; 16]) -> Self {
        Addr {
            high: u64::from_be_bytes([o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7]]),
            low: u64::from_be_bytes([o[8], o[9], o[10], o[11], o[12], o[13], o[14], o[15]]),
        }
    }

    /// Is this an IPv4 address?
    pub const fn is_v4(self) -> bool {
        self.high == 0 && self.low >> 32 == MAPPED as u64
    }

    /// `0.0.0.0` or `::`.
    pub const fn is_unspecified(self) -> bool {
        self.high == 0 && (self.low == 0 || self.low == (MAPPED as u64) << 32)
    }

    /// A multicast or IPv4 limited-broadcast address: never a TCP endpoint (RFC 9293, MUST-57).
    pub const fn is_multicast_or_broadcast(self) -> bool {
        let v4 = self.low as u32;
        if self.is_v4() { v4 >> 28 == 0xe || v4 == u32::MAX } else { self.high >> 56 == 0xff }
    }

    /// Returns true for `127.0.0.0/8` and `::1`: no packet on a link may have such an address (RFC 1122, section
    /// 3.2.1.3; RFC 4291, section 2.5.3).
    pub const fn is_loopback(self) -> bool {
        if self.is_v4() { self.low as u32 >> 24 == 127 } else { self.high == 0 && self.low == 1 }
    }

    /// The loopback address of the same family: `127.0.0.1` or `::1`.
    pub const fn localhost(self) -> Addr {
        if self.is_v4() { Addr::v4([127, 0, 0, 1]) } else { Addr { high: 0, low: 1 } }
    }

    /// IPv6 link-local unicast, `fe80::/10`.
    pub const fn is_link_local_v6(self) -> bool {
        self.high >> 54 == 0x3fa
    }

    /// The four words in network significance order; the last is the IPv4 address if this is one.
    pub const fn words(self) -> [u32; 4] {
        [(self.high >> 32) as u32, self.high as u32, (self.low >> 32) as u32, self.low as u32]
    }

    /// The two halves in network significance order.
    pub const fn halves(self) -> [u64; 2] {
        [self.high, self.low]
    }

    /// The IPv4 bytes, if this is IPv4.
    pub const fn v4_bytes(self) -> Option<[u8; 4]> {
        if self.is_v4() { Some((self.low as u32).to_be_bytes()) } else { None }
    }

    /// Sixteen bytes in network order (IPv4 in its mapped form).
    pub fn bytes(self) -> [u8; 16] {
        let mut out = [0; 16];
        for (chunk, half) in out.chunks_exact_mut(8).zip(self.halves()) {
            chunk.copy_from_slice(&half.to_be_bytes());
        }
        out
    }

    /// Does the address lie in `net/prefix`? `prefix` counts within the address's own family.
    pub fn in_prefix(self, net: Addr, prefix: u8) -> bool {
        if self.is_v4() != net.is_v4() {
            return false;
        }
        let mut left = u32::from(prefix.min(if self.is_v4() { 32 } else { 128 }));
        if self.is_v4() {
            left += 96;
        }
        self.words().iter().zip(net.words()).all(|(a, b)| {
            let bits = left.min(32);
            left -= bits;
            bits == 0 || (a ^ b) >> (32 - bits) == 0
        })
    }
}

impl From<IpAddr> for Addr {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => Addr::v4(v4.octets()),
            IpAddr::V6(v6) => Addr::v6(v6.octets()),
        }
    }
}

impl From<Ipv4Addr> for Addr {
    fn from(ip: Ipv4Addr) -> Self {
        Addr::v4(ip.octets())
    }
}

impl From<Ipv6Addr> for Addr {
    fn from(ip: Ipv6Addr) -> Self {
        Addr::v6(ip.octets())
    }
}

impl From<Addr> for IpAddr {
    fn from(addr: Addr) -> Self {
        match addr.v4_bytes() {
            Some(bytes) => IpAddr::V4(Ipv4Addr::from(bytes)),
            None => IpAddr::V6(Ipv6Addr::from(addr.bytes())),
        }
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An address and a TCP port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The address; unspecified means "any" where a listener or a bind allows it.
    pub addr: Addr,
    /// The port in host order; 0 means "choose one" where a bind allows it.
    pub port: u16,
}

impl Endpoint {
    /// An endpoint from its two parts.
    pub const fn new(addr: Addr, port: u16) -> Self {
        Endpoint { addr, port }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(sa: SocketAddr) -> Self {
        Endpoint { addr: sa.ip().into(), port: sa.port() }
    }
}

impl From<Endpoint> for SocketAddr {
    fn from(ep: Endpoint) -> Self {
        SocketAddr::new(ep.addr.into(), ep.port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The two ends of a connection, seen from this host. 36 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    local_addr: Addr,
    remote_addr: Addr,
    local_port: u16,
    remote_port: u16,
}

const _: () = assert!(size_of::<FlowKey>() == 36);

impl FlowKey {
    /// The key of the flow between two endpoints.
    pub const fn new(local: Endpoint, remote: Endpoint) -> Self {
        FlowKey {
            local_addr: local.addr,
            remote_addr: remote.addr,
            local_port: local.port,
            remote_port: remote.port,
        }
    }

    /// Our end.
    pub const fn local(&self) -> Endpoint {
        Endpoint::new(self.local_addr, self.local_port)
    }

    /// The peer's end.
    pub const fn remote(&self) -> Endpoint {
        Endpoint::new(self.remote_addr, self.remote_port)
    }

    /// Do the two ends speak IPv4?
    pub const fn is_v4(&self) -> bool {
        self.remote_addr.is_v4()
    }

    /// Returns the flow as seen from the other end.
    pub const fn reversed(&self) -> Self {
        FlowKey::new(self.remote(), self.local())
    }

    /// Both ports in one word, local in the high half: what hashes and lookups mix.
    pub const fn ports(&self) -> u32 {
        (self.local_port as u32) << 16 | self.remote_port as u32
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}>{}", self.local(), self.remote())
    }
}

#[cfg(test)]
mod tests;
