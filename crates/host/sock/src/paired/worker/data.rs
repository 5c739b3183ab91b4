//! How bytes move between the rings of a connection and the core.

use super::super::blocks::{BLOCK, BLOCKS_MIN, Blocks, InBlock, Lending, Received};
use super::super::message::{Event, RingPair};
use super::Worker;
use super::record::Record;
use base::Instant;
use ring::bytes::{ByteConsumer, ByteProducer};
use stack::{ConnId, Core};
use tcp::{Events, Shutdown, State, WriteError};

impl Worker {
    /// Moves what arrived into the receive ring.
    pub(super) fn pump_in(&mut self, core: &mut Core, now: Instant, index: u32) {
        let Some(Record::Stream(stream)) = self.records.get_mut(index) else { return };
        if stream.closing || stream.ended {
            return;
        }
        let conn = stream.conn;
        let Some(end) = self.links.get_mut(stream.link) else { return };
        (stream.more, stream.lent_first) = (false, false);
        let mut lends = false;
        loop {
            let readable = core.connection(conn).readable() as usize;
            let waits = stream.lending.as_ref().is_some_and(|lending| lending.waiting() > 0);
            // The rest of what came together goes the same way.
            lends = readable >= BLOCKS_MIN || (lends && readable > 0);
            if lends || (waits && readable > 0) {
                let chosen = core.connection(conn).options().rcvbuf;
                let lending = stream.lending.get_or_insert_with(|| {
                    let lending = Lending::new(self.rings.window(chosen));
                    let (window, taken) = lending.window();
                    end.say(Event::Window { id: stream.id, window, taken });
                    lending
                });
                let room = lending.room();
                // The link spares few frames as it is.
                let in_frames = if chosen == 0 { usize::MAX } else { room };
                let taken = take_frames(core, now, conn, in_frames).or_else(|| {
                    let in_block = if lends { room.min(BLOCK) } else { 0 };
                    take_block(core, now, conn, &mut self.blocks, in_block)
                });
                if let Some((bytes, len)) = taken {
                    lending.lend(len);
                    stream.given = stream.given.wrapping_add(len);
                    let (id, upto) = (stream.id, stream.given);
                    end.say(Event::Lent { id, bytes, len, upto });
                    if let Some(at) = core.last_read_arrived(conn) {
                        end.say(Event::Arrived { id, end: upto, at });
                    }
                    stream.edges |= Events::READABLE;
                    continue;
                }
                if lends && room == 0 {
                    stream.more = true;
                    break;
                }
            }
            if readable > 0 && waits {
                (stream.more, stream.lent_first) = (true, true);
                break;
            }
            if stream.receive.is_none() && readable > 0 {
                let pair = self.rings.take();
                stream.receive = Some(pair.tx);
                end.say(Event::Ring { id: stream.id, ring: pair.rx });
            }
            let Some(ring) = &mut stream.receive else {
                // No ring, so nothing to read: but perhaps an end or an error.
                if let Err(e) = core.read(now, conn, &mut []) {
                    stream.hear(e);
                }
                break;
            };
            let (space, _) = ring.spare(usize::MAX);
            if space.is_empty() {
                let conn = core.connection(conn);
                stream.more = conn.readable() > 0 || conn.peer_closed() || conn.state() == State::Closed;
                break;
            }
            match core.read(now, conn, space) {
                Ok(count) => {
                    stream.given = stream.given.wrapping_add(count as u32);
                    if let Some(at) = core.last_read_arrived(conn) {
                        end.say(Event::Arrived { id: stream.id, end: stream.given, at });
                    }
                    ring.commit(count);
                    stream.edges |= Events::READABLE;
                }
                Err(e) => {
                    stream.hear(e);
                    break;
                }
            }
        }
        self.remember(index);
    }

    /// Moves what the application wrote into the connection, and ends that direction after it if asked to.
    pub(super) fn pump_out(&mut self, core: &mut Core, now: Instant, index: u32) {
        let Some(Record::Stream(stream)) = self.records.get_mut(index) else { return };
        let conn = stream.conn;
        if stream.broken {
            stream.break_off();
        }
        loop {
            if let Some(hints) = stream.end_here() {
                core.end_call(now, conn, &hints);
                continue;
            }
            let (len, hints) = stream.piece();
            if len == 0 {
                break;
            }
            match stream.write(core, now, len, hints.as_ref()) {
                Ok(count) => stream.took(count),
                // WRITABLE or CONNECTED will follow.
                Err(WriteError::Full | WriteError::NoMemory | WriteError::NotConnected) => break,
                Err(e @ (WriteError::Shutdown | WriteError::Failed(_))) => {
                    if let WriteError::Failed(e) = e {
                        stream.error = Some(e);
                    }
                    stream.break_off();
                }
            }
        }
        if stream.is_pushed() {
            core.push(now, conn);
        }
        let left = stream.waiting();
        if stream.wants_room && stream.has_room() {
            stream.wants_room = false;
            stream.edges |= Events::WRITABLE;
        }
        if left == 0 && stream.shut {
            stream.shut = false;
            core.shutdown(now, conn, Shutdown::Write);
        }
        if left == 0 && stream.closing {
            core.close(now, conn);
            return self.release(index);
        }
        if left == 0 && self.rings.scarce() && stream.send.is_some() && !stream.wanted {
            stream.wanted = true;
            let (link, id) = (stream.link, stream.id);
            self.say(link, Event::Wanted { id });
        }
        self.remember(index);
    }

    /// The application gave up its end of the ring for sending, which is empty.
    pub(super) fn send_home(&mut self, index: u32, tx: ByteProducer) {
        let Some(stream) = self.stream(index) else { return };
        stream.wanted = false;
        if let Some(rx) = stream.send.take() {
            let link = stream.link;
            self.say(link, Event::Unused { ring: RingPair { tx, rx } });
        }
    }

    /// The receive ring comes back empty, unless more was put in while it was under way.
    pub(super) fn take_back(&mut self, core: &mut Core, now: Instant, index: u32, ring: ByteConsumer) {
        let Some(stream) = self.stream(index) else { return };
        match stream.receive.take() {
            Some(tx) if ring.waiting() == 0 => {
                let (link, id) = (stream.link, stream.id);
                self.rings.put(RingPair { tx, rx: ring });
                self.say(link, Event::Home { id });
                self.pump_in(core, now, index);
            }
            Some(tx) => {
                stream.receive = Some(tx);
                stream.edges |= Events::READABLE;
                let (link, id) = (stream.link, stream.id);
                self.say(link, Event::Ring { id, ring });
                self.remember(index);
            }
            None => {}
        }
    }
}

/// Takes at most `max` received bytes where they lie, if that is in frames that the link can spare. Returns how many,
/// too.
fn take_frames(core: &mut Core, now: Instant, conn: ConnId, max: usize) -> Option<(Received, u32)> {
    let frames = core.take_frames(now, conn, max)?;
    let len = frames.len() as u32;
    Some((Received::Frames(frames), len))
}

/// Copies at most `max` received bytes to a block, if there is one. Returns how many, too.
fn take_block(
    core: &mut Core,
    now: Instant,
    conn: ConnId,
    blocks: &mut Blocks,
    max: usize,
) -> Option<(Received, u32)> {
    if blocks.room(max) == 0 {
        return None;
    }
    let (block, count) = blocks.fill_with(|bytes| core.read(now, conn, &mut bytes[..max]))?;
    Some((Received::Block(InBlock { block, start: 0 }), count.ok()? as u32))
}
