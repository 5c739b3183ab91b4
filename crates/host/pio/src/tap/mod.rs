//! `tap:NAME`: a virtual Ethernet cable to the kernel of this machine.
//!
//! Each frame comes and goes behind a virtio-net header, so checksums stay partial and super-segments whole
//! both ways. The stack has its own address here and answers ARP and Neighbour Discovery itself. One system
//! call moves one frame, however large; the kernel's receive path runs inside the write.
//!
//! Several queues: the kernel gives a flow to the queue from which it last heard of it (it remembers 4096
//! flows for three seconds each), otherwise by a hash of its own, so a core may receive segments of another
//! core's flow.

impl TxGather for Tap {
    fn gather_from(&mut self) -> usize {
        GATHER
    }

    fn tx_gather(&mut self, headers: &mut Frame, meta: &TxMeta, payload: &[IoSlice<'_>]) -> bool {
        // What goes wrong here goes wrong again when the packet is queued, and is dealt with there.
        let sent = self.write_pieces(headers, meta, payload).unwrap_or(false);
        self.counts.tx += u64::from(sent);
        sent
    }
}

impl NetEvents for Tap {
    /// The kernel's end of the cable has addresses and routes of its own, which are not ours: only MTU and
    /// link state concern us.
    fn net_events(&mut self, events: &mut Vec<NetEvent>) {
        self.monitor.net_events(&mut self.caps, &mut self.down, events);
    }
}

#[cfg(test)]
mod tests;

use crate::netlink::PortMonitor;
use crate::netlink::{self, Scope};
use crate::open_error::OpenError;
use crate::port::*;
use crate::processes;
use crate::sys::{self, check_len};
use crate::vnet;
use crate::vnet::start_of;
use base::Addr;
use ring::{Frame, GrowingPool};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

const DEVICE: &std::ffi::CStr = c"/dev/net/tun";
/// Bytes of the largest super-segment's IP packet.
const SUPER: usize = 65535;
/// Link header, with room for two VLAN tags.
const LINK_HEADER: usize = 22;
/// Slots hold a super-segment and leave room to spread their starts; memory is used where touched only.
const SLOT: usize = 128 << 10;
/// Slots of a pool, and how many pools there may be.
const SLOTS: u32 = 128;
const POOLS_MAX: usize = 4;
/// From so many bytes of payload on a second copy costs more than to tell the kernel of the pieces.
const GATHER: usize = 4 << 10;
/// Bytes that are read before a batch is handed on: few enough that they are still in a cache when they are looked at,
/// and so many that one acknowledgment covers what a flow had in the queue. Each acknowledgment makes the kernel send
/// on the core that writes it.
const BATCH_BYTES: usize = 1 << 20;

const _: () = assert!(vnet::LEN + LINK_HEADER + SUPER + start_of(u32::MAX) <= SLOT);
const _: () = assert!(SLOTS as usize >= 2 * BATCH_MAX);

/// How to open a tap.
#[derive(Clone, Debug)]
pub struct TapConfig {
    /// Interface name, at most 15 bytes. A `%d` in it is replaced by the first free number.
    pub name: String,
    /// Queues.
    pub queues: u16,
    /// Partial checksums and super-segments both ways.
    pub offload: bool,
    /// Our link-layer address; `None` takes a random one.
    pub mac: Option<[u8; 6]>,
    /// MTU to set, if permitted.
    pub mtu: Option<usize>,
    /// Addresses for the kernel's end of the cable.
    pub host: Vec<(Addr, u8)>,
}

impl TapConfig {
    /// One queue, offloads on, nothing else changed.
    pub fn new(name: &str) -> TapConfig {
        TapConfig { name: name.into(), queues: 1, offload: true, mac: None, mtu: None, host: Vec::new() }
    }
}

/// One queue of a tap.
pub struct Tap {
    caps: Caps,
    fd: OwnedFd,
    pool: GrowingPool,
    monitor: PortMonitor,
    /// The link is down, as far as the monitor told.
    down: bool,
    /// The kernel had no room for a write.
    blocked: bool,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    rx: u64,
    rx_malformed: u64,
    tx: u64,
    tx_dropped: u64,
    tx_full: u64,
    tx_invalid: u64,
}

/// Make or attach to a tap, bring it up if permitted, and open all its queues.
pub fn open_tap(config: &TapConfig) -> Result<Vec<Tap>, OpenError> {
    let queues = config.queues.max(1);
    let (first, name, multi) = attach_first(config)?;
    // The kernel deals flows out among all queues, so two programs would have half of each other's connections. Looked
    // at once we hold one: of two that start at the same time, one at least sees the other.
    let others: Vec<_> = processes::tap_holders(&name).iter().map(ToString::to_string).collect();
    if !others.is_empty() {
        let help =
            format!("{} is attached to it; stop that first, or choose another name", others.join(", "));
        return Err(OpenError::Busy { what: format!("tap {name}"), help });
    }
    let mut fds = vec![first];
    for _ in 1..queues {
        fds.push(attach(&name, multi).map_err(|error| explain(config, error))?.0);
    }
    let offload = if config.offload {
        libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN
    } else {
        0
    };
    let failed = |error| OpenError::os(&format!("set up tap {name}"), error);
    for fd in &fds {
        set_up(fd.as_raw_fd(), offload).map_err(failed)?;
    }
    let ifindex = sys::index_of(&name).map_err(failed)?;
    // A program that was given the interface ready-made need not be allowed to change it.
    match netlink::set_link(ifindex, true, config.mtu) {
        Err(error) if config.mtu.is_some() || error.raw_os_error() != Some(libc::EPERM) => {
            return Err(failed(error));
        }
        _ => {}
    }
    for &(addr, prefix) in &config.host {
        netlink::add_address(ifindex, addr, prefix).map_err(failed)?;
    }
    let mac = config.mac.map_or_else(sys::random_mac, Ok).map_err(failed)?;
    let mtu = netlink::interface(&name).map_err(failed)?.map_or(1500, |interface| interface.mtu);
    let caps = |queue| Caps {
        ifindex: Some(ifindex),
        queues,
        queue,
        tx_checksum: config.offload,
        tso_max: if config.offload { SUPER } else { 0 },
        headroom: vnet::LEN,
        ..Caps::plain(&format!("tap:{name}"), mtu, Medium::Ethernet, mac)
    };
    let ports = fds.into_iter().zip(0..queues).map(|(fd, queue)| Tap::new(fd, caps(queue)).map_err(failed));
    ports.collect()
}

/// The first queue: descriptor, name, and whether the interface is a multi-queue one. One that exists already
/// may be either, and the kernel refuses the wrong kind.
fn attach_first(config: &TapConfig) -> Result<(OwnedFd, String, bool), OpenError> {
    let invalid = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
    match attach(&config.name, true) {
        Err(error) if invalid(&error) && config.queues <= 1 => {
            attach(&config.name, false).map(|(fd, name)| (fd, name, false))
        }
        other => other.map(|(fd, name)| (fd, name, true)),
    }
    .map_err(|error| explain(config, error))
}

/// A new queue of the interface `name`, and its real name.
fn attach(name: &str, multi_queue: bool) -> io::Result<(OwnedFd, String)> {
    // SAFETY: a path that ends in NUL; returns a new descriptor.
    let fd = unsafe {
        sys::owned(libc::open(DEVICE.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC))
    }?;
    let multi = if multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | multi;
    // SAFETY: all zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an ifreq.
    sys::check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    let real = request.ifr_name.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    Ok((fd, String::from_utf8(real).map_err(|_| io::ErrorKind::InvalidData)?))
}

fn set_up(fd: RawFd, offload: libc::c_uint) -> io::Result<()> {
    let header_len = vnet::LEN as libc::c_int;
    // SAFETY: TUNSETVNETHDRSZ reads an int.
    sys::check(unsafe { libc::ioctl(fd, libc::TUNSETVNETHDRSZ, &raw const header_len) })?;
    // SAFETY: TUNSETOFFLOAD takes its flags by value.
    sys::check(unsafe { libc::ioctl(fd, libc::TUNSETOFFLOAD, libc::c_ulong::from(offload)) })?;
    Ok(())
}

/// Why attaching failed, and what helps.
fn explain(config: &TapConfig, error: io::Error) -> OpenError {
    let name = &config.name;
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => OpenError::Missing {
            what: "/dev/net/tun".into(),
            help: "load the driver with `modprobe tun`, or give the container the device".into(),
        },
        Some(libc::EACCES) => OpenError::Privilege {
            what: "/dev/net/tun".into(),
            help: "make it accessible with `chmod 0666 /dev/net/tun` (as root), or run as root".into(),
        },
        Some(libc::EPERM) => OpenError::Privilege {
            what: format!("creating or attaching to the tap {name}"),
            help: format!(
                "run as root, or have root make it for you: `ip tuntap add dev {name} mode tap multi_queue \
                 user $USER && ip link set {name} up`, or enter a user namespace first: `unshare -Urn`"
            ),
        },
        Some(libc::EBUSY) => OpenError::Busy {
            what: format!("tap {name}"),
            help: "another program is attached to it; choose another name".into(),
        },
        Some(libc::EINVAL) => OpenError::Unusable {
            what: format!("interface {name}"),
            help: "it exists but is not a tap with several queues; choose another name, or make it with \
                   `ip tuntap add ... mode tap multi_queue`"
                .into(),
        },
        _ if error.kind() == io::ErrorKind::InvalidInput => OpenError::Unusable {
            what: format!("interface name '{name}'"),
            help: "a name has 1 to 15 characters".into(),
        },
        _ => OpenError::os(&format!("open tap {name}"), error),
    }
}

impl Tap {
    fn new(fd: OwnedFd, caps: Caps) -> io::Result<Tap> {
        let monitor = PortMonitor::new(caps.ifindex.unwrap_or(0), Scope::Link)?;
        let pool = GrowingPool::new(POOLS_MAX, SLOTS, SLOT)?;
        let counts = Counts::default();
        Ok(Tap { caps, fd, pool, monitor, down: false, blocked: false, counts })
    }

    /// Read one frame into a slot: where it lies and what is known of it. `Ok(None)` if it made no sense.
    fn read(&mut self, frame: &mut Frame) -> io::Result<Option<RxMeta>> {
        let start = start_of(frame.index());
        let room = &mut frame.slot_mut()[start..];
        // SAFETY: `room` is writable for its length.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
        let got = check_len(got)?;
        let Some(len) = got.checked_sub(vnet::LEN).filter(|_| got <= room.len()) else { return Ok(None) };
        let meta = vnet::received(&room[..vnet::LEN], len);
        frame.set_range(start + vnet::LEN, len);
        Ok(meta)
    }

    /// Writes the virtio-net header in front of what is in `frame`, of a packet of `len` bytes; both together.
    /// `None` if the caps do not allow it.
    fn prepare<'f>(&self, frame: &'f mut Frame, meta: &TxMeta, len: usize) -> Option<&'f [u8]> {
        let longest = if self.caps.tso_max == 0 { 0 } else { self.caps.tso_max + LINK_HEADER };
        let header = vnet::request(meta, frame.data(), len, self.caps.mtu + LINK_HEADER, longest)?;
        let start = frame.headroom().checked_sub(vnet::LEN)?;
        let end = frame.headroom() + frame.len();
        let bytes = &mut frame.slot_mut()[start..end];
        vnet::emit(&header, &mut bytes[..vnet::LEN]);
        Some(bytes)
    }

    /// Write the packet to the kernel. `Ok(false)` if the caps do not allow it.
    fn write(&mut self, packet: &mut TxPacket) -> io::Result<bool> {
        let len = packet.frame.len();
        let Some(bytes) = self.prepare(&mut packet.frame, &packet.meta, len) else { return Ok(false) };
        // SAFETY: `bytes` is readable for its length.
        check_len(unsafe { libc::write(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })?;
        Ok(true)
    }

    /// Writes a packet in pieces.
    fn write_pieces(
        &mut self,
        headers: &mut Frame,
        meta: &TxMeta,
        payload: &[IoSlice<'_>],
    ) -> io::Result<bool> {
        let len = headers.len() + payload.iter().map(|piece| piece.len()).sum::<usize>();
        let Some(bytes) = self.prepare(headers, meta, len) else { return Ok(false) };
        let mut pieces = [IoSlice::new(&[]); 1 + PIECES_MAX];
        let Some(places) = pieces[1..].get_mut(..payload.len()) else { return Ok(false) };
        places.copy_from_slice(payload);
        pieces[0] = IoSlice::new(bytes);
        let count = 1 + payload.len() as libc::c_int;
        // SAFETY: an IoSlice is an iovec, and each of the first `count` is readable for its length.
        check_len(unsafe { libc::writev(self.fd.as_raw_fd(), pieces.as_ptr().cast(), count) })?;
        Ok(true)
    }
}

impl PacketIo for Tap {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take(&mut self) -> Option<Frame> {
        let mut frame = self.pool.take()?;
        frame.set_range(start_of(frame.index()) + vnet::LEN, 0);
        Some(frame)
    }

    fn retire(&mut self, frame: Frame) {
        self.pool.retire(frame);
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let before = batch.len();
        let mut bytes = 0;
        while batch.len() < BATCH_MAX && bytes < BATCH_BYTES {
            let Some(mut frame) = self.pool.take() else { break };
            let result = self.read(&mut frame);
            if let Ok(Some(meta)) = result {
                bytes += frame.len();
                batch.push(RxPacket { frame, meta });
                continue;
            }
            self.pool.retire(frame);
            match result {
                Ok(_) => self.counts.rx_malformed += 1,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    Some(libc::EINTR) => {}
                    _ if batch.len() > before => break,
                    Some(libc::EBADFD | libc::ENODEV) => return Err(IoError::Gone),
                    _ => return Err(IoError::Os(error)),
                },
            }
        }
        let got = batch.len() - before;
        self.counts.rx += got as u64;
        if got == 0 && self.down { Err(IoError::Down) } else { Ok(got) }
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let mut taken = 0;
        self.blocked = false;
        while let Some(packet) = batch.front_mut() {
            match self.write(packet) {
                Ok(true) => self.counts.tx += 1,
                Ok(false) => self.counts.tx_invalid += 1,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    Some(libc::EAGAIN) => {
                        self.blocked = true;
                        self.counts.tx_full += 1;
                        break;
                    }
                    Some(libc::EIO) if taken == 0 => return Err(IoError::Down),
                    Some(libc::EBADFD | libc::ENODEV) if taken == 0 => return Err(IoError::Gone),
                    Some(libc::EIO | libc::EBADFD | libc::ENODEV) => break,
                    _ => self.counts.tx_dropped += 1,
                },
            }
            taken += 1;
            if let Some(packet) = batch.pop_front() {
                self.pool.retire(packet.frame);
            }
        }
        Ok(taken)
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        self.monitor.arm(self.fd.as_raw_fd(), self.blocked, fds)
    }

    fn gather(&mut self) -> Option<&mut dyn TxGather> {
        Some(self)
    }

    fn net(&mut self) -> Option<&mut dyn NetEvents> {
        Some(self)
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        let counts = &self.counts;
        let mut all = vec![
            ("rx_packets", counts.rx),
            ("rx_malformed", counts.rx_malformed),
            ("tx_packets", counts.tx),
            ("tx_dropped", counts.tx_dropped),
            ("tx_full", counts.tx_full),
            ("tx_invalid", counts.tx_invalid),
            ("no_frame", self.pool.refused()),
        ];
        all.extend(self.monitor.news.stats());
        all
    }
}
