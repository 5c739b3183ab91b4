//! Calls of descriptors on the stack thread: most are answered from the rings and from state that is here already.

use super::blocks::{BLOCKS_MIN, Lending, Lent};
use super::link::Backoff;
use super::message::{BY_STACK, Call, Change, Command, Mark, Reply, Rings};
use super::remote::{AHEAD, Conn, Listener, NOBODY, Remote};
use crate::Errno;
use crate::transport::Transport;
use base::{Addr, Endpoint, Instant};
use cc::TunableError;
use ring::bytes::ByteProducer;
use stack::{ConnId, Connect, FastOpenListen, Listen, ListenerId, OpError};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use tcp::auth::{AoReport, KeyChange, KeyError, Keyring};
use tcp::{FastOpenKeys, Hints, Info, LENT_MIN, Report, Shutdown, SocketOptions, State, Times};

impl Transport for Remote {
    /// Returns true if every stack thread is gone.
    fn is_over(&self) -> bool {
        self.links.iter().all(|link| link.dead)
    }

    fn bind(
        &mut self,
        local: Endpoint,
        reuse_addr: bool,
        reuse_port: bool,
        v6_only: bool,
        free: bool,
    ) -> Result<Endpoint, OpError> {
        self.reserve(Call::Bind { local, reuse_addr, reuse_port, v6_only, free })
    }

    fn is_used(&mut self, local: Endpoint, v6_only: bool) -> bool {
        (0..self.links.len())
            .any(|link| matches!(self.call(link, Call::IsUsed { local, v6_only }), Ok(Reply::IsUsed(true))))
    }

    fn unbind(&mut self, local: Endpoint) {
        self.links[0].tell(Command::Unbind(local));
    }

    fn listen(&mut self, _now: Instant, listen: &Listen) -> Result<(ListenerId, Endpoint), OpError> {
        let cores = self.links.len();
        let credit = listen.backlog.clamp(1, AHEAD);
        let mut request = Listen { reuse_port: listen.reuse_port || cores > 1, ..listen.clone() };
        let record = Listener {
            owner: listen.owner,
            local: listen.local,
            options: Arc::new(listen.options),
            queue: VecDeque::new(),
            credit,
            taken: vec![0; cores],
        };
        let index = self.listeners.insert(record).map_err(|_| OpError::NoBuffers)?;
        // The stack thread knows a listener by our name for it.
        request.owner = index;
        for link in 0..cores {
            match self.call(link, Call::Listen { request: request.clone(), credit }) {
                // The first core chooses the port for all.
                Ok(Reply::Local(Ok(local))) => request.local = local,
                failed => {
                    self.stop_listening(index, link);
                    return Err(match failed {
                        Ok(Reply::Local(Err(e))) => e,
                        _ => OpError::NetUnreachable,
                    });
                }
            }
        }
        if let Some(listener) = self.listeners.get_mut(index) {
            listener.local = request.local;
        }
        Ok((ListenerId(index), request.local))
    }

    fn set_backlog(&mut self, id: ListenerId, backlog: u32) {
        self.change(id, || Change::Backlog(backlog));
    }

    fn park(&mut self, id: ListenerId, parked: bool) {
        self.change(id, || Change::Park(parked));
    }

    fn set_listener_options(&mut self, id: ListenerId, options: SocketOptions) {
        if let Some(listener) = self.listeners.get_mut(id.0) {
            listener.options = Arc::new(options);
            self.change(id, || Change::Options(options));
        }
    }

    fn set_listener_control(&mut self, id: ListenerId, name: &'static str) {
        self.change(id, || Change::Control(name));
    }

    fn acceptable(&self, id: ListenerId) -> u32 {
        self.listeners.get(id.0).map_or(0, |listener| listener.queue.len() as u32)
    }

    fn accept(&mut self, id: ListenerId, owner: u32) -> Option<ConnId> {
        let listener = self.listeners.get_mut(id.0)?;
        let index = listener.queue.pop_front()?;
        let conn = self.conns.get_mut(index)?;
        conn.owner = owner;
        let taken = &mut listener.taken[conn.link];
        *taken += 1;
        if *taken * 2 >= listener.credit {
            let count = std::mem::take(taken);
            self.links[conn.link].tell(Command::Credit { listener: id.0, count });
        }
        Some(ConnId(index))
    }

    fn close_listener(&mut self, _now: Instant, id: ListenerId) {
        self.stop_listening(id.0, self.links.len());
    }

    fn set_listener_keys(&mut self, id: ListenerId, keys: Option<Arc<Keyring>>) {
        self.change(id, || Change::Keys(keys.clone()));
    }

    fn change_keys(&mut self, id: ConnId, change: &KeyChange) -> Result<(), KeyError> {
        match self.ask(id, |id| Call::ChangeKeys { id, change: change.clone() }) {
            Some(Reply::Keyed(result)) => result,
            _ => Err(KeyError::NotSigned),
        }
    }

    fn ao_report(&mut self, id: ConnId) -> Option<AoReport> {
        match self.ask(id, |id| Call::AoReport { id }) {
            Some(Reply::AoReport(report)) => report.map(|report| *report),
            _ => None,
        }
    }

    fn set_fast_open(&mut self, id: ListenerId, request: FastOpenListen) {
        self.change(id, || Change::FastOpen(request));
    }

    fn fast_open_keys(&mut self, _now: Instant) -> Option<FastOpenKeys> {
        match self.call(0, Call::FastOpenKeys) {
            Ok(Reply::Keys(keys)) => Some(keys),
            _ => None,
        }
    }

    fn fast_open_client(&self) -> bool {
        self.defaults.fast_open
    }

    fn may_send_with_syn(&mut self, _now: Instant, connect: &Connect, no_cookie: bool) -> bool {
        let link = self.link_for(connect);
        let call = Call::MaySend { request: Box::new(connect.clone()), no_cookie };
        matches!(self.call(link, call), Ok(Reply::MaySend(true)))
    }

    fn connect_fast(
        &mut self,
        _now: Instant,
        connect: &Connect,
        no_cookie: bool,
        data: &[u8],
    ) -> Result<(ConnId, usize), OpError> {
        let (link, id) = self.enter(connect)?;
        // No SYN carries more than a segment of the largest kind.
        let data = data[..data.len().min(usize::from(u16::MAX))].to_vec();
        let call = Call::ConnectFast { id: id.0, request: Box::new(connect.clone()), no_cookie, data };
        let begun = match self.call(link, call) {
            Ok(Reply::Begun(begun)) => begun,
            _ => Err(OpError::NetUnreachable),
        };
        match begun {
            Ok((local, taken)) => {
                if let Some(conn) = self.conns.get_mut(id.0) {
                    conn.local = Some(local);
                }
                Ok((id, taken))
            }
            Err(e) => {
                self.conns.remove(id.0);
                Err(e)
            }
        }
    }

    fn connect(&mut self, _now: Instant, connect: &Connect) -> Result<ConnId, OpError> {
        let (link, id) = self.enter(connect)?;
        let request = match self.envelopes.pop() {
            Some(mut envelope) => {
                (*envelope).clone_from(connect);
                envelope
            }
            None => Box::new(connect.clone()),
        };
        self.links[link].tell(Command::Connect { id: id.0, request });
        Ok(id)
    }

    fn write(&mut self, _now: Instant, id: ConnId, data: &[u8]) -> Result<usize, Errno> {
        self.put(id, Data::Copied(data), None)
    }

    fn lend(
        &mut self,
        _now: Instant,
        id: ConnId,
        bytes: &Arc<[u8]>,
        range: Range<usize>,
        hints: &Hints,
    ) -> Result<usize, Errno> {
        if range.len() < LENT_MIN {
            return self.put(id, Data::Copied(&bytes[range]), Some(hints));
        }
        self.put(id, Data::Lent(bytes, range), Some(hints))
    }

    fn write_hinted(
        &mut self,
        _now: Instant,
        id: ConnId,
        data: &[u8],
        hints: &Hints,
    ) -> Result<usize, Errno> {
        self.put(id, Data::Copied(data), Some(hints))
    }

    fn end_call(&mut self, _now: Instant, id: ConnId, hints: &Hints) {
        if let Some(written) = self.conn(id).map(|conn| conn.written) {
            let mark = Mark { start: written, end: written, hints: *hints };
            self.tell(id, |id| Command::Mark { id, mark });
        }
    }

    fn push(&mut self, _now: Instant, id: ConnId) {
        self.tell(id, |id| Command::Push { id });
    }

    fn take_report(&mut self, id: ConnId) -> Option<Report> {
        self.conns.get_mut(id.0)?.told.as_mut()?.take_report()
    }

    fn last_read_arrived(&mut self, id: ConnId) -> Option<Instant> {
        let conn = self.conns.get_mut(id.0)?;
        conn.told.as_mut()?.arrival(conn.read)
    }

    fn has_reports(&self, id: ConnId) -> bool {
        self.conn(id).and_then(|conn| conn.told.as_ref()).is_some_and(|told| told.has_reports())
    }

    fn read(&mut self, _now: Instant, id: ConnId, into: &mut [u8]) -> Result<usize, Errno> {
        let Some(conn) = self.conns.get_mut(id.0) else { return Err(Errno::ENOTCONN) };
        let taken =
            conn.take(into.len(), |before, data| into[before..before + data.len()].copy_from_slice(data));
        if taken > 0 {
            self.after_reading(id);
            return Ok(taken);
        }
        if into.is_empty() && conn.readable() > 0 {
            return Ok(0);
        }
        conn.why_unreadable()?;
        conn.failure.take().map_or(Ok(0), |failure| Err(failure.into()))
    }

    fn peek(&mut self, id: ConnId, max: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Errno> {
        let Some(conn) = self.conns.get_mut(id.0) else { return Err(Errno::ENOTCONN) };
        if max.min(conn.readable() as usize) == 0 {
            return conn.why_unreadable();
        }
        conn.show(max, each);
        Ok(())
    }

    fn consume(&mut self, _now: Instant, id: ConnId, len: usize) {
        let Some(conn) = self.conns.get_mut(id.0) else { return };
        if conn.take(len, |_, _| {}) > 0 {
            self.after_reading(id);
        }
    }

    fn shutdown(&mut self, _now: Instant, id: ConnId, how: Shutdown) {
        if let Some(conn) = self.conns.get_mut(id.0) {
            conn.write_shut |= how != Shutdown::Read;
        }
        self.tell(id, |id| Command::Shutdown { id, how });
    }

    fn close(&mut self, _now: Instant, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id.0) else { return };
        let unread = conn.readable() > 0;
        let rings = Rings { receive: conn.receive.take(), send: conn.send.take() };
        let (link, name) = (conn.link, conn.id);
        if name & BY_STACK != 0 {
            self.links[link].given[(name & !BY_STACK) as usize] = NOBODY;
            self.conns.remove(id.0);
        } else {
            // Our name for it lives until the stack thread has let go of it.
            conn.owner = NOBODY;
            conn.link = usize::MAX;
        }
        self.links[link].tell(Command::Close { id: name, rings, unread });
    }

    fn set_options(&mut self, _now: Instant, id: ConnId, options: SocketOptions) {
        if let Some(conn) = self.conns.get_mut(id.0) {
            conn.options = Arc::new(options);
            self.tell(id, |id| Command::Options { id, options: Box::new(options) });
        }
    }

    fn set_control(&mut self, _now: Instant, id: ConnId, name: &'static str) -> Result<(), OpError> {
        match self.ask(id, |id| Call::Control { id, name }) {
            Some(Reply::Done(result)) => result,
            _ => Err(OpError::NoControl),
        }
    }

    fn tune(&mut self, id: ConnId, name: &str, value: Option<i64>) -> Result<i64, TunableError> {
        match self.ask(id, |id| Call::Tune { id, name: name.into(), value }) {
            Some(Reply::Tuned(result)) => result,
            _ => Err(TunableError::Unknown),
        }
    }

    fn would_tune(
        &mut self,
        policy: &'static str,
        name: &str,
        value: Option<i64>,
    ) -> Result<i64, TunableError> {
        match self.call(0, Call::WouldTune { policy, name: name.into(), value }) {
            Ok(Reply::Tuned(result)) => result,
            _ => Err(TunableError::Unknown),
        }
    }

    fn take_error(&mut self, id: ConnId) -> Option<Errno> {
        self.conns.get_mut(id.0)?.failure.take().map(Errno::from)
    }

    fn find_control(&mut self, name: &str) -> Result<&'static str, OpError> {
        match self.call(0, Call::FindControl(name.to_string())) {
            Ok(Reply::Found(found)) => found,
            _ => Err(OpError::NoControl),
        }
    }

    fn default_control(&self) -> &'static str {
        self.defaults.control
    }

    fn default_buffers(&self) -> (u32, u32) {
        self.defaults.buffers
    }

    fn default_options(&self) -> SocketOptions {
        self.defaults.options
    }

    fn default_times(&self) -> Times {
        self.defaults.times
    }

    fn default_syn_retries(&self) -> u8 {
        self.defaults.syn_retries
    }

    fn state(&self, id: ConnId) -> State {
        // Over only when everything that came before can be read.
        self.conn(id)
            .map_or(State::Closed, |conn| if conn.away { conn.state_before_end() } else { conn.state })
    }

    fn failed(&self, id: ConnId) -> bool {
        self.conn(id).is_some_and(|conn| conn.failure.is_some())
    }

    fn peer_closed(&self, id: ConnId) -> bool {
        self.conn(id).is_some_and(Conn::has_ended)
    }

    fn write_closed(&self, id: ConnId) -> bool {
        self.conn(id).is_some_and(|conn| conn.write_shut)
    }

    fn readable(&self, id: ConnId) -> u32 {
        self.conn(id).map_or(0, Conn::readable)
    }

    fn writable(&self, id: ConnId) -> u32 {
        match self.conn(id) {
            Some(conn) if !conn.is_full() => conn.send.as_ref().map_or(1, |ring| ring.vacant() as u32),
            _ => 0,
        }
    }

    fn options(&self, id: ConnId) -> SocketOptions {
        self.conn(id).map(|conn| *conn.options).unwrap_or_default()
    }

    fn unsent(&mut self, id: ConnId) -> (u32, u32) {
        match self.ask(id, |id| Call::Unsent { id }) {
            // Looked up after the answer: what the stack thread takes out in between is missed this once, but
            // nothing is counted that is not there.
            Some(Reply::Unsent(unacked, unsent)) => {
                let waiting = self.conn(id).map_or(0, Conn::waiting);
                (unacked + waiting, unsent + waiting)
            }
            _ => (0, 0),
        }
    }

    fn incoming_cpu(&mut self, id: ConnId) -> Option<u32> {
        match self.ask(id, |_| Call::Cpu) {
            Some(Reply::Cpu(cpu)) => cpu,
            _ => None,
        }
    }

    fn local(&mut self, id: ConnId) -> Endpoint {
        let mut backoff = Backoff::default();
        // The stack thread chooses it, a turn after connect. A connect that failed at once never had one.
        while let Some(conn) = self.conns.get(id.0).filter(|conn| conn.local.is_none()) {
            let (link, closed) = (conn.link, conn.state == State::Closed);
            match self.links[link].next() {
                Some(event) => self.apply(link, event),
                None if closed || self.links[link].is_cut() => break,
                None => self.links[link].wait(&mut backoff),
            }
        }
        let any = Endpoint::new(Addr::UNSPECIFIED_V4, 0);
        self.conn(id).and_then(|conn| conn.local).unwrap_or(any)
    }

    fn remote(&self, id: ConnId) -> Endpoint {
        self.conn(id).map_or(Endpoint::new(Addr::UNSPECIFIED_V4, 0), |conn| conn.remote)
    }

    fn info(&mut self, _now: Instant, id: ConnId) -> Option<Info> {
        match self.ask(id, |id| Call::Info { id }) {
            Some(Reply::Info(info)) => info.map(|info| *info),
            _ => None,
        }
    }

    fn control_name(&mut self, id: ConnId) -> &'static str {
        match self.ask(id, |id| Call::ControlName { id }) {
            Some(Reply::Name(Some(name))) => name,
            _ => self.defaults.control,
        }
    }
}

/// Bytes of a call.
enum Data<'a> {
    Copied(&'a [u8]),
    /// A range of them.
    Lent(&'a Arc<[u8]>, Range<usize>),
}

impl Data<'_> {
    fn len(&self) -> usize {
        match self {
            Data::Copied(data) => data.len(),
            Data::Lent(_, range) => range.len(),
        }
    }
}

impl Remote {
    /// Bytes to send, and what the call says about them.
    fn put(&mut self, id: ConnId, data: Data<'_>, hints: Option<&Hints>) -> Result<usize, Errno> {
        let Some(conn) = self.conns.get_mut(id.0) else { return Err(Errno::ENOTCONN) };
        let wanted = data.len();
        match conn.state {
            State::SynSent | State::SynReceived => return Err(Errno::ENOTCONN),
            State::Closed => return Err(conn.failure.take().map_or(Errno::EPIPE, Errno::from)),
            _ if conn.write_shut => return Err(Errno::EPIPE),
            _ if wanted == 0 => return Ok(0),
            _ => {}
        }
        let (link, name) = (conn.link, conn.id);
        // Of a copy the report says that it was one.
        let completion = hints.is_some_and(|hints| hints.completion);
        let (lends, room) = match &data {
            Data::Copied(_) if wanted < BLOCKS_MIN || completion => (false, self.room_in_ring(id)),
            Data::Copied(_) => match self.room_to_lend(id) {
                0 => (true, 0),
                window => match self.blocks.room(wanted.min(window)) {
                    0 => (false, self.room_in_ring(id)),
                    room => (true, room),
                },
            },
            Data::Lent(..) => (true, self.room_to_lend(id)),
        };
        let taken = wanted.min(room);
        self.say_before(id, taken, wanted, hints.unwrap_or(&Hints::default()))?;
        match data {
            Data::Copied(data) if lends => {
                let mut rest = &data[..taken];
                while !rest.is_empty() {
                    let Some((block, len)) = self.blocks.fill(rest) else { break };
                    self.pass(id, block, 0..len);
                    rest = &rest[len..];
                }
            }
            Data::Copied(data) => self.copy_to_ring(id, &data[..taken]),
            Data::Lent(bytes, range) if taken > 0 => {
                self.pass(id, bytes.clone(), range.start..range.start + taken);
            }
            Data::Lent(..) => {}
        }
        let Some(conn) = self.conns.get_mut(id.0) else { return Err(Errno::ENOTCONN) };
        // With the rest of what had no room it is as if all had been one write: Nagle's algorithm holds up none of it,
        // unless more is to come or a cork is in.
        let held = conn.options.cork || hints.is_some_and(|hints| hints.more);
        let completes = taken == wanted && conn.cut && !held;
        conn.cut = taken < wanted;
        if completes {
            self.links[link].tell(Command::Push { id: name });
        }
        let full = taken < wanted || conn.is_full();
        if full && !std::mem::replace(&mut conn.wants_room, true) {
            self.links[link].tell(Command::WantRoom { id: name });
        }
        if taken > 0 { Ok(taken) } else { Err(Errno::EAGAIN) }
    }

    /// Bytes that the ring has room for now.
    fn room_in_ring(&self, id: ConnId) -> usize {
        let ring = self.conn(id).and_then(|conn| conn.send.as_ref());
        ring.map_or(self.rings.bytes(), ByteProducer::vacant)
    }

    /// Bytes that may be sent by reference now. The send buffer that the application asked for bounds those that wait.
    fn room_to_lend(&mut self, id: ConnId) -> usize {
        let Some(conn) = self.conns.get_mut(id.0) else { return 0 };
        if conn.lending.is_none() {
            let lending = Lending::new(self.rings.window(conn.options.sndbuf));
            let (window, taken) = conn.lending.insert(lending).window();
            self.links[conn.link].tell(Command::Window { id: conn.id, window, taken });
        }
        conn.lending.as_ref().map_or(0, Lending::room)
    }

    /// Sends bytes that have room in the ring.
    fn copy_to_ring(&mut self, id: ConnId, data: &[u8]) {
        let Some(conn) = self.conns.get_mut(id.0).filter(|_| !data.is_empty()) else { return };
        conn.written = conn.written.wrapping_add(data.len() as u32);
        let (name, upto) = (conn.id, conn.written);
        let command = match &mut conn.send {
            Some(ring) => {
                ring.write(data);
                Command::Written { id: name, upto }
            }
            None => {
                let mut pair = self.rings.take();
                pair.tx.write(data);
                conn.send = Some(pair.tx);
                Command::Ring { id: name, ring: pair.rx, upto }
            }
        };
        self.links[conn.link].tell(command);
    }

    /// Sends bytes by reference.
    fn pass(&mut self, id: ConnId, bytes: Arc<[u8]>, range: Range<usize>) {
        let Some(conn) = self.conns.get_mut(id.0) else { return };
        let len = range.len() as u32;
        conn.written = conn.written.wrapping_add(len);
        if let Some(lending) = &mut conn.lending {
            lending.lend(len);
        }
        let command = Command::Lent { id: conn.id, bytes, start: range.start, len, upto: conn.written };
        self.links[conn.link].tell(command);
    }

    /// Tells what a call says about its bytes, of which `taken` have room now, before they are there to be taken. If
    /// not all have room, more will come.
    fn say_before(&mut self, id: ConnId, taken: usize, wanted: usize, hints: &Hints) -> Result<(), Errno> {
        let Some(conn) = self.conns.get_mut(id.0) else { return Err(Errno::ENOTCONN) };
        if hints.completion && conn.told.as_ref().is_some_and(|told| told.is_full()) {
            return Err(Errno::ENOBUFS);
        }
        let ends = taken == wanted || !hints.waits;
        let hints = if ends { *hints } else { Hints::default() };
        let hints = Hints { more: hints.more || taken < wanted, ..hints };
        let start = conn.written;
        let mark = Mark { start, end: start.wrapping_add(taken as u32), hints };
        if taken > 0 && hints != Hints::default() {
            self.tell(id, |id| Command::Mark { id, mark });
        }
        Ok(())
    }

    /// The core that the next connect goes to.
    fn link_for(&self, connect: &Connect) -> usize {
        // A local end that was bound is known to the first core only.
        if connect.local.port != 0 {
            return 0;
        }
        let count = self.links.len();
        let mut alive = (0..count)
            .map(|step| (self.next_core.wrapping_add(step)) % count)
            .filter(|&l| !self.links[l].dead);
        alive.next().unwrap_or(0)
    }

    /// A record for a connection to be: its core, and its name.
    fn enter(&mut self, connect: &Connect) -> Result<(usize, ConnId), OpError> {
        let link = self.link_for(connect);
        self.next_core = self.next_core.wrapping_add(1);
        let conn = Conn {
            link,
            id: 0,
            owner: connect.owner,
            state: State::SynSent,
            failure: None,
            ended: false,
            more: false,
            lent_first: false,
            write_shut: false,
            wants_room: false,
            cut: false,
            local: None,
            remote: connect.remote,
            send: None,
            lending: None,
            receive: None,
            lent: Lent::default(),
            away: false,
            options: Arc::new(connect.options),
            written: 0,
            read: 0,
            told: None,
        };
        let id = self.conns.insert(conn).map_err(|_| OpError::NoBuffers)?;
        if let Some(conn) = self.conns.get_mut(id) {
            conn.id = id;
        }
        Ok((link, ConnId(id)))
    }

    fn change(&mut self, id: ListenerId, change: impl Fn() -> Change) {
        for link in &mut self.links {
            link.tell(Command::Listener { listener: id.0, change: Box::new(change()) });
        }
    }

    /// Stops listening on the first `cores` cores, and resets what was not accepted.
    fn stop_listening(&mut self, index: u32, cores: usize) {
        for link in 0..cores {
            // The answer comes after every connection that was accepted before; a core that is gone listens no more.
            let _ = self.call(link, Call::CloseListener { listener: index });
        }
        let Some(listener) = self.listeners.remove(index) else { return };
        for conn in listener.queue {
            let Some(conn) = self.conns.remove(conn) else { continue };
            self.links[conn.link].given[(conn.id & !BY_STACK) as usize] = NOBODY;
            let rings = Rings { receive: conn.receive, send: conn.send };
            self.links[conn.link].tell(Command::Close { id: conn.id, rings, unread: true });
        }
    }
}
