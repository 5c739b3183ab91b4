//! A port whose other end is a peer that reads everything at once: what is sent is acknowledged the next time the
//! stack asks for packets, all of it by one segment, and its frames are free again. As a card, it does not look into
//! what others have in their caches: of full segments on the way only the last of a batch is read, but for tests.

use base::{Endpoint, Seq};
use pio::{
    BATCH_MAX, Caps, IoError, Medium, PacketIo, RxBatch, RxChecksum, RxMeta, RxPacket, TxBatch, TxPacket,
};
use ring::{Frame, FramePool};
use std::os::fd::RawFd;
use wire::packet::{Below, Checksum, parse_ip};
use wire::tcp::{Flags, Header, Options};

pub(super) const MTU: usize = 1_500;
/// Bytes of headers without options, as the peer wants none.
const HEADERS: usize = 40;
pub(super) const SLOT: usize = 2_048;
const FRAMES: u32 = 1_024;
/// The peer's window, as its segments say it, and by how much that is to be shifted.
const WINDOW: u16 = u16::MAX;
const SCALE: u8 = 10;

/// The port.
pub(super) struct Ideal {
    caps: Caps,
    pool: FramePool,
    /// Segment that the peer has not answered, and the two ends.
    owed: Option<(Flags, Endpoint, Endpoint)>,
    next: Seq,
    segments: u64,
    bytes: u64,
    gaps: u64,
}

impl Ideal {
    pub(super) fn new() -> Ideal {
        let caps = Caps::plain("ideal", MTU, Medium::Ip, [0; 6]);
        let pool = FramePool::new(FRAMES, SLOT).expect("memory for frames");
        Ideal { caps, pool, owed: None, next: Seq::new(0), segments: 0, bytes: 0, gaps: 0 }
    }

    /// The peer reads a packet: its headers, as every receiver must.
    fn read(&mut self, bytes: &[u8]) {
        let Ok(packet) = parse_ip(bytes, bytes.len()) else { return self.gaps += 1 };
        let Ok((from, to, segment)) = packet.tcp(bytes) else { return self.gaps += 1 };
        let ends = (Endpoint::new(packet.dst, to), Endpoint::new(packet.src, from));
        if segment.flags.has(Flags::SYN) {
            self.next = segment.seq + 1;
            self.owed = Some((Flags::SYN | Flags::ACK, ends.0, ends.1));
            return;
        }
        let len = segment.payload.len() as u32;
        if len == 0 {
            return;
        }
        self.gaps += u64::from(segment.seq != self.next);
        self.next = segment.seq + len;
        self.segments += 1;
        self.bytes += u64::from(len);
        self.owed = Some((Flags::ACK, ends.0, ends.1));
    }

    fn answer(&mut self, (flags, from, to): (Flags, Endpoint, Endpoint)) -> Option<RxPacket> {
        let mut frame = self.pool.take()?;
        let opens = flags.has(Flags::SYN);
        let below = Below { link: None, src: from.addr, dst: to.addr, tos: 0, ttl: 64, label: 0 };
        let options = Options {
            mss: opens.then_some((MTU - 40) as u16),
            window_scale: opens.then_some(SCALE),
            ..Options::NONE
        };
        let header = Header {
            src_port: from.port,
            dst_port: to.port,
            seq: Seq::new(if opens { 0 } else { 1 }),
            ack: self.next,
            flags,
            window: WINDOW,
            options,
        };
        frame.set_range(0, below.len() + header.len());
        below.emit_tcp(&header, 0, Checksum::Full, frame.data_mut());
        let meta = RxMeta { checksum: RxChecksum::Verified, ..RxMeta::default() };
        Some(RxPacket { frame, meta })
    }
}

impl PacketIo for Ideal {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take(&mut self) -> Option<Frame> {
        self.pool.take()
    }

    fn retire(&mut self, frame: Frame) {
        self.pool.retire(frame);
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        debug_assert!(batch.len() < BATCH_MAX);
        let answer = self.owed.take().and_then(|owed| self.answer(owed));
        batch.extend(answer);
        Ok(batch.len())
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let count = batch.len();
        while let Some(TxPacket { frame, .. }) = batch.pop_front() {
            if cfg!(debug_assertions) || batch.is_empty() || frame.len() < MTU {
                self.read(frame.data());
            } else {
                self.next += (MTU - HEADERS) as u32;
                self.segments += 1;
                self.bytes += (MTU - HEADERS) as u64;
            }
            self.pool.retire(frame);
        }
        Ok(count)
    }

    fn arm(&mut self, _: &mut Vec<RawFd>) -> Result<bool, IoError> {
        Ok(false)
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        vec![("segments", self.segments), ("bytes", self.bytes), ("gaps", self.gaps)]
    }
}
