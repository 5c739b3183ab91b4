//! Many messages in one system call (recvmmsg, sendmmsg), each straight from or into a frame.

use crate::port::{BATCH_MAX, TxBatch};
use crate::sys::check;
use crate::vnet;
use std::io;
use std::os::fd::RawFd;

/// Bytes of the virtio-net header before each packet of a packet socket: the oldest form, which every kernel has.
pub(crate) const HEADER: usize = wire::virtio::LEN;

/// The kernel's view of a batch of messages, made anew for each call.
pub(crate) struct MessageBatch {
    headers: Box<[libc::mmsghdr; BATCH_MAX]>,
    places: Box<[libc::iovec; BATCH_MAX]>,
    count: usize,
}

// SAFETY: the pointers inside are used only within the calls below, after `push` set them in the same borrow.
unsafe impl Send for MessageBatch {}

/// Result of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Got {
    pub(crate) len: usize,
    pub(crate) truncated: bool,
}

impl MessageBatch {
    pub(crate) fn new() -> MessageBatch {
        // SAFETY: all zero is a valid mmsghdr and a valid iovec.
        let (headers, places) = unsafe { (Box::new(std::mem::zeroed()), Box::new(std::mem::zeroed())) };
        MessageBatch { headers, places, count: 0 }
    }

    /// Forget the messages pushed so far.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// Add the place of a message. It must stay where it is, untouched by others, until the call that
    /// follows.
    pub(crate) fn push(&mut self, place: &mut [u8]) {
        self.places[self.count] = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
        let header = &mut self.headers[self.count].msg_hdr;
        header.msg_iov = &raw mut self.places[self.count];
        header.msg_iovlen = 1;
        self.count += 1;
    }

    /// Puts headers before packets from the front of a batch, up to the first that may not be sent, and forgets other
    /// messages; how many. `plain` and `longest` are those of [`vnet::request`].
    pub(crate) fn stage(&mut self, batch: &mut TxBatch, plain: usize, longest: usize) -> usize {
        self.clear();
        for packet in batch.iter_mut().take(BATCH_MAX) {
            let frame = &mut packet.frame;
            let header = vnet::request(&packet.meta, frame.data(), frame.len(), plain, longest);
            let (Some(header), Some(start)) = (header, frame.headroom().checked_sub(HEADER)) else { break };
            let end = frame.headroom() + frame.len();
            let bytes = &mut frame.slot_mut()[start..end];
            header.emit(bytes, HEADER);
            self.push(bytes);
        }
        self.count
    }

    /// Fill the places, as far as messages wait; how many.
    ///
    /// # Safety
    /// Every place pushed since `clear` is still valid and no other's.
    pub(crate) unsafe fn receive(&mut self, fd: RawFd) -> io::Result<usize> {
        let (headers, count) = (self.headers.as_mut_ptr(), self.count as u32);
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: `count` headers, each with one place that the caller vouches for.
        let rc = unsafe { libc::recvmmsg(fd, headers, count, flags as _, std::ptr::null_mut()) };
        check(rc).map(|n| n as usize)
    }

    /// Send what stands in the places, in order; how many went.
    ///
    /// # Safety
    /// As for [`MessageBatch::receive`].
    pub(crate) unsafe fn send(&mut self, fd: RawFd) -> io::Result<usize> {
        let (headers, count) = (self.headers.as_mut_ptr(), self.count as u32);
        // SAFETY: `count` headers, each with one place that the caller vouches for.
        let rc = unsafe { libc::sendmmsg(fd, headers, count, libc::MSG_DONTWAIT as _) };
        check(rc).map(|n| n as usize)
    }

    /// Returns the result of received message `index`.
    pub(crate) fn got(&self, index: usize) -> Got {
        let header = &self.headers[index];
        Got { len: header.msg_len as usize, truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 }
    }
}
