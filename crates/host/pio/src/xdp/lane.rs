//! One queue of the interface: an AF_XDP socket and its four rings.
//!
//! ```text
//!   pool --fill--> kernel --rx--> batch        batch --tx--> kernel --completion--> pool
//! ```
//! Slots in a ring or between two of them are lent; the pool knows each slot's owner.

use super::desc::{self, Faults};
use super::proof::Requests;
use super::rings::{Consumer, Desc, Layout, Producer};
use crate::port::{IoError, RxBatch, TxPacket};
use crate::sys::{self, check};
use base::Duration;
use ring::{Frame, FramePool};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Bytes before a packet in which we tell the kernel what to do to it (`struct xsk_tx_metadata`).
pub(super) const TX_METADATA: usize = 24;

/// Fewest buffers that are given to the kernel in one go.
const REFILL_MIN: u32 = 32;

/// How a lane is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneConfig {
    pub(super) ifindex: u32,
    pub(super) queue: u16,
    /// Slots of the receive and fill rings, a power of two.
    pub(super) rx: u32,
    /// Slots of the transmit and completion rings, a power of two.
    pub(super) tx: u32,
    /// The XDP program copes with packets in several buffers.
    pub(super) frags: bool,
    /// Try to have the driver use our buffers.
    pub(super) zero_copy: bool,
    /// Where checksum requests are obeyed.
    pub(super) requests: Requests,
}

/// Features that the kernel granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Grant {
    pub(super) zero_copy: bool,
    /// Packets in several buffers arrive.
    pub(super) frags: bool,
    /// Checksum requests in [`TX_METADATA`] are obeyed.
    pub(super) tx_metadata: bool,
    /// Bytes that must be free before each packet that is sent, also where nothing reads them.
    pub(super) headroom: usize,
}

impl Grant {
    /// Returns the features granted after the kernel took the UMEM, `registered` with metadata or without, and
    /// bound the socket.
    pub(super) fn new(registered: bool, (zero_copy, frags): (bool, bool), requests: Requests) -> Grant {
        Grant {
            zero_copy,
            frags,
            tx_metadata: registered && requests.obeyed(zero_copy),
            // In zero-copy mode a descriptor with less before it is invalid, whether it has a request or not
            // (`xp_aligned_validate_desc`, net/xdp/xsk_queue.h, Linux 6.12): the packet is dropped in silence.
            headroom: if registered { TX_METADATA } else { 0 },
        }
    }
}

/// Result of a kick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kick {
    /// Everything published is on its way.
    Done,
    /// Some is still in the ring: kick again later.
    Later,
}

/// Counters of a lane; [`XdpPort::lane_counts`](super::XdpPort::lane_counts) names them.
pub(super) type LaneCounts = [u64; 7];

pub(super) struct Lane {
    rx: Consumer<Desc>,
    fill: Producer<u64>,
    tx: Producer<Desc>,
    completion: Consumer<u64>,
    pub(super) queue: u16,
    /// Buffers the fill ring has room for.
    owed: u32,
    pub(super) grant: Grant,
    pub(super) faults: Faults,
    /// Packets the kernel took and could not send.
    pub(super) tx_lost: u64,
    socket: OwnedFd,
}

impl Lane {
    /// A lane on a UMEM of its own: `pool`.
    pub(super) fn open(config: &LaneConfig, pool: &FramePool) -> io::Result<Lane> {
        let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
        let registered = register(&socket, pool, config.requests != Requests::default())?;
        let rings = rings(&socket, config)?;
        let grant = Grant::new(registered, bind_best(&socket, config)?, config.requests);
        Ok(Lane::on(socket, rings, config, grant))
    }

    /// A lane on another queue of the same interface, on the same UMEM and as `first` was bound (Linux 5.10).
    pub(super) fn share(config: &LaneConfig, first: &Lane) -> io::Result<Lane> {
        let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
        let rings = rings(&socket, config)?;
        bind(&socket, config, libc::XDP_SHARED_UMEM, first.socket.as_raw_fd() as u32)?;
        Ok(Lane::on(socket, rings, config, first.grant))
    }

    /// On a socket that is bound.
    fn on(socket: OwnedFd, rings: Rings, config: &LaneConfig, grant: Grant) -> Lane {
        tune(&socket, config);
        let (rx, fill, tx, completion) = rings;
        let (queue, owed, faults) = (config.queue, config.rx, Faults::default());
        Lane { rx, fill, tx, completion, queue, owed, grant, faults, tx_lost: 0, socket }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Has a ring a count of the kernel's that cannot be?
    pub(super) fn is_broken(&self) -> bool {
        self.rx.broken || self.fill.broken || self.tx.broken || self.completion.broken
    }

    /// Spoils a ring, as a child that writes to its memory does.
    #[cfg(test)]
    pub(super) fn spoil(&mut self) {
        self.tx.lie();
        assert_eq!(self.tx.free(u32::MAX), 0);
    }

    /// Are packets waiting?
    pub(super) fn is_ready(&mut self) -> bool {
        self.rx.available(1) > 0
    }

    /// Appends received packets to the batch; how many frames.
    pub(super) fn receive(&mut self, pool: &mut FramePool, mtu: usize, batch: &mut RxBatch) -> usize {
        let received = desc::receive(&mut self.rx, pool, mtu, batch, &mut self.faults);
        self.owed += received.buffers;
        received.frames
    }

    /// Gives the kernel buffers to receive into, but leaves `keep` in the pool. Few at a time are not worth
    /// it.
    pub(super) fn refill(&mut self, pool: &mut FramePool, keep: u32) {
        if self.owed < REFILL_MIN {
            return;
        }
        let count = self.owed.min(pool.available().saturating_sub(keep));
        let count = self.fill.free(count).min(count);
        for _ in 0..count {
            let Some(frame) = pool.take() else { break };
            self.fill.push(frame.offset());
            pool.lend(frame);
            self.owed -= 1;
        }
        self.fill.publish();
        if self.grant.zero_copy && self.fill.needs_wakeup() {
            // The driver had run out of buffers and stopped looking. An error shows at the next transmission.
            let _ = self.health();
        }
    }

    /// Takes back buffers that were sent.
    pub(super) fn complete(&mut self, pool: &mut FramePool) {
        let count = self.completion.available(u32::MAX);
        if count == 0 {
            return;
        }
        for ahead in 0..count {
            let place = pool.locate(self.completion.peek(ahead));
            match place.and_then(|(index, _)| pool.reclaim(index, 0, 0)) {
                Some(frame) => pool.retire(frame),
                None => self.faults.bad += 1,
            }
        }
        self.completion.advance(count);
        self.completion.release();
    }

    /// Places in the transmit ring.
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        self.tx.free(wanted)
    }

    /// Puts a packet into the transmit ring, where there is room.
    pub(super) fn send(&mut self, pool: &mut FramePool, mut packet: TxPacket) {
        let mut options = 0;
        if let Some(sum) = packet.meta.checksum {
            write_request(&mut packet.frame, sum.start, sum.offset);
            options = libc::XDP_TX_METADATA;
        }
        let desc = Desc { addr: packet.frame.offset(), len: packet.frame.len() as u32, options };
        self.tx.push(desc);
        pool.lend(packet.frame);
    }

    /// Shows the kernel what was sent, and calls it if it wants to be called.
    pub(super) fn kick(&mut self) -> Result<Kick, IoError> {
        self.tx.publish();
        if !self.tx.needs_wakeup() {
            return Ok(Kick::Done);
        }
        let mut left = self.tx.unread();
        // Each call takes what it can; an error with progress is no reason to stop.
        while left > 0 {
            // SAFETY: nothing is read, and there is no address.
            let rc = unsafe {
                libc::sendto(self.fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
            };
            if rc >= 0 {
                // In zero-copy mode the driver works on its own from here.
                return Ok(Kick::Done);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // The kernel's share for one call is used up, its socket buffer is full, or the device is
                // busy.
                Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR) => {}
                // In zero-copy mode the driver has no time; in copy mode the device took one packet and
                // dropped it, as if the network had lost it.
                Some(libc::EBUSY) => self.tx_lost += u64::from(!self.grant.zero_copy),
                _ => return Err(fault(error)),
            }
            let before = std::mem::replace(&mut left, self.tx.unread());
            if left == before {
                return Ok(Kick::Later);
            }
        }
        Ok(Kick::Done)
    }

    /// Asks the kernel whether the interface is there and up; wakes the driver's receive side on the way.
    pub(super) fn health(&self) -> Result<(), IoError> {
        // SAFETY: nothing is written, and there is no address.
        let rc = unsafe {
            libc::recvfrom(
                self.fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        if rc >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::EBUSY | libc::ENOBUFS) => Ok(()),
            _ => Err(fault(error)),
        }
    }

    /// Returns its counters: its own, and the kernel's of packets dropped on this queue.
    pub(super) fn counts(&self) -> LaneCounts {
        // SAFETY: all zero is a valid xdp_statistics.
        let mut kernel: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        // Without an answer the zeros stand.
        let _ = sys::get_option(self.fd(), libc::SOL_XDP, libc::XDP_STATISTICS, &mut kernel);
        let [bad, too_long, lost] = [self.faults.bad, self.faults.too_long, self.tx_lost];
        let [full, no_buffer] = [kernel.rx_ring_full, kernel.rx_fill_ring_empty_descs];
        [bad, too_long, lost, kernel.rx_dropped, full, no_buffer, kernel.tx_invalid_descs]
    }
}

/// Returns the port error that an error of a bound AF_XDP socket means.
pub(super) fn fault(error: io::Error) -> IoError {
    match error.raw_os_error() {
        Some(libc::ENETDOWN | libc::ENETUNREACH) => IoError::Down,
        Some(libc::ENXIO | libc::ENODEV) => IoError::Gone,
        _ => IoError::Os(error),
    }
}

/// Asks for the one's complement sum from `start` to the end to be put at `start + offset`.
pub(super) fn write_request(frame: &mut Frame, start: u16, offset: u16) {
    let (at, len) = (frame.headroom(), frame.len());
    // Offsets in `struct xsk_tx_metadata`: flags, csum_start, csum_offset, launch_time.
    let mut metadata = [0; TX_METADATA];
    metadata[..8].copy_from_slice(&u64::from(libc::XDP_TXMD_FLAGS_CHECKSUM).to_ne_bytes());
    metadata[8..10].copy_from_slice(&start.to_ne_bytes());
    metadata[10..12].copy_from_slice(&offset.to_ne_bytes());
    frame.set_range(at - TX_METADATA, len + TX_METADATA);
    frame.data_mut()[..TX_METADATA].copy_from_slice(&metadata);
    frame.set_range(at, len);
}

/// Registers the pool's slots as UMEM, if `wanted` with metadata before packets (Linux 6.8). Returns whether the kernel
/// takes it, which does not mean that anything looks at it ([`Requests`]).
pub(super) fn register(socket: &OwnedFd, pool: &FramePool, wanted: bool) -> io::Result<bool> {
    pool.empty_in_children();
    let (base, len) = pool.mapping();
    let region = |metadata: bool| libc::xdp_umem_reg {
        addr: base.as_ptr() as u64,
        len: len as u64,
        chunk_size: pool.slot_size() as u32,
        headroom: 0,
        flags: if metadata { libc::XDP_UMEM_TX_METADATA_LEN } else { 0 },
        tx_metadata_len: if metadata { TX_METADATA as u32 } else { 0 },
    };
    if wanted {
        match register_region(socket, &region(true)) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            done => return done.map(|()| true),
        }
    }
    register_region(socket, &region(false)).map(|()| false)
}

/// Registers a UMEM. Memory counts against the user's limit, and the kernel gives that of a socket which was closed
/// back a moment later: so that of the trial in [`super::proof`], or of a process that has just ended.
fn register_region(socket: &OwnedFd, region: &libc::xdp_umem_reg) -> io::Result<()> {
    const TRIES: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(5);
    for _ in 1..TRIES {
        match set_option(socket, libc::XDP_UMEM_REG, region) {
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    set_option(socket, libc::XDP_UMEM_REG, region)
}

pub(super) type Rings = (Consumer<Desc>, Producer<u64>, Producer<Desc>, Consumer<u64>);

pub(super) fn rings(socket: &OwnedFd, config: &LaneConfig) -> io::Result<Rings> {
    for (option, size) in [
        (libc::XDP_UMEM_FILL_RING, config.rx),
        (libc::XDP_UMEM_COMPLETION_RING, config.tx),
        (libc::XDP_RX_RING, config.rx),
        (libc::XDP_TX_RING, config.tx),
    ] {
        set_option(socket, option, &size)?;
    }
    // SAFETY: all zero is a valid xdp_mmap_offsets.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let fd = socket.as_raw_fd();
    sys::get_option(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    Ok((
        Consumer::map(fd, libc::XDP_PGOFF_RX_RING, layout(&offsets.rx), config.rx)?,
        Producer::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING as i64, layout(&offsets.fr), config.rx)?,
        Producer::map(fd, libc::XDP_PGOFF_TX_RING, layout(&offsets.tx), config.tx)?,
        Consumer::map(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64, layout(&offsets.cr), config.tx)?,
    ))
}

fn layout(offset: &libc::xdp_ring_offset) -> Layout {
    Layout {
        producer: offset.producer as usize,
        consumer: offset.consumer as usize,
        flags: offset.flags as usize,
        slots: offset.desc as usize,
    }
}

/// Binds with the best the kernel gives: zero-copy before copying, several buffers before one. Tells which.
pub(super) fn bind_best(socket: &OwnedFd, config: &LaneConfig) -> io::Result<(bool, bool)> {
    let mut last = None;
    for zero_copy in [true, false] {
        for frags in [true, false] {
            if (zero_copy && !config.zero_copy) || (frags && !config.frags) {
                continue;
            }
            let mode = if zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
            let sg = if frags { libc::XDP_USE_SG } else { 0 };
            match bind(socket, config, mode | sg | libc::XDP_USE_NEED_WAKEUP, 0) {
                Ok(()) => return Ok((zero_copy, frags)),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Err(error),
                Err(error) => last = Some(error),
            }
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::Unsupported.into()))
}

/// Does the kernel bring packets of several buffers through a socket (Linux 6.6)? Asked by binding to an interface that
/// there cannot be: a kernel that does not know the flag says so before it looks for the interface.
pub(super) fn brings_long() -> bool {
    let Ok(socket) = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0) else { return false };
    let nowhere = LaneConfig {
        ifindex: 0,
        queue: 0,
        rx: 0,
        tx: 0,
        frags: true,
        zero_copy: false,
        requests: Requests::default(),
    };
    let refusal = bind(&socket, &nowhere, libc::XDP_COPY | libc::XDP_USE_SG, 0);
    refusal.is_err_and(|error| error.raw_os_error() == Some(libc::ENODEV))
}

/// How often, and at what distance, a queue that is still taken is asked for again: for three seconds, as the kernel
/// frees queues behind whatever else waits for its lock of interfaces.
const BIND_TRIES: u32 = 600;
const BIND_PAUSE: Duration = Duration::from_millis(5);

fn bind(socket: &OwnedFd, config: &LaneConfig, flags: u16, shared: u32) -> io::Result<()> {
    let addr = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: config.ifindex,
        sxdp_queue_id: config.queue.into(),
        sxdp_shared_umem_fd: shared,
    };
    let mut tries = 1;
    loop {
        // SAFETY: `addr` is a sockaddr_xdp of its own size.
        let rc = unsafe {
            libc::bind(socket.as_raw_fd(), (&raw const addr).cast(), size_of::<libc::sockaddr_xdp>() as u32)
        };
        match check(rc) {
            // The kernel frees the queue of a socket that was closed a moment after closing it.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries < BIND_TRIES => {
                tries += 1;
                std::thread::sleep(BIND_PAUSE);
            }
            done => return done.map(drop),
        }
    }
}

/// Sets options that make the socket faster; failures are ignored where the kernel lacks them.
fn tune(socket: &OwnedFd, config: &LaneConfig) {
    // Without it the kernel sends 32 packets per call in copy mode (Linux 6.17).
    const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
    let _ = set_option(socket, XDP_MAX_TX_SKB_BUDGET, &config.tx);
    // In copy mode packets under way count against the socket's send buffer; the ring alone shall bound them.
    let bytes = config.tx as i32 * 4096;
    let _ = sys::set_option(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes);
}

fn set_option<T: Copy>(socket: &OwnedFd, name: i32, value: &T) -> io::Result<()> {
    sys::set_option(socket.as_raw_fd(), libc::SOL_XDP, name, value)
}
