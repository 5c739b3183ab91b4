//! Pipes between two ports of the real world: what arrives at one end leaves at the other, when and as far as the pipe
//! between them says.
//!
//! The pipes are those of the virtual network, and time is an argument here too: whoever owns a bridge reads the clock,
//! tells it and wakes it at the date it names. Packets enter a pipe as a wire would carry them: super-segments that a
//! sender on this machine left to hardware are cut, and checksums completed.
//!
//! ```text
//!            receive(now)                                       send(now)
//!   port 0 ---------------> whole packets -> pipe of end 0 -> outbox ---> port 1
//!   port 0 <--- outbox <- pipe of end 1 <- whole packets <--------------- port 1
//! ```

mod lateness;

pub use lateness::Lateness;

use crate::medium::{Meta, Packet, packet_of};
use crate::nic::{self, ip_len};
use crate::pipe::{Pipe, PipeConfig};
use base::{Duration, Instant, Rng};
use pio::{BATCH_MAX, Caps, IoError, PacketIo, RxBatch, RxChecksum, RxMeta, TxBatch, TxMeta, TxPacket};

/// When to try again where a port takes no more.
const RETRY: Duration = Duration::from_micros(50);
/// Octets of a packet in several frames, put together; a super-segment with its link header has fewer.
const JOINED_MAX: usize = 1 << 17;

base::counters! {
    /// What one end of a bridge has done, besides what its pipe and its port count.
    pub struct BridgeCounters {
        received: "Frames received, a super-segment being one.",
        cut: "Super-segments cut into packets of the wire's size.",
        completed: "Checksums completed that the sender had left to hardware.",
        oversize: "Packets too big for the other end's link that cannot be cut; dropped.",
        sent: "Packets handed to the other end.",
        undelivered: "Packets that came out of the pipe while the other end was down; dropped.",
    }
}

/// An end: a port, and the pipe that leads from it to the other end.
struct End {
    port: Box<dyn PacketIo>,
    pipe: Pipe,
    /// What goes out of this port next.
    outbox: TxBatch,
    /// The frames so far of a packet that comes in several.
    joined: Vec<u8>,
    counters: BridgeCounters,
    lateness: Lateness,
}

/// Two ports and a pipe each way.
pub struct Bridge {
    ends: [End; 2],
    batch: RxBatch,
    spare: Vec<Packet>,
    /// Where super-segments are cut.
    scratch: Vec<u8>,
    news: Vec<pio::NetEvent>,
    now: Instant,
    /// A port had as much as fits into a batch.
    more: bool,
}

impl Bridge {
    /// Joins `ports` by pipes: the first from the first port to the second, the other back. Their choices follow from
    /// `seed`, and their logs call them 0 and 1.
    pub fn new(ports: [Box<dyn PacketIo>; 2], pipes: [PipeConfig; 2], seed: u64) -> Bridge {
        let mut rng = Rng::new(seed);
        let mut number = 0..;
        let ends = std::iter::zip(ports, pipes).map(|(port, config)| End {
            port,
            pipe: Pipe::new(config, rng.next_u64()).numbered(number.next().unwrap_or_default()),
            outbox: TxBatch::new(),
            joined: Vec::new(),
            counters: BridgeCounters::default(),
            lateness: Lateness::default(),
        });
        let ends: Vec<End> = ends.collect();
        Bridge {
            ends: ends.try_into().unwrap_or_else(|_| unreachable!("two ports, two pipes")),
            batch: RxBatch::with_capacity(BATCH_MAX),
            spare: Vec::new(),
            scratch: Vec::new(),
            news: Vec::new(),
            now: Instant::ZERO,
            more: false,
        }
    }

    /// A port: 0 or 1.
    pub fn port(&self, end: usize) -> &dyn PacketIo {
        &*self.ends[end].port
    }

    /// The pipe that leads from port `end` to the other.
    pub fn pipe(&self, end: usize) -> &Pipe {
        &self.ends[end].pipe
    }

    /// The same, to change or to watch.
    pub fn pipe_mut(&mut self, end: usize) -> &mut Pipe {
        &mut self.ends[end].pipe
    }

    /// What happened to packets from port `end`.
    pub fn counters(&self, end: usize) -> &BridgeCounters {
        &self.ends[end].counters
    }

    /// How much later than their pipe said packets from port `end` were handed to the other.
    pub fn lateness(&self, end: usize) -> &Lateness {
        &self.ends[end].lateness
    }

    /// Takes what has arrived at both ports into the pipes.
    ///
    /// # Errors
    /// A port is broken for good; one that is down only is waited for.
    pub fn receive(&mut self, now: Instant) -> Result<(), IoError> {
        self.now = self.now.max(now);
        self.more = false;
        for end in 0..2 {
            self.receive_at(end)?;
        }
        Ok(())
    }

    fn receive_at(&mut self, end: usize) -> Result<(), IoError> {
        let mut batch = std::mem::take(&mut self.batch);
        let result = self.ends[end].port.rx(&mut batch);
        self.more |= batch.len() >= BATCH_MAX;
        if batch.is_empty() {
            // What the kernel has to say of the interface is read when there is time.
            self.ends[end].port.net_events(&mut self.news);
            self.news.clear();
        }
        for mut packet in batch.drain(..) {
            self.frame(end, packet.frame.data_mut(), packet.meta);
            self.ends[end].port.retire(packet.frame);
        }
        self.batch = batch;
        match result {
            Ok(_) | Err(IoError::Down) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A frame that holds a packet or a part of one.
    fn frame(&mut self, end: usize, bytes: &mut [u8], meta: RxMeta) {
        let this = &mut self.ends[end];
        if !meta.more && this.joined.is_empty() {
            return self.whole(end, bytes, meta);
        }
        if this.joined.len() + bytes.len() <= JOINED_MAX {
            this.joined.extend_from_slice(bytes);
        }
        if !meta.more {
            let mut joined = std::mem::take(&mut this.joined);
            self.whole(end, &mut joined, meta);
            joined.clear();
            self.ends[end].joined = joined;
        }
    }

    /// A packet as the sender's host let it go: made as a wire carries it, and put into the pipe.
    fn whole(&mut self, end: usize, bytes: &mut [u8], meta: RxMeta) {
        let mtu = self.ends[1 - end].port.caps().mtu;
        let (now, this) = (self.now, &mut self.ends[end]);
        this.counters.received += 1;
        let spare = &mut self.spare;
        if meta.gso_size == 0 && ip_len(bytes) <= mtu {
            let open = match meta.checksum {
                RxChecksum::Partial => true,
                RxChecksum::Verified => false,
                RxChecksum::Unverified => local_and_open(this.port.caps(), bytes),
            };
            this.counters.completed += u64::from(open && nic::complete(bytes));
            let packet = packet_of(spare, bytes, Meta::default());
            // The pipe has counted what it dropped.
            let _ = this.pipe.enter(now, packet, spare);
            return;
        }
        let size = match meta.gso_size {
            0 => nic::tcp_room(bytes, mtu),
            size => Some(usize::from(size)),
        };
        let pipe = &mut this.pipe;
        let cut = size.is_some_and(|size| {
            nic::segment(pio::Medium::Ethernet, bytes, size, &mut self.scratch, |bytes| {
                let packet = packet_of(spare, bytes, Meta::default());
                // As above.
                let _ = pipe.enter(now, packet, spare);
            })
        });
        *if cut { &mut this.counters.cut } else { &mut this.counters.oversize } += 1;
    }

    /// Sends what has come out of the pipes by `now`. When to be called again, unless packets arrive before: `now` if
    /// there is more to receive at once.
    ///
    /// # Errors
    /// As for [`Bridge::receive`].
    pub fn send(&mut self, now: Instant) -> Result<Option<Instant>, IoError> {
        self.now = self.now.max(now);
        let mut next = self.more.then_some(self.now);
        for end in 0..2 {
            self.unload(end);
            let to = &mut self.ends[1 - end];
            let blocked = match to.port.tx(&mut to.outbox) {
                Ok(_) => !to.outbox.is_empty(),
                Err(IoError::Down) => {
                    let lost = to.outbox.len() as u64;
                    to.outbox.drain(..).for_each(|packet| to.port.retire(packet.frame));
                    self.ends[end].counters.undelivered += lost;
                    false
                }
                Err(error) => return Err(error),
            };
            let retry = blocked.then(|| self.now + RETRY);
            let due = self.ends[end].pipe.due().map(|due| due.max(self.now));
            next = Instant::earliest(next, if blocked { retry } else { due });
        }
        Ok(next)
    }

    /// Moves packets whose time has come from a pipe to the outbox of the other end, as long as that takes some: who
    /// cannot leave in time stays inside, where packets are bounded and dropped ones counted.
    fn unload(&mut self, end: usize) {
        let now = self.now;
        // What left the queue is logged now, not when the next packet comes.
        self.ends[end].pipe.queue(now);
        while self.ends[1 - end].outbox.len() < BATCH_MAX {
            let Some(due) = self.ends[end].pipe.due().filter(|due| *due <= now) else { return };
            let Some(mut frame) = self.ends[1 - end].port.take() else { return };
            let this = &mut self.ends[end];
            let Some(packet) = this.pipe.leave(now) else { return };
            let start = frame.headroom();
            if packet.len() <= frame.capacity() - start {
                frame.set_range(start, packet.len());
                frame.data_mut().copy_from_slice(&packet.bytes);
                this.counters.sent += 1;
                this.lateness.note(now.since(due));
                self.ends[1 - end].outbox.push_back(TxPacket { frame, meta: TxMeta::default() });
            } else {
                this.counters.oversize += 1;
                self.ends[1 - end].port.retire(frame);
            }
            self.spare.push(packet);
        }
    }
}

/// Is the sender on this machine, and has it left a checksum to hardware without saying so? (AF_XDP has no place for
/// that.)
fn local_and_open(caps: &Caps, bytes: &[u8]) -> bool {
    caps.local_peer && nic::is_open(bytes)
}

#[cfg(test)]
mod tests;
