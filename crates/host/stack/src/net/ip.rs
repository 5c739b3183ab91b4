//! Our addresses and the routes out of the port: where a packet goes next, from which address, how large.

use base::Addr;
use pio::{NetEvent, Route};

/// An address of our own, for ports that do not share the kernel's (tap, shm, sim).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnAddr {
    /// Address.
    pub addr: Addr,
    /// Prefix length in the address's own family.
    pub prefix: u8,
}

/// Addresses between which connections stay inside the stack.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Loopback {
    /// None: what is sent to an address of the stack leaves by the port.
    Off,
    /// The link's own.
    #[default]
    Link,
    /// Those, `127.0.0.0/8` and `::1`.
    All,
}

/// Most addresses and most routes kept; what comes after is counted by the caller and ignored.
const ADDRESSES_MAX: usize = 4096;
const ROUTES_MAX: usize = 4096;

/// The generation under which the ways of looped connections are noted: never that of the routes, so that the compare
/// which finds stale ways finds these connections, too.
pub(crate) const LOOPED: u32 = 0;

/// Where packets to one destination go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    /// The neighbour that gets them: a gateway, or the destination itself.
    pub(crate) next_hop: Addr,
    /// Source address, unless the connection has one.
    pub(crate) src: Addr,
    /// Largest IP packet, bytes.
    pub(crate) mtu: u16,
    /// The destination is an address of the stack: its packets do not leave it.
    pub(crate) looped: bool,
}

/// Addresses, routes and the MTU of one port.
pub(crate) struct Ip {
    /// In order of the address.
    addresses: Vec<OwnAddr>,
    /// First and last address of the IPv4 subnets that they lie in, each once: often all of them are in one.
    edges: Vec<(u32, u32)>,
    /// Longest prefix first, then lowest metric: the first that matches is the route.
    routes: Vec<Route>,
    mtu: usize,
    /// Addresses between which packets stay inside the stack.
    loopback: Loopback,
    /// Changes whenever a way found before may no longer be the best; never [`LOOPED`].
    generation: u32,
}

impl Ip {
    /// With our own addresses and gateways; both empty where the kernel has them.
    pub(crate) fn new(mtu: usize, own: &[OwnAddr], gateways: &[Addr], loopback: Loopback) -> Self {
        let (addresses, edges, routes) = (Vec::new(), Vec::new(), Vec::new());
        let mut ip = Ip { addresses, edges, routes, mtu, loopback, generation: 1 };
        for &own in own {
            ip.add_own(own);
        }
        for &gateway in gateways {
            let dst = if gateway.is_v4() { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 };
            ip.add_route(Route { dst, prefix: 0, gateway: Some(gateway), src: None, metric: 0, mtu: None });
        }
        ip
    }

    /// An address of ours and the way to its neighbours; false if there was no room for both.
    pub(crate) fn add_own(&mut self, own: OwnAddr) -> bool {
        self.touch();
        self.add_address(own) && self.add_route(connected(own))
    }

    /// Ways found under another generation must be looked up again.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// A way may have changed for another reason (a path MTU, a neighbour).
    pub(crate) fn touch(&mut self) {
        self.generation = self.generation.wrapping_add(1).max(LOOPED + 1);
    }

    /// Is this one of our addresses?
    pub(crate) fn is_own(&self, addr: Addr) -> bool {
        self.addresses.binary_search_by_key(&addr, |own| own.addr).is_ok()
    }

    /// Returns true for the addresses of the link, and for those of the loopback where the stack has one.
    pub(crate) fn is_local(&self, addr: Addr) -> bool {
        self.is_own(addr) || self.loopback == Loopback::All && addr.is_loopback()
    }

    /// Returns true if packets to `addr` stay inside the stack.
    pub(crate) fn loops(&self, addr: Addr) -> bool {
        self.loopback != Loopback::Off && self.is_local(addr)
    }

    /// Returns the loopback address of the family of `addr`, where the stack has one.
    pub(crate) fn localhost(&self, addr: Addr) -> Option<Addr> {
        (self.loopback == Loopback::All).then(|| addr.localhost())
    }

    /// Is this not the address of one host but that of many, or of none: a group, the limited broadcast, or the first
    /// or last address of a subnet of ours (RFC 9293, MUST-46, MUST-57 and MUST-63)?
    pub(crate) fn is_of_many(&self, addr: Addr) -> bool {
        if addr.is_multicast_or_broadcast() {
            return true;
        }
        let bits = addr.words()[3];
        let at_edge = self.edges.iter().any(|&(first, last)| bits == first || bits == last);
        at_edge && addr.is_v4() && self.is_edge(addr)
    }

    /// Is it the first or last address of a subnet of ours, and not, on a strange network, the one that we have there?
    #[cold]
    fn is_edge(&self, addr: Addr) -> bool {
        self.addresses
            .iter()
            .filter(|own| own.addr != addr)
            .any(|own| edges_of(own).is_some_and(|(first, last)| [first, last].contains(&addr.words()[3])))
    }

    /// The addresses are others now.
    fn find_edges(&mut self) {
        self.edges = self.addresses.iter().filter_map(edges_of).collect();
        self.edges.sort_unstable();
        self.edges.dedup();
    }

    /// Our addresses.
    pub(crate) fn addresses(&self) -> &[OwnAddr] {
        &self.addresses
    }

    /// Largest IP packet of the port.
    pub(crate) fn mtu(&self) -> u16 {
        self.mtu.min(usize::from(u16::MAX)) as u16
    }

    /// Takes in what the kernel says; false if there was no room for it.
    pub(crate) fn on_event(&mut self, event: &NetEvent) -> bool {
        let kept = match *event {
            NetEvent::AddrAdded { addr, prefix } => self.add_address(OwnAddr { addr, prefix }),
            NetEvent::AddrRemoved { addr } => {
                self.addresses.retain(|own| own.addr != addr);
                self.find_edges();
                true
            }
            NetEvent::RouteAdded(route) => self.add_route(route),
            NetEvent::RouteRemoved(route) => {
                self.routes.retain(|r| !same(r, &route));
                true
            }
            NetEvent::Mtu(mtu) => {
                self.mtu = mtu;
                true
            }
            _ => return true,
        };
        self.touch();
        kept
    }

    fn add_address(&mut self, own: OwnAddr) -> bool {
        match self.addresses.binary_search_by_key(&own.addr, |known| known.addr) {
            Ok(at) => self.addresses[at] = own,
            Err(_) if self.addresses.len() >= ADDRESSES_MAX => return false,
            Err(at) => self.addresses.insert(at, own),
        }
        self.find_edges();
        true
    }

    fn add_route(&mut self, route: Route) -> bool {
        self.routes.retain(|known| !same(known, &route));
        if self.routes.len() >= ROUTES_MAX {
            return false;
        }
        let rank = |r: &Route| (std::cmp::Reverse(r.prefix), r.metric);
        let at = self.routes.partition_point(|known| rank(known) <= rank(&route));
        self.routes.insert(at, route);
        true
    }

    /// The way to `dst`, by longest prefix and lowest metric; `None` without a route or a source address.
    pub(crate) fn way(&self, dst: Addr) -> Option<Way> {
        if self.loops(dst) {
            let src = if dst.is_loopback() { dst.localhost() } else { dst };
            return Some(Way { next_hop: dst, src, mtu: self.mtu(), looped: true });
        }
        let route = self.routes.iter().find(|r| dst.in_prefix(r.dst, r.prefix))?;
        let next_hop = route.gateway.unwrap_or(dst);
        let src = route.src.or_else(|| self.source(dst, next_hop))?;
        let mtu = route.mtu.map_or(self.mtu, |mtu| self.mtu.min(mtu as usize));
        Some(Way { next_hop, src, mtu: mtu.min(usize::from(u16::MAX)) as u16, looped: false })
    }

    /// Our address for packets to `dst` through `next_hop`: RFC 6724, section 5, as far as one interface with
    /// addresses of equal standing needs it: the same address (rule 1), fitting scope (rule 2), then the
    /// longest common prefix, first with the next hop (IPv4 has always chosen the address of the next hop's
    /// subnet).
    /// RFC 9293, MUST-44.
    fn source(&self, dst: Addr, next_hop: Addr) -> Option<Addr> {
        let scope = dst.is_link_local_v6();
        self.addresses
            .iter()
            .filter(|own| own.addr.is_v4() == dst.is_v4())
            .max_by_key(|own| {
                (
                    own.addr == dst,
                    own.addr.is_link_local_v6() == scope,
                    next_hop.in_prefix(own.addr, own.prefix),
                    common_prefix(own.addr, dst),
                )
            })
            .map(|own| own.addr)
    }
}

/// The first and the last address of the IPv4 subnet of an address. The two of a /31 are hosts (RFC 3021).
fn edges_of(own: &OwnAddr) -> Option<(u32, u32)> {
    let hosts = u32::MAX.checked_shr(own.prefix.into())?;
    let bits = own.addr.words()[3];
    (own.prefix < 31 && own.addr.is_v4()).then_some((bits & !hosts, bits | hosts))
}

fn connected(own: OwnAddr) -> Route {
    Route { dst: own.addr, prefix: own.prefix, gateway: None, src: Some(own.addr), metric: 0, mtu: None }
}

/// Do two messages speak of the same route? (The kernel tells routes apart by these.)
fn same(a: &Route, b: &Route) -> bool {
    (a.dst, a.prefix, a.metric, a.gateway) == (b.dst, b.prefix, b.metric, b.gateway)
}

fn common_prefix(a: Addr, b: Addr) -> u32 {
    let mut bits = 0;
    for (a, b) in a.words().into_iter().zip(b.words()) {
        let same = (a ^ b).leading_zeros();
        bits += same;
        if same < 32 {
            break;
        }
    }
    bits
}

#[cfg(test)]
mod tests;
