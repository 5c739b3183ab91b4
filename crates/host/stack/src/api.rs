//! CONTRACT between `stack` and `sock`, `emu`, `bench`. The owner of host/stack turns this into modules and keeps
//! the names and signatures.

use base::{Addr, Endpoint, Instant};
use pio::{IoError, PacketIo};
use tcp::{Connection, Events, ReadError, Shutdown, SocketOptions, WriteError};

/// A connection of this core; valid until its owner calls [`Core::close`] or [`Core::abort`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConnId(pub u32);
/// A listener of this core; valid until [`Core::close_listener`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ListenerId(pub u32);

/// An address of our own, for ports that do not share the kernel's (tap, shm, sim).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnAddr { /** Address. */ pub addr: Addr, /** Prefix. */ pub prefix: u8 }

/// How to build a core.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// TCP's defaults.
    pub tcp: tcp::Config,
    /// Most connections (TIME-WAIT entries not counted).
    pub max_connections: u32,
    /// Most TIME-WAIT entries; the oldest makes room.
    pub max_time_wait: u32,
    /// Most 2 KiB data chunks.
    pub max_chunks: u32,
    /// Seed of everything keyed or random on this core; the doors fill it from the kernel's entropy, the lab from
    /// its seed.
    pub seed: u64,
    /// Ephemeral ports, inclusive.
    pub ephemeral: (u16, u16),
    /// Which core this is, of how many: a connect chooses ports whose return traffic RSS (or software steering)
    /// brings to this core.
    pub core: (u16, u16),
    /// Our addresses, for ports with their own.
    pub addresses: Vec<OwnAddr>,
    /// Default gateways, for ports with their own addresses (one per family at most).
    pub gateways: Vec<Addr>,
    /// Default congestion control, a name of the registry.
    pub control: &'static str,
}

/// An operation failed; the doors turn it into errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OpError {
    /// EADDRINUSE.
    AddrInUse,
    /// EADDRNOTAVAIL: no such local address, or no ephemeral port left.
    AddrNotAvailable,
    /// EACCES.
    Denied,
    /// ENETUNREACH: no route.
    NetUnreachable,
    /// EHOSTUNREACH: the neighbour does not answer.
    HostUnreachable,
    /// ENOBUFS: connections, TIME-WAIT entries or chunks are exhausted.
    NoBuffers,
    /// EINVAL.
    Invalid,
    /// EAFNOSUPPORT.
    Family,
    /// ENOENT: no such congestion control.
    NoControl,
}

/// What to listen on.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Address (may be unspecified; unspecified v6 takes v4 too unless `v6_only`) and port (0: choose).
    pub local: Endpoint,
    /// Most connections waiting for accept; half-open ones are bounded likewise, then SYN cookies answer.
    pub backlog: u32,
    /// SO_REUSEPORT.
    pub reuse_port: bool,
    /// IPV6_V6ONLY.
    pub v6_only: bool,
    /// What accepted sockets inherit.
    pub options: SocketOptions,
    /// Congestion control; None is the default.
    pub control: Option<&'static str>,
    /// Owner's handle, given back in notices.
    pub owner: u32,
}

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
}

/// Something an owner should look at; at most one per owner and turn, published once per turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    /// The owner's handle.
    pub owner: u32,
    /// Edges: for a listener READABLE means a connection waits.
    pub events: Events,
}

/// What one turn did.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Packets received.
    pub received: u32,
    /// Packets sent.
    pub sent: u32,
    /// Timers fired.
    pub timers: u32,
    /// Work remains (back-pressure, more packets): turn again at once.
    pub more: bool,
}

/// One core's stack.
pub struct Core { _p: () }

impl Core {
    /// A stack on one queue of a port.
    pub fn new(config: CoreConfig, io: Box<dyn PacketIo>) -> Core { let _ = (config, io); todo!() }
    /// One bounded round: receive, process, timers, transmit (control, ACKs, data), one kick.
    pub fn turn(&mut self, now: Instant) -> Result<Turn, IoError> { let _ = now; todo!() }
    /// When the next turn must happen at the latest; `now` or earlier if something waits to be sent.
    pub fn next_timeout(&self) -> Option<Instant> { todo!() }
    /// Moves this turn's notices to `into`.
    pub fn notices(&mut self, into: &mut Vec<Notice>) { let _ = into; todo!() }
    /// The port, to wait on or to ask.
    pub fn io(&mut self) -> &mut dyn PacketIo { todo!() }

    /// Start listening.
    pub fn listen(&mut self, now: Instant, listen: &Listen) -> Result<(ListenerId, Endpoint), OpError> { let _ = (now, listen); todo!() }
    /// Change backlog (listen called again).
    pub fn set_backlog(&mut self, id: ListenerId, backlog: u32) { let _ = (id, backlog); todo!() }
    /// The next established connection, which `owner` owns from now on.
    pub fn accept(&mut self, id: ListenerId, owner: u32) -> Option<ConnId> { let _ = (id, owner); todo!() }
    /// Connections waiting for accept.
    pub fn acceptable(&self, id: ListenerId) -> u32 { let _ = id; todo!() }
    /// Stop listening; connections nobody accepted are reset.
    pub fn close_listener(&mut self, now: Instant, id: ListenerId) { let _ = (now, id); todo!() }

    /// Check and reserve a local endpoint (bind before connect or listen); port 0 chooses one.
    pub fn bind(&mut self, local: Endpoint, reuse_addr: bool, reuse_port: bool) -> Result<Endpoint, OpError> { let _ = (local, reuse_addr, reuse_port); todo!() }
    /// Give a reservation of `bind` back that was used neither by listen nor by connect.
    pub fn unbind(&mut self, local: Endpoint) { let _ = local; todo!() }
    /// Start connecting; a notice with CONNECTED or ERROR follows.
    pub fn connect(&mut self, now: Instant, connect: &Connect) -> Result<ConnId, OpError> { let _ = (now, connect); todo!() }
    /// See [`Connection::write`].
    pub fn write(&mut self, now: Instant, id: ConnId, data: &[u8]) -> Result<usize, WriteError> { let _ = (now, id, data); todo!() }
    /// See [`Connection::read`].
    pub fn read(&mut self, now: Instant, id: ConnId, into: &mut [u8]) -> Result<usize, ReadError> { let _ = (now, id, into); todo!() }
    /// Look at readable octets in place: calls `each` with slices in order until it returns false.
    pub fn peek(&self, id: ConnId, max: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), ReadError> { let _ = (id, max, each); todo!() }
    /// Drop readable octets.
    pub fn consume(&mut self, now: Instant, id: ConnId, len: usize) { let _ = (now, id, len); todo!() }
    /// See [`Connection::shutdown`].
    pub fn shutdown(&mut self, now: Instant, id: ConnId, how: Shutdown) { let _ = (now, id, how); todo!() }
    /// The owner lets go: the id is dead afterwards, the connection ends in order on its own.
    pub fn close(&mut self, now: Instant, id: ConnId) { let _ = (now, id); todo!() }
    /// RST; the id is dead afterwards.
    pub fn abort(&mut self, now: Instant, id: ConnId) { let _ = (now, id); todo!() }
    /// Replace a connection's options.
    pub fn set_options(&mut self, now: Instant, id: ConnId, options: SocketOptions) { let _ = (now, id, options); todo!() }
    /// Replace a connection's congestion control.
    pub fn set_control(&mut self, now: Instant, id: ConnId, name: &str) -> Result<(), OpError> { let _ = (now, id, name); todo!() }
    /// Replace what a listener's future connections inherit.
    pub fn set_listener_options(&mut self, id: ListenerId, options: SocketOptions) { let _ = (id, options); todo!() }
    /// Replace the congestion control of a listener's future connections; a name from `find_control`.
    pub fn set_listener_control(&mut self, id: ListenerId, name: &'static str) { let _ = (id, name); todo!() }
    /// The registry's own name for `name`, if a policy is registered under it.
    pub fn find_control(&self, name: &str) -> Option<&'static str> { let _ = name; todo!() }
    /// The default policy's name.
    pub fn default_control(&self) -> &'static str { todo!() }
    /// The connection, to ask.
    pub fn connection(&self, id: ConnId) -> &Connection { let _ = id; todo!() }
    /// The pending error, taken (SO_ERROR).
    pub fn take_error(&mut self, id: ConnId) -> Option<tcp::Error> { let _ = id; todo!() }

    /// Every connection, listener and TIME-WAIT entry, for `ss`.
    pub fn for_each(&self, now: Instant, each: &mut dyn FnMut(Row<'_>)) { let _ = (now, each); todo!() }
    /// TCP's counters.
    pub fn tcp_counters(&self) -> &tcp::Counters { todo!() }
    /// The stack's own counters: packets, drops by reason, table sizes, footprint.
    pub fn stats(&self) -> Vec<(&'static str, u64)> { todo!() }
    /// Attach or detach a probe that sees every segment of every connection.
    pub fn set_probe(&mut self, probe: Option<Box<dyn tcp::Probe + Send>>) { let _ = probe; todo!() }
}

/// A line of `ss`.
pub enum Row<'a> {
    /// A listener.
    Listener { /** Where. */ local: Endpoint, /** Waiting. */ waiting: u32, /** Backlog. */ backlog: u32 },
    /// A connection.
    Connection(&'a Connection),
    /// A TIME-WAIT entry.
    TimeWait(&'a tcp::TimeWait),
}
