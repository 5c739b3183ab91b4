//! epoll: what each set watches, and which watches have something to report.
//!
//! An edge (a notice of the stack, a pipe's write) only queues a watch; `epoll_wait` asks for the level when it
//! looks. A level-triggered watch goes back to the end of the queue until its level is gone.

use crate::sockets::{Fd, Ready};
use base::Slab;
use std::collections::VecDeque;

/// No watch.
pub(crate) const NO_WATCH: u32 = u32::MAX;

/// One descriptor in one epoll set.
pub(crate) struct Watch {
    pub(crate) set: u32,
    pub(crate) object: u32,
    /// The caller's number of the descriptor.
    pub(crate) fd: Fd,
    pub(crate) interest: Ready,
    pub(crate) data: u64,
    /// Next watch on the same object.
    next: u32,
    /// It is in its set's queue.
    queued: bool,
    /// Removed while queued: the queue frees it.
    dead: bool,
    /// A one-shot watch that has fired and waits to be modified.
    pub(crate) disarmed: bool,
}

/// An epoll set.
pub(crate) struct EpollSet {
    queue: VecDeque<u32>,
    /// The object of the set itself, for nesting.
    pub(crate) object: u32,
    /// It is, or was, in another set.
    nested: bool,
}

/// All sets and watches of an engine.
pub(crate) struct Watches {
    watches: Slab<Watch>,
    sets: Slab<EpollSet>,
}

impl Watches {
    pub(crate) fn new(limit: u32) -> Self {
        Watches { watches: Slab::new(limit), sets: Slab::new(65_536) }
    }

    /// A new set that belongs to `object`; `None` when there are too many.
    pub(crate) fn create(&mut self, object: u32) -> Option<u32> {
        self.sets.insert(EpollSet { queue: VecDeque::new(), object, nested: false }).ok()
    }

    /// The set is in another one.
    pub(crate) fn nest(&mut self, set: u32) {
        if let Some(set) = self.sets.get_mut(set) {
            set.nested = true;
        }
    }

    /// Ends a set. `forget` is told of every object whose watch list must drop a watch: (object, watch).
    pub(crate) fn destroy(&mut self, set: u32, mut forget: impl FnMut(&mut Self, u32, u32)) {
        let mine: Vec<_> = self
            .watches
            .iter()
            .filter(|(_, w)| w.set == set && !w.dead)
            .map(|(i, w)| (w.object, i))
            .collect();
        for (object, watch) in mine {
            forget(self, object, watch);
        }
        if let Some(set) = self.sets.remove(set) {
            for watch in set.queue {
                self.watches.remove(watch);
            }
        }
    }

    /// The watch of `(set, fd)` in the list that starts at `head`.
    pub(crate) fn find(&self, head: u32, set: u32, fd: Fd) -> Option<u32> {
        self.list(head).find(|&i| self.watches.get(i).is_some_and(|w| w.set == set && w.fd == fd))
    }

    /// The watches of an object, from its head.
    pub(crate) fn list(&self, head: u32) -> impl Iterator<Item = u32> {
        let start = (head != NO_WATCH).then_some(head);
        std::iter::successors(start, |&i| self.watches.get(i).map(|w| w.next).filter(|&n| n != NO_WATCH))
    }

    /// The watch after this one in its object's list.
    pub(crate) fn after(&self, watch: u32) -> u32 {
        self.watches.get(watch).map_or(NO_WATCH, |w| w.next)
    }

    /// Adds a watch in front of the list at `head`; the new head.
    pub(crate) fn add(
        &mut self,
        head: u32,
        set: u32,
        object: u32,
        fd: Fd,
        interest: Ready,
        data: u64,
    ) -> Option<u32> {
        let watch = Watch {
            set,
            object,
            fd,
            interest,
            data,
            next: head,
            queued: false,
            dead: false,
            disarmed: false,
        };
        self.watches.insert(watch).ok()
    }

    pub(crate) fn get(&self, watch: u32) -> Option<&Watch> {
        self.watches.get(watch)
    }

    pub(crate) fn set_interest(&mut self, watch: u32, interest: Ready, data: u64) {
        if let Some(w) = self.watches.get_mut(watch) {
            (w.interest, w.data, w.disarmed) = (interest, data, false);
        }
    }

    /// Takes `watch` out of the list at `head`; the new head.
    pub(crate) fn remove(&mut self, head: u32, watch: u32) -> u32 {
        let Some(w) = self.watches.get_mut(watch) else { return head };
        let next = w.next;
        w.dead = true;
        let queued = w.queued;
        let before = self.list(head).find(|&i| self.watches.get(i).is_some_and(|w| w.next == watch));
        if let Some(before) = before.and_then(|i| self.watches.get_mut(i)) {
            before.next = next;
        }
        if !queued {
            self.watches.remove(watch);
        }
        if head == watch { next } else { head }
    }

    /// Queues the watch if any of `edges` interests it. The object of its set, if there is news of the set for others:
    /// a thread that watches it may not have looked into it since the last.
    pub(crate) fn queue(&mut self, watch: u32, edges: Ready) -> Option<u32> {
        let w = self.watches.get_mut(watch)?;
        let edges = edges.in_all_names().with_urgent();
        if w.dead || w.disarmed || !(w.interest | Ready::ERR | Ready::HUP).any(edges) {
            return None;
        }
        let set = self.sets.get_mut(w.set)?;
        if w.queued {
            return set.nested.then_some(set.object);
        }
        w.queued = true;
        set.queue.push_back(watch);
        Some(set.object)
    }

    /// How many watches wait in the set's queue (some may turn out to have nothing).
    pub(crate) fn queued(&self, set: u32) -> usize {
        self.sets.get(set).map_or(0, |s| s.queue.len())
    }

    /// A one-shot watch has been reported.
    pub(crate) fn disarm(&mut self, watch: u32) {
        if let Some(w) = self.watches.get_mut(watch) {
            w.disarmed = true;
        }
    }

    /// Returns the next watch of the queue that lives and is armed, taken out of it. Every entry that is taken counts
    /// against `entries`, dead ones too, so that a watch that goes back to the end is not met again.
    pub(crate) fn pop(&mut self, set: u32, entries: &mut usize) -> Option<u32> {
        loop {
            *entries = entries.checked_sub(1)?;
            let watch = self.sets.get_mut(set)?.queue.pop_front()?;
            let w = self.watches.get_mut(watch)?;
            w.queued = false;
            if w.dead {
                self.watches.remove(watch);
            } else if !w.disarmed {
                return Some(watch);
            }
        }
    }

    /// Back to the end of the queue: its level is still there.
    pub(crate) fn requeue(&mut self, watch: u32) {
        if let Some(w) = self.watches.get_mut(watch).filter(|w| !w.queued)
            && let Some(set) = self.sets.get_mut(w.set)
        {
            w.queued = true;
            set.queue.push_back(watch);
        }
    }

    /// The watches in a set's queue, to look at.
    pub(crate) fn pending(&self, set: u32) -> impl Iterator<Item = &Watch> {
        let queue = self.sets.get(set).map(|s| &s.queue);
        queue.into_iter().flatten().filter_map(|&i| self.watches.get(i)).filter(|w| !w.dead && !w.disarmed)
    }

    /// The objects a set watches, for the search for circles.
    pub(crate) fn watched(&self, set: u32) -> impl Iterator<Item = u32> {
        self.watches.iter().filter(move |(_, w)| w.set == set && !w.dead).map(|(_, w)| w.object)
    }

    /// Watches alive.
    pub(crate) fn len(&self) -> u32 {
        self.watches.len()
    }

    /// Bytes reserved.
    pub(crate) fn footprint(&self) -> usize {
        self.watches.footprint() + self.sets.footprint()
    }
}
