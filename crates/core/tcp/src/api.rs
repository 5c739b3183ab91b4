//! CONTRACT between `tcp`, `stack`, `sock`, `trace` and `emu`. The owner of core/tcp turns this into modules
//! (one noun, one file) and keeps these names and signatures; the others write against them from the start.

use base::{Duration, FlowKey, Instant, Seq};
use cc::Window;
use wire::tcp::{Header, Segment};

use crate::{Config, Cookie, Pool, SocketOptions, TimeWait};

// --- cx.rs ---------------------------------------------------------------------------------------------------

/// What a core lends to a connection for one call: time, and the things all its connections share.
pub struct Cx<'a> {
    /// The time of this turn.
    pub now: Instant,
    /// The stack's defaults.
    pub config: &'a Config,
    /// Data chunks.
    pub pool: &'a mut Pool,
    /// The core's TCP counters (RFC 4022/4898 names).
    pub counters: &'a mut Counters,
    /// Who wants to see each step, if anybody.
    pub probe: Option<&'a mut dyn Probe>,
}

base::counters! {
    /// One core's TCP counters.
    pub struct Counters {
        active_opens: "Connections opened by connect.",
        passive_opens: "Connections opened by a peer.",
        // ... the owner of core/tcp completes the table: segments in/out, retransmissions by kind, RTOs, fast
        // retransmits, SACK blocks in/out, duplicate and out-of-order segments, PAWS drops, challenge ACKs,
        // resets in/out, zero-window probes, keepalives, ICMP errors, aborted on memory, ...
    }
}

base::names! {
    /// Why a segment was dropped; each is counted and shown.
    pub enum DropReason {
        Paws: "paws", "Timestamp older than the last one (RFC 7323, section 5).",
        OutOfWindow: "out-of-window", "Outside the receive window (RFC 9293, section 3.10.7.4).",
        // ... completed by the owner.
    }
}

/// Sees a connection's packets and state changes; for SIFTR, captures and tests. Must not block.
pub trait Probe {
    /// A segment came in (before processing) or went out (after).
    fn packet(&mut self, now: Instant, outbound: bool, key: &FlowKey, info: &Info, header: &Header, payload_len: u32);
    /// The state changed.
    fn state(&mut self, now: Instant, key: &FlowKey, from: State, to: State);
}

// --- state.rs, event.rs ------------------------------------------------------------------------------------------

base::names! {
    /// States of RFC 9293, section 3.3.2. LISTEN and CLOSED have no Connection; TIME-WAIT lives in [`TimeWait`].
    pub enum State {
        SynSent: "SYN-SENT", "Our SYN is out.",
        SynReceived: "SYN-RECEIVED", "Both SYNs seen, ours not acknowledged.",
        Established: "ESTABLISHED", "Data flows.",
        FinWait1: "FIN-WAIT-1", "Our FIN is out.",
        FinWait2: "FIN-WAIT-2", "Our FIN is acknowledged; the peer may still send.",
        CloseWait: "CLOSE-WAIT", "The peer is done; we are not.",
        Closing: "CLOSING", "Both FINs out, ours not acknowledged.",
        LastAck: "LAST-ACK", "The peer is done, our FIN is out.",
        Closed: "CLOSED", "Over: the connection may be removed.",
    }
}

/// Readiness that changed since the last look, as bits: edges for EPOLLET; the level is in the getters.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Events(pub u8);
impl Events {
    /// The connection is established (connect finished, or ready for accept).
    pub const CONNECTED: Events = Events(1);
    /// New data (or the peer's FIN) can be read.
    pub const READABLE: Events = Events(2);
    /// Send space was freed after a write found none (or notsent_lowat was crossed).
    pub const WRITABLE: Events = Events(4);
    /// The peer closed its half.
    pub const PEER_CLOSED: Events = Events(8);
    /// An error is pending (see [`Connection::take_error`]): reset, timeout, ICMP.
    pub const ERROR: Events = Events(16);
    /// The connection is over; it may be removed once the application has let go.
    pub const CLOSED: Events = Events(32);
    /// All data and the FIN were acknowledged (for linger).
    pub const DRAINED: Events = Events(64);
    /// Any of `other`'s bits?
    pub const fn any(self, other: Events) -> bool { self.0 & other.0 != 0 }
}

/// Why a connection failed; the doors turn it into errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// RST in answer to our SYN (ECONNREFUSED).
    Refused,
    /// RST later (ECONNRESET).
    Reset,
    /// Retransmissions, user timeout or keepalive ran out (ETIMEDOUT).
    TimedOut,
    /// ICMP said so and retransmissions ran out or the handshake was under way (EHOSTUNREACH).
    HostUnreachable,
    /// Likewise (ENETUNREACH).
    NetUnreachable,
    /// The application aborted it (ECONNABORTED).
    Aborted,
}

/// Why `write` took nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteError {
    /// No room now (EAGAIN); `Events::WRITABLE` will say when.
    Full,
    /// The chunk pool is exhausted (ENOBUFS for a nonblocking caller is EAGAIN: WRITABLE will follow).
    NoMemory,
    /// Our half is closed (EPIPE).
    Shutdown,
    /// Not yet connected (ENOTCONN).
    NotConnected,
    /// The connection failed.
    Failed(Error),
}

/// Why `read` gave nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// Nothing there now (EAGAIN).
    Empty,
    /// The peer closed and everything was read (read returns 0).
    Finished,
    /// Not yet connected (ENOTCONN).
    NotConnected,
    /// The connection failed.
    Failed(Error),
}

/// Which half to shut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shutdown { /** No more reads. */ Read, /** No more writes: FIN. */ Write, /** Both. */ Both }

/// What the stack must do after `on_segment`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disposition {
    /// Nothing special: poll events and transmissions as usual.
    Done,
    /// The segment was dropped, for this reason (already counted).
    Dropped(DropReason),
    /// The connection entered TIME-WAIT: replace it by this compact entry (after the last poll_transmit).
    /// It may still hold data the application has not read: then keep it for the application until it closes,
    /// but the flow table entry becomes the TimeWait.
    TimeWait,
    /// The connection is CLOSED. If the segment itself asks for a RST, poll_transmit gives it.
    Closed,
}

/// A segment to send. The caller emits `header` and then the payload ([`Connection::copy_payload`]).
#[derive(Clone, Copy, Debug)]
pub struct Transmit {
    /// TCP header, options included; ports filled in.
    pub header: Header,
    /// First payload octet, as an offset into the send buffer's unacknowledged data.
    pub offset: u32,
    /// Payload octets; more than `mss` only when the slot allows a super-segment.
    pub len: u32,
    /// Payload octets per wire segment.
    pub mss: u16,
    /// Which list it goes to: control before ACK before data.
    pub class: TransmitClass,
    /// ECN codepoint and DSCP for the IP header.
    pub tos: u8,
    /// IP TTL / hop limit.
    pub ttl: u8,
    /// Is this a retransmission?
    pub retransmit: bool,
}

/// mTCP's three transmit lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransmitClass { /** SYN, FIN without data, RST. */ Control, /** Pure ACK, probe. */ Ack, /** Data. */ Data }

/// What the port can take in one transmission.
#[derive(Clone, Copy, Debug)]
pub struct TxLimits {
    /// Largest payload of one transmission; at least the MSS; more when the port segments (TSO).
    pub max_payload: u32,
}

// --- connection.rs -------------------------------------------------------------------------------------------------

/// What a new connection needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Its two ends.
    pub key: FlowKey,
    /// Our initial sequence number (RFC 6528, see [`IsnSource`]).
    pub isn: Seq,
    /// Offset added to our timestamp clock (RFC 7323, section 5.4: random per connection).
    pub ts_offset: u32,
    /// MTU of the path as far as known, octets of IP packet.
    pub path_mtu: u16,
    /// The socket's options.
    pub options: SocketOptions,
}

/// One connection. Poll order for the caller: `on_*`, then `poll_event`, then `poll_transmit` until `None`, then
/// `poll_timeout`.
pub struct Connection { _p: () }

impl Connection {
    /// Active open: SYN-SENT; poll_transmit gives the SYN.
    pub fn connect(cx: &mut Cx<'_>, open: &Open, control: cc::Control) -> Connection { let _ = (cx, open, control); todo!() }
    /// Passive open on a valid SYN (RFC 9293, 3.10.7.2): SYN-RECEIVED; poll_transmit gives the SYN-ACK.
    pub fn accept(cx: &mut Cx<'_>, open: &Open, control: cc::Control, syn: &Segment<'_>) -> Connection { let _ = (cx, open, control, syn); todo!() }
    /// Passive open completed by a SYN cookie: ESTABLISHED at once; feed the same ACK segment to on_segment next.
    pub fn accept_cookie(cx: &mut Cx<'_>, open: &Open, control: cc::Control, cookie: &Cookie, ack: &Segment<'_>) -> Connection { let _ = (cx, open, control, cookie, ack); todo!() }

    /// A segment for this connection arrived.
    pub fn on_segment(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) -> Disposition { let _ = (cx, seg); todo!() }
    /// `poll_timeout` has come (calling it early is harmless).
    pub fn on_timeout(&mut self, cx: &mut Cx<'_>) { let _ = cx; todo!() }
    /// A validated ICMP error quoting sequence number `seq` of ours (RFC 5927: acted on only if in flight).
    pub fn on_icmp(&mut self, cx: &mut Cx<'_>, kind: IcmpError, seq: Seq) { let _ = (cx, kind, seq); todo!() }

    /// Append to the send buffer; how many octets it took.
    pub fn write(&mut self, cx: &mut Cx<'_>, data: &[u8]) -> Result<usize, WriteError> { let _ = (cx, data); todo!() }
    /// Take from the receive buffer; may make a window update due.
    pub fn read(&mut self, cx: &mut Cx<'_>, into: &mut [u8]) -> Result<usize, ReadError> { let _ = (cx, into); todo!() }
    /// Look at the readable octets in place (MSG_PEEK, zero-copy): the slices in order, at most `max` octets.
    pub fn peek<'p>(&self, pool: &'p Pool, max: usize) -> impl Iterator<Item = &'p [u8]> { let _ = (pool, max); core::iter::empty() }
    /// Drop `len` readable octets without copying them.
    pub fn consume(&mut self, cx: &mut Cx<'_>, len: usize) { let _ = (cx, len); todo!() }
    /// Close one half or both.
    pub fn shutdown(&mut self, cx: &mut Cx<'_>, how: Shutdown) { let _ = (cx, how); todo!() }
    /// The application lets go (close): unread data means RST (RFC 2525, 2.17), linger is obeyed, else an orderly end
    /// as an orphan.
    pub fn close(&mut self, cx: &mut Cx<'_>) { let _ = cx; todo!() }
    /// RST and CLOSED at once.
    pub fn abort(&mut self, cx: &mut Cx<'_>) { let _ = cx; todo!() }
    /// Replace the options; takes effect at once where that makes sense (nodelay flushes, keepalive arms, ...).
    pub fn set_options(&mut self, cx: &mut Cx<'_>, options: SocketOptions) { let _ = (cx, options); todo!() }
    /// Replace the congestion control policy on the live connection (cwnd and ssthresh carry over).
    pub fn set_control(&mut self, cx: &mut Cx<'_>, control: cc::Control) { let _ = (cx, control); todo!() }
    /// Give every chunk back to the pool. The caller must do this before it drops the connection.
    pub fn release(&mut self, pool: &mut Pool) { let _ = pool; todo!() }

    /// The next segment to send, if any.
    pub fn poll_transmit(&mut self, cx: &mut Cx<'_>, limits: &TxLimits) -> Option<Transmit> { let _ = (cx, limits); todo!() }
    /// The segment from poll_transmit could not be sent after all (no frame): undo or make it due again.
    pub fn transmit_failed(&mut self, cx: &mut Cx<'_>, tx: &Transmit) { let _ = (cx, tx); todo!() }
    /// Copy the payload of a transmission to `into` (exactly `tx.len` octets).
    pub fn copy_payload(&self, pool: &Pool, tx: &Transmit, into: &mut [u8]) { let _ = (pool, tx, into); todo!() }
    /// When `on_timeout` wants to be called; may be called early (a lower bound).
    pub fn poll_timeout(&self) -> Option<Instant> { todo!() }
    /// What changed since the last call (zero if nothing).
    pub fn poll_event(&mut self) -> Events { todo!() }

    /// The compact rest of this connection, once `on_segment` said TimeWait.
    pub fn time_wait(&self, cx: &Cx<'_>) -> TimeWait { let _ = cx; todo!() }
    /// Its two ends.
    pub fn key(&self) -> &FlowKey { todo!() }
    /// Where in RFC 9293's diagram it is.
    pub fn state(&self) -> State { todo!() }
    /// Octets readable now.
    pub fn readable(&self) -> u32 { todo!() }
    /// Octets writable now (0 when not writable).
    pub fn writable(&self) -> u32 { todo!() }
    /// The peer's FIN has been received in order.
    pub fn peer_closed(&self) -> bool { todo!() }
    /// Our side was shut.
    pub fn write_closed(&self) -> bool { todo!() }
    /// Octets not yet acknowledged (SIOCOUTQ).
    pub fn unacked(&self) -> u32 { todo!() }
    /// Octets not yet sent (SIOCOUTQNSD).
    pub fn unsent(&self) -> u32 { todo!() }
    /// The application has closed it.
    pub fn is_orphan(&self) -> bool { todo!() }
    /// The pending error, taken (SO_ERROR).
    pub fn take_error(&mut self) -> Option<Error> { todo!() }
    /// The pending error, left.
    pub fn error(&self) -> Option<Error> { todo!() }
    /// Options in force.
    pub fn options(&self) -> &SocketOptions { todo!() }
    /// Everything TCP_INFO shows, and more.
    pub fn info(&self, now: Instant) -> Info { let _ = now; todo!() }
    /// Name of the congestion control policy.
    pub fn control_name(&self) -> &'static str { todo!() }
}

/// What ICMP said (validated by the stack: quotes a packet of ours).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpError {
    /// Packet too big / fragmentation needed, with the next hop's MTU (0: not told, RFC 1191's plateau table).
    TooBig { /** MTU. */ mtu: u16 },
    /// Host unreachable and the like (soft error).
    HostUnreachable,
    /// Network unreachable (soft error).
    NetUnreachable,
    /// Port or protocol unreachable (hard only in SYN-SENT, RFC 5927).
    PortUnreachable,
}

/// A snapshot of a connection (RFC 4898 terms).
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// State.
    pub state: State,
    /// Congestion window and threshold.
    pub window: Window,
    /// Smoothed RTT, its variation, the smallest, and the RTO.
    pub srtt: Duration,
    /// RTT variation.
    pub rttvar: Duration,
    /// Smallest RTT.
    pub min_rtt: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Sender and receiver MSS.
    pub snd_mss: u16,
    /// Receiver MSS (estimate of the peer's segments).
    pub rcv_mss: u16,
    /// Sequence state.
    pub snd_una: Seq,
    /// Next to send.
    pub snd_nxt: Seq,
    /// Next expected.
    pub rcv_nxt: Seq,
    /// Peer's window, octets.
    pub snd_wnd: u32,
    /// Our window, octets.
    pub rcv_wnd: u32,
    /// Window scale shifts (send, receive).
    pub scale: (u8, u8),
    /// Options negotiated.
    pub timestamps: bool,
    /// SACK negotiated.
    pub sack: bool,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// In fast recovery / in loss recovery after RTO.
    pub recovery: bool,
    /// Loss recovery after an RTO.
    pub loss: bool,
    /// Octets in flight (pipe), retransmitted ever, sent, acknowledged, received.
    pub in_flight: u32,
    /// Segments retransmitted ever.
    pub retransmits: u32,
    /// Consecutive RTOs.
    pub backoff: u8,
    /// Octets sent, acknowledged by the peer, and received in order.
    pub bytes_sent: u64,
    /// Octets acknowledged.
    pub bytes_acked: u64,
    /// Octets received.
    pub bytes_received: u64,
    /// Segments out, in.
    pub segs_out: u64,
    /// Segments in.
    pub segs_in: u64,
    /// Send buffer limit and use.
    pub sndbuf: (u32, u32),
    /// Receive buffer limit and use.
    pub rcvbuf: (u32, u32),
    /// Out-of-order runs held.
    pub reassembly: u16,
    /// Path MTU.
    pub path_mtu: u16,
    /// Name of the policy.
    pub control: &'static str,
}
