//! `packet:IFACE`: a network interface shared with the kernel, on any machine and any driver.
//!
//! The kernel's packet socket copies what arrives and takes what we send. It needs no BPF privilege, works in
//! user namespaces, and understands super-segments and partial checksums both ways through the virtio-net
//! header. It does not take packets away from the kernel: [`claims`] says how the kernel is kept silent,
//! [`filter`] what is copied and to which queue.
//!
//! **As an end of a wire** ([`PacketConfig::whole`]) it gives every frame, for any destination, and claims nothing. The
//! kernel still gets copies: an interface without addresses ignores them.
//!
//! **Receiving.** Frames are filled by the kernel directly, many in one system call. A shared ring (TPACKET_V3), whose
//! blocks the kernel hands over when they are full or a millisecond old, was worse in every respect over veth (one
//! connection: 1 ms against 29 us; one stream: 1.2 against 2.0 GB/s).
//!
//! **Sending** goes straight to the driver (`PACKET_QDISC_BYPASS`). The kernel cuts no super-segment on that way
//! (`__dev_direct_xmit` of Linux drops it with ENOBUFS), and has nowhere to put a packet if the driver's ring is full.
//! The first refusal sends everything by the queueing discipline instead, for good.
//!
//! A transmit ring takes the virtio-net header as well, but its slots are fixed and would have to hold the largest
//! super-segment, and a slot is not free before the peer of a veth has read it; `sendmmsg` copies once, and the frame
//! is ours again at once.

mod claims;
mod filter;
mod reattach;
#[cfg(test)]
pub(crate) mod tests;

use crate::group::Member;
use crate::interfaces::stands_alone;
use crate::messages::{HEADER, MessageBatch};
use crate::netlink::PortMonitor;
use crate::netlink::{self, Monitor, Scope};
use crate::open_error::OpenError;
use crate::port::*;
use crate::ports::Place;
use crate::shared_dir;
use crate::sys;
use crate::vnet;
use base::{Addr, FlowKey, Instant};
use claims::SilencedPorts;
use libc::SOL_PACKET;
use reattach::Fresh;
use ring::{Frame, GrowingPool};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Bytes of the largest super-segment's IP packet.
const SUPER: usize = 65535;
const LINK_HEADER: usize = 22;
const SLOT: usize = 128 << 10;
/// Slots of a pool, and how many pools there may be.
const SLOTS: u32 = 128;
const POOLS_MAX: usize = 4;
/// Bytes the kernel may hold for us each way.
const SOCKET_BUFFER: i32 = 16 << 20;

const _: () = assert!(HEADER + LINK_HEADER + SUPER + vnet::start_of(u32::MAX) <= SLOT);
const _: () = assert!(SLOTS as usize >= 2 * BATCH_MAX);

/// How to open an interface.
#[derive(Clone, Debug)]
pub struct PacketConfig {
    /// Its name.
    pub name: String,
    /// Queues.
    pub queues: u16,
    /// Checksums and segmentation may be left to the kernel.
    pub offload: bool,
    /// Every untagged frame that arrives, not only those to ports of ours. For one queue, on an interface without
    /// addresses.
    pub whole: bool,
    /// Listeners with [`PortClaim::reuse_port`] share their ports with processes that say the same number; 0 with
    /// nothing.
    pub share: u64,
}

impl PacketConfig {
    /// One queue, offloads on.
    pub fn new(name: &str) -> PacketConfig {
        PacketConfig { name: name.into(), queues: 1, offload: true, whole: false, share: 0 }
    }
}

/// One queue of an interface shared with the kernel, on cache lines of its own as [`XdpPort`](crate::xdp::XdpPort).
#[repr(align(128))]
pub struct Packet {
    caps: Caps,
    socket: Arc<OwnedFd>,
    claims: Arc<SilencedPorts>,
    whole: bool,
    pool: GrowingPool,
    messages: MessageBatch,
    /// Frames whose places the next receiving call fills.
    staged: Vec<Frame>,
    /// How many are worth staging: few when little comes.
    appetite: usize,
    monitor: PortMonitor,
    /// Groups of processes that share a port of ours.
    shared: Vec<Shared>,
    /// Packets go straight to the driver, past the queueing discipline.
    direct: bool,
    down: bool,
    /// When the interface was deleted, until one of its name is there again.
    gone: Option<Instant>,
    /// It cannot go on.
    ended: bool,
    /// Sockets on the interface that is back, for other queues to take.
    fresh: Arc<Fresh>,
    /// It says on standard error what becomes of the interface.
    tells: bool,
    blocked: bool,
    counts: Counts,
}

/// A group, and whether it knows the flows of our stack.
struct Shared {
    member: Arc<Member>,
    told: Told,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Nothing needs to know.
    Nothing,
    /// The stack was asked.
    Asked,
    /// It has told all.
    All,
}

#[derive(Default)]
struct Counts {
    rx: u64,
    rx_malformed: u64,
    rx_unclaimed: u64,
    rx_truncated: u64,
    /// Read from the kernel, which forgets them.
    rx_missed: Cell<u64>,
    returns: u64,
    tx: u64,
    tx_dropped: u64,
    tx_full: u64,
    tx_invalid: u64,
    group_faults: u64,
}

/// Open an interface, with as many queues as asked for.
pub fn open_packet(config: &PacketConfig) -> Result<Vec<Packet>, OpenError> {
    let name = &config.name;
    let failed = |error: io::Error| match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => OpenError::Privilege {
            what: format!("a packet socket on {name}"),
            help:
                "run as root or with CAP_NET_RAW (`setcap cap_net_raw+ep PROGRAM`), or use tap:NAME, which \
                   works in a user namespace"
                    .into(),
        },
        _ => OpenError::os(&format!("open packet:{name}"), error),
    };
    shared_dir::sweep(config.share != 0)
        .map_err(|e| OpenError::os("open the directory of shared ports", e))?;
    let interface = netlink::interface(name).map_err(failed)?.ok_or_else(|| OpenError::no_interface(name))?;
    let queues = config.queues.max(1);
    if !config.whole {
        stands_alone(&interface)?;
    } else {
        let mut events = Vec::new();
        Monitor::open(interface.index, Scope::All).map_err(failed)?.poll(&mut events);
        fit_for_a_wire(config, &events)?;
    }
    let claims = Arc::new(SilencedPorts::new(interface.index, queues, config.share).map_err(failed)?);
    let (mut group, fresh) = (None, Arc::new(Fresh::default()));
    let ports = (0..queues).map(|queue| {
        let caps = Caps {
            ifindex: Some(interface.index),
            shares_kernel_addresses: !config.whole,
            queues,
            queue,
            tx_checksum: config.offload,
            tso_max: if config.offload { SUPER } else { 0 },
            headroom: HEADER,
            ..Caps::plain(&format!("packet:{name}"), interface.mtu, Medium::Ethernet, interface.mac)
        };
        Packet::new(caps, claims.clone(), fresh.clone(), &mut group).map_err(failed)
    });
    ports.collect()
}

/// Would the kernel answer what passes, or a second queue see it out of order?
fn fit_for_a_wire(config: &PacketConfig, news: &[NetEvent]) -> Result<(), OpenError> {
    let name = &config.name;
    let own = news.iter().find_map(|event| match event {
        NetEvent::AddrAdded { addr, .. } if !addr.is_link_local_v6() => Some(addr),
        _ => None,
    });
    let help = match own {
        _ if config.queues > 1 => "it has one queue only".into(),
        _ if config.share != 0 => "it claims no ports that could be shared; leave share away".into(),
        Some(addr) => format!(
            "the kernel has {addr} there and would answer too; take its addresses away with \
             `ip addr flush dev {name}`, or use xdp:{name}"
        ),
        None => return Ok(()),
    };
    Err(OpenError::Unusable { what: format!("packet:{name} with whole=on"), help })
}

/// A packet socket that is on the port's interface and copies nothing yet, or at once everything if it is one of
/// `whole` frames.
fn prepare(ifindex: u32, claims: &SilencedPorts, whole: bool) -> io::Result<Arc<OwnedFd>> {
    let socket = Arc::new(sys::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0)?);
    let fd = socket.as_raw_fd();
    if whole {
        SilencedPorts::take_all(fd)?;
        sys::hear_everybody(fd, ifindex)?;
    } else {
        claims.join(Arc::downgrade(&socket))?;
    }
    let on = 1_i32;
    sys::set_option(fd, SOL_PACKET, libc::PACKET_VNET_HDR, &on)?;
    sys::set_option(fd, SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &on)?;
    sys::set_option(fd, SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)?;
    // More than the machine's limit where we may, as much as it allows where not.
    for (force, plain) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
        sys::set_option(fd, libc::SOL_SOCKET, force, &SOCKET_BUFFER)
            .or_else(|_| sys::set_option(fd, libc::SOL_SOCKET, plain, &SOCKET_BUFFER))?;
    }
    bind(fd, ifindex)?;
    Ok(socket)
}

/// Puts a packet socket on interface `ifindex` of the network namespace that the socket is of.
fn bind(fd: RawFd, ifindex: u32) -> io::Result<()> {
    sys::bind_packet(fd, ifindex, libc::ETH_P_ALL)?;
    // On an interface that is down it leaves an error. Whether the interface is up the monitor tells.
    sys::take_error(fd).map(drop)
}

impl Packet {
    /// Notes in the port's [`Caps`] why the link does not go by a faster way.
    pub(crate) fn note_fallback(&mut self, why: String) {
        self.caps.fallback = Some(why);
    }

    fn new(
        caps: Caps,
        claims: Arc<SilencedPorts>,
        fresh: Arc<Fresh>,
        group: &mut Option<u16>,
    ) -> io::Result<Packet> {
        let ifindex = caps.ifindex.unwrap_or(0);
        let whole = !caps.shares_kernel_addresses;
        let socket = prepare(ifindex, &claims, whole)?;
        if caps.queues > 1 {
            join_group(socket.as_raw_fd(), group, &claims)?;
        }
        let tells = caps.queue == 0;
        let mut monitor = PortMonitor::new(ifindex, if whole { Scope::Link } else { Scope::All })?;
        claims.news_fds().into_iter().for_each(|fds| monitor.watch_also(fds));
        Ok(Packet {
            caps,
            socket,
            claims,
            whole,
            pool: GrowingPool::new(POOLS_MAX, SLOTS, SLOT)?,
            messages: MessageBatch::new(),
            staged: Vec::with_capacity(BATCH_MAX),
            appetite: BATCH_MAX,
            monitor,
            shared: Vec::new(),
            direct: true,
            down: false,
            gone: None,
            ended: false,
            fresh,
            tells,
            blocked: false,
            counts: Counts::default(),
        })
    }

    /// Returns the descriptors to sleep on.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = RawFd> {
        self.monitor.poll_fds(self.fd())
    }

    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Returns the error of a port whose interface is down, or gone and awaited.
    fn absence(&self) -> IoError {
        if self.ended { IoError::Gone } else { IoError::Down }
    }

    /// Returns the error that the kernel's refusal means.
    fn failure(&mut self, error: io::Error) -> IoError {
        match error.raw_os_error() {
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                self.down = true;
                self.note_loss();
                self.absence()
            }
            _ => IoError::Os(error),
        }
    }

    /// A frame that holds header and packet, from `start` on: what is known of it, or `None` if it is not for
    /// us.
    fn accept(&mut self, frame: &mut Frame, start: usize, len: usize) -> Option<RxMeta> {
        let bytes = &frame.slot()[start..start + len];
        let meta = bytes.split_at_checked(HEADER).and_then(|(head, rest)| vnet::received(head, rest.len()));
        let Some(meta) = meta else {
            self.counts.rx_malformed += 1;
            return None;
        };
        if !self.whole && !self.claims.wants(&bytes[HEADER..]) {
            self.counts.rx_unclaimed += 1;
            return None;
        }
        frame.set_range(start + HEADER, len - HEADER);
        Some(meta)
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<()> {
        let room = (BATCH_MAX - batch.len()).min(self.appetite);
        while self.staged.len() < room {
            let Some(frame) = self.pool.take() else { break };
            self.staged.push(frame);
        }
        if self.staged.is_empty() || room == 0 {
            return Ok(());
        }
        self.messages.clear();
        for frame in self.staged.iter_mut().take(room) {
            let start = vnet::start_of(frame.index());
            self.messages.push(&mut frame.slot_mut()[start..]);
        }
        // SAFETY: the places lie in frames that are staged, and nothing touches those before this returns.
        let got = unsafe { self.messages.receive(self.socket.as_raw_fd()) }?;
        self.appetite = (2 * got).clamp(8, BATCH_MAX);
        // Emptied and put back below, so that frames can be moved out in order.
        let mut staged = std::mem::take(&mut self.staged);
        for (index, mut frame) in staged.drain(..got).enumerate() {
            let (message, start) = (self.messages.got(index), vnet::start_of(frame.index()));
            if message.truncated {
                self.counts.rx_truncated += 1;
                self.pool.retire(frame);
                continue;
            }
            match self.accept(&mut frame, start, message.len) {
                Some(meta) => batch.push(RxPacket { frame, meta }),
                None => self.pool.retire(frame),
            }
        }
        self.staged = staged;
        Ok(())
    }

    /// Send one batch of messages from the front of the batch; how many packets left it, sent or not.
    fn tx_messages(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let longest = if self.caps.tso_max == 0 { 0 } else { self.caps.tso_max + LINK_HEADER };
        if self.messages.stage(batch, self.caps.mtu + LINK_HEADER, longest) == 0 {
            self.counts.tx_invalid += 1;
            self.drop_front(batch, 1);
            return Ok(1);
        }
        // SAFETY: the places lie in frames of the batch, which nothing touches before this returns.
        let sent = match unsafe { self.messages.send(self.socket.as_raw_fd()) } {
            Ok(sent) => {
                self.counts.tx += sent as u64;
                sent
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => return self.tx_messages(batch),
                Some(libc::EAGAIN) => 0,
                Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => return Err(self.failure(error)),
                // The interface does not cut super-segments, or its ring is full. The queueing discipline's way cuts
                // and waits.
                Some(libc::ENOBUFS) if self.direct => {
                    self.direct = false;
                    let off = 0_i32;
                    sys::set_option(self.fd(), SOL_PACKET, libc::PACKET_QDISC_BYPASS, &off)
                        .map_err(|error| self.failure(error))?;
                    return self.tx_messages(batch);
                }
                // The device's own queue is full, or the packet is not to its taste: it is lost, as on any
                // wire.
                _ => {
                    self.counts.tx_dropped += 1;
                    1
                }
            },
        };
        self.drop_front(batch, sent);
        Ok(sent)
    }

    /// The group that a segment to `local` belongs to, if processes share that port.
    fn group_of(&self, key: &FlowKey) -> Option<&Member> {
        let local = key.local();
        let of_port = self.shared.iter().filter(|shared| shared.member.place().port == local.port);
        let (rank, member) = of_port
            .map(|shared| (shared.member.place().rank(local.addr), &*shared.member))
            .max_by_key(|(rank, _)| *rank)?;
        (rank > 0).then_some(member)
    }

    /// The group that shares a claim of ours.
    pub(crate) fn member(&self, claim: &PortClaim) -> Option<&Member> {
        let place = Place::of(claim);
        let shared = self.shared.iter().find(|shared| *shared.member.place() == place);
        shared.map(|shared| &*shared.member)
    }

    /// Looks after the groups, and asks the stack for its flows where they must be known.
    fn tend(&mut self, events: &mut Vec<NetEvent>) {
        // It is tried again a little later.
        self.counts.group_faults += u64::from(self.claims.look().is_err());
        for Shared { member, told } in &mut self.shared {
            match told {
                Told::Nothing if member.is_many() => {
                    events.push(NetEvent::Shared { port: member.place().port });
                    *told = Told::Asked;
                }
                Told::Asked => {
                    member.on_told();
                    *told = Told::All;
                }
                Told::Nothing | Told::All => {}
            }
        }
    }

    fn drop_front(&mut self, batch: &mut TxBatch, count: usize) {
        batch.drain(..count).for_each(|packet| self.pool.retire(packet.frame));
    }
}

/// Make `fd` one of the sockets among which the kernel spreads packets.
fn join_group(fd: RawFd, group: &mut Option<u16>, claims: &SilencedPorts) -> io::Result<()> {
    let kind = libc::PACKET_FANOUT_CBPF << 16;
    let unique = libc::PACKET_FANOUT_FLAG_UNIQUEID << 16;
    let request = match *group {
        Some(id) => u32::from(id) | kind,
        // Any number that nothing uses.
        None => kind | unique,
    };
    sys::set_option(fd, SOL_PACKET, libc::PACKET_FANOUT, &request)?;
    if group.is_none() {
        let mut value = 0_u32;
        sys::get_option(fd, SOL_PACKET, libc::PACKET_FANOUT, &mut value)?;
        *group = Some(value as u16);
        claims.spread(fd)?;
    }
    Ok(())
}

impl PacketIo for Packet {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take(&mut self) -> Option<Frame> {
        let mut frame = self.pool.take().or_else(|| self.staged.pop())?;
        frame.set_range(vnet::start_of(frame.index()) + HEADER, 0);
        Some(frame)
    }

    fn retire(&mut self, frame: Frame) {
        self.pool.retire(frame);
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let before = batch.len();
        if let Err(error) = self.receive(batch) {
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => self.appetite = 8,
                _ => return Err(self.failure(error)),
            }
        }
        let got = batch.len() - before;
        self.counts.rx += got as u64;
        if got > 0 {
            self.down = false;
        }
        if self.down { Err(self.absence()) } else { Ok(got) }
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let mut taken = 0;
        self.blocked = false;
        while !batch.is_empty() {
            match self.tx_messages(batch) {
                Ok(0) => {
                    self.blocked = true;
                    self.counts.tx_full += 1;
                    break;
                }
                Ok(count) => taken += count,
                Err(_) if taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        self.monitor.arm(self.fd(), self.blocked, fds)
    }

    fn claims(&mut self) -> Option<&mut dyn Claims> {
        // Nothing is the kernel's where everything is ours.
        if self.whole { None } else { Some(self) }
    }

    fn net(&mut self) -> Option<&mut dyn NetEvents> {
        Some(self)
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        let counts = &self.counts;
        counts.rx_missed.set(counts.rx_missed.get() + missed(self.fd()));
        let mut all = vec![
            ("rx_packets", counts.rx),
            ("rx_malformed", counts.rx_malformed),
            ("rx_unclaimed", counts.rx_unclaimed),
            ("rx_truncated", counts.rx_truncated),
            ("rx_missed", counts.rx_missed.get()),
            ("tx_packets", counts.tx),
            ("tx_dropped", counts.tx_dropped),
            ("tx_full", counts.tx_full),
            ("tx_invalid", counts.tx_invalid),
            ("tx_qdisc", u64::from(!self.direct)),
            ("no_frame", self.pool.refused()),
            ("ports_shared", self.shared.len() as u64),
            ("group_faults", counts.group_faults),
            ("down", u64::from(self.down)),
            ("gone_ms", self.gone.map_or(0, |since| sys::monotonic().since(since).as_millis() as u64)),
            ("returns", counts.returns),
        ];
        all.extend(self.monitor.news.stats());
        all
    }
}

impl Claims for Packet {
    fn claim(&mut self, claim: &PortClaim) -> Result<(), ClaimError> {
        if let Some(member) = self.claims.claim(claim, self.caps.queue)? {
            member.core(true, false);
            self.shared.push(Shared { member, told: Told::Nothing });
        }
        Ok(())
    }

    fn release(&mut self, claim: &PortClaim) {
        let place = Place::of(claim);
        let at = self.shared.iter().position(|shared| *shared.member.place() == place);
        if let Some(at) = at.filter(|_| !claim.ephemeral) {
            let Shared { member, told } = self.shared.swap_remove(at);
            member.core(false, told == Told::All);
        }
        self.claims.release(claim);
    }

    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        Some(self)
    }
}

impl Sharing for Packet {
    fn serve(&mut self, claim: &PortClaim, wanted: bool) {
        let faults = self.member(claim).map_or(0, |member| u64::from(member.serve(wanted).is_err()));
        self.counts.group_faults += faults;
    }

    fn listen(&mut self, claim: &PortClaim, begins: bool) {
        let faults = self.member(claim).map_or(0, |member| u64::from(member.listen(begins).is_err()));
        self.counts.group_faults += faults;
    }

    fn set_role(&mut self, claim: &PortClaim, role: Role) {
        let faults = self.member(claim).map_or(0, |member| u64::from(member.set_role(role).is_err()));
        self.counts.group_faults += faults;
    }

    fn answerer(&self, key: &FlowKey, opens: bool) -> Answerer {
        let group = if self.shared.is_empty() { None } else { self.group_of(key) };
        group.map_or(Answerer::Ours, |group| group.answerer(key, opens))
    }

    fn owes(&self) -> bool {
        self.shared.iter().any(|shared| shared.member.owes())
    }

    fn on_flow(&mut self, key: &FlowKey, lives: bool) {
        if let Some(group) = self.group_of(key) {
            group.on_flow(key, lives);
        }
    }

    fn hand_over(&mut self, key: &FlowKey, state: &[u8]) -> bool {
        self.group_of(key).is_some_and(|group| group.hand_over(key, state))
    }

    fn take_over(&mut self, state: &mut Vec<u8>) -> bool {
        self.shared.iter().any(|shared| shared.member.take_over(state))
    }
}

impl NetEvents for Packet {
    fn net_events(&mut self, events: &mut Vec<NetEvent>) {
        self.monitor.net_events(&mut self.caps, &mut self.down, events);
        if self.monitor.news.take_left() || self.gone.is_some() {
            self.seek(events);
        }
        // Even without a group now: what one that was left says must be heard, or it would end every sleep.
        if self.claims.news_fds().is_some() {
            self.tend(events);
        }
    }

    fn resolve(&mut self, addr: Addr) {
        self.monitor.news.resolve(addr);
    }
}

/// Packets the kernel had no room for since it was last asked.
fn missed(fd: RawFd) -> u64 {
    // Packets, drops.
    let mut counts = [0_u32; 2];
    // Without an answer the zeros stand.
    let _ = sys::get_option(fd, SOL_PACKET, libc::PACKET_STATISTICS, &mut counts);
    counts[1].into()
}
