//! A router: forwards by longest prefix, counts down hops, and says by ICMP what it cannot do.

use crate::{Host, PortId, SimPort};
use base::{Addr, Instant};
use pio::{PacketIo, RxBatch, TxBatch, TxPacket};
use ring::Frame;
use std::collections::HashMap;
use wire::checksum::update16;
use wire::ethernet::Mac;
use wire::icmp::{Message, Unreachable};
use wire::packet::{Below, Content, Link, Packet, parse_frame};
use wire::protocol;

/// Bytes of the packet that an ICMP error quotes (RFC 1812, section 4.3.2.3 and RFC 4443 allow more).
const QUOTE: usize = 128;

base::counters! {
    /// Counters of a router.
    pub struct RouterCounters {
        forwarded: "Packets passed on.",
        too_big: "Packets bigger than the next link, answered.",
        expired: "Packets out of hops, answered.",
        unreachable: "Packets without a route or a neighbour, answered.",
        dropped: "Packets that could not be read or answered.",
    }
}

struct Leg {
    port: SimPort,
    own: Vec<Addr>,
}

/// A router with any number of legs. The hosts of a leg are given to it ([`Router::neighbour`]); it asks no host.
#[derive(Default)]
pub struct Router {
    legs: Vec<Leg>,
    routes: Vec<(Addr, u8, usize)>,
    neighbours: HashMap<Addr, (usize, Mac)>,
    counters: RouterCounters,
    /// Say nothing by ICMP, like a firewall that thinks it is clever.
    pub silent: bool,
    rx: RxBatch,
    tx: TxBatch,
}

impl Router {
    /// A router without legs.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new leg on which the router has the addresses `own`, each with the prefix of its network.
    pub fn add_leg(&mut self, port: SimPort, own: &[(Addr, u8)]) {
        let leg = self.legs.len();
        self.routes.extend(own.iter().map(|(addr, prefix)| (*addr, *prefix, leg)));
        self.routes.sort_by_key(|(_, prefix, _)| std::cmp::Reverse(*prefix));
        self.legs.push(Leg { port, own: own.iter().map(|(addr, _)| *addr).collect() });
    }

    /// `addr` is at `mac`, on the leg whose network it belongs to.
    ///
    /// # Panics
    /// If it belongs to none.
    pub fn neighbour(&mut self, addr: Addr, mac: Mac) {
        let leg = self.route(addr).expect("an address of a leg's network");
        self.neighbours.insert(addr, (leg, mac));
    }

    /// Ports of its legs, to add it to a network.
    pub fn ports(&self) -> Vec<PortId> {
        self.legs.iter().map(|leg| leg.port.id()).collect()
    }

    /// Returns the counters.
    pub fn counters(&self) -> &RouterCounters {
        &self.counters
    }

    fn route(&self, addr: Addr) -> Option<usize> {
        self.routes.iter().find(|(net, prefix, _)| addr.in_prefix(*net, *prefix)).map(|(.., leg)| *leg)
    }

    fn receive(&mut self, leg: usize) {
        let mut rx = std::mem::take(&mut self.rx);
        loop {
            let port = &mut self.legs[leg].port;
            if port.rx(&mut rx).expect("a simulated port does not fail") == 0 {
                break;
            }
            for packet in rx.drain(..) {
                self.take_in(leg, packet.frame.data());
                self.legs[leg].port.retire(packet.frame);
            }
        }
        self.rx = rx;
    }

    fn take_in(&mut self, leg: usize, frame: &[u8]) {
        let ours = self.legs[leg].port.caps().mac;
        let Ok(read) = parse_frame(frame, frame.len()) else {
            self.counters.dropped += 1;
            return;
        };
        if let Some(question) = read.question(frame)
            && self.legs[leg].own.contains(&question.target)
        {
            return self.send(leg, |into, ours| question.answer(ours, true, into));
        }
        if let Content::Ip(ip) = read.content
            && read.link.dst == ours
            && !self.legs[leg].own.contains(&ip.dst)
        {
            self.forward(leg, &ip, frame, read.link.src);
        }
    }

    /// Passes a packet on, or tells its sender at `from` why not.
    fn forward(&mut self, leg: usize, ip: &Packet, frame: &[u8], from: Mac) {
        let quote = &frame[ip.ip as usize..(ip.end as usize).min(ip.ip as usize + QUOTE)];
        if ip.ttl <= 1 {
            self.counters.expired += 1;
            return self.complain(leg, ip, from, &Message::TimeExceeded { code: 0, quote });
        }
        let Some(&(out, mac)) = self.neighbours.get(&ip.dst) else {
            self.counters.unreachable += 1;
            let why = if self.route(ip.dst).is_some() { Unreachable::Host } else { Unreachable::Network };
            return self.complain(leg, ip, from, &Message::Unreachable { why, quote });
        };
        let mtu = self.legs[out].port.caps().mtu;
        if ip.end as usize - ip.ip as usize > mtu {
            self.counters.too_big += 1;
            return self.complain(leg, ip, from, &Message::TooBig { mtu: mtu as u32, quote });
        }
        self.counters.forwarded += 1;
        let len = ip.end as usize;
        self.send(out, |into, ours| {
            into[..len].copy_from_slice(&frame[..len]);
            into[..6].copy_from_slice(&mac);
            into[6..12].copy_from_slice(&ours);
            count_down(&mut into[ip.ip as usize..], ip.src.is_v4());
            len
        });
    }

    /// An ICMP error about a packet that came in on `leg` from `mac`.
    fn complain(&mut self, leg: usize, about: &Packet, mac: Mac, message: &Message<'_>) {
        let own = self.legs[leg].own.iter().find(|own| own.is_v4() == about.src.is_v4()).copied();
        let Some(src) = own.filter(|_| !self.silent) else { return };
        let upper = if src.is_v4() { protocol::ICMP } else { protocol::ICMPV6 };
        self.send(leg, |into, ours| {
            let link = Some(Link { dst: mac, src: ours });
            let below = Below { link, src, dst: about.src, tos: 0, ttl: 64, label: 0 };
            let at = below.emit(upper, message.len(), into);
            at + message.emit(src, about.src, &mut into[at..])
        });
    }

    /// Sends on `leg` what `build` writes, given the leg's own address; without a frame it is dropped.
    fn send(&mut self, leg: usize, build: impl FnOnce(&mut [u8], Mac) -> usize) {
        let port = &mut self.legs[leg].port;
        let ours = port.caps().mac;
        let Some(mut frame) = port.take() else {
            self.counters.dropped += 1;
            return;
        };
        let len = build(frame.slot_mut(), ours);
        frame.set_range(0, len);
        self.put_on_wire(leg, frame);
    }

    fn put_on_wire(&mut self, leg: usize, frame: Frame) {
        let port = &mut self.legs[leg].port;
        self.tx.push_back(TxPacket { frame, meta: Default::default() });
        port.tx(&mut self.tx).expect("a simulated port does not fail");
        for packet in self.tx.drain(..) {
            self.counters.dropped += 1;
            port.retire(packet.frame);
        }
    }
}

/// One hop less in an IP header.
fn count_down(header: &mut [u8], v4: bool) {
    if !v4 {
        header[7] -= 1;
        return;
    }
    let old = u16::from_be_bytes([header[8], header[9]]);
    header[8] -= 1;
    let new = u16::from_be_bytes([header[8], header[9]]);
    let check = update16(u16::from_be_bytes([header[10], header[11]]), old, new);
    header[10..12].copy_from_slice(&check.to_be_bytes());
}

impl Host for Router {
    fn step(&mut self, _now: Instant) -> Option<Instant> {
        (0..self.legs.len()).for_each(|leg| self.receive(leg));
        None
    }
}
