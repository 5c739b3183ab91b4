//! The link: ARP and Neighbour Discovery where we have our own addresses, the kernel's word where we share
//! its.

use base::{Addr, Instant};
use pio::{Medium, NetEvent};
use wire::arp::{self, Operation};
use wire::{ethernet, nd, protocol};

use crate::core::Core;
use crate::net::neighbours::{Neighbours, Question, Ready};
use crate::tables::conns::List;
use crate::transmit::Blocked;
use crate::tx::{Envelope, Port};

/// Is the link-layer address of the neighbour at `hop` known, or none needed?
#[inline]
pub(crate) fn is_reachable(port: &Port, neighbours: &Neighbours, now: Instant, hop: u32) -> bool {
    port.caps.medium == Medium::Ip || neighbours.is_known(now, hop)
}

impl Core {
    /// [`is_reachable`], where there may be something to ask first.
    pub(crate) fn reach(&mut self, now: Instant, hop: u32) -> Result<(), Blocked> {
        if self.port.caps.medium == Medium::Ip {
            return Ok(());
        }
        let ready = self.neighbours.ready(now, hop, &mut self.questions);
        if !self.questions.is_empty() {
            self.ask();
        }
        match ready {
            Ready::Go => Ok(()),
            Ready::Wait => Err(Blocked::Waits),
            Ready::Fail => Err(Blocked::Unreachable(tcp::IcmpError::HostUnreachable)),
        }
    }

    /// Sends the questions that are due.
    fn ask(&mut self) {
        while let Some(question) = self.questions.pop() {
            if self.port.caps.shares_kernel_addresses {
                self.port.io.net().into_iter().for_each(|net| net.resolve(question.addr));
            } else if question.addr.is_v4() {
                self.ask_arp(question);
            } else {
                self.ask_nd(question);
            }
        }
    }

    fn ask_arp(&mut self, Question { addr, unicast }: Question) {
        let Some(way) = self.ip.way(addr) else { return };
        let packet = arp::Packet {
            operation: Operation::Request,
            sender_mac: self.port.caps.mac,
            sender: way.src,
            target_mac: [0; 6],
            target: addr,
        };
        self.send_arp(unicast.unwrap_or(ethernet::BROADCAST), &packet);
    }

    fn send_arp(&mut self, to: [u8; 6], packet: &arp::Packet) {
        let header = ethernet::Header { dst: to, src: self.port.caps.mac, ethertype: ethernet::ARP };
        let sent = self.port.raw(ethernet::HEADER_LEN + arp::LEN, |data| {
            header.emit(data);
            packet.emit(&mut data[ethernet::HEADER_LEN..]);
        });
        self.stats.arp_out += u64::from(sent);
    }

    fn ask_nd(&mut self, Question { addr, unicast }: Question) {
        let Some(way) = self.ip.way(addr) else { return };
        let message = nd::Message::Solicitation { target: addr, source_mac: Some(self.port.caps.mac) };
        match unicast {
            Some(mac) => self.send_nd(way.src, addr, mac, &message),
            None => {
                let group = nd::solicited_node(addr);
                self.send_nd(way.src, group, nd::multicast_mac(group), &message);
            }
        }
    }

    fn send_nd(&mut self, src: Addr, dst: Addr, mac: [u8; 6], message: &nd::Message) {
        let envelope = Envelope { mac, hash: 0, tos: 0, ttl: nd::HOP_LIMIT };
        let sent = self.port.packet((src, dst), protocol::ICMPV6, &envelope, message.len(), |data| {
            message.emit(src, dst, data);
        });
        self.stats.nd_out += u64::from(sent);
    }

    /// An ARP packet arrived (RFC 826): learn the sender if known or if we are asked, answer if we are.
    pub(crate) fn on_arp(&mut self, now: Instant, packet: &arp::Packet) {
        self.stats.arp_in += 1;
        if self.port.caps.shares_kernel_addresses || ethernet::is_group(&packet.sender_mac) {
            return;
        }
        let for_us = self.ip.is_own(packet.target);
        // A host that is not sure of its address asks from 0.0.0.0 (RFC 5227); one that has ours is mistaken.
        if !packet.sender.is_unspecified() && !self.ip.is_own(packet.sender) {
            self.learn(now, packet.sender, packet.sender_mac, for_us, true);
        }
        if for_us && packet.operation == Operation::Request {
            let answer = arp::Packet {
                operation: Operation::Reply,
                sender_mac: self.port.caps.mac,
                sender: packet.target,
                target_mac: packet.sender_mac,
                target: packet.sender,
            };
            self.send_arp(packet.sender_mac, &answer);
        }
    }

    /// A Neighbour Discovery message arrived (RFC 4861, section 7.2).
    pub(crate) fn on_nd(&mut self, now: Instant, src: Addr, from: [u8; 6], message: nd::Message) {
        self.stats.nd_in += 1;
        if self.port.caps.shares_kernel_addresses {
            return;
        }
        match message {
            nd::Message::Solicitation { target, source_mac } => {
                if self.ip.is_own(target) {
                    self.answer_nd(now, src, target, source_mac, from);
                }
            }
            nd::Message::Advertisement { target, target_mac: Some(mac), replaces, .. }
                if !self.ip.is_own(target) =>
            {
                self.learn(now, target, mac, false, replaces);
            }
            nd::Message::Advertisement { .. } => {}
        }
    }

    fn answer_nd(
        &mut self,
        now: Instant,
        src: Addr,
        target: Addr,
        source_mac: Option<[u8; 6]>,
        from: [u8; 6],
    ) {
        let solicited = !src.is_unspecified();
        let target_mac = Some(self.port.caps.mac);
        let answer =
            nd::Message::Advertisement { target, target_mac, router: false, solicited, replaces: true };
        if !solicited {
            // A peer asks whether our address is free (RFC 4862): all shall know that it is not.
            return self.send_nd(target, ALL_NODES, nd::multicast_mac(ALL_NODES), &answer);
        }
        if let Some(mac) = source_mac {
            self.learn(now, src, mac, true, true);
        }
        self.send_nd(target, src, source_mac.unwrap_or(from), &answer);
    }

    /// A neighbour's address became known: connections that wait for it may send.
    fn learn(&mut self, now: Instant, addr: Addr, mac: [u8; 6], make: bool, replaces: bool) {
        let waited_for = self.neighbours.learn(now, addr, mac, make, replaces);
        if self.neighbours.take_voided() {
            self.ip.touch();
        }
        if let Some(index) = waited_for {
            self.wake(index);
        }
    }

    fn wake(&mut self, hop: u32) {
        let mut waiting = std::mem::replace(self.neighbours.waiting(hop), List::new());
        self.dirty.append(&mut self.conns, &mut waiting);
    }

    /// Repeats questions; where no peer answered, the waiting connections learn it when they are flushed.
    pub(crate) fn ask_again(&mut self, now: Instant) {
        if self.neighbours.next().is_none_or(|at| at > now) {
            return;
        }
        let mut failed = Vec::new();
        self.neighbours.expire(now, &mut self.questions, &mut failed);
        self.ask();
        for hop in failed {
            self.wake(hop);
        }
    }

    /// Something the kernel says of the interface.
    pub fn on_net_event(&mut self, now: Instant, event: &NetEvent) {
        match *event {
            NetEvent::Neighbour { addr, mac } => self.learn(now, addr, mac, true, true),
            NetEvent::NeighbourGone { addr } => self.neighbours.forget(addr),
            NetEvent::Mac(mac) => self.port.caps.mac = mac,
            NetEvent::Link { .. } => {}
            NetEvent::Shared { port } => self.share(port),
            _ => {
                if !self.ip.on_event(event) {
                    self.drops.count(crate::stats::PacketDrop::NoRoom);
                }
            }
        }
    }
}

/// All hosts on the link (RFC 4291, section 2.7.1).
const ALL_NODES: Addr = Addr::v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
