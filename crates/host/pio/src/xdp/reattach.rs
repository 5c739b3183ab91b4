//! The return of an interface that was deleted (its card pulled out, its driver unbound, moved to another network
//! namespace): to the kernel another interface, to a server the old one, if it has the name.
//!
//! ```text
//!   deleted ........ sockets and rings end, their frames go back to the pool; rx and tx say that the link is down
//!   of that name ... the first port that hears of it puts a program there and takes the claims along (`steering`);
//!                    each makes its sockets on the pool it has; the monitor tells the difference: MTU, addresses
//! ```
//! Capabilities that the stack was told stay: a checksum that the new interface does not fill in is filled in here.

use super::config::{XdpMode, holds_whole, hooks, may_lend, not_for_bonds, too_few_queues};
use super::device::Device;
use super::lane::{Lane, LaneConfig, LaneCounts};
use super::port::XdpPort;
use super::queues::{BUFFERS_MIN, name_of};
use crate::open_error::OpenError;
use crate::port::IoError;
use crate::reattach::{GONE, Refusal, unusable};
use crate::sys;

impl Refusal {
    /// Returns the refusal that an error of opening `device` means.
    pub(super) fn of(error: &OpenError, device: &Device) -> Refusal {
        Refusal::unless_gone(error.to_string(), device)
    }

    /// Returns a final refusal for the reason `why`, unless `device` is gone, which is then the reason.
    pub(super) fn unless_gone(why: String, device: &Device) -> Refusal {
        if device.is_gone() { Refusal::Absent } else { Refusal::Final(why) }
    }
}

impl XdpPort {
    /// Returns the counters of all lanes that are and were, with their names.
    pub(super) fn lane_counts(&self) -> [(&'static str, u64); 7] {
        const NAMES: [&str; 7] = [
            "rx_bad_descriptors",
            "rx_too_long",
            "tx_lost",
            "rx_dropped",
            "rx_ring_full",
            "rx_no_buffer",
            "tx_invalid",
        ];
        let now = self.lanes.iter().map(Lane::counts).fold(self.past, sum);
        std::array::from_fn(|at| (NAMES[at], now[at]))
    }

    /// Returns the error of a port whose interface is gone.
    pub(super) fn absence(&self) -> IoError {
        if self.ended { IoError::Gone } else { IoError::Down }
    }

    /// Notes what an error of a socket says of the interface, and returns the error for the port's owner.
    #[cold]
    pub(super) fn failure(&mut self, error: IoError) -> IoError {
        match error {
            IoError::Gone => {
                self.lose(GONE);
                self.absence()
            }
            IoError::Down => {
                self.down = true;
                error
            }
            IoError::Os(_) => error,
        }
    }

    /// Takes back every frame that the kernel has: its sockets are closed, for the reason `why`.
    #[cold]
    pub(super) fn lose(&mut self, why: &str) {
        if self.gone.is_some() {
            return;
        }
        self.gone = Some(sys::monotonic());
        (self.down, self.unsent) = (true, false);
        self.steering.lose(self.epoch);
        self.drop_lanes();
        self.say(why);
    }

    fn drop_lanes(&mut self) {
        self.past = self.lanes.iter().map(Lane::counts).fold(self.past, sum);
        self.lanes.clear();
        for index in 0..self.pool.slots() {
            if let Some(frame) = self.pool.reclaim(index, 0, 0) {
                self.pool.retire(frame);
            }
        }
        self.watch();
    }

    /// Opens the sockets again: a ring has a count that cannot be, because another process writes to its memory.
    /// Packets in the rings are lost, as by a network.
    #[cold]
    pub(super) fn open_again(&mut self) -> IoError {
        self.rings_broken += 1;
        self.say("a ring shared with the kernel has a count that cannot be: its sockets are opened again");
        let queues: Vec<u16> = self.lanes.iter().map(|lane| lane.queue).collect();
        self.drop_lanes();
        self.unsent = false;
        let device = name_of(self.lane.ifindex)
            .map_err(|_| Refusal::Absent)
            .and_then(|name| Device::find(&name, self.config.whole).map_err(|_| Refusal::Absent));
        let lanes = device.and_then(|device| {
            let lanes = self.steering.open_lanes(&device, &queues, self.lane, &self.pool);
            lanes.map_err(|error| Refusal::of(&error, &device))
        });
        match lanes {
            Ok(lanes) => {
                self.lanes = lanes;
                self.watch();
                self.refill();
                // The owner polls other descriptors from now on.
                IoError::Down
            }
            Err(Refusal::Absent) => {
                self.lose(GONE);
                self.absence()
            }
            Err(Refusal::Final(why)) => {
                (self.ended, self.gone) = (true, Some(sys::monotonic()));
                self.steering.end(&why);
                self.say(&unusable(&why));
                self.absence()
            }
        }
    }

    fn say(&self, what: &str) {
        if self.caps.queue == 0 {
            eprintln!("millstream: {}: {what}", self.caps.name);
        }
    }

    /// Leaves the link once its interface was deleted, for the reason said; `None` to go on when it is back.
    pub(crate) fn leave_when_lost(&mut self, why: Option<String>) {
        self.leaves = why;
    }

    /// The interface was deleted: goes on with one of its name, once there is one. Returns true if there was.
    #[cold]
    pub(super) fn seek(&mut self) -> bool {
        if self.ended {
            return false;
        }
        let Some(ifindex) = self.monitor.home() else { return false };
        match self.go_on(ifindex) {
            Ok(()) => {
                self.monitor.follow(ifindex);
                self.gone = None;
                self.returns += 1;
                let how = self.caps.fallback.as_ref().map_or(String::new(), |why| format!(" ({why})"));
                self.say(&format!("the interface is back; connections go on{how}"));
                true
            }
            Err(Refusal::Absent) => false,
            Err(Refusal::Final(why)) => {
                self.ended = true;
                self.steering.end(&why);
                self.say(&unusable(&why));
                false
            }
        }
    }

    /// Takes the ports and receives on interface `ifindex`.
    fn go_on(&mut self, ifindex: u32) -> Result<(), Refusal> {
        if let Some(why) = &self.leaves {
            return Err(Refusal::Final(why.clone()));
        }
        let name = name_of(ifindex).map_err(|_| Refusal::Absent)?;
        let device = match Device::find(&name, self.config.whole) {
            Ok(device) if device.index == ifindex => device,
            Ok(_) | Err(OpenError::NoInterface { .. }) => return Err(Refusal::Absent),
            Err(error) => return Err(Refusal::Final(error.to_string())),
        };
        let config = self.config.clone();
        if device.queues < config.ports {
            return Err(Refusal::of(&too_few_queues(&device, config.ports), &device));
        }
        if device.is_bond() && config.mode == XdpMode::Native {
            return Err(Refusal::Final("it is a bond now, which has no mode=native".into()));
        }
        let epoch = self.steering.go_on(&device, hooks(&config, &device), &config, self.epoch)?;
        let queues: Vec<u16> = (self.caps.queue..device.queues).step_by(config.ports.into()).collect();
        // The memory is what the port was opened with.
        let buffers = self.pool.slots().saturating_sub(2 * self.keep) / queues.len() as u32;
        if buffers < BUFFERS_MIN {
            let why =
                format!("it has {} receive queues, for which packet buffers do not suffice", device.queues);
            return Err(Refusal::Final(why));
        }
        let native = self.steering.is_native();
        let holds_whole = holds_whole(&device, self.pool.slot_size());
        self.lane = LaneConfig {
            ifindex,
            queue: self.caps.queue,
            rx: 1 << buffers.ilog2().min(config.rx_ring.ilog2()),
            tx: config.tx_ring,
            frags: self.steering.has_frags(),
            zero_copy: config.zero_copy && native && may_lend(&device) && holds_whole,
            requests: self.steering.requests(),
        };
        if let Some(supers) = &self.supers {
            supers.move_to(ifindex).map_err(|error| Refusal::unless_gone(error.to_string(), &device))?;
        }
        let lanes = self.steering.open_lanes(&device, &queues, self.lane, &self.pool);
        self.lanes = lanes.map_err(|error| Refusal::of(&error, &device))?;
        (self.epoch, self.queues, self.turn) = (epoch, device.queues, 0);
        self.caps.ifindex = Some(ifindex);
        self.caps.fallback = self.steering.refusal().or_else(|| not_for_bonds(&device, &config));
        self.watch();
        self.refill();
        Ok(())
    }
}

fn sum(mut left: LaneCounts, right: LaneCounts) -> LaneCounts {
    left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
    left
}
