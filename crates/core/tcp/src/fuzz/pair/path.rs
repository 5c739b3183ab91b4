//! The path between the ends: what it does to a segment follows from one byte of the input.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use base::{Duration, FlowKey, Input, Instant, Seq};
use wire::Ecn;
use wire::packet::{Below, Checked, Checksum};
use wire::tcp::Flags;

use super::end::Outgoing;

/// One direction of the path. Of 255 bytes the first `loss` lose a segment, the next `twice` double it, and so on;
/// zero, which is what an input that is used up gives, does nothing.
#[derive(Clone, Copy, Default)]
pub(super) struct Link {
    pub(super) delay: Duration,
    /// Up to this much more: reorders where it exceeds the gap between segments.
    pub(super) jitter: Duration,
    pub(super) loss: u8,
    pub(super) twice: u8,
    pub(super) held: u8,
    pub(super) damage: u8,
    pub(super) mark: u8,
    /// From then on, packets longer than this are dropped, and ICMP says so.
    pub(super) narrows: Option<(Instant, u16)>,
    /// Nothing passes.
    pub(super) outage: Option<(Instant, Instant)>,
}

/// Packet on the path.
pub(super) enum Cargo {
    Segment { bytes: Vec<u8>, ecn: Ecn },
    TooBig { mtu: u16, seq: Seq },
}

/// Fate of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Passes,
    Lost,
    Doubled,
    Held,
    Damaged,
    Marked,
    TooBig,
}

#[derive(Default)]
pub(super) struct Path {
    pub(super) links: [Link; 2],
    pub(super) flying: BTreeMap<(Instant, u64), (usize, Cargo)>,
    pub(super) serial: u64,
    /// Segments that did not arrive.
    pub(super) lost: u32,
}

impl Path {
    /// When the next thing arrives.
    pub(super) fn due(&self) -> Option<Instant> {
        self.flying.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn land(&mut self) -> Option<(usize, Cargo)> {
        self.flying.pop_first().map(|(_, what)| what)
    }

    /// The next arrival, if it comes before `until`.
    pub(super) fn peek(&self, until: Instant) -> Option<(usize, &Cargo)> {
        let ((at, _), (to, cargo)) = self.flying.first_key_value()?;
        (*at <= until).then_some((*to, cargo))
    }

    /// Puts a packet that end `from` sent on the path.
    pub(super) fn launch(
        &mut self,
        from: usize,
        key: &FlowKey,
        sent: Outgoing,
        now: Instant,
        input: &mut Input<'_>,
    ) -> Fate {
        let link = self.links[from];
        let Outgoing { bytes, ecn } = sent;
        let headers = if key.is_v4() { 20 } else { 40 };
        let narrow = link.narrows.filter(|&(since, mtu)| since <= now && bytes.len() + headers > mtu.into());
        if let Some((_, mtu)) = narrow {
            let (.., seg) = wire::tcp::parse(&bytes).expect("a connection emits what parses");
            self.fly(from, now + link.delay, Cargo::TooBig { mtu, seq: seg.seq });
            return Fate::TooBig;
        }
        let fate = link.fate(now, ecn, input);
        if matches!(fate, Fate::Lost | Fate::Damaged) {
            self.lost += 1;
        }
        if fate == Fate::Damaged {
            assert!(!survives(key, &bytes, input), "a damaged segment passed for a sound one");
        }
        let copies = match fate {
            Fate::Lost | Fate::Damaged => 0,
            Fate::Doubled => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let jitter = Duration::from_micros(input.below(link.jitter.as_micros() as u32).into());
            let held = if fate == Fate::Held { link.delay * 2 } else { Duration::ZERO };
            let ecn = if fate == Fate::Marked { Ecn::Marked } else { Ecn::of(ecn) };
            let cargo = Cargo::Segment { bytes: bytes.clone(), ecn };
            self.fly(1 - from, now + link.delay + jitter + held, cargo);
        }
        fate
    }

    fn fly(&mut self, to: usize, at: Instant, cargo: Cargo) {
        self.serial += 1;
        self.flying.insert((at, self.serial), (to, cargo));
    }
}

impl Link {
    fn fate(&self, now: Instant, ecn: u8, input: &mut Input<'_>) -> Fate {
        if self.outage.is_some_and(|(from, to)| from <= now && now < to) {
            return Fate::Lost;
        }
        let ills = [self.loss, self.twice, self.held, self.damage, self.mark];
        if ills == [0; 5] {
            return Fate::Passes;
        }
        let mut byte = u32::from(input.u8());
        const FATES: [Fate; 5] = [Fate::Lost, Fate::Doubled, Fate::Held, Fate::Damaged, Fate::Marked];
        for (share, fate) in ills.into_iter().zip(FATES) {
            if byte != 0 && byte <= share.into() {
                let deaf = fate == Fate::Marked && ecn == 0;
                return if deaf { Fate::Passes } else { fate };
            }
            byte = byte.saturating_sub(share.into());
        }
        Fate::Passes
    }
}

/// Does a packet of which one bit was turned over pass for a sound one of this flow?
fn survives(key: &FlowKey, bytes: &[u8], input: &mut Input<'_>) -> bool {
    let Ok((src_port, dst_port, seg)) = wire::tcp::parse(bytes) else { return false };
    let (local, remote) = (key.local(), key.remote());
    let below = Below { link: None, src: local.addr, dst: remote.addr, tos: 0, ttl: 64, label: 0 };
    let header = wire::tcp::Header {
        src_port,
        dst_port,
        seq: seg.seq,
        ack: seg.ack,
        flags: Flags(seg.flags.0),
        window: seg.window,
        options: seg.options,
    };
    let at = below.len() + header.len();
    let mut packet = vec![0; at + seg.payload.len()];
    packet[at..].copy_from_slice(seg.payload);
    below.emit_tcp(&header, seg.payload.len(), Checksum::Full, &mut packet);
    // Below this lies what IPv6 leaves to the link: flow label, hop limit, traffic class.
    let first = if key.is_v4() { 0 } else { 8 };
    let bit = 8 * first + input.below((8 * (packet.len() - first)).min(1 << 16) as u32) as usize;
    packet[bit / 8] ^= 1 << (bit % 8);
    let len = packet.len();
    let Ok(parsed) = wire::packet::parse_ip(&packet, len) else { return false };
    let ours = (parsed.src, parsed.dst) == (local.addr, remote.addr);
    let sound = parsed.protocol == wire::protocol::TCP && parsed.checksum(&packet) == Checked::Good;
    ours && sound && parsed.tcp(&packet).is_ok()
}
