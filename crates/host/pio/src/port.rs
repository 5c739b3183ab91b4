//! The trait every port implements, and what travels through it.

use base::{Addr, Duration, FlowKey, Instant};
use ring::Frame;
use std::io::IoSlice;
use std::os::fd::RawFd;

/// Most packets one call to [`PacketIo::rx`] delivers or one batch to [`PacketIo::tx`] holds.
pub const BATCH_MAX: usize = 64;
/// Most pieces of a payload that [`TxGather::tx_gather`] takes.
pub const PIECES_MAX: usize = 48;

/// Most super-segments that [`TxGather::tx_gather_all`] takes.
pub const GATHER_MAX: usize = 4;

/// Link layer below IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// Frames start with an Ethernet header.
    Ethernet,
    /// Frames start with an IP header (tun).
    Ip,
}

impl Medium {
    /// Bytes of a frame before the IP header.
    #[inline]
    pub fn header_len(self) -> usize {
        if self == Medium::Ethernet { wire::ethernet::HEADER_LEN } else { 0 }
    }
}

/// Capabilities of a port, fixed when it opens.
#[derive(Clone, Debug)]
pub struct Caps {
    /// The port as its user wrote it, `xdp:eth0`.
    pub name: String,
    /// Largest IP packet on the wire, bytes.
    pub mtu: usize,
    /// Link layer of frames.
    pub medium: Medium,
    /// Our link-layer address (zeros for [`Medium::Ip`]).
    pub mac: [u8; 6],
    /// Kernel interface index, where the port sits on one.
    pub ifindex: Option<u32>,
    /// The port shares its addresses with the kernel, which does ARP, ND, ICMP and owns routes and addresses
    /// (`xdp:`, `packet:`). False: the stack has its own address and answers ARP/ND/echo itself.
    pub shares_kernel_addresses: bool,
    /// Queues of the port altogether, and which one this is.
    pub queues: u16,
    /// This queue's number.
    pub queue: u16,
    /// The port fills in TCP checksums on transmit ([`TxMeta::checksum`] allowed); of super-segments it does anyway.
    pub tx_checksum: bool,
    /// Largest TCP super-segment (IP packet bytes) the port takes for segmentation; 0 means none.
    pub tso_max: usize,
    /// Bytes of a frame's slot the port itself needs before the packet on transmit.
    pub headroom: usize,
    /// Received segments may carry only a pseudo-header sum without being marked so, because the sender is on this very
    /// machine and the port cannot tell (AF_XDP): a field that holds exactly that sum is as good as verified.
    pub local_peer: bool,
    /// The port holds what comes, so that it wants to know how long round trips take ([`Delays::on_round_trip`]).
    pub wants_round_trips: bool,
    /// Why the link does not go by a faster way that was tried first, in words; `None` if nothing was refused.
    pub fallback: Option<String>,
}

impl Caps {
    /// A port with an address of its own, one queue, no interface of the kernel and no offloads: what other ports say
    /// of themselves begins with this.
    pub fn plain(name: &str, mtu: usize, medium: Medium, mac: [u8; 6]) -> Caps {
        Caps {
            name: name.into(),
            mtu,
            medium,
            mac,
            ifindex: None,
            shares_kernel_addresses: false,
            queues: 1,
            queue: 0,
            tx_checksum: false,
            tso_max: 0,
            headroom: 0,
            local_peer: false,
            wants_round_trips: false,
            fallback: None,
        }
    }
}

/// State of a received packet's TCP checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RxChecksum {
    /// Nothing: verify it.
    #[default]
    Unverified,
    /// Hardware or the local kernel vouches for it.
    Verified,
    /// Sender left it to hardware that was never reached (virtio NEEDS_CSUM): only the pseudo-header sum is there.
    Partial,
}

/// Metadata of a received packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct RxMeta {
    /// State of the TCP checksum.
    pub checksum: RxChecksum,
    /// Payload bytes per wire segment if this is a super-segment of TCP (or, on ports opened whole, of UDP), else 0.
    pub gso_size: u16,
    /// The packet goes on in the next frame of the batch (AF_XDP multi-buffer): that frame holds payload only.
    pub more: bool,
}

/// A received packet.
pub struct RxPacket {
    /// Its bytes. The stack gives the frame back with [`PacketIo::retire`].
    pub frame: Frame,
    /// Metadata of the packet.
    pub meta: RxMeta,
}

/// A TCP checksum the port shall fill in: the one's complement sum from `start` to the end of the packet goes to
/// `start + offset`, which already holds the pseudo-header sum. Both count from the first byte of the frame's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChecksumOffload {
    /// First byte summed (the TCP header).
    pub start: u16,
    /// Where the sum goes, from `start`.
    pub offset: u16,
}

/// A super-segment the port shall cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentationOffload {
    /// Payload bytes per segment.
    pub size: u16,
    /// Bytes of all headers together (link, IP, TCP).
    pub header_len: u16,
    /// IPv6 (else IPv4).
    pub v6: bool,
}

/// Offloads requested for a packet to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct TxMeta {
    /// Fill in the TCP checksum; only if [`Caps::tx_checksum`], or with `segmentation`.
    pub checksum: Option<ChecksumOffload>,
    /// Cut the packet; only if it is no larger than [`Caps::tso_max`]; needs `checksum` too.
    pub segmentation: Option<SegmentationOffload>,
}

/// A packet to send.
pub struct TxPacket {
    /// Its bytes, in a frame from this port's [`PacketIo::take`] or `take_long`. The port retires it when the
    /// hardware is done.
    pub frame: Frame,
    /// Offloads of the packet.
    pub meta: TxMeta,
}

/// A packet whose headers and payload lie elsewhere.
pub struct Gather<'a> {
    /// All headers (link, IP, TCP).
    pub headers: &'a [u8],
    /// Offloads of the whole.
    pub meta: TxMeta,
    /// The payload, in at most [`PIECES_MAX`] pieces.
    pub payload: &'a [IoSlice<'a>],
}

/// Received packets, in order of arrival; at most [`BATCH_MAX`].
pub type RxBatch = Vec<RxPacket>;
/// Packets to send, in order. After [`PacketIo::tx`], what stayed (in order) is back-pressure.
pub type TxBatch = std::collections::VecDeque<TxPacket>;

/// Why a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// Packets (or room to send) may be there.
    Ready,
    /// The time was up.
    Timeout,
    /// A signal arrived.
    Interrupted,
}

/// Error of a port at run time.
#[derive(Debug)]
#[non_exhaustive]
pub enum IoError {
    /// The interface is down; the port may come back by itself (rx and tx say so until then).
    Down,
    /// The interface is gone for good.
    Gone,
    /// Anything else the kernel said.
    Os(std::io::Error),
}

/// Why a local port could not be had for this program.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClaimError {
    /// The kernel or another program holds it (EADDRINUSE).
    InUse,
    /// Not permitted (EACCES, privileged port).
    Denied,
    /// Anything else the kernel said.
    Os(std::io::Error),
}

impl ClaimError {
    /// Returns true if the process, or the machine, has no descriptors left for the claim.
    pub fn lacks_descriptors(&self) -> bool {
        matches!(self, ClaimError::Os(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)))
    }
}

/// Part of a listener among those of other processes that share its port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// It has its share of new connections.
    #[default]
    Peer,
    /// As before; what waits here for accept goes to listeners that ask for it.
    Master,
    /// It has a share where no peer and no master wants one.
    Servant,
    /// As before, and asks a master for a connection.
    Asking,
}

/// Which local TCP port(s) a program takes from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortClaim {
    /// Local address; `0.0.0.0` for all of IPv4, `::` for all of both families (see `v6_only`).
    pub addr: Addr,
    /// TCP port in host order, never 0.
    pub port: u16,
    /// For listeners: may be shared with other claims that say the same (SO_REUSEPORT).
    pub reuse_port: bool,
    /// An ephemeral port for an outgoing connection, not a listener.
    pub ephemeral: bool,
    /// `::` does not stand for IPv4 too (IPV6_V6ONLY).
    pub v6_only: bool,
}

/// One queue of a port, owned by one core. Batches both ways; never blocks. What only some ports have is a trait of its
/// own, which such a port offers.
pub trait PacketIo: Send {
    /// Returns the capabilities of this port.
    fn caps(&self) -> &Caps;

    /// A frame to build a packet in: data empty at offset [`Caps::headroom`] plus what the caller likes.
    /// `None` when all are in use (back-pressure, counted by the port).
    fn take(&mut self) -> Option<Frame>;

    /// Takes frames until `into` has `count`, or none is left; whether it has.
    fn take_all(&mut self, count: usize, into: &mut Vec<Frame>) -> bool {
        while into.len() < count {
            let Some(frame) = self.take() else { return false };
            into.push(frame);
        }
        true
    }

    /// A frame to build a super-segment in, where the port keeps those apart from the others; else as
    /// [`PacketIo::take`]. `None` when all are in use: plain segments do meanwhile.
    fn take_long(&mut self) -> Option<Frame> {
        self.take()
    }

    /// Give back a frame that came from `rx`, `take` or `take_long` and was not sent.
    fn retire(&mut self, frame: Frame);

    /// Give back the frames of a batch that came from `rx`; the batch is empty then.
    fn retire_all(&mut self, batch: &mut RxBatch) {
        for packet in batch.drain(..) {
            self.retire(packet.frame);
        }
    }

    /// Append received packets to `batch` (which the caller emptied); how many.
    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError>;

    /// Send from the front of `batch`, with one kick at the end; how many were taken.
    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError>;

    /// Prepares for a sleep of the owner and appends the descriptors that become readable when packets or news arrive;
    /// a port that appends none is looked at again soon. Returns false if the port may have some already: then the
    /// owner must not sleep, and what was appended means nothing. [`wait`](crate::wait) does both.
    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError>;

    /// Counters of the port itself, name and value.
    fn stats(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Sending from where a payload lies; `None` where a packet must lie in a frame of the port to be sent.
    fn gather(&mut self) -> Option<&mut dyn TxGather> {
        None
    }

    /// Local ports; `None` where every local port is the stack's own.
    fn claims(&mut self) -> Option<&mut dyn Claims> {
        None
    }

    /// News of the interface, where there is one.
    fn net(&mut self) -> Option<&mut dyn NetEvents> {
        None
    }

    /// Dates, of a port that holds packets back.
    fn delays(&self) -> Option<&dyn Delays> {
        None
    }
}

/// A port that sends a payload from where it lies.
pub trait TxGather {
    /// Bytes of payload from which [`TxGather::tx_gather`] is worth calling: the same for as long as the port lives.
    fn gather_from(&mut self) -> usize;

    /// Send one packet now, before all that was not handed over yet: its headers are in `headers`, its payload lies in
    /// at most [`PIECES_MAX`] pieces elsewhere, and is not needed any more when this returns. `meta` means the whole.
    /// False, and nothing was sent: build it in a frame and queue it.
    fn tx_gather(&mut self, headers: &mut Frame, meta: &TxMeta, payload: &[IoSlice<'_>]) -> bool;

    /// Super-segments that [`TxGather::tx_gather_all`] takes at this moment, [`GATHER_MAX`] at most; less than two
    /// where several at once are no better than one by one just now, and `None` where they never are.
    fn gathers_at_once(&mut self) -> Option<usize> {
        None
    }

    /// Send super-segments now, in order and before all that was not handed over yet; no more than
    /// [`TxGather::gathers_at_once`] said since the last call of anything else. All are taken, and nothing of them is
    /// needed any more when this returns.
    fn tx_gather_all(&mut self, all: &[Gather<'_>]) {
        let _ = all;
    }
}

/// A port on which local ports must be claimed: the kernel has them otherwise, or another core.
pub trait Claims {
    /// Take a local port from the kernel and steer it here.
    ///
    /// # Errors
    /// See [`ClaimError`].
    fn claim(&mut self, claim: &PortClaim) -> Result<(), ClaimError>;

    /// Give a local port back to the kernel.
    fn release(&mut self, claim: &PortClaim);

    /// Will the answers of a flow arrive at this queue, as far as the port can tell? True where it cannot. A core that
    /// opens a connection chooses its local port so.
    fn answers_here(&self, key: &FlowKey) -> bool {
        let _ = key;
        true
    }

    /// Listening ports that processes share; `None` where none are shared.
    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        None
    }
}

/// Process that answers a segment of no flow at a port that processes share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answerer {
    /// This one.
    Ours,
    /// This one since a moment ago: a segment that opens no connection may be a late copy of one that another has
    /// answered, and is not refused.
    OursLately,
    /// Another one: this one is silent.
    Another,
    /// Another one, which is about to leave such segments to this one: a SYN is asked about again.
    OursSoon,
    /// Another one, which has not seen it: a SYN is left to that ([`Sharing::hand_over`]).
    Next,
    /// This one, which wants no connections, nor does another one yet: a SYN is kept and asked about again.
    NoneYet,
    /// This one, and no process has a listener.
    None,
}

/// A port on which other processes may share a listening port.
pub trait Sharing {
    /// A listener at a port of ours that processes share wants new connections, or wants them no more; those that are
    /// here stay. Where nothing shares, nothing changes.
    fn serve(&mut self, claim: &PortClaim, wanted: bool);

    /// Such a listener begins, or ends: without any, what asks for a connection is refused.
    fn listen(&mut self, claim: &PortClaim, begins: bool) {
        let _ = (claim, begins);
    }

    /// Such a listener has this role from now on.
    fn set_role(&mut self, claim: &PortClaim, role: Role);

    /// Returns the process that answers a segment of no flow here. `opens`: it asks for a connection.
    fn answerer(&self, key: &FlowKey, opens: bool) -> Answerer;

    /// Returns true while this process would leave what asks for a connection to others, which do not get it yet.
    fn owes(&self) -> bool {
        false
    }

    /// A flow began or ended at a port that [`NetEvent::Shared`] has named.
    fn on_flow(&mut self, key: &FlowKey, lives: bool);

    /// Leaves a connection that no application has accepted, or a SYN, to the process that gets new ones in its place:
    /// `state` is for the stack there. False where there is no such process, or no room.
    fn hand_over(&mut self, key: &FlowKey, state: &[u8]) -> bool;

    /// Fills `state` with that of a connection that another process has left to this one; false if there is none. By
    /// the next call the stack has it.
    fn take_over(&mut self, state: &mut Vec<u8>) -> bool;
}

impl dyn PacketIo + '_ {
    /// Listening ports that processes share ([`Claims::sharing`]).
    pub fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        self.claims()?.sharing()
    }
}

/// A port that tells what becomes of its interface.
pub trait NetEvents {
    /// The kernel's view of this interface (addresses, routes, neighbours, MTU, link state) where there is one:
    /// appends what changed since the last call; the first call gives everything.
    fn net_events(&mut self, events: &mut Vec<NetEvent>);

    /// Ask the kernel to resolve a neighbour on this interface; the answer arrives as a [`NetEvent`].
    fn resolve(&mut self, addr: Addr) {
        let _ = addr;
    }
}

/// A port that holds packets back, as an emulated path does, and so has a clock of its own.
pub trait Delays {
    /// When [`PacketIo::rx`] is to be called again though nothing may have arrived, if ever.
    fn due(&self) -> Option<Instant>;

    /// The stack has measured how long a round trip of a flow takes, smoothed (RFC 6298): a port that holds what comes
    /// holds the flow's for no longer than an eighth of that. Called if [`Caps::wants_round_trips`].
    fn on_round_trip(&self, key: &FlowKey, srtt: Duration) {
        let _ = (key, srtt);
    }
}

/// Something the kernel says of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetEvent {
    /// An address of ours appeared.
    AddrAdded {
        /** The address. */
        addr: Addr,
        /** Its prefix length in its own family. */
        prefix: u8,
    },
    /// An address of ours went away.
    AddrRemoved {
        /** The address. */
        addr: Addr,
    },
    /// A route appeared or changed.
    RouteAdded(Route),
    /// A route went away.
    RouteRemoved(Route),
    /// A neighbour resolved.
    Neighbour {
        /** Its address. */
        addr: Addr,
        /** Its link-layer address. */
        mac: [u8; 6],
    },
    /// A neighbour became unreachable or was forgotten.
    NeighbourGone {
        /** Its address. */
        addr: Addr,
    },
    /// The MTU changed.
    Mtu(usize),
    /// The link went up or down.
    Link {
        /** Can packets travel? */
        up: bool,
    },
    /// Our own link-layer address changed.
    Mac([u8; 6]),
    /// Another process shares this local port: its flows are to be told, those that live at once and others as they
    /// come and go ([`Sharing::on_flow`]).
    Shared {
        /** The port. */
        port: u16,
    },
}

/// A route out of the port's interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Destination network.
    pub dst: Addr,
    /// Its prefix length in its own family.
    pub prefix: u8,
    /// Next hop; `None` when the destination is on the link.
    pub gateway: Option<Addr>,
    /// Preferred source address, if the route names one.
    pub src: Option<Addr>,
    /// Lower wins among equal prefixes.
    pub metric: u32,
    /// Path MTU of the route, if it names one.
    pub mtu: Option<u32>,
}
