//! The stack thread's records: the owners of what is open in the core.

use super::super::blocks::{InBlock, Lending, Lent};
use super::super::message::{Event, Mark, Status};
use base::Instant;
use ring::bytes::{ByteConsumer, ByteProducer};
use stack::{ConnId, Core, ListenerId};
use std::collections::VecDeque;
use tcp::{Events, Hints, ReadError, State, WriteError};

/// No record.
pub(super) const NONE: u32 = u32::MAX;

/// An owner of something in the core; its index is the owner's handle there.
pub(super) enum Record {
    Stream(Stream),
    Listener(Listener),
}

/// A connection on behalf of an application.
pub(super) struct Stream {
    pub(super) link: u32,
    /// Its name on the way to the application.
    pub(super) id: u32,
    pub(super) conn: ConnId,
    pub(super) send: Option<ByteConsumer>,
    /// The application was asked for its end of the ring for sending, and has written nothing since.
    pub(super) wanted: bool,
    pub(super) receive: Option<ByteProducer>,
    /// Bytes that the application sends by reference, and those that arrived.
    pub(super) lent: Lent<InBlock>,
    pub(super) lending: Option<Lending>,
    /// The connection takes nothing any more.
    pub(super) broken: bool,
    /// Bytes ever taken to be sent, and put into the ring for receiving, modulo 2^32.
    pub(super) taken: u32,
    /// Bytes that were told of.
    pub(super) announced: u32,
    pub(super) given: u32,
    /// Bytes before this leave at once when all of them were taken.
    pub(super) push: Option<u32>,
    /// Marks on bytes that the connection has not taken yet.
    pub(super) marks: VecDeque<Mark>,
    /// Events to be reported to the application.
    pub(super) edges: Events,
    /// It is in its link's list of those with something to tell.
    pub(super) pending: bool,
    pub(super) error: Option<tcp::Error>,
    pub(super) ended: bool,
    /// There was no room when there was more.
    pub(super) more: bool,
    /// Lent bytes have to be read before.
    pub(super) lent_first: bool,
    /// The application was told so and has not answered that it took something.
    pub(super) told_more: bool,
    pub(super) wants_room: bool,
    /// Shut our half once everything is sent.
    pub(super) shut: bool,
    /// The application has let go: close once everything is sent.
    pub(super) closing: bool,
    /// The other end of the ring for sending, which came with the application's Close.
    pub(super) send_home: Option<ByteProducer>,
}

pub(super) struct Listener {
    pub(super) link: u32,
    pub(super) id: u32,
    pub(super) listener: ListenerId,
    /// Connections that may be accepted before the application makes room.
    pub(super) credit: u32,
}

impl Stream {
    pub(super) fn new(link: u32, id: u32) -> Stream {
        Stream {
            link,
            id,
            conn: ConnId(NONE),
            send: None,
            lent: Lent::default(),
            lending: None,
            broken: false,
            wanted: false,
            receive: None,
            taken: 0,
            announced: 0,
            given: 0,
            push: None,
            marks: VecDeque::new(),
            edges: Events(0),
            pending: false,
            error: None,
            ended: false,
            more: false,
            lent_first: false,
            told_more: false,
            wants_room: false,
            shut: false,
            closing: false,
            send_home: None,
        }
    }

    /// Returns how many of the next bytes lie in one piece, were told of and belong together, and what was said about
    /// them: only the last byte of a call ends it.
    pub(super) fn piece(&mut self) -> (usize, Option<Hints>) {
        let len = match self.lent.next(self.taken) {
            Ok(piece) => piece.len as usize,
            Err(before) => self.send.as_mut().map_or(0, |ring| ring.peek(before).0.len()),
        };
        let len = len.min(self.announced.wrapping_sub(self.taken) as usize);
        let Some(mark) = self.marks.front() else { return (len, None) };
        let before = mark.start.wrapping_sub(self.taken) as i32;
        if before > 0 {
            return (len.min(before as usize), None);
        }
        let left = mark.end.wrapping_sub(self.taken) as usize;
        if len < left {
            return (len, Some(Hints { more: mark.hints.more, ..Hints::default() }));
        }
        (left, Some(Hints { waits: true, ..mark.hints }))
    }

    /// Something is said about bytes to come. Of a connection that has failed they may be gone before this is heard.
    pub(super) fn hear_of(&mut self, mark: Mark) {
        let to_come = mark.end.wrapping_sub(self.taken) as i32;
        if to_come > 0 || (to_come == 0 && mark.start == mark.end) {
            self.marks.push_back(mark);
        }
    }

    /// Writes the `len` next bytes, which lie in one piece, to the connection.
    pub(super) fn write(
        &mut self,
        core: &mut Core,
        now: Instant,
        len: usize,
        hints: Option<&Hints>,
    ) -> Result<usize, WriteError> {
        match (self.lent.next(self.taken), &mut self.send) {
            (Ok(piece), _) => {
                let InBlock { block, start } = &piece.bytes;
                let range = *start..*start + len;
                core.lend(now, self.conn, block, range, hints.unwrap_or(&Hints::default()))
            }
            (_, Some(ring)) => match hints {
                None => core.write(now, self.conn, ring.peek(len).0),
                Some(hints) => core.write_hinted(now, self.conn, ring.peek(len).0, hints),
            },
            (_, None) => Ok(0),
        }
    }

    /// Bytes that wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.send.as_ref().map_or(0, ByteConsumer::waiting) + self.lent.waiting() as usize
    }

    /// Is half of the room for bytes to send free, in the ring and in lent memory?
    pub(super) fn has_room(&self) -> bool {
        self.send.as_ref().is_none_or(|ring| ring.waiting() <= ring.capacity() / 2) && self.lent.has_room()
    }

    /// Drops what waits to be sent, now and later.
    pub(super) fn break_off(&mut self) {
        self.broken = true;
        self.lent.clear();
        if let Some(ring) = &mut self.send {
            let rest = ring.len();
            ring.consume(rest);
        }
        self.marks.clear();
    }

    /// `count` bytes were taken; what was said about them is settled.
    pub(super) fn took(&mut self, count: usize) {
        match (self.lent.next(self.taken), &mut self.send) {
            (Ok(_), _) => self.lent.took(count as u32),
            (_, Some(ring)) => ring.consume(count),
            (_, None) => {}
        }
        self.taken = self.taken.wrapping_add(count as u32);
        let taken = self.taken;
        while self.marks.pop_front_if(|mark| mark.end == taken && mark.start != mark.end).is_some() {}
    }

    /// Is it time that what was taken leaves at once? Told of once.
    pub(super) fn is_pushed(&mut self) -> bool {
        let taken = self.taken;
        self.push.take_if(|push| push.wrapping_sub(taken) as i32 <= 0).is_some()
    }

    /// A call that ends here without another byte.
    pub(super) fn end_here(&mut self) -> Option<Hints> {
        let taken = self.taken;
        let mark = self.marks.pop_front_if(|mark| mark.start == mark.end && mark.end == taken)?;
        Some(mark.hints)
    }

    /// Why the core gave nothing.
    pub(super) fn hear(&mut self, why: ReadError) {
        match why {
            ReadError::Empty | ReadError::NotConnected => return,
            ReadError::Finished => {}
            ReadError::Failed(e) => self.error = Some(e),
        }
        self.ended = true;
        self.edges |= Events::READABLE;
    }

    /// Is there something that the application must hear of? That more waits for room it may not learn otherwise: its
    /// ring may have been filled to the last byte when nothing else was left, and what came then is no edge.
    pub(super) fn has_news(&self) -> bool {
        self.edges != Events(0) || (self.more && !self.told_more)
    }

    pub(super) fn tell(&mut self, core: &Core) -> Event {
        self.told_more = self.more;
        let state = core.connection(self.conn).state_for_owner();
        // The end is told after the last byte.
        let state = if state == State::Closed && self.more { State::Established } else { state };
        let status = Status {
            state,
            error: self.error,
            ended: self.ended,
            more: self.more,
            lent_first: self.lent_first,
        };
        Event::Notice { id: self.id, edges: self.edges, status }
    }
}
