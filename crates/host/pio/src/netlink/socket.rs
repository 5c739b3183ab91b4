//! The netlink socket: requests with answers, dumps, and the stream of changes.

use super::message::{Fact, Messages, Request};
use crate::sys::{self, check, check_len};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The kernel fills at most 32 KiB per datagram of a dump.
const BUFFER: usize = 64 << 10;
/// How often a dump that changed under way is tried again.
const DUMP_TRIES: u32 = 5;
/// Datagrams read in one go, so that a flood of changes cannot hold the caller.
const READ_BUDGET: u32 = 64;

/// A routing netlink socket; stays in the network namespace in which it was opened.
pub(super) struct Socket {
    fd: OwnedFd,
    seq: u32,
    buffer: Vec<u8>,
}

/// How far [`Socket::changes`] got.
#[derive(Default)]
pub(super) struct Progress {
    /// Nothing waits any more.
    pub(super) drained: bool,
    /// The kernel dropped changes that we were too slow to read.
    pub(super) overrun: bool,
}

impl Socket {
    /// A routing socket that hears the multicast groups in `groups` (a mask of RTMGRP_*).
    pub(super) fn open(groups: u32) -> io::Result<Socket> {
        Socket::open_on(libc::NETLINK_ROUTE, groups)
    }

    /// A socket of another protocol of netlink.
    pub(super) fn open_on(protocol: i32, groups: u32) -> io::Result<Socket> {
        let fd = sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol)?;
        // SAFETY: all zero is a valid sockaddr_nl.
        let mut addr: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        addr.nl_family = libc::AF_NETLINK as u16;
        addr.nl_groups = groups;
        // SAFETY: `addr` is a sockaddr_nl of the given length.
        check(unsafe {
            libc::bind(fd.as_raw_fd(), (&raw const addr).cast(), size_of::<libc::sockaddr_nl>() as u32)
        })?;
        // The kernel answers while it takes the request, so this only bounds the unforeseen.
        let timeout = libc::timeval { tv_sec: 2, tv_usec: 0 };
        sys::set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeout)?;
        Ok(Socket { fd, seq: 0, buffer: vec![0; BUFFER] })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    fn send(&mut self, request: Request) -> io::Result<()> {
        self.seq = self.seq.wrapping_add(1).max(1);
        let bytes = request.finish(self.seq);
        // SAFETY: `bytes` is readable for its length.
        let sent = unsafe { libc::send(self.fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        check_len(sent).map(drop)
    }

    /// The next datagram from the kernel.
    fn receive(&mut self, flags: i32) -> io::Result<&[u8]> {
        loop {
            // SAFETY: all zero is a valid sockaddr_nl.
            let mut from: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
            let mut from_len = size_of::<libc::sockaddr_nl>() as u32;
            // SAFETY: buffer and address are writable for the lengths given.
            let got = unsafe {
                libc::recvfrom(
                    self.fd(),
                    self.buffer.as_mut_ptr().cast(),
                    self.buffer.len(),
                    flags,
                    (&raw mut from).cast(),
                    &raw mut from_len,
                )
            };
            match check_len(got) {
                // Only the kernel has port 0; nothing else has anything to say here.
                Ok(_) if from.nl_pid != 0 => {}
                Ok(len) => return Ok(&self.buffer[..len.min(BUFFER)]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Ask for something to be done, and hear whether it was.
    pub(super) fn request(&mut self, request: Request) -> io::Result<()> {
        self.send(request)?;
        loop {
            let seq = self.seq;
            let answer =
                Messages(self.receive(0)?).filter(|m| m.seq == seq).find_map(|m| match Fact::of(&m) {
                    Some(Fact::Answer(code)) => Some(code),
                    _ => None,
                });
            match answer {
                Some(0) => return Ok(()),
                Some(code) => return Err(io::Error::from_raw_os_error(code)),
                None => {}
            }
        }
    }

    /// Returns the body of the answer to a request: the first message of `kind`.
    pub(super) fn ask(&mut self, kind: u16, request: Request) -> io::Result<Vec<u8>> {
        self.send(request)?;
        loop {
            let seq = self.seq;
            for message in Messages(self.receive(0)?).filter(|m| m.seq == seq) {
                match Fact::of(&message) {
                    Some(Fact::Answer(code)) if code != 0 => return Err(io::Error::from_raw_os_error(code)),
                    _ if message.kind == kind => return Ok(message.body.to_vec()),
                    _ => {}
                }
            }
        }
    }

    /// All that the kernel has of one kind (an RTM_GET*), as facts.
    pub(super) fn dump(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Fact>> {
        for _ in 0..DUMP_TRIES {
            if let Some(facts) = self.try_dump(kind, body)? {
                return Ok(facts);
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    /// `None` if the tables changed under way and the dump may lack something.
    fn try_dump(&mut self, kind: u16, body: &[u8]) -> io::Result<Option<Vec<Fact>>> {
        self.send(Request::new(kind, libc::NLM_F_DUMP, body))?;
        let (mut facts, mut torn) = (Vec::new(), false);
        loop {
            let seq = self.seq;
            for message in Messages(self.receive(0)?).filter(|m| m.seq == seq) {
                torn |= message.flags & libc::NLM_F_DUMP_INTR as u16 != 0;
                match Fact::of(&message) {
                    Some(Fact::Done) => return Ok((!torn).then_some(facts)),
                    Some(Fact::Answer(code)) => return Err(io::Error::from_raw_os_error(code)),
                    Some(fact) => facts.push(fact),
                    None => {}
                }
            }
        }
    }

    /// Hand the changes that wait to `each`, within a budget.
    pub(super) fn changes(&mut self, mut each: impl FnMut(Fact)) -> io::Result<Progress> {
        let mut progress = Progress::default();
        for _ in 0..READ_BUDGET {
            match self.receive(libc::MSG_DONTWAIT) {
                Ok(datagram) => Messages(datagram).filter_map(|m| Fact::of(&m)).for_each(&mut each),
                // Told once, until the queue was empty again.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => progress.overrun = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    progress.drained = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(progress)
    }

    /// The first datagram of a dump as it came.
    #[cfg(test)]
    pub(super) fn raw_dump(&mut self, request: Request) -> io::Result<Vec<u8>> {
        self.send(request)?;
        self.receive(0).map(<[u8]>::to_vec)
    }
}
