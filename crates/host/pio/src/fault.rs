//! A port that treats packets badly, from a seed: loss, duplication, corruption and reordering, both ways.
//!
//! For proving what stands above it. A packet that goes through is one the sender's peer could have received:
//! damage is always such that a checksum shows it. Where the checksum was left to the other side, it is
//! completed before the damage is done; a super-segment that would be damaged is lost instead, because it
//! gets its checksums only when it is cut.

use crate::layer::Layer;
use crate::port::*;
use base::{Duration, Rng};
use ring::Frame;
use std::collections::VecDeque;
use wire::checksum::Sum;
use wire::packet::Content;
use wire::protocol;

/// How often each thing happens to a packet, 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Faults {
    /// It vanishes.
    pub loss: f64,
    /// It arrives twice.
    pub duplicate: f64,
    /// One of its bits is flipped.
    pub corrupt: f64,
    /// Others overtake it.
    pub reorder: f64,
    /// At most this many do.
    pub reorder_by: u32,
}

/// Faults for the two directions.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FaultConfig {
    /// Everything follows from it.
    pub seed: u64,
    /// Towards us.
    pub rx: Faults,
    /// Away from us.
    pub tx: Faults,
}

/// Counters of faults in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Packets lost, also those that could not be damaged otherwise.
    pub lost: u64,
    /// Packets doubled.
    pub duplicated: u64,
    /// Packets damaged.
    pub corrupted: u64,
    /// Packets held back.
    pub reordered: u64,
}

/// `P` with faults.
pub struct Fault<P> {
    inner: P,
    rng: Rng,
    rx: Lane<RxPacket>,
    tx: Lane<TxPacket>,
    batch: RxBatch,
    outgoing: TxBatch,
}

/// One direction: what is to be done, was done, and is under way.
struct Lane<T> {
    faults: Faults,
    counts: FaultCounts,
    /// Packets held back, and how many may still overtake each.
    held: Vec<(u32, Vec<T>)>,
    /// Packets that go on, in order. One may consist of several parts.
    ready: VecDeque<T>,
}

/// A part of a packet, received or to be sent.
trait Part {
    fn frame(&mut self) -> &mut Frame;
    fn into_frame(self) -> Frame;
    /// Returns the packet with another frame.
    fn with(&self, frame: Frame) -> Self;
    /// Is this a super-segment?
    fn is_super(&self) -> bool;
    /// Does its TCP checksum cover only the pseudo header?
    fn is_partial(&self) -> bool;
    /// Nothing vouches for its checksum any more, and nothing completes it.
    fn doubt(&mut self);
}

impl Part for RxPacket {
    fn frame(&mut self) -> &mut Frame {
        &mut self.frame
    }

    fn into_frame(self) -> Frame {
        self.frame
    }

    fn with(&self, frame: Frame) -> Self {
        RxPacket { frame, meta: self.meta }
    }

    fn is_super(&self) -> bool {
        self.meta.gso_size > 0
    }

    fn is_partial(&self) -> bool {
        self.meta.checksum == RxChecksum::Partial
    }

    fn doubt(&mut self) {
        self.meta.checksum = RxChecksum::Unverified;
    }
}

impl Part for TxPacket {
    fn frame(&mut self) -> &mut Frame {
        &mut self.frame
    }

    fn into_frame(self) -> Frame {
        self.frame
    }

    fn with(&self, frame: Frame) -> Self {
        TxPacket { frame, meta: self.meta }
    }

    fn is_super(&self) -> bool {
        self.meta.segmentation.is_some()
    }

    fn is_partial(&self) -> bool {
        self.meta.checksum.is_some()
    }

    fn doubt(&mut self) {
        self.meta.checksum = None;
    }
}

impl<T: Part> Lane<T> {
    fn new(faults: Faults) -> Lane<T> {
        Lane { faults, counts: FaultCounts::default(), held: Vec::new(), ready: VecDeque::new() }
    }

    /// A packet comes along, in one part or several.
    fn pass<P: PacketIo>(&mut self, mut packet: Vec<T>, rng: &mut Rng, port: &mut P) {
        let Faults { loss, duplicate, corrupt, reorder, reorder_by } = self.faults;
        let damage = rng.chance(corrupt);
        if rng.chance(loss) || damage && !self.damage(&mut packet, rng) {
            self.counts.lost += 1;
            packet.into_iter().for_each(|part| port.retire(part.into_frame()));
        } else {
            if rng.chance(duplicate)
                && let Some(copy) = copy(&mut packet, port)
            {
                self.counts.duplicated += 1;
                self.ready.extend(copy);
            }
            if reorder_by > 0 && rng.chance(reorder) && self.held.len() < BATCH_MAX {
                self.counts.reordered += 1;
                self.held.push((1 + rng.below(reorder_by.into()) as u32, packet));
                return;
            }
            self.ready.extend(packet);
        }
        self.overtake();
    }

    /// One packet more has overtaken those that are held.
    fn overtake(&mut self) {
        let ready = &mut self.ready;
        self.held.retain_mut(|(left, packet)| {
            *left -= 1;
            if *left == 0 {
                ready.extend(packet.drain(..));
            }
            *left > 0
        });
    }

    /// Nothing more comes for now: what is held goes on, so that reordering never becomes loss.
    fn release(&mut self) {
        self.ready.extend(self.held.drain(..).flat_map(|(_, packet)| packet));
    }

    /// Flip a bit; false if the damage would not show.
    fn damage(&mut self, packet: &mut [T], rng: &mut Rng) -> bool {
        let [part] = packet else { return false };
        if part.is_super() || !complete(part) {
            return false;
        }
        let bytes = part.frame().data_mut();
        // Behind the link header, whose damage the link itself would notice.
        let Some(body) = bytes.get_mut(wire::ethernet::HEADER_LEN..).filter(|body| !body.is_empty()) else {
            return false;
        };
        let bit = rng.below(8 * body.len() as u64) as usize;
        body[bit / 8] ^= 1 << (bit % 8);
        self.counts.corrupted += 1;
        true
    }

    /// Give back the frames of everything under way.
    fn clear<P: PacketIo>(&mut self, port: &mut P) {
        self.release();
        self.ready.drain(..).for_each(|part| port.retire(part.into_frame()));
    }
}

/// Complete the packet's checksum; false if it has none.
fn complete<T: Part>(part: &mut T) -> bool {
    let partial = part.is_partial();
    let bytes = part.frame().data_mut();
    let Ok(frame) = wire::packet::parse_frame(bytes, bytes.len()) else { return false };
    let Content::Ip(ip) = frame.content else { return false };
    if ip.protocol == protocol::TCP && partial {
        let Some(upper) = bytes.get_mut(ip.range()).filter(|upper| upper.len() >= 20) else { return false };
        // The pseudo header's sum stands in the field already.
        let checksum = Sum::of(upper).checksum();
        wire::tcp::set_checksum(upper, checksum);
    }
    part.doubt();
    true
}

/// Returns a copy of the packet, if there are frames for it.
fn copy<T: Part, P: PacketIo>(packet: &mut [T], port: &mut P) -> Option<Vec<T>> {
    let mut copies = Vec::with_capacity(packet.len());
    for part in packet {
        let Some(mut frame) = port.take() else {
            copies.into_iter().for_each(|part: T| port.retire(part.into_frame()));
            return None;
        };
        let bytes = part.frame().data();
        let start = frame.headroom();
        if bytes.len() > frame.capacity() - start {
            port.retire(frame);
            copies.into_iter().for_each(|part: T| port.retire(part.into_frame()));
            return None;
        }
        frame.set_range(start, bytes.len());
        frame.data_mut().copy_from_slice(bytes);
        copies.push(part.with(frame));
    }
    Some(copies)
}

impl<P: PacketIo> Fault<P> {
    /// `inner` with faults.
    pub fn new(inner: P, config: &FaultConfig) -> Fault<P> {
        Fault {
            inner,
            rng: Rng::new(config.seed),
            rx: Lane::new(config.rx),
            tx: Lane::new(config.tx),
            batch: RxBatch::new(),
            outgoing: TxBatch::new(),
        }
    }

    /// Other faults from now on.
    pub fn set_faults(&mut self, rx: Faults, tx: Faults) {
        (self.rx.faults, self.tx.faults) = (rx, tx);
    }

    /// Returns the counters of received and of sent packets.
    pub fn counts(&self) -> (FaultCounts, FaultCounts) {
        (self.rx.counts, self.tx.counts)
    }

    /// The port itself; what is under way is lost.
    pub fn into_inner(mut self) -> P {
        self.rx.clear(&mut self.inner);
        self.tx.clear(&mut self.inner);
        self.outgoing.drain(..).for_each(|packet| self.inner.retire(packet.frame));
        self.inner
    }

    /// Send what is ready.
    fn push_out(&mut self) -> Result<(), IoError> {
        self.outgoing.extend(self.tx.ready.drain(..));
        if !self.outgoing.is_empty() {
            self.inner.tx(&mut self.outgoing)?;
        }
        Ok(())
    }
}

impl<P: PacketIo> Layer for Fault<P> {
    type Below = P;

    fn below(&self) -> &P {
        &self.inner
    }

    fn below_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    fn receive(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if self.rx.ready.is_empty() {
            let got = self.inner.rx(&mut self.batch)?;
            if got == 0 {
                self.rx.release();
                self.tx.release();
                self.push_out()?;
            }
            let mut packet = Vec::new();
            for part in self.batch.drain(..) {
                let more = part.meta.more;
                packet.push(part);
                if !more {
                    self.rx.pass(std::mem::take(&mut packet), &mut self.rng, &mut self.inner);
                }
            }
            // A packet whose end has not come goes on as it is.
            self.rx.ready.extend(packet);
        }
        let room = BATCH_MAX.saturating_sub(batch.len()).min(self.rx.ready.len());
        batch.extend(self.rx.ready.drain(..room));
        Ok(room)
    }

    fn send(&mut self, batch: &mut TxBatch) -> Result<usize, IoError> {
        self.push_out()?;
        let mut taken = 0;
        while self.outgoing.len() + self.tx.ready.len() < BATCH_MAX
            && let Some(packet) = batch.pop_front()
        {
            self.tx.pass(vec![packet], &mut self.rng, &mut self.inner);
            taken += 1;
        }
        match self.push_out() {
            // They are ours now, and are sent when the port is back.
            Err(_) if taken > 0 => Ok(taken),
            Err(error) => Err(error),
            Ok(()) => Ok(taken),
        }
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> Result<Wake, IoError> {
        self.rx.release();
        self.tx.release();
        self.push_out()?;
        if self.rx.ready.is_empty() { self.inner.wait(timeout) } else { Ok(Wake::Ready) }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let (rx, tx) = self.counts();
        vec![
            ("fault_rx_lost", rx.lost),
            ("fault_rx_duplicated", rx.duplicated),
            ("fault_rx_corrupted", rx.corrupted),
            ("fault_rx_reordered", rx.reordered),
            ("fault_tx_lost", tx.lost),
            ("fault_tx_duplicated", tx.duplicated),
            ("fault_tx_corrupted", tx.corrupted),
            ("fault_tx_reordered", tx.reordered),
        ]
    }
}

#[cfg(test)]
mod tests {
    //! Goal: each fault happens as often as asked, alike for alike seeds; damage always shows in a checksum;
    //! nothing held is ever forgotten and no frame lost.
    use super::*;
    use crate::pair::{Pair, PairConfig, pair};
    use base::Addr;
    use wire::packet::{Below, Checked, Checksum, Link};
    use wire::tcp::{Flags, Header, Options};

    const COUNT: u32 = 4000;

    /// A segment whose sequence number is `n`.
    fn segment(port: &mut impl PacketIo, n: u32, offload: bool, big: bool) -> TxPacket {
        let v6 = n % 2 == 1;
        let addr = |host: u8| if v6 { Addr::v6([host; 16]) } else { Addr::v4([10, 0, 0, host]) };
        let link = Some(Link { dst: [2; 6], src: [4; 6] });
        let below = Below { link, src: addr(1), dst: addr(2), tos: 0, ttl: 64, label: 0 };
        let (seq, options) = (base::Seq::new(n), Options::default());
        let header =
            Header { src_port: 1, dst_port: 2, seq, ack: seq, flags: Flags::ACK, window: 9, options };
        let checksum = if offload { Checksum::Offloaded } else { Checksum::Full };
        let mut frame = port.take().expect("a frame");
        let (start, len) = (frame.headroom(), if big { 9000 } else { 100 + n as usize % 1000 });
        frame.set_range(start, frame.capacity() - start);
        frame.data_mut()[..len + 100].fill(n as u8);
        let len = below.emit_tcp(&header, len, checksum, frame.data_mut());
        frame.set_range(start, len);
        let sum = offload.then_some(ChecksumOffload { start: below.len() as u16, offset: 16 });
        let cut = SegmentationOffload { size: 1000, header_len: below.len() as u16 + 20, v6 };
        TxPacket { frame, meta: TxMeta { checksum: sum, segmentation: big.then_some(cut) } }
    }

    /// Returns the segments that arrive of `COUNT`: sequence numbers of the sound ones, and how many were damaged.
    fn through(
        config: &FaultConfig,
        offload: bool,
        big: bool,
    ) -> (Vec<u32>, u64, (FaultCounts, FaultCounts)) {
        let (a, b) = pair(&PairConfig { frames: 300, ..PairConfig::offloads() }).unwrap();
        let (mut a, mut b) =
            (Fault::new(a, config), Fault::new(b, &FaultConfig { seed: !config.seed, ..*config }));
        a.set_faults(Faults::default(), config.tx);
        b.set_faults(config.rx, Faults::default());
        let (mut batch, mut wish, mut got, mut damaged) = (RxBatch::new(), TxBatch::new(), Vec::new(), 0);
        let mut drain = |b: &mut Fault<Pair>| {
            let count = b.rx(&mut batch).unwrap();
            for packet in batch.drain(..) {
                let bytes = packet.frame.data();
                match wire::packet::parse_frame(bytes, bytes.len()) {
                    Ok(frame) => {
                        let Content::Ip(ip) = frame.content else { panic!("not IP") };
                        let sound = packet.meta.checksum == RxChecksum::Partial
                            || ip.checksum(bytes) == Checked::Good;
                        match ip.tcp(bytes) {
                            Ok((_, _, segment)) if sound => got.push(segment.seq.raw()),
                            _ => damaged += 1,
                        }
                    }
                    Err(_) => damaged += 1,
                }
                b.retire(packet.frame);
            }
            count
        };
        for n in 0..COUNT {
            wish.push_back(segment(&mut a, n, offload, big));
            a.tx(&mut wish).unwrap();
            assert!(wish.is_empty());
            if n % 7 == 0 {
                drain(&mut b);
            }
        }
        a.wait(Some(Duration::ZERO)).unwrap();
        while drain(&mut b) > 0 || b.wait(Some(Duration::ZERO)).unwrap() == Wake::Ready {}
        let counts = (b.counts().0, a.counts().1);
        for end in [a, b] {
            drop(end.into_inner());
        }
        (got, damaged, counts)
    }

    fn both(faults: Faults) -> FaultConfig {
        FaultConfig { seed: 42, rx: faults, tx: faults }
    }

    #[test]
    fn no_faults_change_nothing() {
        let (got, damaged, counts) = through(&both(Faults::default()), true, false);
        assert!(got.iter().copied().eq(0..COUNT) && damaged == 0 && counts == Default::default());
    }

    #[test]
    fn rates_are_kept_and_replayed() {
        let faults = Faults { loss: 0.1, duplicate: 0.1, corrupt: 0.1, reorder: 0.1, reorder_by: 5 };
        let (got, damaged, (rx, tx)) = through(&both(faults), false, false);
        let near = |n: u64, of: u64, p: f64| (n as f64 / of as f64 - p).abs() < 0.03;
        for c in [rx, tx] {
            assert!(near(c.lost, COUNT.into(), 0.1) && near(c.corrupted, COUNT.into(), 0.09), "{c:?}");
            assert!(near(c.duplicated, COUNT.into(), 0.09) && near(c.reordered, COUNT.into(), 0.09), "{c:?}");
        }
        let arrived = got.len() as u64 + damaged;
        assert_eq!(arrived + rx.lost + tx.lost, u64::from(COUNT) + rx.duplicated + tx.duplicated);
        assert!(damaged > 0 && got.windows(2).any(|pair| pair[0] > pair[1]));
        assert_eq!(through(&both(faults), false, false).0, got, "the same seed, the same fate");
        assert_ne!(through(&FaultConfig { seed: 43, ..both(faults) }, false, false).0, got);
    }

    #[test]
    fn damage_always_shows() {
        let faults = Faults { corrupt: 1.0, ..Faults::default() };
        for offload in [false, true] {
            let config = FaultConfig { seed: 1, rx: Faults::default(), tx: faults };
            let (got, damaged, (_, tx)) = through(&config, offload, false);
            // A bit of the hop limit or flow label of IPv6 is covered by no checksum, and changes no data.
            assert!(got.len() < COUNT as usize / 20, "{} looked sound", got.len());
            assert_eq!(got.len() as u64 + damaged, tx.corrupted);
            let (got, _, (rx, _)) =
                through(&FaultConfig { rx: faults, tx: Faults::default(), ..config }, offload, false);
            assert!(got.len() < COUNT as usize / 20 && rx.corrupted > 3900, "{} {rx:?}", got.len());
        }
        let (got, damaged, (_, tx)) =
            through(&FaultConfig { seed: 1, rx: Faults::default(), tx: faults }, true, true);
        assert_eq!((got.len(), damaged, tx.lost), (0, 0, COUNT.into()), "super-segments are lost instead");
    }

    #[test]
    fn reordering_never_becomes_loss() {
        let faults = Faults { reorder: 0.5, reorder_by: 20, ..Faults::default() };
        let (mut got, damaged, _) = through(&both(faults), true, true);
        got.sort_unstable();
        assert!(got.into_iter().eq(0..COUNT) && damaged == 0);
    }
}
