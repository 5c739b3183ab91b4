//! `dpdk:DEVICE`: a network card, or one of its software devices, through the drivers of DPDK.
//!
//! ```text
//!   Frame <── slot ──> mbuf         one memory, two names: `frames`
//!   rx: rte_eth_rx_burst ──> frames, not copied, up to 64 a call
//!   tx: frames, not copied ──> rte_eth_tx_burst; super-segments as chains of mbufs
//! ```
//! The card is the program's alone: it has an address of its own, the kernel sees nothing of it, and the stack answers
//! ARP and Neighbour Discovery. One queue and one pool of frames a core; with several the card spreads flows by a hash
//! of their addresses and ports (RSS), so every core accepts what arrives at its queue. Answers to connections of ours
//! reach the core that opened them by [`crate::steer`].
//!
//! **What is copied.** A packet that lies in several buffers, or in another port's (`net_ring` hands buffers of one
//! device to another), is copied into a frame. So is the payload of super-segments, for no device reads the send
//! buffer: [`PacketIo::tx_gather`] copies it into the mbufs of the chain, which is the only copy.
//!
//! **Offloads** are those that device and port both know: TCP checksums both ways, segmentation. VLAN tags are left in
//! the packets. Received segments are joined by the stack, not by the card (LRO), which keeps no order among flows.
//!
//! **Memory** lies on reserved huge pages. Where there are none DPDK is told to do without, which is slower and not to
//! every card's taste, but needs no preparation.

mod device;
mod eal;
mod ffi;
mod frames;
mod sleep;
#[cfg(test)]
mod tests;

use crate::Rss;
use crate::open_error::OpenError;
use crate::port::*;
use crate::vnet;
use device::{Device, LINK};
use ffi::{Mbuf, Received, TxRequest};
use frames::{Frames, START};
use ring::{Frame, FramePool};
use sleep::Sleep;
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use std::sync::Arc;

/// Bytes of the largest super-segment's IP packet.
const SUPER: usize = 65535;
/// Frames for super-segments that the stack builds in one piece, and their size.
const LONG: u32 = 16;
const LONG_SLOT: usize = 128 << 10;
/// From so many bytes of payload on, more than a frame holds, a chain is made of them at once.
const GATHER: usize = 2048;
/// A device that does not tell of its link is asked once in so many times that the stack asks for news.
const LINK_EVERY: u32 = 64;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Where TCP has its checksum.
const TCP_SUM: u16 = 16;

const _: () = assert!(SUPER + LINK <= LONG_SLOT && LINK >= ETHERNET);

/// How to open a device of DPDK.
#[derive(Clone, Debug)]
pub struct DpdkConfig {
    /// A place on the PCI bus, `0000:03:00.0`, or the name of a software device, `net_tap0`.
    pub device: String,
    /// Arguments of the device for DPDK, `iface=ms0`.
    pub arguments: Vec<String>,
    /// Arguments of DPDK's environment, for the first device of the process.
    pub eal: Vec<String>,
    /// Queues.
    pub queues: u16,
    /// Checksums and segmentation by the device, as far as it can.
    pub offload: bool,
    /// MTU to set.
    pub mtu: Option<usize>,
    /// Every frame, for any destination.
    pub whole: bool,
    /// Packets waiting to be received, as far as the device has room.
    pub rx_ring: u16,
    /// Packets waiting to be sent, as far as the device has room.
    pub tx_ring: u16,
}

impl DpdkConfig {
    /// One queue, offloads on, nothing else changed.
    pub fn new(device: &str) -> DpdkConfig {
        DpdkConfig {
            device: device.into(),
            arguments: Vec::new(),
            eal: Vec::new(),
            queues: 1,
            offload: true,
            mtu: None,
            whole: false,
            rx_ring: 1024,
            tx_ring: 1024,
        }
    }
}

/// One queue of a device of DPDK.
pub struct Dpdk {
    caps: Caps,
    queue: u16,
    /// `None` only while it is dropped.
    frames: Option<Frames>,
    long: Option<FramePool>,
    /// Described, in order, and not taken by the device yet.
    staged: Vec<*mut Mbuf>,
    /// One of them requests something.
    requests: bool,
    /// Received by a look before a sleep.
    early: RxBatch,
    sleep: Sleep,
    /// State of the link as the stack was told, and the number of its questions.
    link: Option<bool>,
    asked: u32,
    counts: Counts,
    /// Last, so that the device is closed after all else is gone.
    device: Arc<Device>,
}

// SAFETY: the mbufs in `staged` are this port's alone, and a queue may be used from any thread, one at a time.
unsafe impl Send for Dpdk {}

#[derive(Default)]
struct Counts {
    rx: u64,
    rx_copied: u64,
    rx_dropped: u64,
    tx: u64,
    tx_full: u64,
    tx_invalid: u64,
    no_frame: u64,
}

/// Open a device and all its queues.
///
/// # Errors
/// Each says what to do.
pub fn open_dpdk(config: &DpdkConfig) -> Result<Vec<Dpdk>, OpenError> {
    let (device, frames) = Device::open(config)?;
    let device = Arc::new(device);
    let ports: Vec<_> =
        (0..config.queues).zip(frames).map(|(q, frames)| Dpdk::new(&device, q, frames)).collect();
    ports.into_iter().collect::<Result<_, _>>().map_err(|e| OpenError::os("make a port", e))
}

impl Dpdk {
    /// The rule by which the device chooses receive queues, if it tells.
    pub(crate) fn rss(&self) -> Option<Rss> {
        self.device.rss()
    }

    fn new(device: &Arc<Device>, queue: u16, mut frames: Frames) -> io::Result<Dpdk> {
        let slot = frames.take().map_or(0, |frame| {
            let slot = frame.capacity();
            frames.retire(frame);
            slot
        });
        let tso_max = device.tso_max(slot);
        let caps = Caps {
            queues: device.setup.queues,
            queue,
            tx_checksum: device.setup.sums != 0,
            tso_max,
            headroom: START,
            ..Caps::plain(&format!("dpdk:{}", device.name), device.mtu, Medium::Ethernet, device.mac)
        };
        let parts = Sleep::new(device, queue).and_then(|sleep| {
            let long = (tso_max > 0).then(|| FramePool::new(LONG, LONG_SLOT)).transpose()?;
            Ok((sleep, long))
        });
        let (sleep, long) = match parts {
            Ok(parts) => parts,
            Err(error) => {
                device.retire(frames);
                return Err(error);
            }
        };
        Ok(Dpdk {
            caps,
            queue,
            frames: Some(frames),
            long,
            staged: Vec::with_capacity(BATCH_MAX),
            requests: false,
            early: RxBatch::with_capacity(BATCH_MAX),
            sleep,
            link: None,
            asked: 0,
            counts: Counts::default(),
            device: device.clone(),
        })
    }

    /// Sleeps end when packets come, not after a nap.
    pub fn has_interrupts(&self) -> bool {
        self.sleep.has_interrupts()
    }

    #[inline]
    fn frames(&mut self) -> &mut Frames {
        self.frames.as_mut().expect("there until the port is dropped")
    }

    /// A frame, also one that the device has sent and not said so.
    fn stock(&mut self) -> Option<Frame> {
        let frame = self.frames().take().or_else(|| {
            // SAFETY: a queue of a port that runs.
            unsafe { ffi::ms_dpdk_sent(self.device.port, self.queue) };
            self.frames().take()
        });
        self.counts.no_frame += u64::from(frame.is_none());
        frame
    }

    /// Appends what the device has.
    fn receive(&mut self, batch: &mut RxBatch) -> usize {
        eal::enter_thread();
        const EMPTY: Received =
            Received { mbuf: std::ptr::null_mut(), data: std::ptr::null(), len: 0, sum: 0, ours: 0 };
        let mut came = [EMPTY; BATCH_MAX];
        let mempool = self.frames().mempool();
        let room = (BATCH_MAX - batch.len()) as u16;
        // SAFETY: a queue of a port that runs, which this thread has alone, and room for as many as are asked for.
        let count =
            unsafe { ffi::ms_dpdk_rx(self.device.port, self.queue, mempool, came.as_mut_ptr(), room) };
        let before = batch.len();
        for received in &came[..count.into()] {
            let direct =
                if received.ours != 0 { self.frames().received(received.data, received.len) } else { None };
            let Some(frame) = direct.or_else(|| self.copied(received)) else {
                self.counts.rx_dropped += 1;
                continue;
            };
            let checksum = match received.sum {
                1 => RxChecksum::Verified,
                2 => RxChecksum::Partial,
                _ => RxChecksum::Unverified,
            };
            batch.push(RxPacket { frame, meta: RxMeta { checksum, gso_size: 0, more: false } });
        }
        let got = batch.len() - before;
        self.counts.rx += got as u64;
        if got > 0 {
            self.sleep.came(&self.device, self.queue);
        }
        got
    }

    /// A packet that does not lie whole in a buffer of ours, in one; `None` if it is too long or there is none left.
    #[cold]
    fn copied(&mut self, received: &Received) -> Option<Frame> {
        let mut frame = self.stock();
        let mut len = 0;
        if let Some(frame) = &mut frame {
            frame.set_range(START, frame.capacity() - START);
            let room = frame.data_mut();
            // SAFETY: an mbuf that was received and not given back, and `room` is writable for its length.
            len = unsafe { ffi::ms_dpdk_copy(received.mbuf, room.as_mut_ptr(), room.len() as u32) };
            frame.set_range(START, len as usize);
        }
        // SAFETY: nothing else has it.
        unsafe { ffi::ms_dpdk_free(received.mbuf) };
        if len == 0 {
            if let Some(frame) = frame {
                self.frames().retire(frame);
            }
            return None;
        }
        self.counts.rx_copied += 1;
        frame
    }

    /// Returns the offloads for a packet of `len` bytes that begins with `front`; `None` if the request is invalid
    /// or not offered.
    fn request(&self, meta: &TxMeta, front: &[u8], len: usize) -> Option<TxRequest> {
        let longest = if self.caps.tso_max == 0 { self.caps.mtu } else { self.caps.tso_max } + LINK;
        let longest = if self.caps.tx_checksum { longest } else { 0 };
        vnet::request(meta, front, len, self.caps.mtu + LINK, longest)?;
        let Some(sum) = meta.checksum else { return Some(TxRequest::default()) };
        let start = usize::from(sum.start);
        let offset = front.get(start + 12).map(|byte| byte >> 4 << 2);
        let (Some(transport), Some(network)) = (offset, start.checked_sub(ETHERNET)) else { return None };
        if sum.offset != TCP_SUM || (meta.segmentation.is_some() && self.caps.tso_max == 0) {
            return None;
        }
        Some(TxRequest {
            link: ETHERNET as u8,
            network: network as u16,
            transport: transport.into(),
            size: meta.segmentation.map_or(0, |cut| cut.size),
            sum: 1,
            v6: u8::from(front[12..ETHERNET] == [0x86, 0xdd]),
        })
    }

    /// A packet in frames of ours, one behind the other. `None`, and nothing happened, where frames lack.
    fn chain(&mut self, request: &TxRequest, pieces: &[&[u8]]) -> Option<*mut Mbuf> {
        let mut pieces = pieces.iter().copied();
        let mut rest: &[u8] = &[];
        let (mut first, mut last) = (std::ptr::null_mut(), std::ptr::null_mut());
        loop {
            while rest.is_empty() {
                match pieces.next() {
                    Some(piece) => rest = piece,
                    None => return Some(first).filter(|first: &*mut Mbuf| !first.is_null()),
                }
            }
            let Some(mut frame) = self.stock() else {
                if !first.is_null() {
                    // SAFETY: a chain that nothing else has.
                    unsafe { ffi::ms_dpdk_free(first) };
                }
                return None;
            };
            let room = frame.capacity() - START;
            frame.set_range(START, room);
            let mut filled = 0;
            loop {
                let count = rest.len().min(room - filled);
                frame.data_mut()[filled..filled + count].copy_from_slice(&rest[..count]);
                (rest, filled) = (&rest[count..], filled + count);
                if filled == room {
                    break;
                }
                match pieces.next() {
                    Some(piece) => rest = piece,
                    None => break,
                }
            }
            frame.set_range(START, filled);
            let request = if first.is_null() { *request } else { TxRequest::default() };
            let mbuf = self.describe(frame, &request);
            if first.is_null() {
                first = mbuf;
            } else {
                // SAFETY: mbufs of ours that nothing else has.
                unsafe { ffi::ms_dpdk_chain(first, last, mbuf) };
            }
            last = mbuf;
        }
    }

    /// The frame's mbuf, which says of the packet what the frame did.
    #[inline]
    fn describe(&mut self, frame: Frame, request: &TxRequest) -> *mut Mbuf {
        let (data, len) = (frame.data().as_ptr(), frame.len() as u32);
        let mbuf = self.frames().give(frame);
        // SAFETY: the mbuf of the slot in which `data` lies, at `START` or behind it, and so in its buffer.
        unsafe { ffi::ms_dpdk_describe(mbuf, data, len, request) };
        mbuf
    }

    /// Puts a packet behind those that were not taken yet; one that cannot be sent is counted and gone. Gives it back
    /// where frames lack.
    fn stage(&mut self, packet: TxPacket) -> Result<(), TxPacket> {
        let request = self.request(&packet.meta, packet.frame.data(), packet.frame.len());
        let Some(request) = request.filter(|_| !packet.frame.is_empty()) else {
            self.counts.tx_invalid += 1;
            self.retire(packet.frame);
            return Ok(());
        };
        if self.long.as_ref().is_some_and(|long| long.owns(&packet.frame)) {
            let Some(mbuf) = self.chain(&request, &[packet.frame.data()]) else { return Err(packet) };
            self.retire(packet.frame);
            self.staged.push(mbuf);
        } else if packet.frame.headroom() < START {
            // Outside the buffer.
            self.counts.tx_invalid += 1;
            self.retire(packet.frame);
            return Ok(());
        } else {
            let mbuf = self.describe(packet.frame, &request);
            self.staged.push(mbuf);
        }
        self.requests |= request.sum != 0;
        Ok(())
    }

    /// Hands over what is staged, as far as the device has room.
    fn push(&mut self) {
        let mut done = 0;
        while done < self.staged.len() {
            let waiting = &mut self.staged[done..];
            let (count, requests) = (waiting.len() as u16, i32::from(self.requests));
            let mut invalid = 0;
            // SAFETY: a queue of a port that runs, which this thread has alone; mbufs of ours, described.
            let sent = unsafe {
                let (port, queue) = (self.device.port, self.queue);
                ffi::ms_dpdk_tx(port, queue, waiting.as_mut_ptr(), count, requests, &raw mut invalid)
            };
            done += usize::from(sent);
            self.counts.tx += u64::from(sent);
            if invalid != 0 {
                // SAFETY: the device did not take it, so it is ours.
                unsafe { ffi::ms_dpdk_free(self.staged[done]) };
                self.counts.tx_invalid += 1;
                done += 1;
            } else if done < self.staged.len() {
                self.counts.tx_full += 1;
                break;
            }
        }
        self.staged.drain(..done);
        self.requests &= !self.staged.is_empty();
    }

    fn is_down(&self) -> bool {
        self.link == Some(false)
    }
}

impl Drop for Dpdk {
    fn drop(&mut self) {
        self.sleep.end(&self.device, self.queue);
        for mbuf in self.staged.drain(..) {
            // SAFETY: the device did not take them.
            unsafe { ffi::ms_dpdk_free(mbuf) };
        }
        if let Some(mut frames) = self.frames.take() {
            for packet in self.early.drain(..) {
                frames.retire(packet.frame);
            }
            self.device.retire(frames);
        }
    }
}

impl PacketIo for Dpdk {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take(&mut self) -> Option<Frame> {
        self.stock()
    }

    fn take_long(&mut self) -> Option<Frame> {
        let frame = match &mut self.long {
            Some(long) => long.take(),
            None => self.stock(),
        };
        frame.map(|mut frame| {
            frame.set_range(START, 0);
            frame
        })
    }

    fn retire(&mut self, frame: Frame) {
        if self.frames.as_ref().is_some_and(|frames| frames.owns(&frame)) {
            return self.frames().retire(frame);
        }
        match &mut self.long {
            Some(long) => long.retire(frame),
            None => self.frames().retire(frame),
        }
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if !self.staged.is_empty() {
            self.push();
        }
        self.sleep.arm(&self.device, self.queue, false);
        let early = self.early.len();
        batch.append(&mut self.early);
        let got = early + self.receive(batch);
        if got == 0 && self.is_down() { Err(IoError::Down) } else { Ok(got) }
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        if self.is_down() {
            return Err(IoError::Down);
        }
        let before = batch.len();
        loop {
            self.push();
            // What the device did not take was before what waits in the batch.
            if !self.staged.is_empty() {
                break;
            }
            while self.staged.len() < BATCH_MAX
                && let Some(packet) = batch.pop_front()
            {
                if let Err(packet) = self.stage(packet) {
                    batch.push_front(packet);
                    break;
                }
            }
            if self.staged.is_empty() {
                break;
            }
        }
        Ok(before - batch.len())
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        // Interrupts first: what comes between the look and the sleep ends that.
        self.sleep.arm(&self.device, self.queue, true);
        self.push();
        let mut early = std::mem::take(&mut self.early);
        if early.is_empty() {
            self.receive(&mut early);
        }
        self.early = early;
        if !self.early.is_empty() {
            return Ok(false);
        }
        self.sleep.leave(!self.staged.is_empty()).map_err(IoError::Os)?;
        fds.extend(self.sleep.poll_fds());
        Ok(true)
    }

    fn gather(&mut self) -> Option<&mut dyn TxGather> {
        if self.long.is_some() { Some(self) } else { None }
    }

    fn net(&mut self) -> Option<&mut dyn NetEvents> {
        Some(self)
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        let counts = &self.counts;
        let mut all = vec![
            ("rx_packets", counts.rx),
            ("rx_copied", counts.rx_copied),
            ("rx_dropped", counts.rx_dropped),
            ("tx_packets", counts.tx),
            ("tx_full", counts.tx_full),
            ("tx_invalid", counts.tx_invalid),
            ("no_frame", counts.no_frame),
            ("frames_lost", self.frames.as_ref().map_or(0, Frames::strays)),
            // What the device does, 1 or 0.
            ("interrupts", self.has_interrupts().into()),
            ("tx_checksum", (self.device.setup.sums != 0).into()),
            ("tx_segments", (self.device.setup.cuts != 0).into()),
        ];
        // The device counts for all its queues.
        let mut six = [0; 6];
        // SAFETY: a port that runs, and room for six counters.
        if self.queue == 0 && unsafe { ffi::ms_dpdk_stats(self.device.port, six.as_mut_ptr()) } >= 0 {
            let names = [
                "device_rx",
                "device_tx",
                "device_missed",
                "device_bad",
                "device_no_buffer",
                "device_tx_failed",
            ];
            all.extend(names.into_iter().zip(six));
        }
        all
    }
}

impl TxGather for Dpdk {
    fn gather_from(&mut self) -> usize {
        GATHER
    }

    fn tx_gather(&mut self, headers: &mut Frame, meta: &TxMeta, payload: &[IoSlice<'_>]) -> bool {
        self.push();
        if !self.staged.is_empty() || self.is_down() || payload.len() > PIECES_MAX {
            return false;
        }
        let len = headers.len() + payload.iter().map(|piece| piece.len()).sum::<usize>();
        let Some(request) = self.request(meta, headers.data(), len) else { return false };
        let mut pieces: [&[u8]; 1 + PIECES_MAX] = [&[]; 1 + PIECES_MAX];
        pieces[0] = headers.data();
        for (place, piece) in pieces[1..].iter_mut().zip(payload) {
            *place = piece;
        }
        let Some(mbuf) = self.chain(&request, &pieces[..1 + payload.len()]) else { return false };
        self.staged.push(mbuf);
        self.requests |= request.sum != 0;
        // What the device does not take now it is offered again, before all that comes after.
        self.push();
        true
    }
}

impl NetEvents for Dpdk {
    fn net_events(&mut self, events: &mut Vec<NetEvent>) {
        if self.asked == 0 {
            events.push(NetEvent::Mtu(self.caps.mtu));
        }
        let look = self.device.setup.link_news != 0 || self.asked.is_multiple_of(LINK_EVERY);
        self.asked = self.asked.wrapping_add(1).max(1);
        let link = if look { self.device.link() } else { self.link };
        if link != self.link {
            self.link = link;
            events.push(NetEvent::Link { up: link != Some(false) });
        }
    }
}
