//! A host without a stack: it sends the frames that it wants to, in as many names as it likes.

use base::{Addr, Endpoint, Instant, Rng, Seq};
use emu::{Host, SimPort};
use pio::{PacketIo, RxBatch, TxBatch, TxMeta, TxPacket};
use wire::checksum::Sum;
use wire::ethernet::Mac;
use wire::icmp::Message;
use wire::packet::{Below, Checksum, Content, Link, parse_frame};
use wire::protocol;
use wire::tcp::{Flags, Header, Options, SackBlocks, Segment};

/// Behaviour of a raw host.
pub(super) trait Script {
    /// Does it answer for this address?
    fn answers_for(&self, addr: Addr, now: Instant) -> bool {
        let _ = (addr, now);
        false
    }

    /// A segment has come to `to`.
    fn take(&mut self, to: Endpoint, segment: &Segment<'_>, wire: &mut Wire) {
        let _ = (to, segment, wire);
    }

    /// It is time to send; the date of the next time.
    fn act(&mut self, now: Instant, wire: &mut Wire) -> Option<Instant>;
}

/// Output of scripts.
pub(super) struct Wire {
    port: SimPort,
    /// The server's link-layer address.
    server: Mac,
    tx: TxBatch,
    pub(super) rng: Rng,
    /// Segments sent.
    pub(super) sent: u64,
}

impl Wire {
    fn frame(&mut self, build: impl FnOnce(&mut [u8]) -> usize) {
        // Without a frame it is as if the packet had been lost.
        let Some(mut frame) = self.port.take() else { return };
        frame.set_range(0, 256);
        let len = build(frame.data_mut());
        frame.set_range(0, len);
        self.tx.push_back(TxPacket { frame, meta: TxMeta::default() });
    }

    /// Sends a segment in the name of `from`.
    pub(super) fn segment(&mut self, from: Endpoint, to: Endpoint, part: Part, data: &[u8]) {
        let link = Some(Link { dst: self.server, src: self.port.caps().mac });
        let below = Below { link, src: from.addr, dst: to.addr, tos: 0, ttl: 64, label: 0 };
        let Part { seq, ack, flags, options } = part;
        let (src_port, dst_port) = (from.port, to.port);
        let header = Header { src_port, dst_port, seq, ack, flags, window: u16::MAX, options };
        self.sent += 1;
        self.frame(|into| {
            let at = below.len() + header.len();
            into[at..at + data.len()].copy_from_slice(data);
            below.emit_tcp(&header, data.len(), Checksum::Full, into)
        });
    }

    /// Sends a fragment of a segment: the first, or a later one.
    pub(super) fn fragment(&mut self, from: Addr, to: Addr) {
        let link = Some(Link { dst: self.server, src: self.port.caps().mac });
        let below = Below { link, src: from, dst: to, tos: 0, ttl: 64, label: 0 };
        let [first, id @ .., offset] = self.rng.next_u64().to_le_bytes();
        let place = if first & 1 == 0 { [0x20, 0] } else { [first & 0x1f, offset | 1] };
        self.sent += 1;
        self.frame(|into| {
            let at = below.emit(protocol::TCP, 64, into);
            let header = &mut into[at - 20..at];
            header[4..6].copy_from_slice(&id[..2]);
            header[6..8].copy_from_slice(&place);
            header[10..12].fill(0);
            let sum = !Sum::of(header).fold();
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            at + 64
        });
    }

    /// Sends a packet of `protocol` whose bytes behind the IP header are `upper`.
    pub(super) fn packet(&mut self, from: Addr, to: Addr, protocol: u8, upper: &[u8]) {
        let link = Some(Link { dst: self.server, src: self.port.caps().mac });
        let below = Below { link, src: from, dst: to, tos: 0, ttl: 64, label: 0 };
        self.sent += 1;
        self.frame(|into| {
            let at = below.emit(protocol, upper.len(), into);
            into[at..at + upper.len()].copy_from_slice(upper);
            at + upper.len()
        });
    }

    /// Sends an ICMP error in the name of `to`: the segment from `from` whose number is `seq` was larger than `mtu`.
    pub(super) fn too_big(&mut self, from: Endpoint, to: Endpoint, seq: Seq, mtu: u32) {
        let mut quote = [0; 64];
        let below = Below { link: None, src: from.addr, dst: to.addr, tos: 0, ttl: 64, label: 0 };
        let at = below.emit(protocol::TCP, 1_000, &mut quote);
        quote[at..at + 2].copy_from_slice(&from.port.to_be_bytes());
        quote[at + 2..at + 4].copy_from_slice(&to.port.to_be_bytes());
        quote[at + 4..at + 8].copy_from_slice(&seq.raw().to_be_bytes());
        let message = Message::TooBig { mtu, quote: &quote[..at + 8] };
        let mut upper = [0; 80];
        let len = message.emit(to.addr, from.addr, &mut upper);
        let protocol = if to.addr.is_v4() { protocol::ICMP } else { protocol::ICMPV6 };
        self.packet(to.addr, from.addr, protocol, &upper[..len]);
    }

    /// Sends a SYN as an ordinary host does.
    pub(super) fn syn(&mut self, from: Endpoint, to: Endpoint, isn: Seq) {
        let options =
            Options { mss: Some(1460), window_scale: Some(10), sack_permitted: true, ..Options::NONE };
        self.segment(from, to, Part { seq: isn, ack: Seq::new(0), flags: Flags::SYN, options }, &[]);
    }
}

/// Fields that distinguish segments.
pub(super) struct Part {
    pub(super) seq: Seq,
    pub(super) ack: Seq,
    pub(super) flags: Flags,
    pub(super) options: Options,
}

impl Part {
    pub(super) fn ack(seq: Seq, ack: Seq) -> Part {
        Part { seq, ack, flags: Flags::ACK, options: Options::NONE }
    }

    pub(super) fn with_sack(self, sack: SackBlocks) -> Part {
        Part { options: Options { sack, ..self.options }, ..self }
    }
}

/// The host.
pub(super) struct Raw {
    wire: Wire,
    script: Box<dyn Script>,
    next: Option<Instant>,
}

impl Raw {
    /// It begins at `start`.
    pub(super) fn new(port: SimPort, server: Mac, seed: u64, script: Box<dyn Script>, start: Instant) -> Raw {
        let wire = Wire { port, server, tx: TxBatch::new(), rng: Rng::new(seed), sent: 0 };
        Raw { wire, script, next: Some(start) }
    }

    pub(super) fn sent(&self) -> u64 {
        self.wire.sent
    }

    fn take(&mut self, now: Instant, frame: &[u8]) {
        let Ok(read) = parse_frame(frame, frame.len()) else { return };
        let ours = self.wire.port.caps().mac;
        if let Some(question) = read.question(frame) {
            if self.script.answers_for(question.target, now) {
                self.wire.frame(|into| question.answer(ours, false, into));
            }
            return;
        }
        if let Content::Ip(ip) = read.content
            && ip.protocol == protocol::TCP
            && read.link.dst == ours
            && let Ok((_, to, segment)) = ip.tcp(frame)
        {
            self.script.take(Endpoint::new(ip.dst, to), &segment, &mut self.wire);
        }
    }
}

impl Host for Raw {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        let mut rx = RxBatch::new();
        while self.wire.port.rx(&mut rx).expect("a simulated port does not fail") > 0 {
            for packet in rx.drain(..) {
                self.take(now, packet.frame.data());
                self.wire.port.retire(packet.frame);
            }
        }
        if self.next.is_some_and(|next| next <= now) {
            self.next = self.script.act(now, &mut self.wire);
        }
        let mut tx = std::mem::take(&mut self.wire.tx);
        self.wire.port.tx(&mut tx).expect("a simulated port does not fail");
        tx.drain(..).for_each(|packet| self.wire.port.retire(packet.frame));
        self.next
    }
}
