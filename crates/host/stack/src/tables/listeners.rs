//! Listeners: which one a SYN is for, how many connections are half-open, and which wait for accept.

use base::{Addr, Endpoint, Instant};
use pio::Role;
use std::collections::VecDeque;
use std::sync::Arc;
use tcp::SocketOptions;
use tcp::auth::Keyring;

use crate::fast_open::unproven::Unproven;

const BUCKETS: usize = 256;
const NIL: u16 = u16::MAX;

/// A listener of this core; valid until it is closed. (Index below, generation above.)
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ListenerId(pub u32);

/// Options of a listener.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Address (may be unspecified; unspecified v6 takes v4 too unless `v6_only`) and port (0: choose).
    pub local: Endpoint,
    /// Most connections waiting for accept, less one as on Linux. Beyond so many half-open ones SYN cookies answer.
    pub backlog: u32,
    /// SO_REUSEPORT.
    pub reuse_port: bool,
    /// IPV6_V6ONLY.
    pub v6_only: bool,
    /// Options that accepted sockets inherit.
    pub options: SocketOptions,
    /// Congestion control; None is the default.
    pub control: Option<&'static str>,
    /// Owner's handle, given back in notices.
    pub owner: u32,
    /// Keys by peer: a peer with one must sign (RFC 2385, RFC 5925).
    pub keys: Option<Arc<Keyring>>,
}

impl Listen {
    /// At `local`, for `backlog` connections, with the defaults of everything else.
    pub fn new(local: Endpoint, backlog: u32, owner: u32) -> Listen {
        let (reuse_port, v6_only, options) = (false, false, SocketOptions::default());
        Listen { local, backlog, reuse_port, v6_only, options, control: None, owner, keys: None }
    }
}

/// One listener.
pub(crate) struct Listener {
    /// Requested options, with the port chosen.
    pub(crate) request: Listen,
    /// Connections in SYN-RECEIVED.
    pub(crate) half_open: u32,
    /// Connections of clients that showed a cookie and nothing else yet.
    pub(crate) unproven: Unproven,
    /// Connections not accepted yet, first come first.
    pub(crate) queue: VecDeque<u32>,
    /// Until when acknowledgments of SYN cookies are believed.
    pub(crate) cookies_until: Instant,
    /// A notice is due.
    pub(crate) noticed: bool,
    /// Other processes that share the port are to have the new connections.
    pub(crate) parked: bool,
    /// Its part among those of other processes.
    pub(crate) role: Role,
}

struct Slot {
    listener: Option<Listener>,
    generation: u16,
    next: u16,
}

/// The listeners of one core, by port.
pub(crate) struct Listeners {
    slots: Vec<Slot>,
    heads: [u16; BUCKETS],
    len: usize,
    version: u32,
}

impl Listener {
    /// Returns true if no more may wait for accept: as on Linux, one more than the backlog may.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() > self.request.backlog as usize
    }

    /// How well it fits a SYN to `local`: an exact address before one of the family before dual-stack, and of equals
    /// one that is parked last.
    fn rank(&self, local: Endpoint) -> u32 {
        let own = self.request.local;
        let fit = if own.port != local.port {
            0
        } else if own.addr == local.addr {
            3
        } else if !own.addr.is_unspecified() {
            0
        } else if own.addr.is_v4() == local.addr.is_v4() {
            2
        } else {
            u32::from(own.addr == Addr::UNSPECIFIED_V6 && !self.request.v6_only)
        };
        if fit == 0 { 0 } else { 2 * fit - u32::from(self.parked) }
    }
}

impl Listeners {
    pub(crate) fn new() -> Self {
        Listeners { slots: Vec::new(), heads: [NIL; BUCKETS], len: 0, version: 0 }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Starts one; `None` when there are too many.
    pub(crate) fn insert(&mut self, request: Listen, unproven: Unproven) -> Option<ListenerId> {
        let at = match self.slots.iter().position(|slot| slot.listener.is_none()) {
            Some(at) => at,
            None if self.slots.len() < usize::from(NIL) => {
                self.slots.push(Slot { listener: None, generation: 0, next: NIL });
                self.slots.len() - 1
            }
            None => return None,
        };
        let bucket = usize::from(request.local.port) % BUCKETS;
        let slot = &mut self.slots[at];
        slot.next = self.heads[bucket];
        slot.listener = Some(Listener {
            request,
            half_open: 0,
            unproven,
            queue: VecDeque::new(),
            cookies_until: Instant::ZERO,
            noticed: false,
            parked: false,
            role: Role::Peer,
        });
        self.heads[bucket] = at as u16;
        self.len += 1;
        let id = ListenerId(u32::from(slot.generation) << 16 | at as u32);
        self.touch();
        Some(id)
    }

    /// Ends one.
    pub(crate) fn remove(&mut self, id: ListenerId) -> Option<Listener> {
        let at = self.index(id)?;
        let (next, listener) = (self.slots[at].next, self.slots[at].listener.take()?);
        let head = &mut self.heads[usize::from(listener.request.local.port) % BUCKETS];
        if usize::from(*head) == at {
            *head = next;
        } else {
            let before =
                self.slots.iter_mut().find(|slot| slot.listener.is_some() && usize::from(slot.next) == at);
            if let Some(before) = before {
                before.next = next;
            }
        }
        self.slots[at].generation = self.slots[at].generation.wrapping_add(1);
        self.len -= 1;
        self.touch();
        Some(listener)
    }

    /// Changes whenever a SYN may have become another listener's, or its options others.
    #[inline]
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// A listener is not what it was.
    pub(crate) fn touch(&mut self) {
        self.version = self.version.wrapping_add(1);
    }

    /// The listener for every SYN to `local`, if they do not take turns.
    pub(crate) fn only(&self, local: Endpoint) -> Option<ListenerId> {
        let id = self.find(local, 0)?;
        let rank = self.get(id)?.rank(local);
        let fits = |slot: &Slot| slot.listener.as_ref().is_some_and(|listener| listener.rank(local) == rank);
        (self.chain(local.port).filter(|(_, slot)| fits(slot)).count() == 1).then_some(id)
    }

    /// The listener for a SYN to `local`; those that share a port take turns by the flow's `hash`.
    pub(crate) fn find(&self, local: Endpoint, hash: u64) -> Option<ListenerId> {
        let (mut best, mut rivals, mut found) = (0, 0, None);
        for (at, slot) in self.chain(local.port) {
            let rank = slot.listener.as_ref().map_or(0, |listener| listener.rank(local));
            if rank > best {
                (best, rivals, found) = (rank, 1, Some(at));
            } else if rank == best {
                rivals += u64::from(rank > 0);
            }
        }
        if rivals > 1 {
            let nth = (u128::from(hash.rotate_left(32)) * u128::from(rivals)) >> 64;
            found = self.turn_of(local, best, nth as usize, ring::current_cpu);
        }
        let at = found?;
        Some(ListenerId(u32::from(self.slots[usize::from(at)].generation) << 16 | u32::from(at)))
    }

    /// Returns the `nth` of those that fit as well as any; or the next, from there, that is for the CPU `here`, as on
    /// Linux (SO_INCOMING_CPU).
    #[cold]
    fn turn_of(&self, local: Endpoint, best: u32, nth: usize, here: impl Fn() -> Option<u32>) -> Option<u16> {
        let fits = || {
            self.chain(local.port).filter_map(move |(at, slot)| {
                let listener = slot.listener.as_ref()?;
                (listener.rank(local) == best).then_some((at, listener.request.options.incoming_cpu))
            })
        };
        let next = || fits().skip(nth).chain(fits().take(nth));
        let for_cpu = next().find(|(_, cpu)| cpu.is_some()).and_then(|_| {
            let here = here();
            next().find(|(_, cpu)| cpu.is_some() && *cpu == here)
        });
        for_cpu.or_else(|| fits().nth(nth)).map(|(at, _)| at)
    }

    /// The places of this port's bucket.
    fn chain(&self, port: u16) -> impl Iterator<Item = (u16, &Slot)> {
        let mut at = self.heads[usize::from(port) % BUCKETS];
        std::iter::from_fn(move || {
            let slot = self.slots.get(usize::from(at))?;
            let found = (at, slot);
            at = slot.next;
            Some(found)
        })
    }

    /// The listener, if it still lives.
    pub(crate) fn get(&self, id: ListenerId) -> Option<&Listener> {
        self.slots[self.index(id)?].listener.as_ref()
    }

    /// The listener, if it still lives, to change.
    pub(crate) fn get_mut(&mut self, id: ListenerId) -> Option<&mut Listener> {
        let at = self.index(id)?;
        self.slots[at].listener.as_mut()
    }

    /// Every listener.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Listener> {
        self.slots.iter().filter_map(|slot| slot.listener.as_ref())
    }

    /// The ids of all listeners.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ListenerId> {
        let slots = (0..).zip(&self.slots).filter(|(_, slot)| slot.listener.is_some());
        slots.map(|(at, slot): (u32, &Slot)| ListenerId(u32::from(slot.generation) << 16 | at))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Listener> {
        self.slots.iter_mut().filter_map(|slot| slot.listener.as_mut())
    }

    fn index(&self, id: ListenerId) -> Option<usize> {
        let at = id.0 as usize & 0xffff;
        let slot = self.slots.get(at)?;
        (u32::from(slot.generation) == id.0 >> 16).then_some(at)
    }
}

#[cfg(test)]
mod tests;
