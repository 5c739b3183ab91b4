//! Epoll sets: what each watches, and what of it is ready.

use super::{Engine, NEST_MAX};
use crate::Errno;
use crate::object::Kind;
use crate::sockets::{EpollEvent, EpollOp, Fd, Ready};
use crate::transport::Transport;
use crate::watch::{NO_WATCH, Watch};

impl<T: Transport> Engine<T> {
    /// See [`crate::Sockets::epoll_create`].
    pub fn epoll_create(&mut self) -> Result<Fd, Errno> {
        let (fd, index) = self.descriptors.insert(Kind::Epoll(0))?;
        let Some(set) = self.watches.create(index) else {
            self.close(fd)?;
            return Err(Errno::EMFILE);
        };
        self.object_mut(fd)?.kind = Kind::Epoll(set);
        Ok(fd)
    }

    fn set_of(&self, epfd: Fd) -> Result<u32, Errno> {
        match self.object(epfd)?.kind {
            Kind::Epoll(set) => Ok(set),
            _ => Err(Errno::EINVAL),
        }
    }

    /// See [`crate::Sockets::epoll_ctl`].
    pub fn epoll_ctl(&mut self, epfd: Fd, fd: Fd, op: EpollOp) -> Result<(), Errno> {
        self.epoll_ctl_as(epfd, fd, fd, op)
    }

    /// As `epoll_ctl`, for a caller with descriptor numbers of its own: `number` is its name for the descriptor. A
    /// set may have a socket under several.
    pub(crate) fn epoll_ctl_as(&mut self, epfd: Fd, fd: Fd, number: Fd, op: EpollOp) -> Result<(), Errno> {
        let set = self.set_of(epfd)?;
        let object = self.index(fd)?;
        if object == self.index(epfd)? {
            return Err(Errno::EINVAL);
        }
        let inner = match self.object(fd)?.kind {
            Kind::Epoll(inner) => Some(inner),
            _ => None,
        };
        if let EpollOp::Add(event) | EpollOp::Modify(event) = op
            && event.ready.any(Ready::EXCLUSIVE)
            && (matches!(op, EpollOp::Modify(_)) || inner.is_some() || !event.ready.may_be_exclusive())
        {
            return Err(Errno::EINVAL);
        }
        let head = self.descriptors.at(object).ok_or(Errno::EBADF)?.watches;
        let found = self.watches.find(head, set, number);
        let watch = match op {
            EpollOp::Add(_) if found.is_some() => return Err(Errno::EEXIST),
            EpollOp::Add(event) => {
                if let Some(inner) = inner {
                    self.check_circle(inner, set, 0)?;
                    self.watches.nest(inner);
                }
                let added = self.watches.add(head, set, object, number, event.ready, event.data);
                let watch = added.ok_or(Errno::ENOBUFS)?;
                self.object_mut(fd)?.watches = watch;
                watch
            }
            EpollOp::Modify(event) => {
                let watch = found.ok_or(Errno::ENOENT)?;
                if self.watches.get(watch).is_some_and(|watch| watch.interest.any(Ready::EXCLUSIVE)) {
                    return Err(Errno::EINVAL);
                }
                self.watches.set_interest(watch, event.ready, event.data);
                watch
            }
            EpollOp::Delete => {
                let watch = found.ok_or(Errno::ENOENT)?;
                let head = self.watches.remove(head, watch);
                self.object_mut(fd)?.watches = head;
                return Ok(());
            }
        };
        // What is ready already counts as an edge for a new or modified watch (epoll(7)).
        let ready = self.readiness(object);
        if let Some(parent) = self.watches.queue(watch, ready) {
            self.mark(parent, Ready::IN);
        }
        Ok(())
    }

    /// See [`crate::runner::Runner::epoll_add_fired`].
    pub(crate) fn epoll_add_fired(
        &mut self,
        epfd: Fd,
        fd: Fd,
        number: Fd,
        event: EpollEvent,
    ) -> Result<(), Errno> {
        self.epoll_ctl_as(epfd, fd, number, EpollOp::Add(event))?;
        let (set, head) = (self.set_of(epfd)?, self.object(fd)?.watches);
        if let Some(watch) = self.watches.find(head, set, number) {
            self.watches.disarm(watch);
        }
        Ok(())
    }

    /// See [`crate::runner::Runner::epoll_watches`].
    pub(crate) fn epoll_watches(&self, epfd: Fd, fd: Fd) -> Result<Vec<(Fd, EpollEvent, bool)>, Errno> {
        let set = self.set_of(epfd)?;
        let all = self.watches.list(self.object(fd)?.watches).filter_map(|watch| self.watches.get(watch));
        let mine = all.filter(|watch| watch.set == set);
        let event = |watch: &Watch| EpollEvent { ready: watch.interest, data: watch.data };
        Ok(mine.map(|watch| (watch.fd, event(watch), watch.disarmed)).collect())
    }

    /// `inner` must not watch `outer`, directly or through others, nor nest too deep.
    fn check_circle(&self, inner: u32, outer: u32, depth: u32) -> Result<(), Errno> {
        if inner == outer || depth >= NEST_MAX {
            return Err(Errno::ELOOP);
        }
        for object in self.watches.watched(inner) {
            if let Some(Kind::Epoll(next)) = self.descriptors.at(object).map(|o| &o.kind) {
                self.check_circle(*next, outer, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Returns how many descriptors of the set may be ready: those in its queue.
    ///
    /// # Errors
    /// EBADF or EINVAL if it is no epoll set.
    pub fn epoll_queued(&self, epfd: Fd) -> Result<usize, Errno> {
        Ok(self.watches.queued(self.set_of(epfd)?))
    }

    /// Collects the ready descriptors of the set; never waits and never turns.
    pub fn epoll_collect(&mut self, epfd: Fd, events: &mut [EpollEvent]) -> Result<usize, Errno> {
        let mut entries = self.epoll_queued(epfd)?;
        self.epoll_collect_among(epfd, events, &mut entries)
    }

    /// As `epoll_collect`, among the first `entries` of the queue alone; afterwards `entries` is how many of those were
    /// not looked at.
    ///
    /// # Errors
    /// EBADF or EINVAL if it is no epoll set, EINVAL without room.
    pub fn epoll_collect_among(
        &mut self,
        epfd: Fd,
        events: &mut [EpollEvent],
        entries: &mut usize,
    ) -> Result<usize, Errno> {
        let set = self.set_of(epfd)?;
        if events.is_empty() {
            return Err(Errno::EINVAL);
        }
        let mut filled = 0;
        // Each entry that the queue has now is looked at once: a level-triggered watch goes back and waits for the next
        // call. Linux reports a registration at most once in a call, too.
        while filled < events.len() {
            let Some(index) = self.watches.pop(set, entries) else { break };
            let Some((object, interest, data)) =
                self.watches.get(index).map(|w| (w.object, w.interest, w.data))
            else {
                continue;
            };
            let ready = self.readiness(object).in_all_names() & (interest | Ready::ERR | Ready::HUP);
            if ready == Ready::NONE {
                continue;
            }
            events[filled] = EpollEvent { ready, data };
            filled += 1;
            if interest.any(Ready::ONESHOT) {
                self.watches.disarm(index);
            } else if !interest.any(Ready::EDGE) {
                self.watches.requeue(index);
            }
        }
        Ok(filled)
    }

    /// A socket that is being closed is in no set any more, whatever its close waits for.
    pub(crate) fn leave_sets(&mut self, fd: Fd) -> Result<(), Errno> {
        let head = std::mem::replace(&mut self.object_mut(fd)?.watches, NO_WATCH);
        self.unwatch(head);
        Ok(())
    }

    /// The watches of an object, from its head, go with it.
    pub(super) fn unwatch(&mut self, mut head: u32) {
        while head != NO_WATCH {
            head = self.watches.remove(head, head);
        }
    }

    /// The watches of a set that is closed go with it.
    pub(super) fn close_set(&mut self, set: u32) {
        let descriptors = &mut self.descriptors;
        self.watches.destroy(set, |watches, object, watch| {
            if let Some(object) = descriptors.at_mut(object) {
                object.watches = watches.remove(object.watches, watch);
            }
        });
    }
}
