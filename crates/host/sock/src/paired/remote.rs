//! The application's view of its connections, and the queues to the threads that run them.

use super::blocks::{Blocks, Lending, Lent, Piece, Received};
use super::lease::Lease;
use super::link::{Backoff, Link};
use super::message::{BY_STACK, Call, Command, Event, Failure, Reply, RingPool, Rings, Status};
use super::told::Told;
use crate::Errno;
use crate::transport::Transport;
use base::{Endpoint, Slab};
use ring::Sleeper;
use ring::bytes::{ByteConsumer, ByteProducer};
use stack::{ConnId, Connect, Notice, OpError};
use std::collections::VecDeque;
use std::sync::Arc;
use tcp::{Events, SocketOptions, State, Times};

/// Nothing: a connection that was accepted on our behalf and waits in its listener's queue.
pub(super) const NOBODY: u32 = u32::MAX;
/// Most connections accepted ahead of the application, per listener and core.
pub(super) const AHEAD: u32 = 256;

/// The application's view of one connection.
pub(super) struct Conn {
    pub(super) link: usize,
    /// Its name on the way to the stack thread.
    pub(super) id: u32,
    pub(super) owner: u32,
    pub(super) state: State,
    pub(super) failure: Option<Failure>,
    pub(super) ended: bool,
    pub(super) more: bool,
    pub(super) lent_first: bool,
    pub(super) write_shut: bool,
    /// [`Command::WantRoom`] is out.
    pub(super) wants_room: bool,
    /// Not all of the last write had room.
    pub(super) cut: bool,
    pub(super) local: Option<Endpoint>,
    pub(super) remote: Endpoint,
    pub(super) send: Option<ByteProducer>,
    pub(super) lending: Option<Lending>,
    pub(super) receive: Option<ByteConsumer>,
    /// Received bytes that do not lie in the ring.
    pub(super) lent: Lent<Received>,
    /// The receive ring is on its way home, and may come back with bytes in it.
    pub(super) away: bool,
    pub(super) options: Arc<SocketOptions>,
    /// Bytes ever written and read, modulo 2^32.
    pub(super) written: u32,
    pub(super) read: u32,
    /// Further reports by the stack thread, once there are any.
    pub(super) told: Option<Box<Told>>,
}

pub(super) struct Listener {
    pub(super) owner: u32,
    pub(super) local: Endpoint,
    pub(super) options: Arc<SocketOptions>,
    /// Connections accepted ahead, oldest first.
    pub(super) queue: VecDeque<u32>,
    /// How many may be accepted ahead on each core, and how many of those were taken and not yet made good.
    pub(super) credit: u32,
    pub(super) taken: Vec<u32>,
}

/// Defaults from the cores' settings.
#[derive(Clone, Copy)]
pub(super) struct Defaults {
    /// Congestion control of connections that name none.
    pub(super) control: &'static str,
    /// Bytes of the receive and send buffers that a connection begins with.
    pub(super) buffers: (u32, u32),
    /// Options of sockets that set none.
    pub(super) options: SocketOptions,
    /// Times of sockets that choose none.
    pub(super) times: Times,
    /// See [`Transport::default_syn_retries`].
    pub(super) syn_retries: u8,
    /// Connects may use Fast Open.
    pub(super) fast_open: bool,
}

impl Defaults {
    pub(super) fn of(core: &stack::Core) -> Self {
        Defaults {
            control: core.default_control(),
            buffers: Transport::default_buffers(core),
            options: Transport::default_options(core),
            times: Transport::default_times(core),
            syn_retries: Transport::default_syn_retries(core),
            fast_open: core.fast_open_client(),
        }
    }
}

/// The queues to one or more stack threads, as something that descriptors can stand on.
pub struct Remote {
    pub(super) links: Vec<Link>,
    pub(super) conns: Slab<Conn>,
    pub(super) listeners: Slab<Listener>,
    pub(super) rings: RingPool,
    pub(super) blocks: Blocks,
    /// Boxes that requests travel in.
    #[allow(clippy::vec_box, reason = "it is the boxes that are kept")]
    pub(super) envelopes: Vec<Box<Connect>>,
    /// The core that the next connect goes to.
    pub(super) next_core: usize,
    /// Notices for owners.
    pub(super) notices: Vec<Notice>,
    pub(super) defaults: Defaults,
    /// Rung by every stack thread: the leader sleeps on it.
    pub(super) bell: Sleeper,
}

impl Remote {
    pub(super) fn new(
        links: Vec<Link>,
        bell: Sleeper,
        limit: u32,
        rings: RingPool,
        defaults: Defaults,
    ) -> Remote {
        let blocks = rings.blocks();
        Remote {
            links,
            conns: Slab::new(limit),
            listeners: Slab::new(65_536),
            rings,
            blocks,
            envelopes: Vec::new(),
            next_core: 0,
            notices: Vec::new(),
            defaults,
            bell,
        }
    }

    /// Returns the lease of the core, if there is one stack thread alone.
    pub(super) fn lease(&self) -> Option<&Lease> {
        let [link] = &self.links[..] else { return None };
        link.lease.as_ref()
    }

    /// Returns the lease of the core, if there is one stack thread alone.
    pub(super) fn lease_mut(&mut self) -> Option<&mut Lease> {
        let [link] = &mut self.links[..] else { return None };
        link.lease.as_mut()
    }

    /// Binds on the first core: what is bound there is listened on by all of them.
    pub(super) fn reserve(&mut self, mut bind: Call) -> Result<Endpoint, OpError> {
        if let Call::Bind { reuse_port, .. } = &mut bind {
            *reuse_port |= self.links.len() > 1;
        }
        match self.call(0, bind) {
            Ok(Reply::Local(result)) => result,
            _ => Err(OpError::NetUnreachable),
        }
    }

    /// Is there something that [`Remote::collect`] would take?
    pub(super) fn has_events(&mut self) -> bool {
        !self.notices.is_empty() || self.links.iter_mut().any(Link::has_events)
    }

    /// Takes what the stack threads said; what owners have to know goes to `into`. Returns how much that was.
    pub(super) fn collect(&mut self, into: &mut Vec<Notice>) -> u32 {
        let mut events = 0;
        for link in 0..self.links.len() {
            while let Some(event) = self.links[link].next() {
                self.apply(link, event);
                events += 1;
            }
            if !self.links[link].dead && self.links[link].is_cut() {
                self.bury(link);
            }
        }
        events = events.max(self.notices.len() as u32);
        into.append(&mut self.notices);
        events
    }

    /// A stack thread is gone, and its connections with it.
    fn bury(&mut self, link: usize) {
        self.links[link].dead = true;
        let lost: Vec<_> = self.conns.iter().filter(|(_, c)| c.link == link).map(|(i, _)| i).collect();
        lost.into_iter().for_each(|index| self.lose(index));
        if self.links.iter().all(|link| link.dead) {
            // Nothing is left who could accept for them.
            let owners = self.listeners.iter().map(|(_, listener)| listener.owner);
            self.notices
                .extend(owners.map(|owner| Notice { owner, events: Events::READABLE | Events::ERROR }));
        }
    }

    /// The stack thread ended a connection that is still ours.
    fn lose(&mut self, index: u32) {
        if let Some(conn) = self.conns.get_mut(index).filter(|conn| conn.state != State::Closed) {
            (conn.state, conn.ended, conn.failure) = (State::Closed, true, Some(Failure::Gone));
            self.notices.push(Notice { owner: conn.owner, events: Events::ERROR | Events::CLOSED });
        }
    }

    /// No connection, no listener, and every ring at home.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.conns.is_empty() && self.listeners.is_empty() && self.rings.is_idle()
    }

    // --- events ----------------------------------------------------------------------------------------------

    fn index(&self, link: usize, id: u32) -> Option<u32> {
        if id & BY_STACK == 0 {
            return Some(id);
        }
        self.links[link].given.get((id & !BY_STACK) as usize).copied().filter(|&index| index != NOBODY)
    }

    fn named(&mut self, link: usize, id: u32) -> Option<&mut Conn> {
        self.conns.get_mut(self.index(link, id)?).filter(|conn| conn.link == link && conn.id == id)
    }

    pub(super) fn apply(&mut self, link: usize, event: Event) {
        match event {
            Event::Notice { id, edges, status } => self.on_notice(link, id, edges, status),
            Event::Accepted { listener, id, local, remote } => {
                self.on_accepted(link, listener, id, local, remote);
            }
            Event::Ring { id, ring } => match self.named(link, id) {
                Some(conn) => (conn.receive, conn.away) = (Some(ring), false),
                // We let go of the connection while the ring was under way. The stack thread knows, and forgets it too.
                None => drop(ring),
            },
            Event::Window { id, window, taken } => {
                if let Some(conn) = self.named(link, id) {
                    conn.lent.open(window, taken);
                }
            }
            Event::Lent { id, bytes, len, upto } => {
                if let Some(conn) = self.named(link, id) {
                    conn.lent.push(Piece { bytes, len, at: upto.wrapping_sub(len) });
                }
            }
            Event::Home { id } => self.on_ring_stays(link, id),
            Event::Wanted { id } => self.on_ring_wanted(link, id),
            Event::Unused { ring } => self.rings.put(ring),
            Event::Report { id, report } => {
                if let Some(conn) = self.named(link, id) {
                    conn.told.get_or_insert_default().report(report);
                }
            }
            Event::Arrived { id, end, at } => {
                if let Some(conn) = self.named(link, id) {
                    conn.told.get_or_insert_default().arrived(end, at);
                }
            }
            Event::Started { id, request, result } => {
                self.envelopes.push(request);
                self.on_started(link, id, result);
            }
            Event::Released { id, ring } => {
                if let Some(pair) = ring {
                    self.rings.put(pair);
                }
                match self.conns.get(id) {
                    _ if id & BY_STACK != 0 => {}
                    Some(conn) if conn.link == link => self.lose(id),
                    _ => drop(self.conns.remove(id)),
                }
            }
            // Only a call waits for an answer, and it takes it itself.
            Event::Reply(_) => debug_assert!(false, "an answer without a question"),
        }
    }

    fn on_notice(&mut self, link: usize, id: u32, edges: Events, status: Status) {
        let Some(conn) = self.named(link, id) else { return };
        conn.state = status.state;
        if let Some(e) = status.error {
            conn.failure = Some(Failure::Tcp(e));
        }
        (conn.ended, conn.more, conn.lent_first) = (status.ended, status.more, status.lent_first);
        let owner = conn.owner;
        if edges.any(Events::WRITABLE) {
            // What is full all the same is another ring than the one that was meant: it is asked for again.
            conn.wants_room = conn.is_full();
            if conn.wants_room {
                self.links[link].tell(Command::WantRoom { id });
            }
        }
        self.ask_for_more(id, link);
        if owner != NOBODY && edges != Events(0) {
            self.notices.push(Notice { owner, events: edges });
        }
    }

    /// There was no room for received bytes and there is again: the stack thread may go on.
    pub(super) fn ask_for_more(&mut self, id: u32, link: usize) {
        let Some(conn) = self.named(link, id) else { return };
        let has_room = if conn.lent_first { conn.lent.waiting() == 0 } else { conn.lent.has_room() }
            && conn.receive.as_ref().is_none_or(|ring| ring.waiting() <= ring.capacity() / 2);
        if conn.more && has_room {
            conn.more = false;
            self.links[link].tell(Command::Taken { id });
        }
    }

    fn on_started(&mut self, link: usize, id: u32, result: Result<Endpoint, OpError>) {
        let Some(conn) = self.named(link, id) else { return };
        match result {
            Ok(local) => conn.local = Some(local),
            Err(e) => {
                (conn.state, conn.ended, conn.failure) = (State::Closed, true, Some(Failure::Op(e)));
                let owner = conn.owner;
                self.notices.push(Notice { owner, events: Events::ERROR | Events::CLOSED });
            }
        }
    }

    fn on_accepted(&mut self, link: usize, listener: u32, id: u32, local: Endpoint, remote: Endpoint) {
        let Some(waiting) = self.listeners.get_mut(listener) else {
            // A listener's name is not given again before everything it accepted was heard of.
            return self.links[link].tell(Command::Close { id, rings: Rings::default(), unread: true });
        };
        let conn = Conn {
            link,
            id,
            owner: NOBODY,
            state: State::Established,
            failure: None,
            ended: false,
            more: false,
            lent_first: false,
            write_shut: false,
            wants_room: false,
            cut: false,
            local: Some(local),
            remote,
            send: None,
            lending: None,
            receive: None,
            lent: Lent::default(),
            away: false,
            options: waiting.options.clone(),
            written: 0,
            read: 0,
            told: None,
        };
        let Ok(index) = self.conns.insert(conn) else {
            self.links[link].tell(Command::Credit { listener, count: 1 });
            return self.links[link].tell(Command::Close { id, rings: Rings::default(), unread: true });
        };
        waiting.queue.push_back(index);
        let owner = waiting.owner;
        let given = &mut self.links[link].given;
        let name = (id & !BY_STACK) as usize;
        if given.len() <= name {
            given.resize((name + 1).next_power_of_two(), NOBODY);
        }
        given[name] = index;
        self.notices.push(Notice { owner, events: Events::READABLE });
    }

    /// The receive ring that we gave back was empty: if an end was announced meanwhile, now it has come.
    fn on_ring_stays(&mut self, link: usize, id: u32) {
        let Some(conn) = self.named(link, id) else { return };
        conn.away = false;
        if conn.ended && conn.owner != NOBODY {
            let owner = conn.owner;
            self.notices.push(Notice { owner, events: Events::READABLE });
        }
    }

    /// The stack thread would have our end of the ring for sending too. It gets it, unless our Close took that along or
    /// something was written meanwhile.
    fn on_ring_wanted(&mut self, link: usize, id: u32) {
        let unused = |conn: &mut Conn| conn.send.take_if(|tx| tx.vacant() == tx.capacity());
        if let Some(ring) = self.named(link, id).and_then(unused) {
            self.links[link].tell(Command::Unused { id, ring });
        }
    }

    // --- telling ---------------------------------------------------------------------------------------------

    pub(super) fn call(&mut self, link: usize, call: Call) -> Result<Reply, Failure> {
        self.links[link].tell(Command::Call(Box::new(call)));
        let mut backoff = Backoff::default();
        loop {
            match self.links[link].next() {
                Some(Event::Reply(reply)) => return Ok(reply),
                Some(event) => self.apply(link, event),
                None if self.links[link].is_cut() => return Err(Failure::Gone),
                None => self.links[link].wait(&mut backoff),
            }
        }
    }

    pub(super) fn conn(&self, id: ConnId) -> Option<&Conn> {
        self.conns.get(id.0)
    }

    pub(super) fn tell(&mut self, id: ConnId, command: impl FnOnce(u32) -> Command) {
        if let Some(conn) = self.conns.get(id.0) {
            self.links[conn.link].tell(command(conn.id));
        }
    }

    pub(super) fn ask(&mut self, id: ConnId, call: impl FnOnce(u32) -> Call) -> Option<Reply> {
        let conn = self.conns.get(id.0)?;
        self.call(conn.link, call(conn.id)).ok()
    }

    /// Some bytes were taken out of the receive ring.
    pub(super) fn after_reading(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id.0) else { return };
        if conn.more {
            let (link, name) = (conn.link, conn.id);
            return self.ask_for_more(name, link);
        }
        // An idle connection keeps its ring as long as there are enough.
        if self.rings.scarce()
            && let Some(ring) = conn.receive.take_if(|ring| ring.is_empty())
        {
            conn.away = true;
            self.tell(id, |id| Command::GiveBack { id, ring });
        }
    }
}

impl Conn {
    /// Is there no room for more to send?
    pub(super) fn is_full(&self) -> bool {
        self.send.as_ref().is_some_and(|ring| ring.vacant() == 0)
            || self.lending.as_ref().is_some_and(|lending| lending.room() == 0)
    }

    /// Bytes written that the stack thread has not taken.
    pub(super) fn waiting(&self) -> u32 {
        let in_ring = self.send.as_ref().map_or(0, |ring| ring.capacity() - ring.vacant()) as u32;
        in_ring + self.lending.as_ref().map_or(0, Lending::waiting)
    }

    /// Received bytes that can be read now.
    pub(super) fn readable(&self) -> u32 {
        let in_ring = self.receive.as_ref().map_or(0, ByteConsumer::waiting);
        match self.lent.next(self.read) {
            // The ring is on its way, and has what comes before.
            Err(before) if before != usize::MAX && before > in_ring => in_ring as u32,
            _ => in_ring as u32 + self.lent.waiting(),
        }
    }

    /// Returns the next received bytes that lie together, at most `max`.
    pub(super) fn front(&mut self, max: usize) -> &[u8] {
        match (self.lent.next(self.read), &mut self.receive) {
            (Ok(piece), _) => {
                let data = piece.front();
                &data[..max.min(data.len())]
            }
            (Err(before), Some(ring)) => ring.peek(max.min(before)).0,
            (Err(_), None) => &[],
        }
    }

    /// Drops `len` bytes of those that [`Conn::front`] has shown.
    fn drop_front(&mut self, len: usize) {
        match (self.lent.next(self.read), &mut self.receive) {
            (Ok(_), _) => self.lent.took(len as u32),
            (Err(_), Some(ring)) => ring.consume(len),
            (Err(_), None) => {}
        }
        self.read = self.read.wrapping_add(len as u32);
    }

    /// Takes at most `max` received bytes and shows them to `each`. Returns how many.
    pub(super) fn take(&mut self, max: usize, mut each: impl FnMut(usize, &[u8])) -> usize {
        let mut taken = 0;
        while taken < max {
            let data = self.front(max - taken);
            let len = data.len();
            if len == 0 {
                break;
            }
            each(taken, data);
            self.drop_front(len);
            taken += len;
        }
        taken
    }

    /// Shows received bytes in order, at most `max`, until `each` returns false.
    pub(super) fn show(&mut self, max: usize, each: &mut dyn FnMut(&[u8]) -> bool) {
        let mut left = max.min(self.readable() as usize);
        let (first, second) = self.receive.as_mut().map_or((&[][..], &[][..]), |ring| ring.peek(left));
        let mut each = |data: &[u8]| {
            let data = &data[..data.len().min(left)];
            left -= data.len();
            data.is_empty() || each(data)
        };
        // Lent bytes come behind those in the ring.
        let _all = each(first) && each(second) && self.lent.pieces().all(|piece| piece.for_each(&mut each));
    }

    /// Nothing more will come than what the ring holds.
    pub(super) fn has_ended(&self) -> bool {
        self.ended && !self.away
    }

    /// Where it stands as long as the end is not to be seen.
    pub(super) fn state_before_end(&self) -> State {
        if self.state == State::Closed { State::Established } else { self.state }
    }

    /// With an empty ring: nothing yet (EAGAIN), not connected (ENOTCONN), or the end, which may have a reason.
    pub(super) fn why_unreadable(&self) -> Result<(), Errno> {
        match self.state {
            State::SynSent | State::SynReceived => Err(Errno::ENOTCONN),
            _ if !self.has_ended() => Err(Errno::EAGAIN),
            _ => Ok(()),
        }
    }
}
