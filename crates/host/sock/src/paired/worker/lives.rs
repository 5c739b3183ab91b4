//! How connections and listeners of applications begin and end on the stack thread.

use super::super::message::{BY_STACK, Event, RingPair, Rings};
use super::record::{Listener, NONE, Record, Stream};
use super::{Worker, set};
use base::{Endpoint, Instant};
use stack::{ConnId, Connect, Core, Listen, ListenerId, OpError};
use tcp::Shutdown;

impl Worker {
    pub(super) fn connect(
        &mut self,
        core: &mut Core,
        now: Instant,
        link: u32,
        id: u32,
        mut request: Box<Connect>,
    ) {
        let result = self.begin(link, id, &mut request, core, |core, request| {
            core.connect(now, request).map(|conn| (conn, 0))
        });
        self.say(link, Event::Started { id, request, result: result.map(|(local, _)| local) });
    }

    /// Enters a connection that `connect` makes, with so many bytes in its SYN.
    pub(super) fn begin(
        &mut self,
        link: u32,
        id: u32,
        request: &mut Connect,
        core: &mut Core,
        connect: impl FnOnce(&mut Core, &Connect) -> Result<(ConnId, usize), OpError>,
    ) -> Result<(Endpoint, usize), OpError> {
        let index = self.enrol(link, id).ok_or(OpError::NoBuffers)?;
        request.owner = index;
        match connect(core, request) {
            Ok((conn, taken)) => {
                if let Some(stream) = self.stream(index) {
                    stream.conn = conn;
                }
                set(&mut self.named[link as usize], id, index);
                Ok((core.connection(conn).key().local(), taken))
            }
            Err(e) => {
                self.strike(index);
                Err(e)
            }
        }
    }

    pub(super) fn listen(
        &mut self,
        core: &mut Core,
        now: Instant,
        link: u32,
        mut request: Listen,
        credit: u32,
    ) -> Result<Endpoint, OpError> {
        let id = request.owner;
        let record = Listener { link, id, listener: ListenerId(NONE), credit };
        let index = self.records.insert(Record::Listener(record)).map_err(|_| OpError::NoBuffers)?;
        request.owner = index;
        match core.listen(now, &request) {
            Ok((listener, local)) => {
                set(&mut self.listeners[link as usize], id, index);
                if let Some(found) = self.listener(link, id) {
                    found.listener = listener;
                }
                Ok(local)
            }
            Err(e) => {
                self.records.remove(index);
                Err(e)
            }
        }
    }

    pub(super) fn close_listener(&mut self, core: &mut Core, now: Instant, link: u32, id: u32) {
        let Some(found) = self.listener(link, id) else { return };
        core.close_listener(now, found.listener);
        let index = std::mem::replace(&mut self.listeners[link as usize][id as usize], NONE);
        self.records.remove(index);
    }

    /// Accepts what waits, as far as the application has room.
    pub(super) fn accept(&mut self, core: &mut Core, now: Instant, index: u32) {
        while let Some(Record::Listener(listener)) = self.records.get_mut(index) {
            let (link, id, from) = (listener.link, listener.id, listener.listener);
            if listener.credit == 0 || core.acceptable(from) == 0 {
                return;
            }
            listener.credit -= 1;
            let Some(new) = self.enrol(link, 0) else { return };
            let Some(conn) = core.accept(from, new) else {
                self.strike(new);
                return;
            };
            let name = BY_STACK | new;
            if let Some(stream) = self.stream(new) {
                (stream.id, stream.conn) = (name, conn);
            }
            let key = core.connection(conn).key();
            let event = Event::Accepted { listener: id, id: name, local: key.local(), remote: key.remote() };
            self.say(link, event);
            self.pump_in(core, now, new);
        }
    }

    pub(super) fn shutdown(&mut self, core: &mut Core, now: Instant, index: u32, how: Shutdown) {
        let Some(stream) = self.stream(index) else { return };
        if how != Shutdown::Write {
            core.shutdown(now, stream.conn, Shutdown::Read);
        }
        if how != Shutdown::Read {
            stream.shut = true;
            self.pump_out(core, now, index);
        }
    }

    pub(super) fn close(&mut self, core: &mut Core, now: Instant, index: u32, rings: Rings, unread: bool) {
        let Some(stream) = self.stream(index) else { return };
        stream.closing = true;
        stream.send_home = rings.send;
        let conn = stream.conn;
        // A ring that crossed the Close and lies unread counts like one that the application had.
        let mut unread = unread || stream.lending.as_ref().is_some_and(|lending| lending.waiting() > 0);
        match (stream.receive.take(), rings.receive) {
            (Some(tx), Some(rx)) => self.rings.put(RingPair { tx, rx }),
            (Some(tx), None) => {
                unread |= tx.vacant() < tx.capacity();
                self.rings.lost();
            }
            (None, _) => {}
        }
        let impatient = core.connection(conn).options().linger.is_some_and(|time| time.is_zero());
        if unread {
            core.abort(now, conn);
        } else if impatient {
            core.close(now, conn);
        } else {
            return self.pump_out(core, now, index);
        }
        self.release(index);
    }

    /// The core has no more to do with this connection: forget it, and say so where the name is not ours to give.
    pub(super) fn release(&mut self, index: u32) {
        let Some(stream) = self.strike(index) else { return };
        let pair = match (stream.send_home, stream.send) {
            (Some(tx), Some(rx)) => Some(RingPair { tx, rx }),
            _ => None,
        };
        if stream.id & BY_STACK == 0 {
            set(&mut self.named[stream.link as usize], stream.id, NONE);
        }
        if pair.is_some() || stream.id & BY_STACK == 0 {
            self.say(stream.link, Event::Released { id: stream.id, ring: pair });
        }
    }

    /// An application is gone: end in order what it left.
    pub(super) fn forget(&mut self, core: &mut Core, now: Instant, link: u32) {
        self.end_all(core, now, link);
        // Those that still have something to send keep the link until it is sent.
        if self.links.get_mut(link).is_some_and(|end| end.streams == 0) {
            self.links.remove(link);
            self.named[link as usize].clear();
            self.listeners[link as usize].clear();
        }
    }

    /// The stack thread ends: so does everything that any application has open.
    pub(in crate::paired) fn leave(&mut self, core: &mut Core, now: Instant) {
        for link in 0..self.named.len() as u32 {
            self.end_all(core, now, link);
        }
    }

    /// Closes everything of one application, once.
    pub(super) fn end_all(&mut self, core: &mut Core, now: Instant, link: u32) {
        let Some(end) = self.links.get_mut(link) else { return };
        if !std::mem::replace(&mut end.leaving, true) {
            let of_link = |(index, record): (u32, &Record)| match record {
                Record::Stream(s) if s.link == link && !s.closing => Some(index),
                Record::Listener(l) if l.link == link => Some(index),
                _ => None,
            };
            let left: Vec<u32> = self.records.iter().filter_map(of_link).collect();
            for index in left {
                match self.records.get(index) {
                    Some(Record::Listener(listener)) => {
                        let id = listener.id;
                        self.close_listener(core, now, link, id);
                    }
                    Some(Record::Stream(_)) => self.close(core, now, index, Rings::default(), false),
                    None => {}
                }
            }
        }
    }

    /// A record for a new connection of an application.
    pub(super) fn enrol(&mut self, link: u32, id: u32) -> Option<u32> {
        let index = self.records.insert(Record::Stream(Stream::new(link, id))).ok()?;
        if let Some(end) = self.links.get_mut(link) {
            end.streams += 1;
        }
        Some(index)
    }

    pub(super) fn strike(&mut self, index: u32) -> Option<Stream> {
        let Some(Record::Stream(stream)) = self.records.remove(index) else { return None };
        if let Some(end) = self.links.get_mut(stream.link) {
            end.streams -= 1;
        }
        Some(stream)
    }
}
