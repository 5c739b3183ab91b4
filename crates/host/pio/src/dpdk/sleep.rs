//! The sleep of a port whose device is looked at, not heard.
//!
//! A device that has interrupts for received packets wakes the sleeper; they are asked for before each sleep, and the
//! device is looked at once more behind that. A driver may promise interrupts that never come (`net_e1000_em` on an
//! 82574L, DPDK 22.11): after [`MISSES`] sleeps with packets and without one they are not waited for any more.
//!
//! Any other device is looked at after a nap, which grows from [`NAP_MIN`] to [`NAP_MAX`] while nothing comes: that is
//! the latency of the first packet after a pause, and a core that waits uses about a hundredth of its CPU. A timer's
//! descriptor ends the nap.

use super::device::Device;
use super::eal::{Ear, Held};
use super::ffi;
use crate::sys;
use base::Duration;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The shortest and the longest sleep without a look at the device.
const NAP_MIN: Duration = Duration::from_micros(50);
const NAP_MAX: Duration = Duration::from_millis(1);
/// The longest where interrupts end it.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// So many sleeps in a row with packets and without an interrupt tell that none will come. One alone may be a packet
/// whose interrupt was still under way when something else ended the sleep.
const MISSES: u8 = 8;

/// How one queue is slept on.
pub(super) struct Sleep {
    /// Where the device tells of packets, if it does.
    interrupts: Option<OwnedFd>,
    /// They are asked for queue by queue; else the device's own descriptor is heard whenever it has some.
    armed_by_queue: bool,
    armed: bool,
    /// The owner slept on interrupts, and has received nothing since.
    slept: bool,
    /// Sleeps since the last interrupt after which there were packets.
    misses: u8,
    timer: OwnedFd,
    nap: Duration,
}

impl Sleep {
    pub(super) fn new(device: &Device, queue: u16) -> io::Result<Sleep> {
        let timer = sys::timer()?;
        let mut sleep = Sleep {
            interrupts: None,
            armed_by_queue: false,
            armed: false,
            slept: false,
            misses: 0,
            timer,
            nap: NAP_MIN,
        };
        if device.setup.interrupts != 0 {
            sleep.join(device, queue)?;
        }
        Ok(sleep)
    }

    /// Listens to the queue's interrupts, if there are any.
    fn join(&mut self, device: &Device, queue: u16) -> io::Result<()> {
        // Devices that have none complain in words.
        let (_held, _ear) = (Held::now(), Ear::listen());
        // SAFETY: takes a number and returns a new descriptor.
        let epoll = unsafe { sys::owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }?;
        // SAFETY: a port that runs and an epoll descriptor of ours.
        unsafe {
            if ffi::ms_dpdk_intr_join(device.port, queue, epoll.as_raw_fd()) < 0 {
                return Ok(());
            }
            self.armed_by_queue = ffi::ms_dpdk_intr(device.port, queue, 1) == 0;
            if self.armed_by_queue {
                ffi::ms_dpdk_intr(device.port, queue, 0);
            } else if !device.is_tap() {
                ffi::ms_dpdk_intr_leave(device.port, queue, epoll.as_raw_fd());
                return Ok(());
            }
        }
        self.interrupts = Some(epoll);
        Ok(())
    }

    pub(super) fn has_interrupts(&self) -> bool {
        self.interrupts.is_some() && self.misses < MISSES
    }

    /// Packets came: the next naps are short, and their interrupt should have been heard.
    #[inline]
    pub(super) fn came(&mut self, device: &Device, queue: u16) {
        self.nap = NAP_MIN;
        if std::mem::take(&mut self.slept) {
            self.misses += 1;
            self.heard();
            if self.misses == MISSES {
                self.arm(device, queue, false);
            }
        }
    }

    /// Interrupts are wanted, or not any more.
    pub(super) fn arm(&mut self, device: &Device, queue: u16, on: bool) {
        let on = on && self.has_interrupts();
        if self.armed_by_queue && self.armed != on {
            // SAFETY: a port that runs. What fails here is made good by the look after at most `LOOK_AGAIN`.
            unsafe { ffi::ms_dpdk_intr(device.port, queue, on.into()) };
            self.armed = on;
        }
    }

    /// The owner sleeps now, on [`Sleep::poll_fds`]; `soon`: the device owes us something besides packets.
    pub(super) fn leave(&mut self, soon: bool) -> io::Result<()> {
        self.heard();
        // What is not armed was read with the packets.
        self.slept = self.armed_by_queue && self.has_interrupts();
        let time = self.longest(soon);
        sys::set_timer(&self.timer, Some(time))
    }

    fn longest(&mut self, soon: bool) -> Duration {
        if self.has_interrupts() && !soon {
            return LOOK_AGAIN;
        }
        let nap = self.nap;
        self.nap = (nap * 2).min(NAP_MAX);
        nap
    }

    /// Notes that the device's interrupt was seen.
    fn heard(&mut self) {
        if let Some(epoll) = &self.interrupts {
            // SAFETY: an epoll descriptor of ours, to which only the device's descriptors were added.
            if unsafe { ffi::ms_dpdk_intr_heard(epoll.as_raw_fd()) } > 0 {
                self.misses = 0;
            }
        }
    }

    pub(super) fn poll_fds(&self) -> Vec<RawFd> {
        self.interrupts.iter().map(AsRawFd::as_raw_fd).chain([self.timer.as_raw_fd()]).collect()
    }

    /// The queue is gone.
    pub(super) fn end(&mut self, device: &Device, queue: u16) {
        self.arm(device, queue, false);
        if let Some(epoll) = self.interrupts.take() {
            // SAFETY: as when it was joined.
            unsafe { ffi::ms_dpdk_intr_leave(device.port, queue, epoll.as_raw_fd()) };
        }
    }
}

#[cfg(test)]
mod tests;
