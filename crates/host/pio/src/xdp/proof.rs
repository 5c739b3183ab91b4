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
mod tests {
    //! Goal: whatever kernel and driver answer, a checksum is left to them only after a clear yes.
    use super::*;

    fn failed(code: i32) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(code))
    }

    #[test]
    fn only_a_refusal_of_the_request_is_a_yes() {
        assert!(is_proof(&failed(libc::EINVAL)), "the kernel has read the request");
        // virtio_net, Linux 6.12: the packet is sent, the request was not looked at.
        assert!(!is_proof(&Ok(())));
        for code in [libc::EAGAIN, libc::EBUSY, libc::ENETDOWN, libc::ENOBUFS, libc::EPERM, libc::EOPNOTSUPP]
        {
            assert!(!is_proof(&failed(code)), "{code} says nothing about requests");
        }
        assert!(!is_proof(&Err(io::ErrorKind::Unsupported.into())));
    }

    #[test]
    fn a_driver_must_be_named_by_the_kernel() {
        let says = |xdp, xsk| is_promised(Some(&XdpFeatures { xdp, xsk, ..XdpFeatures::default() }));
        assert!(!is_promised(None), "a kernel that tells nothing");
        // NETDEV_XDP_ACT_XSK_ZEROCOPY is 8, NETDEV_XSK_FLAGS_TX_CHECKSUM is 2.
        assert!(says(0x0b, 3));
        assert!(!says(0x0b, 1), "a time stamp is no checksum");
        assert!(!says(0x03, 2), "no zero-copy mode");
        assert!(!says(0x0b, 0));
    }

    /// igb has a zero-copy mode since Linux 6.14 and obeys no requests: packets without room for one were dropped.
    #[test]
    fn room_for_a_request_is_left_wherever_the_kernel_demands_it() {
        let copy = Requests { copy: true, zero_copy: false };
        let grant = lane::Grant::new(true, (true, false), copy);
        assert_eq!((grant.tx_metadata, grant.headroom), (false, TX_METADATA));
        let grant = lane::Grant::new(true, (false, false), copy);
        assert_eq!((grant.tx_metadata, grant.headroom), (true, TX_METADATA));
        let grant = lane::Grant::new(false, (true, false), Requests { copy: true, zero_copy: true });
        assert_eq!((grant.tx_metadata, grant.headroom), (false, 0));
    }

    #[test]
    fn modes_do_not_speak_for_each_other() {
        let copy = Requests { copy: true, zero_copy: false };
        assert!(copy.obeyed(false) && !copy.obeyed(true));
        let driver = Requests { copy: false, zero_copy: true };
        assert!(!driver.obeyed(false) && driver.obeyed(true));
    }
}
