//! The way out: packets are built in the port's frames, sorted into three lists and handed over with one
//! kick.

use base::{Addr, Endpoint, FlowKey, SipKey};
use pio::{
    Caps, ChecksumOffload, IoError, Medium, PIECES_MAX, PacketIo, RxChecksum, RxMeta, RxPacket,
    SegmentationOffload, TxBatch, TxMeta, TxPacket,
};
use ring::Frame;
use std::collections::VecDeque;
use std::io::IoSlice;
use tcp::auth::Auth;
use tcp::{Connection, Opening, Pool, Transmit, TransmitClass, TxLimits};
use wire::checksum::Summer;
use wire::packet::{Below, Checksum, Filling, Link, Template};
use wire::tcp::Header;
use wire::{ethernet, ipv6};

use self::gather::Gathered;
use crate::stats::Stats;

mod gather;

/// A kick at the latest when so many packets are built.
pub(crate) const KICK_AT: usize = pio::BATCH_MAX;
/// Bytes after which the port is kicked: a few super-segments.
const KICK_BYTES: usize = 1 << 18;

/// Largest TCP header.
const TCP_HEADER_MAX: usize = 60;

/// The port with what is on its way to it.
pub(crate) struct Port {
    pub(crate) io: Box<dyn PacketIo>,
    pub(crate) caps: Caps,
    /// How the checksums of what it receives are summed up.
    pub(crate) summer: Summer,
    /// A frame taken for a segment that then was not due.
    spare: Option<Frame>,
    /// Frame for a super-segment, and its capacity, where the port keeps such frames apart.
    long: Option<Frame>,
    long_limits: Option<TxLimits>,
    /// Control segments, and everything that goes before ACKs and data.
    control: TxBatch,
    acks: TxBatch,
    data: TxBatch,
    /// The port did not take everything: nothing more is built until it has.
    pub(crate) blocked: bool,
    /// Packets in the three lists, and their bytes.
    built: usize,
    waiting: usize,
    /// Packets the port took since the last [`Port::take_sent`].
    sent: u32,
    /// Payload from which a packet goes past the lists.
    direct_from: usize,
    /// Super-segments that go there together, if the port takes several better than one by one: how many it takes, and
    /// those that wait for more of their connection, which is the one addressed last.
    at_once: Option<usize>,
    gathered: Vec<Gathered>,
    /// Bytes built since the core began.
    pub(crate) bytes: u64,
    limits: TxLimits,
    labels: SipKey,
    /// Everything below TCP of the segments being built: changed in place for each connection.
    below: Below,
    /// Packets to addresses of the stack itself, as they will be received, in order.
    pub(crate) looped: VecDeque<RxPacket>,
}

/// How a packet of ours is addressed below TCP.
#[derive(Clone, Copy)]
pub(crate) struct Envelope {
    /// Link-layer destination; means nothing where the port takes bare IP packets.
    pub(crate) mac: [u8; 6],
    /// The flow's hash, of which the IPv6 flow label is made.
    pub(crate) hash: u64,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
}

impl Port {
    pub(crate) fn new(mut io: Box<dyn PacketIo>, labels: SipKey) -> Self {
        let caps = io.caps().clone();
        let spare = io.take();
        let limits_of = |frame: &Option<Frame>| {
            let room = |frame: &Frame| frame.capacity().saturating_sub(caps.headroom);
            limits(&caps, frame.as_ref().map_or(caps.mtu, room))
        };
        let limits = limits_of(&spare);
        let mut long = if caps.tso_max > 0 { io.take_long() } else { None };
        let long_limits = Some(limits_of(&long)).filter(|of| of.max_payload > limits.max_payload);
        if let Some(frame) = long.take_if(|_| long_limits.is_none()) {
            io.retire(frame);
        }
        let batch = || TxBatch::with_capacity(2 * KICK_AT);
        let link = (caps.medium == Medium::Ethernet).then_some(Link { dst: [0; 6], src: caps.mac });
        let (src, dst) = (Addr::UNSPECIFIED_V4, Addr::UNSPECIFIED_V4);
        let below = Below { link, src, dst, tos: 0, ttl: 0, label: 0 };
        let (direct_from, at_once) = match io.gather() {
            None => (usize::MAX, None),
            Some(gather) => (gather.gather_from(), gather.gathers_at_once()),
        };
        Port {
            io,
            caps,
            summer: pio::summer(),
            spare,
            long,
            long_limits,
            control: batch(),
            acks: batch(),
            data: batch(),
            blocked: false,
            built: 0,
            waiting: 0,
            sent: 0,
            direct_from,
            at_once,
            gathered: Vec::new(),
            bytes: 0,
            limits,
            labels,
            below,
            looped: VecDeque::new(),
        }
    }

    /// Packets built and not yet taken by the port.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        self.built
    }

    /// Is it time for a kick? Early enough that what was built is still in the cache when the port reads it.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.built >= KICK_AT || self.waiting >= KICK_BYTES
    }

    /// Does the port take `len` bytes of payload, in segments of `mss`, from where they lie? Then what was built
    /// before must be kicked first. Headers are written without a look at the payload only where the port sums it.
    #[inline]
    pub(crate) fn goes_direct(&self, len: u32, mss: u16) -> bool {
        len as usize >= self.direct_from && self.is_summed(len as usize, mss.into())
    }

    /// Does the port sum a packet with so much payload?
    #[inline(always)]
    fn is_summed(&self, len: usize, mss: usize) -> bool {
        self.caps.tx_checksum || len > mss
    }

    /// Packets the port took since the last call.
    #[inline]
    pub(crate) fn take_sent(&mut self) -> u32 {
        std::mem::take(&mut self.sent)
    }

    /// Packets built since the last [`Port::take_sent`], and those that waited then.
    #[inline]
    pub(crate) fn progress(&self) -> usize {
        self.built + self.sent as usize
    }

    /// Sees to it that there is a frame to build a packet in.
    #[inline]
    pub(crate) fn stock(&mut self) -> bool {
        if self.spare.is_none() {
            self.spare = self.io.take();
        }
        if self.long.is_none() && self.long_limits.is_some() {
            self.long = self.io.take_long();
        }
        self.spare.is_some()
    }

    /// Returns the limits of one transmission, with the frames in stock.
    #[inline]
    pub(crate) fn limits(&self) -> TxLimits {
        match self.long_limits {
            Some(long) if self.long.is_some() => long,
            _ => self.limits,
        }
    }

    /// The frame in stock that takes `len` bytes.
    #[inline(always)]
    fn frame(&mut self, len: usize) -> Option<Frame> {
        let room = |frame: &mut Frame| frame.capacity() - self.caps.headroom;
        self.spare.take_if(|frame| len <= room(frame)).or_else(|| self.long.take())
    }

    /// Says to whom the next segments go.
    #[inline(always)]
    pub(crate) fn address(&mut self, key: &FlowKey, mac: &[u8; 6], hash: u64) {
        let (src, dst) = (key.local().addr, key.remote().addr);
        let label = self.label(src, hash);
        let below = &mut self.below;
        if let Some(link) = &mut below.link {
            link.dst = *mac;
            link.src = self.caps.mac;
        }
        (below.src, below.dst, below.label) = (src, dst, label);
    }

    /// `mac` is the link-layer destination and means nothing where the port takes bare IP packets.
    fn below_of(&self, src: Addr, dst: Addr, mac: &[u8; 6], hash: u64) -> Below {
        let link = self.link().map(|link| Link { dst: *mac, ..link });
        Below { link, src, dst, tos: 0, ttl: 0, label: self.label(src, hash) }
    }

    /// RFC 6864: the identification of a packet that may not be fragmented means nothing. RFC 6437: a flow label is
    /// the same for all packets of a flow and tells nothing of the host.
    #[inline(always)]
    fn label(&self, src: Addr, hash: u64) -> u32 {
        if src.is_v4() { 0 } else { self.labels.fast_word(hash) as u32 }
    }

    /// Builds a connection's segment, for where [`Port::address`] said, in the frame that [`Port::stock`] laid ready
    /// and appends it to the list of `class`; or sends it at once, where the port takes the payload from where it
    /// lies and nothing waits that came before: then true.
    #[inline(always)]
    pub(crate) fn segment(
        &mut self,
        tcp: &Connection,
        pool: &Pool,
        tx: &Transmit,
        class: TransmitClass,
    ) -> bool {
        (self.below.tos, self.below.ttl) = (tx.tos, tx.ttl);
        if tx.header.options.signature.is_some() {
            self.signed_segment(tcp, pool, tx, class);
            return false;
        }
        let headers = self.below.len() + tx.header.len();
        let len = tx.len as usize;
        if self.goes_direct(tx.len, tx.mss) && self.built == 0 && self.send_direct(tcp, pool, tx) {
            return true;
        }
        let Some(mut frame) = self.frame(headers + len) else { return false };
        frame.set_range(self.caps.headroom, headers + len);
        let data = frame.data_mut();
        if len > 0 {
            tcp.copy_payload(pool, tx, &mut data[headers..]);
        }
        let meta = self.finish(&self.below, &tx.header, len, usize::from(tx.mss), data);
        self.bytes += (headers + len) as u64;
        self.waiting += headers + len;
        self.built += 1;
        self.list(class).push_back(TxPacket { frame, meta });
        false
    }

    /// Builds a segment of a looped connection, for where [`Port::address`] said, as it will be received: nothing sums
    /// what stays in this process's memory.
    pub(crate) fn looped_segment(&mut self, tcp: &Connection, pool: &Pool, tx: &Transmit) {
        (self.below.tos, self.below.ttl) = (tx.tos, tx.ttl);
        let headers = self.below.len() + tx.header.len();
        let len = tx.len as usize;
        let Some(mut frame) = self.frame(headers + len) else { return };
        frame.set_range(self.caps.headroom, headers + len);
        let data = frame.data_mut();
        tcp.copy_payload(pool, tx, &mut data[headers..]);
        if tx.header.options.signature.is_some() {
            self.finish_signed(&self.below, &tx.header, len, data, |bytes| tcp.sign(bytes));
        } else {
            self.below.emit_tcp(&tx.header, len, Checksum::Offloaded, data);
        }
        self.push_looped(frame, if tx.len > u32::from(tx.mss) { tx.mss } else { 0 });
    }

    fn push_looped(&mut self, frame: Frame, gso_size: u16) {
        let meta = RxMeta { checksum: RxChecksum::Verified, gso_size, more: false };
        self.looped.push_back(RxPacket { frame, meta });
    }

    /// Sends a segment with a signature, which covers the whole of one segment of the wire: nothing is segmented or
    /// gathered.
    #[cold]
    fn signed_segment(&mut self, tcp: &Connection, pool: &Pool, tx: &Transmit, class: TransmitClass) {
        assert!(tx.len <= u32::from(tx.mss), "a signed super-segment");
        let headers = self.below.len() + tx.header.len();
        let len = tx.len as usize;
        let Some(mut frame) = self.frame(headers + len) else { return };
        frame.set_range(self.caps.headroom, headers + len);
        let data = frame.data_mut();
        tcp.copy_payload(pool, tx, &mut data[headers..]);
        let meta = self.finish_signed(&self.below, &tx.header, len, data, |bytes| tcp.sign(bytes));
        self.bytes += (headers + len) as u64;
        self.waiting += headers + len;
        self.built += 1;
        self.list(class).push_back(TxPacket { frame, meta });
    }

    /// Headers in front of the payload, then the signature, then the checksum.
    fn finish_signed(
        &self,
        below: &Below,
        header: &Header,
        len: usize,
        data: &mut [u8],
        sign: impl FnOnce(&mut [u8]),
    ) -> TxMeta {
        below.emit_tcp(header, len, Checksum::Offloaded, data);
        let tcp = &mut data[below.len()..];
        sign(tcp);
        if self.caps.tx_checksum {
            return request(below, header, len, len);
        }
        below.seal_tcp(tcp);
        TxMeta::default()
    }

    /// Headers from a frame in stock, payload from the send buffer: the one copy is the port's. False, and nothing
    /// happened, if it cannot take it now or the payload lies in too many pieces.
    #[inline(never)]
    fn send_direct(&mut self, tcp: &Connection, pool: &Pool, tx: &Transmit) -> bool {
        if self.gathers(tcp, pool, tx) {
            return true;
        }
        let headers = self.below.len() + tx.header.len();
        let len = tx.len as usize;
        let Some(mut frame) = self.frame(headers + len) else { return false };
        frame.set_range(self.caps.headroom, headers + len);
        let meta = self.finish(&self.below, &tx.header, len, usize::from(tx.mss), frame.data_mut());
        frame.set_range(self.caps.headroom, headers);
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let (mut count, mut held) = (0, 0);
        for (place, piece) in pieces.iter_mut().zip(tcp.payload(pool, tx)) {
            *place = IoSlice::new(piece);
            (count, held) = (count + 1, held + piece.len());
        }
        let pieces = &pieces[..count];
        let sent = held == len && self.io.gather().is_some_and(|io| io.tx_gather(&mut frame, &meta, pieces));
        self.put_back(frame);
        if sent {
            self.bytes += (headers + len) as u64;
            self.sent += 1;
        }
        sent
    }

    /// A frame that was in stock is again.
    #[inline]
    fn put_back(&mut self, frame: Frame) {
        // It was the spare one unless there still is one.
        *(if self.spare.is_none() { &mut self.spare } else { &mut self.long }) = Some(frame);
    }

    /// Writes the headers in front of the payload.
    #[inline(always)]
    fn finish(&self, below: &Below, header: &Header, len: usize, mss: usize, data: &mut [u8]) -> TxMeta {
        let offloaded = self.is_summed(len, mss);
        let checksum = if offloaded { Checksum::Offloaded } else { Checksum::Full };
        below.emit_tcp(header, len, checksum, data);
        if offloaded { request(below, header, len, mss) } else { TxMeta::default() }
    }

    /// Sends a TCP segment without payload that belongs to no connection, signed if its header has room for that; to
    /// the stack itself if it is `looped`.
    /// False if there was no frame.
    #[cold]
    pub(crate) fn header_only(
        &mut self,
        key: &FlowKey,
        header: &Header,
        envelope: &Envelope,
        auth: Option<&Auth>,
        looped: bool,
    ) -> bool {
        if !self.stock() {
            return false;
        }
        let Some(mut frame) = self.spare.take() else { return false };
        let Envelope { mac, hash, tos, ttl } = *envelope;
        let below = Below { tos, ttl, ..self.below_of(key.local().addr, key.remote().addr, &mac, hash) };
        frame.set_range(self.caps.headroom, below.len() + header.len());
        let data = frame.data_mut();
        let meta = match auth.filter(|_| header.options.signature.is_some()) {
            Some(auth) => self.finish_signed(&below, header, 0, data, |bytes| auth.sign(bytes)),
            None => self.finish(&below, header, 0, 0, data),
        };
        if looped {
            self.push_looped(frame, 0);
            return true;
        }
        self.push_control(TxPacket { frame, meta });
        true
    }

    /// Sends an IP packet whose upper layer of `len` bytes `fill` writes.
    pub(crate) fn packet(
        &mut self,
        (src, dst): (Addr, Addr),
        protocol: u8,
        envelope: &Envelope,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Envelope { mac, hash, tos, ttl } = *envelope;
        let below = Below { tos, ttl, ..self.below_of(src, dst, &mac, hash) };
        self.raw(below.len() + len, |data| {
            let at = below.emit(protocol, len, data);
            fill(&mut data[at..]);
        })
    }

    /// Sends a frame of `len` bytes that `fill` writes. False if there was no frame or it is too short.
    pub(crate) fn raw(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        let headroom = self.caps.headroom;
        let fits =
            self.stock() && self.spare.as_ref().is_some_and(|frame| headroom + len <= frame.capacity());
        let Some(mut frame) = self.spare.take_if(|_| fits) else { return false };
        frame.set_range(self.caps.headroom, len);
        fill(frame.data_mut());
        self.push_control(TxPacket { frame, meta: TxMeta::default() });
        true
    }

    /// The link-layer addresses of packets to no host in particular, where packets have any.
    pub(crate) fn link(&self) -> Option<Link> {
        (self.caps.medium == Medium::Ethernet).then_some(Link { dst: [0; 6], src: self.caps.mac })
    }

    /// Builds the SYN or SYN-ACK of a connection from the handshake cache, in the frame that [`Port::stock`] laid
    /// ready.
    pub(crate) fn opening(
        &mut self,
        template: &Template,
        mac: &[u8; 6],
        hash: u64,
        ends: [Endpoint; 2],
        opening: &Opening,
    ) {
        let Some(mut frame) = self.frame(template.len()) else { return };
        frame.set_range(self.caps.headroom, template.len());
        let Opening { seq, ack, window, stamps } = *opening;
        let link = self.link().map(|link| Link { dst: *mac, ..link });
        let label = if template.is_v4() { 0 } else { self.labels.fast_word(hash) as u32 };
        let offloaded = self.caps.tx_checksum;
        let filling = Filling { link, label, ends, seq, ack, window, stamps };
        template.fill(&filling, !offloaded, frame.data_mut());
        let meta = if offloaded { complete(template.below()) } else { TxMeta::default() };
        self.push_control(TxPacket { frame, meta });
    }

    fn push_control(&mut self, packet: TxPacket) {
        self.bytes += packet.frame.len() as u64;
        self.waiting += packet.frame.len();
        self.built += 1;
        self.control.push_back(packet);
    }

    fn list(&mut self, class: TransmitClass) -> &mut TxBatch {
        match class {
            TransmitClass::Control => &mut self.control,
            TransmitClass::Ack => &mut self.acks,
            TransmitClass::Data => &mut self.data,
        }
    }

    /// Hands everything built to the port: control before ACKs before data.
    pub(crate) fn kick(&mut self, stats: &mut Stats) -> Result<(), IoError> {
        for list in [&mut self.acks, &mut self.data] {
            if list.is_empty() {
                continue;
            }
            if self.control.is_empty() {
                std::mem::swap(&mut self.control, list);
            } else {
                self.control.append(list);
            }
        }
        (self.built, self.waiting) = (0, 0);
        stats.kicks += 1;
        let taken = self.io.tx(&mut self.control);
        self.blocked = !self.control.is_empty();
        self.built = self.control.len();
        stats.tx_blocked += u64::from(self.blocked);
        self.sent += taken? as u32;
        Ok(())
    }

    /// Gives all frames back; what was not sent yet is lost.
    pub(crate) fn drain(&mut self) {
        self.control.append(&mut self.acks);
        self.control.append(&mut self.data);
        while let Some(packet) = self.control.pop_front() {
            self.io.retire(packet.frame);
        }
        while let Some(packet) = self.looped.pop_front() {
            self.io.retire(packet.frame);
        }
        for frame in [self.spare.take(), self.long.take()].into_iter().flatten() {
            self.io.retire(frame);
        }
    }
}

/// The port is asked for the checksum of a segment behind this many bytes.
fn complete(start: usize) -> TxMeta {
    let offset = wire::tcp::CHECKSUM_OFFSET as u16;
    TxMeta { checksum: Some(ChecksumOffload { start: start as u16, offset }), segmentation: None }
}

/// Returns the offloads requested for a segment.
fn request(below: &Below, header: &Header, len: usize, mss: usize) -> TxMeta {
    let start = below.len();
    let segmentation = (len > mss).then(|| SegmentationOffload {
        size: mss as u16,
        header_len: (start + header.len()) as u16,
        v6: !below.src.is_v4(),
    });
    TxMeta { segmentation, ..complete(start) }
}

/// A super-segment must fit the port, the length field of IPv4 and the frame. Where the port cuts none there
/// is no room for one: the connection then keeps to its MSS, which the peer may have made smaller than the
/// link.
fn limits(caps: &Caps, room: usize) -> TxLimits {
    let headers = ipv6::HEADER_LEN + TCP_HEADER_MAX;
    let super_segment =
        caps.tso_max.min(65_535).min(room.saturating_sub(ethernet::HEADER_LEN)).saturating_sub(headers);
    TxLimits { max_payload: super_segment as u32 }
}
