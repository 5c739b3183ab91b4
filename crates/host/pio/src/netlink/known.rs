//! State that the owner of a monitor was told, and the difference that a new fact makes.

use super::message::{Fact, Interface};
use crate::port::{NetEvent, Route};
use base::Addr;
use std::collections::{BTreeMap, BTreeSet};

/// Most routes followed on an interface; a full Internet table on it would be a router's, not a host's.
const ROUTES_MAX: usize = 1 << 16;
/// Most neighbours followed.
const NEIGHBOURS_MAX: usize = 1 << 16;
/// Most addresses followed.
const ADDRS_MAX: usize = 1 << 12;

/// A route's identity: another of the same key replaces it.
type RouteKey = (Addr, u8, u32, Option<Addr>);

fn key(route: &Route) -> RouteKey {
    (route.dst, route.prefix, route.metric, route.gateway)
}

/// A thing known, and whether the sweep under way has seen it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry<T> {
    value: T,
    seen: bool,
}

#[derive(Default)]
pub(super) struct Known {
    /// Link-layer address, IP addresses, routes and neighbours are not the owner's business.
    link_only: bool,
    up: Option<bool>,
    mtu: Option<usize>,
    mac: Option<[u8; 6]>,
    link_seen: bool,
    addrs: BTreeMap<Addr, Entry<u8>>,
    routes: BTreeMap<RouteKey, Entry<Route>>,
    neighbours: BTreeMap<Addr, Entry<[u8; 6]>>,
    /// Neighbours the owner asked for that are not known yet.
    expected: BTreeSet<Addr>,
    /// Answers to the owner's questions from known state.
    pub(super) answers: Vec<NetEvent>,
    /// The interface was deleted.
    gone: bool,
    /// It was deleted at some time since this was last taken, also if it is there again.
    pub(super) left: bool,
    /// Its name, as last told.
    name: String,
    /// Another interface that has this name now: it can be the successor of one that is gone.
    namesake: Option<u32>,
    /// The kernel told of the interface itself, changed or not, since this was last taken.
    pub(super) touched: bool,
    /// Something happened of which the kernel does not tell all consequences: routes go with a link that goes
    /// down, or with an address, in silence.
    pub(super) doubtful: bool,
}

impl Known {
    /// Nothing yet.
    pub(super) fn new(link_only: bool) -> Known {
        Known { link_only, ..Known::default() }
    }

    /// The owner waits for news of `addr`. What is known already is told at once, because the kernel may have
    /// nothing new to say; otherwise the next fact is told even if it is no difference.
    pub(super) fn expect(&mut self, addr: Addr) {
        match self.neighbours.get(&addr) {
            Some(entry) if self.answers.len() < NEIGHBOURS_MAX => {
                self.answers.push(NetEvent::Neighbour { addr, mac: entry.value });
            }
            None if self.expected.len() < NEIGHBOURS_MAX => {
                self.expected.insert(addr);
            }
            _ => {}
        }
    }

    /// Take in a fact and append the difference it makes.
    pub(super) fn learn(&mut self, ifindex: u32, fact: Fact, events: &mut Vec<NetEvent>) {
        match fact {
            Fact::Link { link, gone } if link.index == ifindex => self.link(&link, gone, events),
            Fact::Link { link, gone } => self.other_link(&link, gone),
            Fact::Addr { index, addr, prefix, gone } if index == ifindex => {
                self.address(addr, prefix, gone, events);
            }
            Fact::Neighbour { index, addr, mac, gone } if index == ifindex => {
                self.neighbour(addr, mac.filter(|_| !gone), events);
            }
            Fact::Route { hops, replaces, gone } => {
                for (_, route) in hops.iter().filter(|(index, _)| *index == ifindex) {
                    self.route(route, replaces, gone, events);
                }
            }
            _ => {}
        }
    }

    fn link(&mut self, link: &Interface, gone: bool, events: &mut Vec<NetEvent>) {
        (self.link_seen, self.touched) = (true, true);
        self.gone = gone;
        self.left |= gone;
        if self.name != link.name && !link.name.is_empty() {
            self.name.clone_from(&link.name);
            self.namesake = None;
        }
        let up = link.up && !gone;
        if self.up.replace(up) != Some(up) {
            self.doubtful = true;
            events.push(NetEvent::Link { up });
        }
        if gone {
            return;
        }
        if self.mtu.replace(link.mtu) != Some(link.mtu) {
            events.push(NetEvent::Mtu(link.mtu));
        }
        if self.mac.replace(link.mac) != Some(link.mac) && !self.link_only {
            events.push(NetEvent::Mac(link.mac));
        }
    }

    fn other_link(&mut self, link: &Interface, gone: bool) {
        if link.name == self.name && !link.name.is_empty() && !gone {
            self.namesake = Some(link.index);
        } else if self.namesake == Some(link.index) {
            self.namesake = None;
        }
    }

    /// Returns the index of the interface that has the name now: `ifindex` itself unless it is gone.
    pub(super) fn home(&self, ifindex: u32) -> Option<u32> {
        if self.gone { self.namesake } else { Some(ifindex) }
    }

    /// Forgets that the interface was gone: another is followed in its place, whose state is told in any case.
    pub(super) fn begin_anew(&mut self) {
        (self.gone, self.left, self.namesake, self.up) = (false, false, None, None);
    }

    fn address(&mut self, addr: Addr, prefix: u8, gone: bool, events: &mut Vec<NetEvent>) {
        if gone {
            if self.addrs.remove(&addr).is_some() {
                self.doubtful = true;
                events.push(NetEvent::AddrRemoved { addr });
            }
        } else if self.addrs.len() < ADDRS_MAX {
            let old = self.addrs.insert(addr, Entry { value: prefix, seen: true });
            if old.is_none_or(|old| old.value != prefix) {
                events.push(NetEvent::AddrAdded { addr, prefix });
            }
        }
    }

    fn neighbour(&mut self, addr: Addr, mac: Option<[u8; 6]>, events: &mut Vec<NetEvent>) {
        let expected = self.expected.remove(&addr);
        match mac {
            Some(mac) if self.neighbours.len() < NEIGHBOURS_MAX => {
                let old = self.neighbours.insert(addr, Entry { value: mac, seen: true });
                if expected || old.is_none_or(|old| old.value != mac) {
                    events.push(NetEvent::Neighbour { addr, mac });
                }
            }
            _ => {
                if self.neighbours.remove(&addr).is_some() || expected {
                    events.push(NetEvent::NeighbourGone { addr });
                }
            }
        }
    }

    fn route(&mut self, route: &Route, replaces: bool, gone: bool, events: &mut Vec<NetEvent>) {
        let at = key(route);
        if gone {
            if let Some(old) = self.routes.remove(&at) {
                events.push(NetEvent::RouteRemoved(old.value));
            }
            return;
        }
        if replaces {
            // The kernel does not say which route went: any of the same destination and metric.
            self.doubtful = true;
        }
        if self.routes.len() < ROUTES_MAX {
            let old = self.routes.insert(at, Entry { value: *route, seen: true });
            if old.is_none_or(|old| old.value != *route) {
                events.push(NetEvent::RouteAdded(*route));
            }
        }
    }

    /// Everything the kernel has follows; what it has no more is told at the end.
    pub(super) fn begin_sweep(&mut self) {
        self.link_seen = false;
        self.namesake = None;
        self.addrs.values_mut().for_each(|entry| entry.seen = false);
        self.routes.values_mut().for_each(|entry| entry.seen = false);
        self.neighbours.values_mut().for_each(|entry| entry.seen = false);
    }

    pub(super) fn end_sweep(&mut self, events: &mut Vec<NetEvent>) {
        if !self.link_seen {
            (self.gone, self.left) = (true, true);
            if self.up.replace(false) != Some(false) {
                events.push(NetEvent::Link { up: false });
            }
        }
        self.neighbours.retain(|&addr, entry| {
            if !entry.seen {
                events.push(NetEvent::NeighbourGone { addr });
            }
            entry.seen
        });
        self.routes.retain(|_, entry| {
            if !entry.seen {
                events.push(NetEvent::RouteRemoved(entry.value));
            }
            entry.seen
        });
        self.addrs.retain(|&addr, entry| {
            if !entry.seen {
                events.push(NetEvent::AddrRemoved { addr });
            }
            entry.seen
        });
    }
}
