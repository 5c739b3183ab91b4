//! One way between two ports: packets as a wire would carry them, a pipe, and frames of the port that they leave by.

use super::BridgeCounters;
use crate::medium::{Meta, Packet, packet_of};
use crate::nic::{self, ip_len};
use crate::pipe::{Pipe, PipeConfig};
use base::Instant;
use hdrhistogram::Histogram;
use pio::{Caps, Medium, PacketIo, RxChecksum, RxMeta, TxMeta};
use ring::Frame;

/// Bytes of a packet in several frames, put together; a super-segment with its link header has fewer.
const JOINED_MAX: usize = 1 << 17;

/// One way.
pub(crate) struct Lane {
    pub(crate) pipe: Pipe,
    /// The frames so far of a packet that comes in several.
    joined: Vec<u8>,
    pub(crate) counters: BridgeCounters,
    pub(crate) lateness: Histogram<u64>,
}

/// Buffers that the lanes of one thread share.
#[derive(Default)]
pub(crate) struct Bench {
    spare: Vec<Packet>,
    /// Where super-segments are cut.
    scratch: Vec<u8>,
}

impl Lane {
    /// A lane with a pipe whose log calls it `number`.
    pub(crate) fn new(config: PipeConfig, seed: u64, number: u32) -> Lane {
        Lane {
            pipe: Pipe::new(config, seed).numbered(number),
            joined: Vec::new(),
            counters: BridgeCounters::default(),
            lateness: Histogram::new_with_bounds(1, 60_000_000, 3).expect("bounds in order"),
        }
    }

    /// A frame that arrived at a port with `caps`, a packet or a part of one, on its way to a link of `mtu`.
    pub(crate) fn arrived(
        &mut self,
        now: Instant,
        caps: &Caps,
        mtu: usize,
        (bytes, meta): (&mut [u8], RxMeta),
        bench: &mut Bench,
    ) {
        if !meta.more && self.joined.is_empty() {
            return self.whole(now, caps, mtu, (bytes, meta), bench);
        }
        if self.joined.len() + bytes.len() <= JOINED_MAX {
            self.joined.extend_from_slice(bytes);
        }
        if !meta.more {
            let mut joined = std::mem::take(&mut self.joined);
            self.whole(now, caps, mtu, (&mut joined, meta), bench);
            joined.clear();
            self.joined = joined;
        }
    }

    /// A packet as the sender's host let it go: made as a wire carries it, and put into the pipe.
    fn whole(
        &mut self,
        now: Instant,
        caps: &Caps,
        mtu: usize,
        (bytes, meta): (&mut [u8], RxMeta),
        bench: &mut Bench,
    ) {
        self.counters.received += 1;
        if meta.gso_size == 0 && ip_len(bytes) <= mtu {
            let open = match meta.checksum {
                RxChecksum::Partial => true,
                RxChecksum::Verified => false,
                RxChecksum::Unverified => local_and_open(caps, bytes),
            };
            self.counters.completed += u64::from(open && nic::complete(bytes));
            enter(&mut self.pipe, now, bytes, &mut bench.spare);
            return;
        }
        let size = match meta.gso_size {
            0 => nic::tcp_room(bytes, mtu),
            size => Some(usize::from(size)),
        };
        let (pipe, spare) = (&mut self.pipe, &mut bench.spare);
        let cut = size.is_some_and(|size| {
            nic::segment(Medium::Ethernet, bytes, size, &mut bench.scratch, |bytes| {
                enter(pipe, now, bytes, spare);
            })
        });
        *if cut { &mut self.counters.cut } else { &mut self.counters.oversize } += 1;
    }

    /// A packet that our own host sends, with what it leaves to its port.
    pub(crate) fn sent(&mut self, now: Instant, bytes: &mut [u8], meta: &TxMeta, bench: &mut Bench) {
        self.counters.received += 1;
        let (pipe, spare) = (&mut self.pipe, &mut bench.spare);
        let sound = nic::transmit(Medium::Ethernet, bytes, meta, |bytes| enter(pipe, now, bytes, spare));
        let asked = match (sound, meta.segmentation.is_some(), meta.checksum.is_some()) {
            (false, ..) => Some(&mut self.counters.oversize),
            (true, true, _) => Some(&mut self.counters.cut),
            (true, false, true) => Some(&mut self.counters.completed),
            (true, false, false) => None,
        };
        asked.into_iter().for_each(|count| *count += 1);
    }

    /// Logs the packets that left the queue by `now`, instead of when the next packet comes.
    pub(crate) fn settle(&mut self, now: Instant) {
        self.pipe.queue(now);
    }

    /// The next packet whose time has come, in a frame of `port`. None if there is none, or no frame.
    pub(crate) fn leave(
        &mut self,
        now: Instant,
        port: &mut dyn PacketIo,
        bench: &mut Bench,
    ) -> Option<Frame> {
        loop {
            let due = self.pipe.due().filter(|due| *due <= now)?;
            let mut frame = port.take()?;
            let packet = self.pipe.leave(now)?;
            let start = frame.headroom();
            let fits = packet.len() <= frame.capacity() - start;
            if fits {
                frame.set_range(start, packet.len());
                frame.data_mut().copy_from_slice(&packet.bytes);
            }
            bench.spare.push(packet);
            if fits {
                self.counters.sent += 1;
                self.lateness.saturating_record(now.since(due).as_nanos().div_ceil(1_000) as u64);
                return Some(frame);
            }
            self.counters.oversize += 1;
            port.retire(frame);
        }
    }
}

fn enter(pipe: &mut Pipe, now: Instant, bytes: &[u8], spare: &mut Vec<Packet>) {
    let packet = packet_of(spare, bytes, Meta::default());
    // The pipe has counted what it dropped.
    let _ = pipe.enter(now, packet, spare);
}

/// Is the sender on this machine, and has it left a checksum to hardware without saying so? (AF_XDP has no place for
/// that.)
fn local_and_open(caps: &Caps, bytes: &[u8]) -> bool {
    caps.local_peer && nic::is_open(bytes)
}
