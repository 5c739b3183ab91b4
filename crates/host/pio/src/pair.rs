//! Two ports joined in memory: what one sends the other receives, without a copy and without a system call.
//!
//! ```text
//!   Pair a                                   Pair b
//!   free ──take──> tx ══ packets a>b ══> rx ──retire──> free
//!   free <─retire─ rx <══ packets b>a ══ tx <──take── free
//!        <═════════ spare frames, both ways ═════════>
//! ```
//! Frames are handed over, so an end that only receives gathers them; what it has above its half goes back
//! through the lane of spares. Meant for two stacks turned in one thread (benchmarks, tests); two threads
//! work too.

use crate::port::*;
use ring::{Consumer, Frame, FramePool, Producer, Ringer, Sleeper, doorbell, queue};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// How to make a [`pair`].
#[derive(Clone, Debug)]
pub struct PairConfig {
    /// Largest IP packet, bytes.
    pub mtu: usize,
    /// Frames each end starts with.
    pub frames: u32,
    /// Most packets under way in each direction; more is back-pressure.
    pub depth: usize,
    /// Offer [`Caps::tx_checksum`]: the other end then receives [`RxChecksum::Partial`].
    pub tx_checksum: bool,
    /// Offer [`Caps::tso_max`]: super-segments arrive whole at the other end. Needs `tx_checksum`.
    pub tso_max: usize,
    /// Offer [`Caps::local_peer`]: partial checksums are not marked.
    pub local_peer: bool,
    /// Say [`Caps::shares_kernel_addresses`], as a port beside a kernel.
    pub beside_kernel: bool,
}

impl Default for PairConfig {
    /// Plain Ethernet, MTU 1500, no offloads.
    fn default() -> Self {
        PairConfig {
            mtu: 1500,
            frames: 1024,
            depth: 512,
            tx_checksum: false,
            tso_max: 0,
            local_peer: false,
            beside_kernel: false,
        }
    }
}

impl PairConfig {
    /// Checksum and segmentation offload, super-segments of 65535 bytes.
    pub fn offloads() -> Self {
        PairConfig { tx_checksum: true, tso_max: 65535, ..PairConfig::default() }
    }
}

/// Room for link header and the caller's alignment in every slot.
const LINK_ROOM: usize = 64;
/// Surplus frames travel back in lots of at most this size.
const SPARE_LOT: usize = BATCH_MAX;

/// One end of a [`pair`].
pub struct Pair {
    caps: Caps,
    /// Places of the lane that are not used, because lanes have a power of two.
    reserve: usize,
    /// More free frames than this are too many, and `lot` of them go back.
    share: usize,
    lot: usize,
    free: Vec<Frame>,
    outgoing: Outgoing,
    incoming: Incoming,
    /// Rung by the other end.
    bell: Sleeper,
    partner: LastRing,
    counts: Counts,
}

/// Rings when dropped: an end that sleeps hears that the other is gone, after its lanes were.
struct LastRing(Ringer);

impl Drop for LastRing {
    fn drop(&mut self) {
        self.0.ring_anyway();
    }
}

/// The two ends of a direction.
struct Outgoing {
    packets: Producer<RxPacket>,
    spares: Producer<Frame>,
}

struct Incoming {
    packets: Consumer<RxPacket>,
    spares: Consumer<Frame>,
}

/// A direction for `depth` packets and `frames` frames.
fn lane(depth: usize, frames: usize) -> (Outgoing, Incoming) {
    let (packets, spares) = (queue(depth), queue(frames));
    (Outgoing { packets: packets.0, spares: spares.0 }, Incoming { packets: packets.1, spares: spares.1 })
}

#[derive(Default)]
struct Counts {
    no_frame: u64,
    rx: u64,
    tx: u64,
    tx_full: u64,
    tx_invalid: u64,
}

/// Two ports joined in memory. The first has the link-layer address `02:4d:53:00:00:01`, the second `...:02`.
pub fn pair(config: &PairConfig) -> io::Result<(Pair, Pair)> {
    let largest = config.mtu.max(config.tso_max) + LINK_ROOM;
    if config.frames == 0 || config.depth == 0 || config.frames > u32::MAX / 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let slot = largest.max(2048).next_power_of_two();
    let mut pool = FramePool::new(2 * config.frames, slot)?;
    // The frames keep the mapping alive; the pool itself is not needed beyond this.
    let mut stock = || (0..config.frames).filter_map(|_| pool.take()).collect::<Vec<_>>();
    let frames = 2 * config.frames as usize;
    let (a_out, b_in) = lane(config.depth, frames);
    let (b_out, a_in) = lane(config.depth, frames);
    let ((to_a, a_bell), (to_b, b_bell)) = (doorbell()?, doorbell()?);
    let a = Pair::new(config, 0, stock(), (a_out, to_b), (a_in, a_bell));
    let b = Pair::new(config, 1, stock(), (b_out, to_a), (b_in, b_bell));
    Ok((a, b))
}

impl Pair {
    fn new(
        config: &PairConfig,
        end: u8,
        free: Vec<Frame>,
        (outgoing, partner): (Outgoing, Ringer),
        (incoming, bell): (Incoming, Sleeper),
    ) -> Pair {
        let lot = (config.frames as usize / 2).clamp(1, SPARE_LOT);
        let name = format!("pair:{}", char::from(b'a' + end));
        let caps = Caps {
            tx_checksum: config.tx_checksum,
            local_peer: config.local_peer,
            shares_kernel_addresses: config.beside_kernel,
            tso_max: if config.tx_checksum { config.tso_max } else { 0 },
            ..Caps::plain(&name, config.mtu, Medium::Ethernet, [0x02, 0x4d, 0x53, 0, 0, 1 + end])
        };
        Pair {
            caps,
            reserve: outgoing.packets.capacity() - config.depth,
            share: config.frames as usize + lot - 1,
            lot,
            free,
            outgoing,
            incoming,
            bell,
            partner: LastRing(partner),
            counts: Counts::default(),
        }
    }

    /// Hand what this end has too much of to the other.
    #[cold]
    fn give_spares(&mut self) {
        let rest = self.free.len() - self.lot;
        // The lane has room for every frame there is.
        self.outgoing.spares.push_batch(&mut self.free.drain(rest..));
    }

    #[cold]
    fn take_spare(&mut self) -> Option<Frame> {
        self.incoming.spares.pop_batch(&mut self.free, usize::MAX);
        let frame = self.free.pop();
        self.counts.no_frame += u64::from(frame.is_none());
        frame
    }
}

/// Returns the receiver's metadata of a packet with this request, or `None` if the caps do not allow the request.
#[inline]
fn received_as(caps: &Caps, packet: &TxPacket) -> Option<RxMeta> {
    let (meta, len) = (packet.meta, packet.frame.len());
    let plain = len <= caps.mtu + LINK_ROOM;
    let allowed = match (meta.checksum, meta.segmentation) {
        (None, None) => plain,
        (Some(_), None) => caps.tx_checksum && plain,
        (Some(_), Some(cut)) => cut.size > 0 && caps.tso_max > 0 && len <= caps.tso_max + LINK_ROOM,
        (None, Some(_)) => false,
    };
    allowed.then(|| RxMeta {
        checksum: meta.checksum.map_or(RxChecksum::Unverified, |_| RxChecksum::Partial),
        gso_size: meta.segmentation.map_or(0, |cut| cut.size),
        more: false,
    })
}

impl PacketIo for Pair {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline]
    fn take(&mut self) -> Option<Frame> {
        let mut frame = match self.free.pop() {
            Some(frame) => frame,
            None => self.take_spare()?,
        };
        frame.set_range(0, 0);
        Some(frame)
    }

    #[inline]
    fn retire(&mut self, frame: Frame) {
        self.free.push(frame);
        if self.free.len() > self.share {
            self.give_spares();
        }
    }

    fn retire_all(&mut self, batch: &mut RxBatch) {
        // Mostly there are few, for which a drain's beginning and end would be more work than they are.
        self.free.reserve(batch.len());
        while let Some(packet) = batch.pop() {
            self.free.push(packet.frame);
        }
        while self.free.len() > self.share {
            self.give_spares();
        }
    }

    #[inline]
    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let got = self.incoming.packets.pop_batch(batch, BATCH_MAX.saturating_sub(batch.len()));
        self.counts.rx += got as u64;
        if got == 0 && self.incoming.packets.is_finished() {
            return Err(IoError::Gone);
        }
        Ok(got)
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        if self.outgoing.packets.is_abandoned() {
            return Err(IoError::Gone);
        }
        let room = self.outgoing.packets.room().saturating_sub(self.reserve);
        let count = batch.len().min(room);
        let Pair { caps, free, outgoing, .. } = self;
        let mut left = count;
        let sent = outgoing.packets.push_batch(&mut std::iter::from_fn(|| {
            while left > 0 {
                left -= 1;
                let packet = batch.pop_front()?;
                if let Some(meta) = received_as(caps, &packet) {
                    return Some(RxPacket { frame: packet.frame, meta });
                }
                free.push(packet.frame);
            }
            None
        }));
        self.counts.tx += sent as u64;
        self.counts.tx_invalid += (count - sent) as u64;
        self.counts.tx_full += u64::from(!batch.is_empty());
        self.partner.0.ring();
        Ok(count)
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        self.bell.drain();
        self.bell.flag().announce();
        fds.push(self.bell.fd().as_raw_fd());
        let packets = &mut self.incoming.packets;
        Ok(packets.is_empty() && !packets.is_orphaned())
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("rx_packets", self.counts.rx),
            ("tx_packets", self.counts.tx),
            ("tx_full", self.counts.tx_full),
            ("tx_invalid", self.counts.tx_invalid),
            ("no_frame", self.counts.no_frame),
        ]
    }
}

#[cfg(test)]
mod tests;
