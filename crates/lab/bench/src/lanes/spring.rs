//! A port whose other end is a peer that sends all that the stack's window lets it, at once: full segments in frames
//! that nothing touched for long, of which it writes the headers only, as a card that puts packets into memory leaves a
//! core little to do with them. Nothing is ever lost, so nothing is sent again.

use base::{Duration, Endpoint, Seq};
use pio::{BATCH_MAX, Caps, IoError, Medium, PacketIo, RxBatch, RxMeta, RxPacket, TxBatch, Wake, Waker};
use ring::{Frame, FramePool};
use std::collections::VecDeque;
use std::sync::Arc;
use wire::checksum::Sum;
use wire::packet::{Below, Checksum, parse_ip};
use wire::tcp::{self, Flags, Header, Options};

use super::ideal::{MTU, Never, SLOT};

/// Bytes of headers without options, as the peer wants none, and of what follows.
const HEADERS: usize = 40;
const PAYLOAD: usize = MTU - HEADERS;
/// Four times what a core's own caches hold: a frame comes from the cache that all share, as behind a card.
const FRAMES: u32 = 2_048;
const SCALE: u8 = 10;

/// The port.
pub(super) struct Spring {
    caps: Caps,
    pool: FramePool,
    /// Frames with payload in them, the one that nothing touched for longest first.
    idle: VecDeque<Frame>,
    ends: (Endpoint, Endpoint),
    opened: bool,
    established: bool,
    /// The peer's next byte and the end of the stack's window.
    next: Seq,
    limit: Seq,
    scale: u8,
    their_next: Seq,
    /// Headers of a segment at sequence number 0, and the sum of all of it but for its checksum.
    headers: [u8; HEADERS],
    sum: Sum,
    segments: u64,
}

impl Spring {
    /// A peer at one end that connects to the other.
    pub(super) fn new(from: Endpoint, to: Endpoint) -> Spring {
        let mut pool = FramePool::new(FRAMES, SLOT).expect("memory for frames");
        let mut idle: VecDeque<Frame> = std::iter::from_fn(|| pool.take()).collect();
        // Some are left to be sent in.
        for frame in idle.drain(..2 * BATCH_MAX) {
            pool.retire(frame);
        }
        for frame in &mut idle {
            frame.set_range(0, MTU);
            frame.data_mut()[HEADERS..].fill(0x5a);
        }
        Spring {
            caps: Caps::plain("spring", MTU, Medium::Ip, [0; 6]),
            pool,
            idle,
            ends: (from, to),
            opened: false,
            established: false,
            next: Seq::new(0),
            limit: Seq::new(0),
            scale: 0,
            their_next: Seq::new(0),
            headers: [0; HEADERS],
            sum: Sum::of(&[]),
            segments: 0,
        }
    }

    fn below(&self) -> Below {
        Below { link: None, src: self.ends.0.addr, dst: self.ends.1.addr, tos: 0, ttl: 64, label: 0 }
    }

    fn header(&self, flags: Flags) -> Header {
        let opens = flags.has(Flags::SYN);
        let options = Options {
            mss: opens.then_some((MTU - HEADERS) as u16),
            window_scale: opens.then_some(SCALE),
            ..Options::NONE
        };
        let (src_port, dst_port) = (self.ends.0.port, self.ends.1.port);
        let (seq, ack) = (self.next, self.their_next);
        Header { src_port, dst_port, seq, ack, flags, window: u16::MAX, options }
    }

    /// A segment without data.
    fn bare(&mut self, flags: Flags) -> Option<RxPacket> {
        let mut frame = self.pool.take()?;
        let (below, header) = (self.below(), self.header(flags));
        frame.set_range(0, below.len() + header.len());
        below.emit_tcp(&header, 0, Checksum::Full, frame.data_mut());
        Some(RxPacket { frame, meta: RxMeta::default() })
    }

    /// The peer is connected: from here on all its segments are alike.
    fn establish(&mut self) {
        let (below, mut header) = (self.below(), self.header(Flags::ACK));
        header.seq = Seq::new(0);
        let mut whole = [0x5a; MTU];
        below.emit_tcp(&header, PAYLOAD, Checksum::Full, &mut whole);
        let tcp = &mut whole[below.len()..];
        let field = &tcp[tcp::CHECKSUM_OFFSET..][..2];
        self.sum = Sum::of_u16(!u16::from_be_bytes([field[0], field[1]]));
        self.headers.copy_from_slice(&whole[..HEADERS]);
        self.established = true;
    }

    /// A full segment, sound: what is summed up again is what differs.
    fn segment(&mut self) -> Option<RxPacket> {
        if (self.next + PAYLOAD as u32).after(self.limit) {
            return None;
        }
        let mut frame = self.idle.pop_front()?;
        frame.set_range(0, MTU);
        let seq = self.next.raw();
        let into = &mut frame.data_mut()[..HEADERS];
        into.copy_from_slice(&self.headers);
        let tcp = &mut into[20..];
        tcp[4..8].copy_from_slice(&seq.to_be_bytes());
        tcp::set_checksum(tcp, self.sum.plus(Sum::of_u32(seq)).checksum());
        self.next += PAYLOAD as u32;
        self.segments += 1;
        Some(RxPacket { frame, meta: RxMeta::default() })
    }

    /// The peer reads what the stack says.
    fn read(&mut self, octets: &[u8]) {
        let packet = parse_ip(octets, octets.len()).expect("an IP packet");
        let (_, _, segment) = packet.tcp(octets).expect("a segment");
        assert!(!segment.flags.has(Flags::RST), "the stack takes what comes");
        let opens = segment.flags.has(Flags::SYN);
        if opens {
            self.scale = segment.options.window_scale.unwrap_or(0);
            self.their_next = segment.seq + 1;
            self.next += 1;
        }
        let shift = if opens { 0 } else { self.scale };
        self.limit = segment.ack + (u32::from(segment.window) << shift);
        if opens {
            self.establish();
        }
    }
}

impl PacketIo for Spring {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take(&mut self) -> Option<Frame> {
        self.pool.take()
    }

    fn retire(&mut self, frame: Frame) {
        // A full one has its payload still.
        if frame.len() == MTU { self.idle.push_back(frame) } else { self.pool.retire(frame) }
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if !self.opened {
            self.opened = true;
            batch.extend(self.bare(Flags::SYN));
        } else if self.established {
            while batch.len() < BATCH_MAX
                && let Some(packet) = self.segment()
            {
                batch.push(packet);
            }
        }
        Ok(batch.len())
    }

    fn tx(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        let count = batch.len();
        for packet in batch.drain(..) {
            self.read(packet.frame.data());
            self.pool.retire(packet.frame);
        }
        Ok(count)
    }

    fn wait(&mut self, _: Option<Duration>) -> Result<Wake, IoError> {
        Ok(Wake::Ready)
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::new(Never)
    }

    fn stats(&self) -> Vec<(&'static str, u64)> {
        vec![("segments", self.segments)]
    }
}
