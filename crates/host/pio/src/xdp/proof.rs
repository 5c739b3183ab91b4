//! Checksum requests: whether the kernel, or the driver, obeys them. Nothing is assumed.
//!
//! A request is metadata before a packet (`struct xsk_tx_metadata`, Linux 6.8). A kernel that takes the UMEM's
//! metadata still may not look at it:
//! * In zero-copy mode the driver reads it. The kernel says which drivers do (`xsk-features`, family `netdev`).
//! * In copy mode the kernel reads it, but not on every way that it builds a packet. For drivers that take packets
//!   without a linear part (`IFF_TX_SKB_NO_LINEAR`: virtio_net) `xsk_build_skb_zerocopy` (net/xdp/xsk.c) builds it,
//!   which in Linux 6.12 ignores metadata and in 7.3 reads them. No interface tells of that, so it is tried: a
//!   request that cannot be obeyed is refused by a kernel that reads it.
//!
//! Without a clear yes the stack fills in checksums itself.

use super::device::Device;
use super::lane::{self, LaneConfig, TX_METADATA};
use super::rings::Desc;
use crate::netlink::XdpFeatures;
use crate::sys;
use ring::{Frame, FramePool};
use std::io;
use std::os::fd::AsRawFd;

/// Where checksum requests are obeyed on an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Requests {
    /// Where the kernel copies.
    pub(super) copy: bool,
    /// Where the driver uses our frames.
    pub(super) zero_copy: bool,
}

impl Requests {
    /// Asks the kernel, and tries on the first queue what it does not tell. The queue must be free.
    pub(super) fn find(device: &Device) -> Requests {
        let answer = trial(device);
        Requests { copy: is_proof(&answer), zero_copy: is_promised(device.features.as_ref()) }
    }

    /// Returns whether requests are obeyed on a socket that was bound in one of the two modes.
    pub(super) fn obeyed(self, zero_copy: bool) -> bool {
        if zero_copy { self.zero_copy } else { self.copy }
    }
}

/// Returns whether the kernel says that the driver obeys requests in zero-copy mode.
fn is_promised(features: Option<&XdpFeatures>) -> bool {
    features.is_some_and(|features| features.zero_copy() && features.tx_checksum())
}

/// Returns whether the kernel's answer to a request that cannot be obeyed shows that the kernel reads requests. Only
/// the refusal of the request does: EINVAL. A program that took the packet has not looked, and other errors say
/// nothing.
fn is_proof(answer: &io::Result<()>) -> bool {
    answer.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
}

/// Frames of the trial's pool: it sends one.
const FRAMES: u32 = 64;
/// The smallest Ethernet frame, without its check sequence.
const LEN: usize = 60;
/// "Local experimental Ethertype 1" (IEEE 802): no host does anything with it.
const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];

/// Sends a frame in copy mode with a request for a checksum beyond its end. A kernel that reads the request refuses
/// it, and sends nothing. Otherwise a frame leaves that is addressed to its own sender, which no switch passes on.
fn trial(device: &Device) -> io::Result<()> {
    let config = LaneConfig {
        ifindex: device.index,
        queue: 0,
        rx: FRAMES,
        tx: FRAMES,
        frags: false,
        zero_copy: false,
        requests: Requests { copy: true, zero_copy: false },
    };
    let mut pool = FramePool::new(FRAMES, 2048)?;
    let frame = pool.take().ok_or(io::ErrorKind::OutOfMemory)?;
    let socket = sys::socket(libc::AF_XDP, libc::SOCK_RAW, 0)?;
    if !lane::register(&socket, &pool, true)? {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let (_rx, _fill, mut tx, _completion) = lane::rings(&socket, &config)?;
    lane::bind_best(&socket, &config)?;
    let (frame, len) = unobeyable(frame, device.mac);
    tx.push(Desc { addr: frame.offset(), len, options: libc::XDP_TX_METADATA });
    pool.lend(frame);
    tx.publish();
    // SAFETY: nothing is read, and there is no address.
    let rc = unsafe {
        libc::sendto(socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
    };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A frame from `mac` to itself, with a request whose checksum would lie beyond the frame's end.
fn unobeyable(mut frame: Frame, mac: [u8; 6]) -> (Frame, u32) {
    frame.set_range(TX_METADATA, LEN);
    let bytes = frame.data_mut();
    bytes.fill(0);
    bytes[..6].copy_from_slice(&mac);
    bytes[6..12].copy_from_slice(&mac);
    bytes[12..14].copy_from_slice(&EXPERIMENTAL);
    lane::write_request(&mut frame, LEN as u16, LEN as u16);
    (frame, LEN as u32)
}

#[cfg(test)]
mod tests;
