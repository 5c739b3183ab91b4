//! Receive queues that the interface gets while a port is open on it (`ethtool -L`). What the card brings there is lost
//! until they have sockets (`bpf::program`), so they get them as soon as the kernel tells of the interface.
//!
//! Fewer queues than have sockets the kernel refuses.

use super::device::Ethtool;
use super::lane::{Lane, LaneConfig};
use super::port::XdpPort;
use crate::sys::{self, check};
use std::ffi::CStr;
use std::io;
use std::os::fd::AsRawFd;

/// Fewest buffers that a queue receives with.
pub(super) const BUFFERS_MIN: u32 = 64;

/// The receive queues of an interface, whatever its name is now.
fn queues_of(ifindex: u32) -> io::Result<u16> {
    Ok(Ethtool::new(&name_of(ifindex)?)?.queues())
}

/// The name that an interface has now.
pub(super) fn name_of(ifindex: u32) -> io::Result<String> {
    let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    // SAFETY: all zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_ifru.ifru_ifindex = ifindex as i32;
    // SAFETY: the kernel reads the index and writes the name, both inside the ifreq.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFNAME as _, &raw mut request) })?;
    // SAFETY: the kernel ended the name with a zero.
    let name = unsafe { CStr::from_ptr(request.ifr_name.as_ptr()) };
    Ok(name.to_string_lossy().into_owned())
}

impl XdpPort {
    /// Gives sockets to the new queues that are this port's: queues are dealt to ports by remainder.
    pub(super) fn follow_queues(&mut self) {
        // One that is gone has none; other calls say that it is.
        let Ok(now) = queues_of(self.lane.ifindex) else { return };
        let ours = |queue: &u16| queue % self.caps.queues == self.caps.queue;
        let new: Vec<u16> = (self.queues..now).filter(ours).collect();
        self.queues = self.queues.max(now);
        if new.is_empty() {
            return;
        }
        // The memory is what the first queues left.
        let spare = self.pool.available().saturating_sub(self.keep) / new.len() as u32;
        for queue in new {
            let served = if spare < BUFFERS_MIN {
                Err(io::Error::other("no packet buffers are left"))
            } else {
                self.serve(queue, 1 << spare.ilog2().min(self.lane.rx.ilog2()))
            };
            if let Err(error) = served {
                eprintln!(
                    "millstream: {}: queue {queue} is new and gets no socket ({error}); connections whose packets the \
                     card brings there hang. Give the card its queues before the program starts",
                    self.caps.name
                );
            }
        }
        self.refill();
    }

    fn serve(&mut self, queue: u16, rx: u32) -> io::Result<()> {
        let lane = Lane::share(&LaneConfig { queue, rx, ..self.lane }, &self.lanes[0])?;
        self.steering.serve(queue, lane.fd())?;
        self.watched.push(sys::interest(lane.fd(), libc::POLLIN));
        self.lanes.push(lane);
        Ok(())
    }
}
