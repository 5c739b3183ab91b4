//! The return of an interface that was deleted (its card pulled out, its driver unbound, moved to another network
//! namespace): to the kernel another interface, to a server the old one, if it has the name.
//!
//! ```text
//!   deleted ........ the kernel takes the socket off the interface; rx and tx say that the link is down
//!   of that name ... ports are claimed there first, so that the kernel answers no peer of ours; then the socket
//!                    goes there, and the monitor tells the difference: MTU, addresses, routes, neighbours
//! ```
//! The socket of a single queue is bound anew and keeps everything else, so no right is needed for it. The kernel binds
//! no socket of a fanout group anew: the first queue that hears of the return makes the sockets of all, in their order,
//! which is that of the rule that chooses among them.

#[cfg(test)]
mod tests;

use super::claims::SilencedPorts;
use super::{Packet, bind, join_group, prepare};
use crate::port::NetEvent;
use crate::reattach::{GONE, Refusal, unusable};
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// Sockets on an interface that is back, until their queues take them.
#[derive(Default)]
pub(super) struct Fresh(Mutex<Made>);

#[derive(Default)]
struct Made {
    ifindex: u32,
    queues: Vec<Option<Arc<OwnedFd>>>,
}

impl Fresh {
    /// Takes the socket of `queue` on interface `ifindex`; makes those of all queues if there is none.
    fn take(
        &self,
        queue: u16,
        queues: u16,
        ifindex: u32,
        claims: &SilencedPorts,
    ) -> io::Result<Arc<OwnedFd>> {
        // A panic elsewhere leaves whole sockets behind.
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if made.ifindex == ifindex
            && let Some(own) = made.queues.get_mut(usize::from(queue)).and_then(Option::take)
        {
            return Ok(own);
        }
        let mut group = None;
        claims.forget_sockets();
        let all = (0..queues).map(|_| {
            let socket = prepare(ifindex, claims, false)?;
            join_group(socket.as_raw_fd(), &mut group, claims).map_err(|error| {
                match error.raw_os_error() {
                    // Linux before 6.13 lets no socket join on an interface that is down, as one that is back is at
                    // first.
                    Some(libc::EINVAL) => io::Error::from_raw_os_error(libc::ENETDOWN),
                    _ => error,
                }
            })?;
            Ok(Some(socket))
        });
        *made = Made { ifindex, queues: all.collect::<io::Result<_>>()? };
        let own = made.queues.get_mut(usize::from(queue)).and_then(Option::take);
        own.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO | libc::ENETDOWN) => Refusal::Absent,
            Some(libc::EPERM | libc::EACCES) => {
                Refusal::Final(format!("a packet socket for each queue takes CAP_NET_RAW: {error}"))
            }
            _ => Refusal::Final(error.to_string()),
        }
    }
}

impl Packet {
    /// Leaves it to another port to say what becomes of the interface.
    pub(crate) fn keep_silent(&mut self) {
        self.tells = false;
    }

    /// Notes the deletion of the interface if the socket is on none.
    #[cold]
    pub(super) fn note_loss(&mut self) {
        if self.gone.is_none() && sys::is_on_no_interface(self.fd()) {
            self.lose();
        }
    }

    fn lose(&mut self) {
        self.down = true;
        self.gone = Some(sys::monotonic());
        // It would end every sleep. What it says is known.
        let _ = sys::take_error(self.fd());
        self.say(GONE);
    }

    fn say(&self, what: &str) {
        if self.tells {
            eprintln!("millstream: {}: {what}", self.caps.name);
        }
    }

    /// The interface was deleted: goes on with one of its name, once there is one.
    #[cold]
    pub(super) fn seek(&mut self, events: &mut Vec<NetEvent>) {
        if self.ended {
            return;
        }
        if self.gone.is_none() {
            self.lose();
        }
        let Some(ifindex) = self.monitor.news.home() else { return };
        match self.go_on(ifindex) {
            Ok(()) => {
                self.monitor.news.follow(ifindex);
                self.caps.ifindex = Some(ifindex);
                self.gone = None;
                self.counts.returns += 1;
                self.say("the interface is back; connections go on");
                self.monitor.net_events(&mut self.caps, &mut self.down, events);
            }
            Err(Refusal::Absent) => {}
            Err(Refusal::Final(why)) => {
                self.ended = true;
                self.say(&unusable(&why));
            }
        }
    }

    /// Takes the ports and receives on interface `ifindex`.
    fn go_on(&mut self, ifindex: u32) -> Result<(), Refusal> {
        if !self.whole {
            self.claims.move_to(ifindex).map_err(Refusal::Final)?;
        }
        if self.caps.queues > 1 {
            self.claims.is_at_home().map_err(Refusal::Final)?;
            let (queue, queues) = (self.caps.queue, self.caps.queues);
            self.socket = self.fresh.take(queue, queues, ifindex, &self.claims)?;
            self.direct = true;
        } else {
            bind(self.fd(), ifindex)?;
            if self.whole {
                sys::hear_everybody(self.fd(), ifindex)?;
            }
        }
        Ok(())
    }
}
