//! Calls of applications. The next turn sends, except data of a full super-segment and data before a RST.

use base::{Endpoint, FlowKey, Instant, Seq};
use pio::PacketIo;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use tcp::auth::Keyring;
use tcp::{Connection, Hints, ReadError, Report, Shutdown, SocketOptions, State, TimeWait, WriteError};

use crate::core::Core;
use crate::error::OpError;
use crate::fast_open::unproven::Unproven;
use crate::net::ip::OwnAddr;
use crate::net::paths::NoPath;
use crate::tables::conns::{ConnId, Meta, SlotFlags};
use crate::tables::flows::Flow;
use crate::tables::listeners::{Listen, Listener, ListenerId};
use crate::tables::ports::Binding;
use crate::transmit::Sent;

/// Whom to connect to.
#[derive(Clone, Debug)]
pub struct Connect {
    /// Local end: unspecified address and port 0 let the stack choose.
    pub local: Endpoint,
    /// Remote end.
    pub remote: Endpoint,
    /// SO_REUSEADDR was set with an explicit local port.
    pub reuse_addr: bool,
    /// Options.
    pub options: SocketOptions,
    /// Congestion control; None is the default.
    pub control: Option<&'static str>,
    /// Owner's handle, given back in notices.
    pub owner: u32,
    /// Keys by peer: those that fit sign the connection (RFC 2385, RFC 5925).
    pub keys: Option<Arc<Keyring>>,
}

impl Connect {
    /// From `local` to `remote` with the defaults of everything else.
    pub fn new(local: Endpoint, remote: Endpoint, owner: u32) -> Connect {
        let options = SocketOptions::default();
        Connect { local, remote, reuse_addr: false, options, control: None, owner, keys: None }
    }
}

/// The flow of a connection to be.
struct Chosen {
    key: FlowKey,
    /// It holds a reservation,
    bound: bool,
    /// which was made just now.
    fresh: bool,
    /// It takes over a TIME-WAIT entry: the ISN lies above this.
    above: Option<Seq>,
}

/// A flow that nothing uses.
pub(crate) struct Free {
    pub(crate) key: FlowKey,
    pub(crate) hash: u64,
    /// It takes over a TIME-WAIT entry: the ISN lies above this.
    pub(crate) above: Option<Seq>,
}

/// A line of `ss`.
pub enum Row<'a> {
    /// A listener.
    Listener {
        /// Where.
        local: Endpoint,
        /// Waiting.
        waiting: u32,
        /// Backlog.
        backlog: u32,
    },
    /// A connection.
    Connection(&'a Connection),
    /// A TIME-WAIT entry.
    TimeWait(&'a TimeWait),
}

impl Core {
    /// Start listening. A reservation of [`Core::bind`] for the same endpoint is used, else one is made.
    ///
    /// # Errors
    /// Errors of [`Core::bind`], [`OpError::NoControl`], [`OpError::UnfairControl`], [`OpError::NoBuffers`] with
    /// too many listeners.
    pub fn listen(&mut self, now: Instant, listen: &Listen) -> Result<(ListenerId, Endpoint), OpError> {
        self.now = now;
        if self.is_over() {
            return Err(OpError::Over);
        }
        if let Some(name) = listen.control {
            let row = self.registry.find(name).ok_or(OpError::NoControl)?;
            // What is only withdrawn is replaced when a connection comes.
            if !row.offered && !row.quiesced {
                return Err(OpError::UnfairControl);
            }
        }
        let mut request = listen.clone();
        if request.local.port == 0 || self.ports.reservation(request.local) != Some(request.local) {
            request.local = self.bind(request.local, true, request.reuse_port, request.v6_only)?;
        }
        self.ports.listen(request.local, request.reuse_port, request.v6_only)?;
        let local = request.local;
        let all = self.shared.config.fastopen_all_listeners();
        let unproven = Unproven::new(if all { request.backlog } else { 0 });
        match self.listeners.insert(request, unproven) {
            Some(id) => {
                self.ports.note_listener(self.port.io.as_mut(), local, true);
                self.ports.serve(self.port.io.as_mut(), local, true);
                Ok((id, local))
            }
            None => {
                self.ports.unbind(self.port.io.as_mut(), now, local, true);
                Err(OpError::NoBuffers)
            }
        }
    }

    /// Change backlog (listen called again).
    pub fn set_backlog(&mut self, id: ListenerId, backlog: u32) {
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.request.backlog = backlog;
        }
    }

    /// The next established connection, which `owner` owns from now on.
    pub fn accept(&mut self, id: ListenerId, owner: u32) -> Option<ConnId> {
        let index = self.listeners.get_mut(id)?.queue.pop_front()?;
        let meta = &mut self.conns.slot_mut(index).meta;
        meta.flags.clear(SlotFlags::QUEUED);
        meta.flags.set(SlotFlags::OWNED);
        meta.owner = owner;
        Some(ConnId(index))
    }

    /// Connections waiting for accept.
    pub fn acceptable(&self, id: ListenerId) -> u32 {
        self.listeners.get(id).map_or(0, |listener| listener.queue.len() as u32)
    }

    /// Stop listening. Connections that are not accepted, half-open ones too, go to another process that shares the
    /// port; where there is none they are reset, half-open ones as soon as they are looked at.
    pub fn close_listener(&mut self, now: Instant, id: ListenerId) {
        self.now = now;
        self.park(id, true);
        self.hand_over_of(now, id);
        let Some(Listener { request, queue, .. }) = self.listeners.remove(id) else { return };
        self.abandon(now, queue);
        // Noted before, as the process began to end.
        if !self.ends {
            self.ports.note_listener(self.port.io.as_mut(), request.local, false);
        }
        self.ports.unbind(self.port.io.as_mut(), now, request.local, true);
    }

    fn abandon(&mut self, now: Instant, queue: VecDeque<u32>) {
        for index in queue {
            self.conns.slot_mut(index).meta.flags.clear(SlotFlags::QUEUED);
            self.abort(now, ConnId(index));
        }
    }

    /// Check and reserve a local endpoint (bind before connect or listen); port 0 chooses one. `v6_only` says
    /// whether an unspecified IPv6 address leaves IPv4 alone.
    ///
    /// # Errors [`OpError::AddrNotAvailable`] for an address that is not ours, [`OpError::AddrInUse`],
    /// [`OpError::Denied`].
    pub fn bind(
        &mut self,
        local: Endpoint,
        reuse_addr: bool,
        reuse_port: bool,
        v6_only: bool,
    ) -> Result<Endpoint, OpError> {
        self.check_local(local)?;
        self.bind_free(local, reuse_addr, reuse_port, v6_only)
    }

    /// Binds to an address that need not be local (IP_FREEBIND): packets for it are received once it is.
    ///
    /// # Errors [`OpError::AddrInUse`], [`OpError::Denied`].
    pub fn bind_free(
        &mut self,
        local: Endpoint,
        reuse_addr: bool,
        reuse_port: bool,
        v6_only: bool,
    ) -> Result<Endpoint, OpError> {
        let binding = Binding { local, reuse_addr, reuse_port, v6_only, listening: false };
        self.ports.bind(self.port.io.as_mut(), binding)
    }

    /// Returns true if a connection, or what TIME-WAIT keeps of one, has this port at an address that `local` stands
    /// for: then Linux binds nothing there without SO_REUSEADDR.
    pub fn is_used(&self, local: Endpoint, v6_only: bool) -> bool {
        let wanted = Binding { local, reuse_addr: false, reuse_port: false, v6_only, listening: false };
        let is_there = |key: &FlowKey| key.local().port == local.port && wanted.covers(key.local().addr);
        let mut live = self.conns.iter().filter(|(.., tcp)| tcp.state() != State::Closed);
        self.ports.has_users(local.port)
            && (live.any(|(.., tcp)| is_there(tcp.key()))
                || self.time_waits.iter().any(|wait| is_there(&wait.key)))
    }

    /// One address more, on a port that has its own; false if there are too many already.
    pub fn add_address(&mut self, own: OwnAddr) -> bool {
        self.ip.add_own(own)
    }

    /// Before the first turn the kernel may not have been asked for addresses and routes.
    #[inline(always)]
    fn learn_network(&mut self) {
        if self.ip.addresses().is_empty() {
            self.ask_for_network();
        }
    }

    #[cold]
    fn ask_for_network(&mut self) {
        self.ask_kernel(self.now, &mut Vec::new());
    }

    #[inline(always)]
    fn check_local(&mut self, local: Endpoint) -> Result<(), OpError> {
        self.learn_network();
        if local.addr.is_unspecified() || self.ip.is_local(local.addr) {
            Ok(())
        } else {
            Err(OpError::AddrNotAvailable)
        }
    }

    /// Give a reservation of `bind` back that was used neither by listen nor by connect.
    pub fn unbind(&mut self, local: Endpoint) {
        self.ports.unbind(self.port.io.as_mut(), self.now, local, false);
    }

    /// Start connecting; a notice with CONNECTED or ERROR follows. A reservation of [`Core::bind`] for
    /// `local` is used and ends with the connection; after an error it is as it was.
    ///
    /// # Errors
    /// Addresses, ports, routes and memory; see [`OpError`].
    /// RFC 9293, MUST-43, MUST-44, MUST-45 and MUST-46.
    pub fn connect(&mut self, now: Instant, connect: &Connect) -> Result<ConnId, OpError> {
        self.connect_with(now, connect, None).map(|(id, _)| id)
    }

    /// With Fast Open, if `fast` says so ([`Core::connect_fast`]); how many bytes go with the SYN.
    pub(crate) fn connect_with(
        &mut self,
        now: Instant,
        connect: &Connect,
        fast: Option<(bool, &[u8])>,
    ) -> Result<(ConnId, usize), OpError> {
        self.now = now;
        if self.is_over() {
            return Err(OpError::Over);
        }
        let Connect { local, mut remote, .. } = *connect;
        if remote.addr.is_unspecified() {
            // As on Linux, this host, if it has a loopback.
            remote.addr = self.ip.localhost(remote.addr).ok_or(OpError::NetUnreachable)?;
        }
        if local.addr.is_v4() != remote.addr.is_v4() && !local.addr.is_unspecified() {
            return Err(OpError::Family);
        }
        if self.conns.is_full() {
            return Err(OpError::NoBuffers);
        }
        self.learn_network();
        if self.ip.is_of_many(remote.addr) {
            return Err(OpError::NetUnreachable);
        }
        let path = self.path(now, remote.addr).map_err(|why| match why {
            NoPath::Route => OpError::NetUnreachable,
            NoPath::Neighbours => OpError::NoBuffers,
        })?;
        if local.addr != path.src {
            self.check_local(local)?;
            if local.addr.is_loopback() && !path.is_looped() {
                return Err(OpError::Invalid);
            }
        }
        let addr = if local.addr.is_unspecified() { path.src } else { local.addr };
        let looped = path.is_looped();
        let plain = local.port == 0
            && connect.keys.is_none()
            && fast.is_none()
            && self.shared.config.handshake_cache
            && !looped;
        if plain && let Some(begun) = self.connect_cached(now, connect, addr, &path) {
            return begun.map(|id| (id, 0));
        }
        let Chosen { key, bound, fresh, above } = self.choose_key(now, connect, addr, remote, looped)?;
        let name = connect.control.unwrap_or(self.registry.default_name());
        let control = match self.registry.create(name) {
            Ok(control) => control,
            Err(failed) => {
                self.give_up(now, local, fresh);
                return Err(failed.into());
            }
        };
        let mut open = self.opening(now, key, &path, connect.options);
        if let Some(above) = above {
            open.isn = Core::isn_above(open.isn, above);
        }
        let auth = match self.auth_of(connect, &key, open.isn) {
            Ok(auth) => auth,
            Err(rejected) => {
                self.registry.retire(name);
                self.give_up(now, local, fresh);
                return Err(rejected);
            }
        };
        // A signed SYN has no room for a cookie.
        let fast = fast.filter(|_| auth.is_none());
        let mut meta = Meta::new(self.hash_of(&key, looped), path.hop, self.way_of(&path));
        meta.owner = connect.owner;
        meta.flags.set(SlotFlags::OWNED);
        let index = self.conns.claim(meta);
        let mut taken = 0;
        if let Some(fast) = fast {
            taken = self.begin_fast(now, index, &open, control, fast);
        } else {
            let place = &mut self.conns.slot_mut(index).tcp;
            Connection::connect(place, &mut self.shared.cx(now), &open, control);
        }
        self.sign_from_now(index, auth);
        if !self.enter(index) {
            self.give_up(now, local, fresh);
            return Err(OpError::NoBuffers);
        }
        if bound {
            self.conns.slot_mut(index).meta.flags.set(SlotFlags::BOUND);
        }
        if plain {
            self.cache(now, index, &connect.options, &path, None);
        }
        Ok((ConnId(index), taken))
    }

    fn give_up(&mut self, now: Instant, local: Endpoint, fresh: bool) {
        if fresh {
            self.ports.unbind(self.port.io.as_mut(), now, local, false);
        }
    }

    /// The flow of a connection to be.
    fn choose_key(
        &mut self,
        now: Instant,
        connect: &Connect,
        addr: base::Addr,
        remote: Endpoint,
        looped: bool,
    ) -> Result<Chosen, OpError> {
        let local = connect.local;
        if local.port == 0 {
            let Free { key, above, .. } = self.choose_free(now, addr, remote, looped)?;
            return Ok(Chosen { key, bound: false, fresh: false, above });
        }
        let key = FlowKey::new(Endpoint::new(addr, local.port), remote);
        let mut above = None;
        if let Some(flow) = self.find(self.hash_of(&key, looped), &key) {
            let Flow::TimeWait(entry) = flow else { return Err(OpError::AddrNotAvailable) };
            let over = self.time_waits.get(entry).until <= now;
            above = self.yields(now, entry);
            if !over && above.is_none() {
                return Err(OpError::AddrNotAvailable);
            }
            self.take_over(now, entry);
        }
        let fresh = self.ports.reservation(local).is_none();
        if fresh {
            self.bind(local, connect.reuse_addr, false, false)?;
        }
        Ok(Chosen { key, bound: true, fresh, above })
    }

    /// Returns a flow from `addr` to `remote` that nothing uses. Where many ports in a row are used, one in TIME-WAIT
    /// is taken over if timestamps allow it: a connector that ends its connections itself would run out of ports.
    pub(crate) fn choose_free(
        &mut self,
        now: Instant,
        addr: base::Addr,
        remote: Endpoint,
        looped: bool,
    ) -> Result<Free, OpError> {
        /// Ports in use that are looked at before one in TIME-WAIT is good enough.
        const LOOKS: u32 = 64;
        let (table, conns, time_waits) = (&self.table, &self.conns, &self.time_waits);
        let config = &self.shared.config;
        // Those of signed connections keep their keys.
        let unsigned = self.signed_waits.is_empty();
        let (mut hash, mut taken_over) = (0, None);
        let looks = Cell::new(0);
        let mut is_free = |key: &FlowKey| {
            hash = if looped { table.hash_looped(key) } else { table.hash(key) };
            let taken = table.find(hash, |flow| match flow {
                Flow::Connection(index) => conns.get(index).is_some_and(|(_, tcp)| tcp.key() == key),
                Flow::TimeWait(entry) => time_waits.get(entry).key == *key,
            });
            let Some(flow) = taken else { return true };
            looks.set(looks.get() + 1);
            match flow {
                Flow::TimeWait(entry) if looks.get() > LOOKS && unsigned => {
                    taken_over =
                        time_waits.get(entry).yields_to_connect(now, config).map(|above| (entry, above));
                    taken_over.is_some()
                }
                _ => false,
            }
        };
        let io = self.port.io.as_mut();
        let mut again = false;
        let key = loop {
            match self.ports.choose(io, addr, remote, looped, &mut is_free) {
                // Those that were passed by at first are good enough now.
                Err(OpError::AddrNotAvailable) if !again => {
                    again = true;
                    looks.set(LOOKS);
                }
                chosen => break chosen?,
            }
        };
        let above = taken_over.map(|(entry, above)| {
            self.take_over(now, entry);
            above
        });
        Ok(Free { key, hash, above })
    }

    /// Returns the lower bound of the ISN of a connection that may begin in place of a TIME-WAIT entry.
    fn yields(&self, now: Instant, entry: u32) -> Option<Seq> {
        let signed = self.signed_waits.contains_key(&entry);
        self.time_waits.get(entry).yields_to_connect(now, &self.shared.config).filter(|_| !signed)
    }

    /// A connection of ours begins in place of a TIME-WAIT entry.
    fn take_over(&mut self, now: Instant, entry: u32) {
        self.stats.time_wait_taken_over += u64::from(self.time_waits.get(entry).until > now);
        self.end_time_wait(now, entry);
    }

    /// See [`Connection::write`].
    ///
    /// # Errors
    /// See [`WriteError`].
    #[inline]
    pub fn write(&mut self, now: Instant, id: ConnId, data: &[u8]) -> Result<usize, WriteError> {
        let Some((_, tcp)) = self.conns.get_mut(id.0) else { return Err(WriteError::NotConnected) };
        let result = tcp.write(&mut self.shared.cx(now), data);
        if result.is_ok() {
            let unsent = tcp.unsent();
            self.touch(id.0);
            self.send_while_warm(now, id.0, unsent);
        } else {
            self.note_retry(id.0, &result);
        }
        result
    }

    /// See [`Connection::lend`].
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn lend(
        &mut self,
        now: Instant,
        id: ConnId,
        bytes: &Arc<[u8]>,
        range: Range<usize>,
        hints: &Hints,
    ) -> Result<usize, WriteError> {
        let Some((_, tcp)) = self.conns.get_mut(id.0) else { return Err(WriteError::NotConnected) };
        let result = tcp.lend(&mut self.shared.cx(now), bytes, range, hints);
        if result.is_ok() {
            self.touch(id.0);
        } else {
            self.note_retry(id.0, &result);
        }
        result
    }

    /// See [`Connection::write_hinted`].
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn write_hinted(
        &mut self,
        now: Instant,
        id: ConnId,
        data: &[u8],
        hints: &Hints,
    ) -> Result<usize, WriteError> {
        let Some((_, tcp)) = self.conns.get_mut(id.0) else { return Err(WriteError::NotConnected) };
        let result = tcp.write_hinted(&mut self.shared.cx(now), data, hints);
        if result.is_ok() {
            self.touch(id.0);
        } else {
            self.note_retry(id.0, &result);
        }
        result
    }

    /// A write found the pool exhausted: its connection looks again later, for nothing tells it.
    #[cold]
    fn note_retry(&mut self, index: u32, result: &Result<usize, WriteError>) {
        let Some((_, tcp)) = self.conns.get(index) else { return };
        if *result == Err(WriteError::NoMemory)
            && let Some(at) = tcp.poll_timeout()
        {
            self.wheel.note(index, at);
        }
    }

    /// See [`Connection::mark`].
    pub fn end_call(&mut self, now: Instant, id: ConnId, hints: &Hints) {
        if let Some((_, tcp)) = self.conns.get_mut(id.0) {
            tcp.end_call(&mut self.shared.cx(now), hints);
        }
    }

    /// See [`Connection::push`].
    pub fn push(&mut self, now: Instant, id: ConnId) {
        self.now = now;
        if let Some((_, tcp)) = self.conns.get_mut(id.0) {
            tcp.push();
            self.touch_open(id.0);
        }
    }

    /// See [`Connection::poll_report`].
    pub fn take_report(&mut self, id: ConnId) -> Option<Report> {
        self.conns.get_mut(id.0)?.1.poll_report()
    }

    /// See [`Connection::last_read_arrived`].
    pub fn last_read_arrived(&mut self, id: ConnId) -> Option<Instant> {
        self.conns.get_mut(id.0)?.1.last_read_arrived()
    }

    /// A super-segment's worth of data leaves as soon as it is written, where the port takes it from where it lies:
    /// it is still in the cache then. The connection stays listed, and the next turn does the rest.
    #[inline]
    fn send_while_warm(&mut self, now: Instant, index: u32, unsent: u32) {
        let full = self.port.limits().max_payload;
        if self.port.goes_direct(full, 0) && unsent >= full && !self.port.blocked {
            self.transmit(now, index);
        }
    }

    /// See [`Connection::read`].
    ///
    /// # Errors
    /// See [`ReadError`].
    #[inline]
    pub fn read(&mut self, now: Instant, id: ConnId, into: &mut [u8]) -> Result<usize, ReadError> {
        let Some((_, tcp)) = self.conns.get_mut(id.0) else { return Err(ReadError::NotConnected) };
        let result = tcp.read(&mut self.shared.cx_to_read(now), into);
        if result.is_ok() {
            self.touch_open(id.0);
            if self.shared.adopted.is_read() {
                self.end_all_adopted();
            }
        }
        result
    }

    /// Look at readable bytes in place: calls `each` with slices in order until it returns false.
    ///
    /// # Errors
    /// Why there are none, as [`Core::read`] would say.
    pub fn peek(&self, id: ConnId, max: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), ReadError> {
        let Some((_, tcp)) = self.conns.get(id.0) else { return Err(ReadError::NotConnected) };
        if tcp.readable() == 0 {
            return Err(why_unreadable(tcp));
        }
        tcp.peek(&self.shared.pool, Some(&self.shared.adopted), max, each);
        Ok(())
    }

    /// Drop readable bytes.
    pub fn consume(&mut self, now: Instant, id: ConnId, len: usize) {
        if let Some((_, tcp)) = self.conns.get_mut(id.0) {
            tcp.consume(&mut self.shared.cx_to_read(now), len);
            self.touch_open(id.0);
        }
    }

    /// See [`Connection::shutdown`].
    pub fn shutdown(&mut self, now: Instant, id: ConnId, how: Shutdown) {
        if let Some((_, tcp)) = self.conns.get_mut(id.0) {
            tcp.shutdown(&mut self.shared.cx(now), how);
            self.touch_open(id.0);
        }
    }

    /// The owner lets go: the id is dead afterwards, the connection ends in order on its own.
    pub fn close(&mut self, now: Instant, id: ConnId) {
        if self.conns.get(id.0).is_some_and(|(_, tcp)| tcp.unsent() > 0 && tcp.resets_on_close()) {
            self.send_before_reset(now, id.0);
        }
        self.let_go(now, id.0, |tcp, cx| tcp.close(cx));
    }

    /// RST; the id is dead afterwards.
    pub fn abort(&mut self, now: Instant, id: ConnId) {
        self.send_before_reset(now, id.0);
        self.let_go(now, id.0, |tcp, cx| tcp.abort(cx));
    }

    /// As [`Core::abort`], and the owner keeps the reservation that the connection held: returns it.
    pub fn disconnect(&mut self, now: Instant, id: ConnId) -> Option<Endpoint> {
        let (meta, tcp) = self.conns.get_mut(id.0)?;
        let bound = meta.flags.has(SlotFlags::BOUND);
        meta.flags.clear(SlotFlags::BOUND);
        let kept = if bound { self.ports.reservation(tcp.key().local()) } else { None };
        self.abort(now, id);
        kept
    }

    /// Sends what was written and may leave now: the RST discards the rest. On Linux data leave with the call that
    /// writes them, so a server that answers and does not read a request to its end is heard.
    fn send_before_reset(&mut self, now: Instant, index: u32) {
        let unsent = |core: &Core| {
            let open = core.conns.get(index).filter(|(meta, _)| meta.flags.has(SlotFlags::IN_TABLE));
            open.map_or(0, |(_, tcp)| tcp.unsent())
        };
        let waited = unsent(self);
        while unsent(self) > 0 && !self.port.blocked && matches!(self.transmit(now, index), Sent::Some) {}
        if unsent(self) < waited && !self.port.blocked {
            // Else the RST, a control segment, overtakes them.
            self.kick();
        }
    }

    fn let_go(&mut self, now: Instant, index: u32, end: impl FnOnce(&mut Connection, &mut tcp::Cx<'_>)) {
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return };
        meta.flags.clear(SlotFlags::OWNED | SlotFlags::NOTICED);
        meta.events = tcp::Events::default();
        if meta.flags.has(SlotFlags::IN_TABLE) {
            end(tcp, &mut self.shared.cx(now));
            if tcp.state() == State::Closed && !self.port.blocked {
                self.end_at_once(now, index);
            } else {
                self.touch(index);
            }
        } else {
            self.free(index);
        }
    }

    /// Builds the RST of a connection that the call has ended, if it needs one: as on Linux, its ports are free when
    /// the call returns.
    fn end_at_once(&mut self, now: Instant, index: u32) {
        match self.transmit(now, index) {
            Sent::All | Sent::Parked => self.settle(now, index),
            Sent::Some | Sent::NoFrame => self.touch(index),
        }
        if self.port.is_full() && !self.port.blocked {
            self.kick();
        }
    }

    /// A connection may have something to send, unless it is over and waits only for its owner.
    #[inline]
    pub(crate) fn touch_open(&mut self, index: u32) {
        if self.conns.slot(index).meta.flags.has(SlotFlags::IN_TABLE) {
            self.touch(index);
        }
    }

    /// Replace a connection's options.
    pub fn set_options(&mut self, now: Instant, id: ConnId, options: SocketOptions) {
        if let Some((_, tcp)) = self.conns.get_mut(id.0) {
            tcp.set_options(&mut self.shared.cx(now), options);
            self.touch_open(id.0);
        }
    }

    /// The connection, to ask.
    ///
    /// # Panics
    /// If the id is dead.
    pub fn connection(&self, id: ConnId) -> &Connection {
        let (_, tcp) = self.conns.get(id.0).expect("the connection's owner still holds it");
        tcp
    }

    /// The pending error, taken (SO_ERROR).
    pub fn take_error(&mut self, id: ConnId) -> Option<tcp::Error> {
        self.conns.get_mut(id.0)?.1.take_error()
    }

    /// Every connection, listener and TIME-WAIT entry, for `ss`.
    pub fn for_each(&self, now: Instant, each: &mut dyn FnMut(Row<'_>)) {
        for listener in self.listeners.iter() {
            let (local, backlog) = (listener.request.local, listener.request.backlog);
            each(Row::Listener { local, waiting: listener.queue.len() as u32, backlog });
        }
        for (_, _, tcp) in self.conns.iter() {
            each(Row::Connection(tcp));
        }
        for wait in self.time_waits.iter().filter(|wait| wait.until > now) {
            each(Row::TimeWait(wait));
        }
    }

    /// Replace the options that connections accepted from now on begin with.
    pub fn set_listener_options(&mut self, id: ListenerId, options: SocketOptions) {
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.request.options = options;
            self.listeners.touch();
        }
    }

    /// The port, to wait on or to ask.
    pub fn io(&mut self) -> &mut dyn PacketIo {
        self.port.io.as_mut()
    }
}

/// Returns the error of a read where there is nothing to read.
fn why_unreadable(tcp: &Connection) -> ReadError {
    match (tcp.error(), tcp.state()) {
        (Some(error), _) => ReadError::Failed(error),
        (None, State::SynSent | State::SynReceived) if !tcp.is_early() => ReadError::NotConnected,
        (None, _) if tcp.peer_closed() => ReadError::Finished,
        // Its error has been told already.
        (None, State::Closed) => ReadError::Finished,
        (None, _) => ReadError::Empty,
    }
}
