//! Super-segments, which AF_XDP does not know: they leave through a packet socket beside the rings.
//!
//! In copy mode each packet of the transmit ring is a buffer of the kernel's, a walk to the device and (over
//! veth) a softirq of its own. A super-segment makes that walk once; the device cuts it, or the kernel does on
//! the last step before the device. So a port whose frames the kernel copies anyway sends them this way, and
//! what stands behind one in a batch too, so that the order stays.
//!
//! Differences worth knowing: these packets pass the interface's queueing discipline, and tcpdump sees them.

use super::lane;
use crate::messages::{HEADER, MessageBatch};
use crate::port::{IoError, TxBatch};
use crate::sys;
use libc::SOL_PACKET;
use ring::{Frame, FramePool};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Link header, with room for a VLAN tag.
const LINK: usize = 18;
/// A super-segment, with its headers and what stands before it.
pub(super) const SLOT: usize = 1 << 16;
/// As many as a core builds before it kicks, unless most of them are small: the same few all the time, which
/// stay in the cache.
const SLOTS: u32 = 32;
/// Bytes that may be under way to the device.
const SOCKET_BUFFER: i32 = 2 << 20;
/// Largest IP packet a slot can send.
pub(super) const LARGEST: usize = SLOT - lane::TX_METADATA - LINK;

const _: () = assert!(HEADER <= lane::TX_METADATA, "the header has its place in any frame of the port");
const _: () = assert!(LARGEST <= 65_535);

/// The way out for super-segments.
pub(super) struct Supers {
    socket: OwnedFd,
    pool: FramePool,
    messages: MessageBatch,
    /// Super-segments and others that the kernel took.
    pub(super) sent: u64,
    /// Packets that the kernel took and could not send.
    pub(super) lost: u64,
    /// Packets that no kernel would send.
    pub(super) refused: u64,
}

impl Supers {
    /// A packet socket that sends on an interface and receives nothing.
    pub(super) fn open(ifindex: u32) -> io::Result<Supers> {
        let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0)?;
        let fd = socket.as_raw_fd();
        sys::set_option(fd, SOL_PACKET, libc::PACKET_VNET_HDR, &1_i32)?;
        sys::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SOCKET_BUFFER)
            .or_else(|_| sys::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &SOCKET_BUFFER))?;
        sys::bind_packet(fd, ifindex, 0)?;
        let pool = FramePool::new(SLOTS, SLOT)?;
        Ok(Supers { socket, pool, messages: MessageBatch::new(), sent: 0, lost: 0, refused: 0 })
    }

    /// Sends on interface `ifindex` from now on.
    pub(super) fn move_to(&self, ifindex: u32) -> io::Result<()> {
        // That its interface went away is known.
        let _ = sys::take_error(self.socket.as_raw_fd());
        sys::bind_packet(self.socket.as_raw_fd(), ifindex, 0)
    }

    /// A frame that holds a super-segment.
    pub(super) fn take(&mut self) -> Option<Frame> {
        let mut frame = self.pool.take()?;
        frame.set_range(lane::TX_METADATA, 0);
        Some(frame)
    }

    /// Frames of the two pools of a port differ in size.
    pub(super) fn retire(&mut self, frame: Frame, others: &mut FramePool) {
        if frame.capacity() == SLOT { self.pool.retire(frame) } else { others.retire(frame) }
    }

    /// Sends from the front of the batch, as far as the kernel has room; how many left it. `mtu` is the
    /// interface's, `others` the port's other frames.
    pub(super) fn send(
        &mut self,
        batch: &mut TxBatch,
        mtu: usize,
        others: &mut FramePool,
    ) -> Result<usize, IoError> {
        let before = batch.len();
        while !batch.is_empty() {
            if self.messages.stage(batch, mtu + LINK, LARGEST + LINK) == 0 {
                self.refused += 1;
                self.drop_front(batch, 1, others);
                continue;
            }
            // SAFETY: the places lie in frames of the batch, which nothing touches before this returns.
            match unsafe { self.messages.send(self.socket.as_raw_fd()) } {
                Ok(sent) => {
                    self.sent += sent as u64;
                    self.drop_front(batch, sent, others);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN) => break,
                    Some(libc::ENETDOWN | libc::ENETUNREACH | libc::ENXIO | libc::ENODEV) => {
                        return Err(lane::fault(error));
                    }
                    // The device's own queue is full, or the packet is not to its taste: it is lost, as on
                    // any wire.
                    _ => {
                        self.lost += 1;
                        self.drop_front(batch, 1, others);
                    }
                },
            }
        }
        Ok(before - batch.len())
    }

    fn drop_front(&mut self, batch: &mut TxBatch, count: usize, others: &mut FramePool) {
        for packet in batch.drain(..count) {
            self.retire(packet.frame, others);
        }
    }
}
