//! The stack thread's side: its records of connections and listeners, and what it does for them each turn.

use super::link::LinkEnd;
use super::message::{BY_STACK, Call, Change, Command, Event, Reply, RingPair, RingPool, Rings, Status};
use base::{Endpoint, Instant, Slab};
use ring::bytes::{ByteConsumer, ByteProducer};
use stack::{ConnId, Connect, Core, Listen, ListenerId, Notice, OpError};
use tcp::{Events, ReadError, Shutdown, State, WriteError};

/// No record.
const NONE: u32 = u32::MAX;
/// Most commands taken from one application per turn.
const COMMANDS: usize = 1_024;

/// An owner of something in the core; its index is the owner's handle there.
enum Record {
    Stream(Stream),
    Listener(Listener),
}

/// A connection on behalf of an application.
struct Stream {
    link: u32,
    /// Its name on the way to the application.
    id: u32,
    conn: ConnId,
    send: Option<ByteConsumer>,
    /// The ring for sending is on its way home, and may come back with octets in it.
    away: bool,
    receive: Option<ByteProducer>,
    /// What the application has to be told.
    edges: Events,
    /// It is in its link's list of those with something to tell.
    pending: bool,
    error: Option<tcp::Error>,
    ended: bool,
    /// The receive ring was full when there was more.
    more: bool,
    wants_room: bool,
    /// Shut our half once everything is sent.
    shut: bool,
    /// The application has let go: close once everything is sent.
    closing: bool,
    /// The core has let go too.
    over: bool,
    /// The other end of the ring for sending, which came with the application's Close.
    send_home: Option<ByteProducer>,
}

struct Listener {
    link: u32,
    id: u32,
    listener: ListenerId,
    /// Connections that may be accepted before the application makes room.
    credit: u32,
}

/// What one stack thread knows of its applications.
pub(super) struct Worker {
    pub(super) links: Slab<LinkEnd>,
    records: Slab<Record>,
    rings: RingPool,
    /// Names that each link's application gave, to records.
    named: Vec<Vec<u32>>,
    listeners: Vec<Vec<u32>>,
    commands: Vec<Command>,
}

impl Worker {
    pub(super) fn new(records: u32, rings: RingPool) -> Worker {
        Worker {
            links: Slab::new(4_096),
            records: Slab::new(records.min(BY_STACK - 1)),
            rings,
            named: Vec::new(),
            listeners: Vec::new(),
            commands: Vec::with_capacity(COMMANDS),
        }
    }

    /// A new application. One that comes when all places are taken finds its link cut.
    pub(super) fn adopt(&mut self, end: LinkEnd) {
        if let Ok(link) = self.links.insert(end) {
            let places = self.named.len().max(link as usize + 1);
            self.named.resize_with(places, Vec::new);
            self.listeners.resize_with(places, Vec::new);
        }
    }

    /// No connection, no listener, and every ring at home.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.records.is_empty() && self.rings.is_idle()
    }

    // --- commands --------------------------------------------------------------------------------------------

    /// Does what the applications ask, within bounds; how many commands that were.
    pub(super) fn obey(&mut self, core: &mut Core, now: Instant) -> usize {
        let mut done = 0;
        for link in 0..self.named.len() as u32 {
            let Some(end) = self.links.get_mut(link) else { continue };
            let mut commands = std::mem::take(&mut self.commands);
            done += end.commands.pop_batch(&mut commands, COMMANDS);
            for command in commands.drain(..) {
                self.command(core, now, link, command);
            }
            self.commands = commands;
            if self.links.get_mut(link).is_some_and(LinkEnd::is_abandoned) {
                self.forget(core, now, link);
            }
        }
        done
    }

    /// Has an application said something that was not obeyed yet?
    pub(super) fn has_commands(&self) -> bool {
        self.links.iter().any(|(_, end)| end.has_commands())
    }

    fn record(&self, link: u32, id: u32) -> u32 {
        if id & BY_STACK != 0 {
            return id & !BY_STACK;
        }
        self.named[link as usize].get(id as usize).copied().unwrap_or(NONE)
    }

    fn stream(&mut self, index: u32) -> Option<&mut Stream> {
        match self.records.get_mut(index) {
            Some(Record::Stream(stream)) => Some(stream),
            _ => None,
        }
    }

    fn listener(&mut self, link: u32, id: u32) -> Option<&mut Listener> {
        let index = *self.listeners[link as usize].get(id as usize)?;
        match self.records.get_mut(index) {
            Some(Record::Listener(listener)) => Some(listener),
            _ => None,
        }
    }

    fn command(&mut self, core: &mut Core, now: Instant, link: u32, command: Command) {
        match command {
            Command::Connect { id, wish } => self.connect(core, now, link, id, wish),
            Command::Ring { id, ring } => {
                let index = self.record(link, id);
                if let Some(stream) = self.stream(index) {
                    (stream.send, stream.away) = (Some(ring), false);
                    if stream.over {
                        return self.release(index);
                    }
                }
                self.pump_out(core, now, index);
            }
            Command::Home { id } => {
                let index = self.record(link, id);
                if let Some(stream) = self.stream(index) {
                    stream.away = false;
                }
                self.pump_out(core, now, index);
            }
            Command::Written { id } => self.pump_out(core, now, self.record(link, id)),
            Command::WantRoom { id } => {
                let index = self.record(link, id);
                if let Some(stream) = self.stream(index) {
                    stream.wants_room = true;
                }
                self.pump_out(core, now, index);
            }
            Command::Taken { id } => self.pump_in(core, now, self.record(link, id)),
            Command::GiveBack { id, ring } => self.take_back(core, now, self.record(link, id), ring),
            Command::Shutdown { id, how } => self.shutdown(core, now, self.record(link, id), how),
            Command::Options { id, options } => {
                let index = self.record(link, id);
                if let Some(stream) = self.stream(index) {
                    core.set_options(now, stream.conn, *options);
                }
            }
            Command::Close { id, rings, unread } => {
                self.close(core, now, self.record(link, id), rings, unread);
            }
            Command::Credit { listener, count } => {
                if let Some(found) = self.listener(link, listener) {
                    found.credit += count;
                    self.accept(core, now, self.listeners[link as usize][listener as usize]);
                }
            }
            Command::Listener { listener, change } => {
                if let Some(found) = self.listener(link, listener) {
                    let id = found.listener;
                    match *change {
                        Change::Backlog(backlog) => core.set_backlog(id, backlog),
                        Change::Options(options) => core.set_listener_options(id, options),
                        Change::Control(name) => core.set_listener_control(id, name),
                    }
                }
            }
            Command::Unbind(local) => core.unbind(local),
            Command::Call(call) => {
                let reply = self.answer(core, now, link, *call);
                self.say(link, Event::Reply(reply));
            }
        }
    }

    fn answer(&mut self, core: &mut Core, now: Instant, link: u32, call: Call) -> Reply {
        let conn = |worker: &mut Worker, id| {
            let index = worker.record(link, id);
            worker.stream(index).map(|stream| stream.conn)
        };
        match call {
            Call::Bind { local, reuse_addr, reuse_port, v6_only } => {
                Reply::Local(core.bind(local, reuse_addr, reuse_port, v6_only))
            }
            Call::Listen { wish, credit } => Reply::Local(self.listen(core, now, link, wish, credit)),
            Call::CloseListener { listener } => {
                self.close_listener(core, now, link, listener);
                Reply::Done(Ok(()))
            }
            Call::Control { id, name } => Reply::Done(match conn(self, id) {
                Some(conn) => core.set_control(now, conn, name),
                None => Err(OpError::Invalid),
            }),
            Call::FindControl(name) => Reply::Name(core.find_control(&name)),
            Call::ControlName { id } => {
                Reply::Name(conn(self, id).map(|conn| core.connection(conn).control_name()))
            }
            Call::Unsent { id } => conn(self, id).map_or(Reply::Unsent(0, 0), |conn| {
                let conn = core.connection(conn);
                Reply::Unsent(conn.unacked(), conn.unsent())
            }),
            Call::Info { id } => {
                Reply::Info(conn(self, id).map(|conn| Box::new(core.connection(conn).info(now))))
            }
        }
    }

    fn say(&mut self, link: u32, event: Event) {
        if let Some(end) = self.links.get_mut(link) {
            end.say(event);
        }
    }

    // --- beginning and ending --------------------------------------------------------------------------------

    fn connect(&mut self, core: &mut Core, now: Instant, link: u32, id: u32, mut wish: Box<Connect>) {
        let result = match self.enrol(link, id) {
            Some(index) => {
                wish.owner = index;
                match core.connect(now, &wish) {
                    Ok(conn) => {
                        if let Some(stream) = self.stream(index) {
                            stream.conn = conn;
                        }
                        set(&mut self.named[link as usize], id, index);
                        Ok(core.connection(conn).key().local())
                    }
                    Err(e) => {
                        self.strike(index);
                        Err(e)
                    }
                }
            }
            None => Err(OpError::NoBuffers),
        };
        self.say(link, Event::Started { id, wish, result });
    }

    fn listen(
        &mut self,
        core: &mut Core,
        now: Instant,
        link: u32,
        mut wish: Listen,
        credit: u32,
    ) -> Result<Endpoint, OpError> {
        let id = wish.owner;
        let record = Listener { link, id, listener: ListenerId(NONE), credit };
        let index = self.records.insert(Record::Listener(record)).map_err(|_| OpError::NoBuffers)?;
        wish.owner = index;
        match core.listen(now, &wish) {
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

    fn close_listener(&mut self, core: &mut Core, now: Instant, link: u32, id: u32) {
        let Some(found) = self.listener(link, id) else { return };
        core.close_listener(now, found.listener);
        let index = std::mem::replace(&mut self.listeners[link as usize][id as usize], NONE);
        self.records.remove(index);
    }

    /// Accepts what waits, as far as the application has room.
    fn accept(&mut self, core: &mut Core, now: Instant, index: u32) {
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

    fn shutdown(&mut self, core: &mut Core, now: Instant, index: u32, how: Shutdown) {
        let Some(stream) = self.stream(index) else { return };
        if how != Shutdown::Write {
            core.shutdown(now, stream.conn, Shutdown::Read);
        }
        if how != Shutdown::Read {
            stream.shut = true;
            self.pump_out(core, now, index);
        }
    }

    fn close(&mut self, core: &mut Core, now: Instant, index: u32, rings: Rings, unread: bool) {
        let Some(stream) = self.stream(index) else { return };
        stream.closing = true;
        stream.send_home = rings.send;
        let conn = stream.conn;
        // A ring that crossed the Close and lies unread counts like one that the application had.
        let mut unread = unread;
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
        self.end(index);
    }

    /// The core has let go of the connection. The record goes too, unless the ring for sending is still under way:
    /// the application will send it back under this name.
    fn end(&mut self, index: u32) {
        let Some(stream) = self.stream(index) else { return };
        stream.over = true;
        if !stream.away {
            self.release(index);
        }
    }

    /// The core has no more to do with this connection: forget it, and say so where the name is not ours to give.
    fn release(&mut self, index: u32) {
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
    fn forget(&mut self, core: &mut Core, now: Instant, link: u32) {
        self.end_all(core, now, link);
        // Those that still have something to send keep the link until it is sent.
        if self.links.get_mut(link).is_some_and(|end| end.streams == 0) {
            self.links.remove(link);
            self.named[link as usize].clear();
            self.listeners[link as usize].clear();
        }
    }

    /// The stack thread ends: so does everything that any application has open.
    pub(super) fn leave(&mut self, core: &mut Core, now: Instant) {
        for link in 0..self.named.len() as u32 {
            self.end_all(core, now, link);
        }
    }

    /// Closes everything of one application, once.
    fn end_all(&mut self, core: &mut Core, now: Instant, link: u32) {
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
    fn enrol(&mut self, link: u32, id: u32) -> Option<u32> {
        let index = self.records.insert(Record::Stream(Stream::new(link, id))).ok()?;
        if let Some(end) = self.links.get_mut(link) {
            end.streams += 1;
        }
        Some(index)
    }

    fn strike(&mut self, index: u32) -> Option<Stream> {
        let Some(Record::Stream(stream)) = self.records.remove(index) else { return None };
        if let Some(end) = self.links.get_mut(stream.link) {
            end.streams -= 1;
        }
        Some(stream)
    }

    // --- data ------------------------------------------------------------------------------------------------

    /// Moves what arrived into the receive ring.
    fn pump_in(&mut self, core: &mut Core, now: Instant, index: u32) {
        let Some(Record::Stream(stream)) = self.records.get_mut(index) else { return };
        if stream.closing || stream.ended {
            return;
        }
        let conn = stream.conn;
        if stream.receive.is_none() && core.connection(conn).readable() > 0 {
            let pair = self.rings.take();
            stream.receive = Some(pair.tx);
            let event = Event::Ring { id: stream.id, ring: pair.rx };
            if let Some(end) = self.links.get_mut(stream.link) {
                end.say(event);
            }
        }
        stream.more = false;
        loop {
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
    fn pump_out(&mut self, core: &mut Core, now: Instant, index: u32) {
        let Some(Record::Stream(stream)) = self.records.get_mut(index) else { return };
        if stream.over {
            return;
        }
        let conn = stream.conn;
        while let Some(ring) = &mut stream.send {
            let (data, _) = ring.peek(usize::MAX);
            if data.is_empty() {
                break;
            }
            match core.write(now, conn, data) {
                Ok(count) => ring.consume(count),
                // WRITABLE or CONNECTED will follow.
                Err(WriteError::Full | WriteError::NoMemory | WriteError::NotConnected) => break,
                Err(e @ (WriteError::Shutdown | WriteError::Failed(_))) => {
                    if let WriteError::Failed(e) = e {
                        stream.error = Some(e);
                    }
                    let rest = ring.waiting();
                    ring.consume(rest);
                }
            }
        }
        let left = stream.send.as_ref().map_or(0, ByteConsumer::waiting);
        let half = stream.send.as_ref().map_or(1, |ring| ring.capacity() / 2);
        if stream.wants_room && left <= half {
            stream.wants_room = false;
            stream.edges |= Events::WRITABLE;
        }
        if stream.away {
            return;
        }
        if left == 0 && stream.shut {
            stream.shut = false;
            core.shutdown(now, conn, Shutdown::Write);
        }
        if left == 0 && stream.closing {
            core.close(now, conn);
            return self.end(index);
        }
        if left == 0
            && self.rings.scarce()
            && let Some(ring) = stream.send.take()
        {
            stream.away = true;
            let (link, id) = (stream.link, stream.id);
            self.say(link, Event::GiveBack { id, ring });
        }
        self.remember(index);
    }

    /// The receive ring comes back empty, unless more was put in while it was under way.
    fn take_back(&mut self, core: &mut Core, now: Instant, index: u32, ring: ByteConsumer) {
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

    // --- telling ---------------------------------------------------------------------------------------------

    /// What the core says about one of its owners.
    pub(super) fn notice(&mut self, core: &mut Core, now: Instant, notice: Notice) {
        match self.records.get_mut(notice.owner) {
            Some(Record::Listener(_)) => self.accept(core, now, notice.owner),
            Some(Record::Stream(stream)) if !stream.over => {
                // Readable is what is in the ring, writable is room in the ring: those edges are made here.
                stream.edges |= Events(notice.events.0 & !(Events::READABLE | Events::WRITABLE).0);
                if notice.events.any(Events::ERROR)
                    && let Some(e) = core.take_error(stream.conn)
                {
                    stream.error = Some(e);
                }
                if notice.events.any(Events::WRITABLE | Events::CONNECTED | Events::ERROR | Events::CLOSED) {
                    self.pump_out(core, now, notice.owner);
                }
                self.pump_in(core, now, notice.owner);
            }
            _ => {}
        }
    }

    /// Puts a stream with something to tell into its link's list.
    fn remember(&mut self, index: u32) {
        let Some(Record::Stream(stream)) = self.records.get_mut(index) else { return };
        if stream.edges != Events(0) && !stream.pending && !stream.closing {
            stream.pending = true;
            if let Some(end) = self.links.get_mut(stream.link) {
                end.pending.push_back(index);
            }
        }
    }

    /// Tells every application what happened in this turn, and wakes those that sleep. True if something had to
    /// stay behind because an application does not listen.
    pub(super) fn publish(&mut self, core: &Core) -> bool {
        let mut behind = false;
        for link in 0..self.named.len() as u32 {
            let Some(end) = self.links.get_mut(link) else { continue };
            if end.flush_said() {
                while let Some(&index) = end.pending.front() {
                    // The record may have ended since, and its place may be another's.
                    if let Some(Record::Stream(stream)) = self.records.get_mut(index)
                        && stream.pending
                        && !stream.over
                        && stream.link == link
                    {
                        let event = stream.tell(core);
                        if !end.notify(event) {
                            break;
                        }
                        (stream.pending, stream.edges, stream.error) = (false, Events(0), None);
                    }
                    end.pending.pop_front();
                }
            }
            end.ring();
            behind |= end.is_behind();
        }
        behind
    }
}

impl Stream {
    fn new(link: u32, id: u32) -> Stream {
        Stream {
            link,
            id,
            conn: ConnId(NONE),
            send: None,
            away: false,
            receive: None,
            edges: Events(0),
            pending: false,
            error: None,
            ended: false,
            more: false,
            wants_room: false,
            shut: false,
            closing: false,
            over: false,
            send_home: None,
        }
    }

    /// Why the core gave nothing.
    fn hear(&mut self, why: ReadError) {
        match why {
            ReadError::Empty | ReadError::NotConnected => return,
            ReadError::Finished => {}
            ReadError::Failed(e) => self.error = Some(e),
        }
        self.ended = true;
        self.edges |= Events::READABLE;
    }

    fn tell(&self, core: &Core) -> Event {
        let state = core.connection(self.conn).state();
        // The end is told after the last octet.
        let state = if state == State::Closed && self.more { State::Established } else { state };
        let status = Status { state, error: self.error, ended: self.ended, more: self.more };
        Event::Notice { id: self.id, edges: self.edges, status }
    }
}

/// `table[id] = index`, growing the table.
fn set(table: &mut Vec<u32>, id: u32, index: u32) {
    if table.len() <= id as usize {
        table.resize((id as usize + 1).next_power_of_two(), NONE);
    }
    table[id as usize] = index;
}
