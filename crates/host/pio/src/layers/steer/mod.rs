//! Several cores on one card: every packet reaches the core whose port it is for.
//!
//! ```text
//!   card --hash--> queue of core A --+--> A's own packets ----------------------> stack of A
//!                                    +--> packets to ports of B --mailbox--+
//!   card --hash--> queue of core B -------> B's own packets --------------+-----> stack of B
//! ```
//! A card chooses the queue of a packet by a hash of its addresses and ports. Listeners of all cores accept whatever
//! arrives at their queue. A connection that a core opens has a local port of that core alone, and the answer must
//! reach that core:
//!
//! * **Prediction.** Where the card's rule is known ([`Rss`]), the stack chooses a local port for which the card brings
//!   the answer to the asking core ([`Claims::answers_here`]). Nothing else is done for such packets.
//! * **Steering in software.** A packet that arrives at another core is copied to a mailbox of the owner of its port. A
//!   mailbox has one writer and one reader, and a full one drops and counts.
//!
//! * **The end of a core.** Its queue goes on to receive while other cores live: a thread takes the packets there to
//!   the cores that own their ports, and other ones to the first core that lives ([`ended`]). The kernel, which knows
//!   nothing of these connections, would answer with resets.
//!
//! A SYN-ACK that arrives elsewhere than predicted shows that the rule is not the card's. Prediction then ends for the
//! link, and steering goes on. Owners are known by the claims of exclusive ports ([`Claims::claim`]).

mod ended;
mod mailbox;
mod owners;
mod rss;
#[cfg(test)]
mod tests;

pub use rss::Rss;

use crate::port::*;
use base::{Endpoint, FlowKey};
use ended::Ended;
use mailbox::{Inbox, Outbox};
use owners::Owners;
use ring::{Ringer, Sleeper, doorbell};
use rss::Prediction;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use wire::arp::Operation;
use wire::icmp::Message;
use wire::packet::{Content, Packet, parse_frame, parse_ip, plain_tcp_v4};
use wire::tcp::Flags;
use wire::{ethernet, icmp, nd, protocol};

/// Batches of the port below that are sorted in one call while all of their packets are for other cores.
const ROUNDS: usize = 4;

/// Shared by all cores of a link.
struct Shared {
    owners: Owners,
    prediction: Option<Prediction>,
    bells: Vec<Ringer>,
    ended: Ended,
}

/// The port of one core among several on a card; made by [`steer`].
pub struct Steered<P: PacketIo + 'static> {
    /// Taken out by the end alone.
    below: ManuallyDrop<P>,
    core: u16,
    shared: Arc<Shared>,
    /// To each core; the place of this one stays empty.
    outboxes: Vec<Option<Outbox>>,
    /// From all other cores.
    inboxes: Vec<Inbox>,
    /// The inbox to look into first.
    turn: usize,
    sleeper: Sleeper,
    /// This core was about to sleep when it last asked.
    armed: bool,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    out: u64,
    here: u64,
    lost: u64,
    no_frame: u64,
}

/// Destination of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Here,
    Core(u16),
    /// News of neighbours, on links whose stacks ask for them themselves.
    All,
}

/// Puts the ports of a card's queues, one for each core, behind a layer that brings packets to their cores. `rule` is
/// the card's rule for choosing a queue, with cores for queues ([`Rss::for_cores`]), if it is known.
///
/// # Errors
/// The kernel has no descriptor left.
pub fn steer<P: PacketIo + 'static>(ports: Vec<P>, rule: Option<&Rss>) -> io::Result<Vec<Steered<P>>> {
    let cores = ports.len();
    let (mut bells, mut sleepers) = (Vec::new(), Vec::new());
    for _ in &ports {
        let (bell, sleeper) = doorbell()?;
        bells.push(bell);
        sleepers.push(sleeper);
    }
    let prediction = rule.and_then(|rule| Prediction::new(rule, cores));
    let shared = Arc::new(Shared { owners: Owners::default(), prediction, bells, ended: Ended::new(cores) });
    let mut outboxes: Vec<Vec<Option<Outbox>>> = (0..cores).map(|_| Vec::new()).collect();
    let mut inboxes: Vec<Vec<Inbox>> = (0..cores).map(|_| Vec::new()).collect();
    for (from, outboxes) in outboxes.iter_mut().enumerate() {
        for (to, inboxes) in inboxes.iter_mut().enumerate() {
            let ends = (from != to).then(mailbox::mailbox);
            outboxes.push(ends.map(|(out, inbox)| {
                inboxes.push(inbox);
                out
            }));
        }
    }
    let parts = ports.into_iter().zip(sleepers).zip(outboxes.into_iter().zip(inboxes));
    let steered = (0..).zip(parts).map(|(core, ((below, sleeper), (outboxes, inboxes)))| Steered {
        below: ManuallyDrop::new(below),
        core,
        shared: shared.clone(),
        outboxes,
        inboxes,
        turn: 0,
        sleeper,
        armed: false,
        counts: Counts::default(),
    });
    Ok(steered.collect())
}

impl<P: PacketIo + 'static> Steered<P> {
    /// Moves packets for other cores out of `batch`, which has them from `start` on.
    fn sort(&mut self, batch: &mut RxBatch, start: usize) {
        let (mut read, mut write) = (start, start);
        while read < batch.len() {
            let frames = 1 + batch[read..batch.len() - 1].iter().take_while(|piece| piece.meta.more).count();
            let packet = &batch[read..read + frames];
            match self.shared.destination(self.core, self.below.caps(), packet) {
                To::Core(core) => {
                    let sent = self.outboxes[usize::from(core)].as_mut().is_some_and(|out| out.push(packet));
                    self.counts.out += u64::from(sent);
                    self.counts.lost += u64::from(!sent);
                    read += frames;
                    continue;
                }
                To::All => {
                    for out in self.outboxes.iter_mut().flatten() {
                        self.counts.lost += u64::from(!out.push(packet));
                    }
                }
                To::Here => {}
            }
            for at in read..read + frames {
                batch.swap(write + at - read, at);
            }
            (read, write) = (read + frames, write + frames);
        }
        batch.drain(write..).for_each(|packet| self.below.retire(packet.frame));
        for (core, out) in self.outboxes.iter_mut().enumerate() {
            if out.as_mut().is_some_and(Outbox::has_news) {
                self.shared.bells[core].ring();
            }
        }
    }

    /// Appends what other cores sent, as far as the batch and the frames of this port suffice.
    fn collect(&mut self, batch: &mut RxBatch) {
        let count = self.inboxes.len();
        for step in 0..count {
            let inbox = &mut self.inboxes[(self.turn + step) % count];
            while inbox.has_mail() {
                match inbox.pop(&mut *self.below, batch) {
                    Ok(true) => self.counts.here += 1,
                    Ok(false) => self.counts.lost += 1,
                    Err(mailbox::Later::Batch) => break,
                    Err(mailbox::Later::Frames) => {
                        self.counts.no_frame += 1;
                        break;
                    }
                }
            }
        }
        self.turn = (self.turn + 1) % count.max(1);
    }

    fn has_mail(&mut self) -> bool {
        self.inboxes.iter_mut().any(Inbox::has_mail)
    }
}

impl<P: PacketIo + 'static> Drop for Steered<P> {
    fn drop(&mut self) {
        // SAFETY: taken out once, here, and not used again.
        let below = unsafe { ManuallyDrop::take(&mut self.below) };
        ended::end(below, self.core, &self.shared, std::mem::take(&mut self.outboxes));
    }
}

impl Shared {
    /// The destination of a packet that arrived at the queue of `core`, a port of which `caps` are.
    fn destination(&self, core: u16, caps: &Caps, pieces: &[RxPacket]) -> To {
        let frame = pieces[0].frame.data();
        let whole = pieces.iter().map(|piece| piece.frame.len()).sum();
        let Caps { medium, shares_kernel_addresses, .. } = *caps;
        let ip = medium.header_len();
        let ethertype = frame.get(ip.wrapping_sub(2)..ip).and_then(|bytes| bytes.first_chunk());
        let plain = ethertype.is_none_or(|bytes| *bytes == ethernet::IPV4.to_be_bytes());
        if let Some(packet) = if plain { plain_tcp_v4(frame, ip, whole) } else { None } {
            return self.segment(core, &packet, frame);
        }
        let parsed = match medium {
            Medium::Ip => parse_ip(frame, whole).map(Content::Ip),
            Medium::Ethernet => parse_frame(frame, whole).map(|frame| frame.content),
        };
        match parsed {
            Ok(Content::Ip(packet)) if packet.protocol == protocol::TCP => self.segment(core, &packet, frame),
            Ok(Content::Ip(packet)) => match quoted(&packet, frame) {
                Some(local) => self.owner(core, local),
                // A question has one answer, so it stays where it arrived.
                None if is_advertisement(&packet, frame) && !shares_kernel_addresses => To::All,
                None => To::Here,
            },
            Ok(Content::Arp(arp)) if arp.operation == Operation::Reply && !shares_kernel_addresses => To::All,
            Ok(Content::Arp(_)) | Err(_) => To::Here,
        }
    }

    fn owner(&self, here: u16, local: Endpoint) -> To {
        match self.owners.of(local) {
            Some(core) if core != here => To::Core(core),
            _ => To::Here,
        }
    }

    /// The destination of a TCP segment.
    fn segment(&self, here: u16, packet: &Packet, frame: &[u8]) -> To {
        let upper = packet.upper(frame);
        let Some(&[a, b, c, d]) = upper.first_chunk() else { return To::Here };
        let local = Endpoint::new(packet.dst, u16::from_be_bytes([c, d]));
        let to = self.owner(here, local);
        if let (To::Core(owner), Some(prediction)) = (to, &self.prediction) {
            let answer = upper.get(13).is_some_and(|&flags| {
                Flags(u16::from(flags) & (Flags::SYN | Flags::ACK).0) == Flags::SYN | Flags::ACK
            });
            // Cards do not look for ports behind extension headers.
            let plain = packet.dst.is_v4() || packet.start - packet.ip == 40;
            if answer && plain {
                let remote = Endpoint::new(packet.src, u16::from_be_bytes([a, b]));
                prediction.on_strayed(&FlowKey::new(local, remote), owner);
            }
        }
        to
    }
}

/// The local end of the TCP packet of ours that an ICMP error quotes.
fn quoted(packet: &Packet, frame: &[u8]) -> Option<Endpoint> {
    let upper = packet.upper(frame);
    let message = match packet.protocol {
        protocol::ICMP => icmp::parse_v4(upper),
        protocol::ICMPV6 => icmp::parse_v6(packet.src, packet.dst, upper),
        _ => return None,
    };
    let (Message::TooBig { quote, .. }
    | Message::Unreachable { quote, .. }
    | Message::TimeExceeded { quote, .. }) = message.ok()?
    else {
        return None;
    };
    let quote = icmp::parse_quote(quote).ok()?;
    (quote.protocol == protocol::TCP).then(|| Endpoint::new(quote.src, quote.src_port))
}

/// Does the packet tell the link-layer address of a neighbour, asked or not?
fn is_advertisement(packet: &Packet, frame: &[u8]) -> bool {
    packet.protocol == protocol::ICMPV6
        && matches!(
            nd::parse(packet.src, packet.dst, packet.ttl, packet.upper(frame)),
            Ok(nd::Message::Advertisement { .. })
        )
}

impl<P: PacketIo + 'static> crate::Layer for Steered<P> {
    type Below = P;

    fn below(&self) -> &P {
        &self.below
    }

    fn below_mut(&mut self) -> &mut P {
        &mut self.below
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        if std::mem::take(&mut self.armed) {
            self.sleeper.flag().awake();
            self.sleeper.drain();
        }
        let start = batch.len();
        let everything = !self.below.caps().shares_kernel_addresses;
        for _ in 0..ROUNDS {
            if self.below.rx(batch)? == 0 {
                break;
            }
            if everything || self.shared.owners.any() {
                self.sort(batch, start);
            }
            if batch.len() > start {
                break;
            }
        }
        self.collect(batch);
        Ok(batch.len() - start)
    }

    fn arm(&mut self, fds: &mut Vec<RawFd>) -> Result<bool, IoError> {
        self.sleeper.flag().announce();
        self.armed = true;
        if self.has_mail() || !self.below.arm(fds)? {
            return Ok(false);
        }
        fds.push(self.sleeper.fd().as_raw_fd());
        Ok(true)
    }

    fn claims(&mut self) -> Option<&mut dyn Claims> {
        Some(self)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let (predicts, wrong) = self.shared.prediction.as_ref().map_or((false, 0), Prediction::state);
        vec![
            ("steered_out", self.counts.out),
            ("steered_in", self.counts.here),
            ("steered_lost", self.counts.lost),
            ("steered_no_frame", self.counts.no_frame),
            ("rss_predicts", predicts.into()),
            ("rss_wrong", wrong),
        ]
    }
}

impl<P: PacketIo + 'static> Claims for Steered<P> {
    fn claim(&mut self, claim: &PortClaim) -> Result<(), ClaimError> {
        if let Some(below) = self.below.claims() {
            below.claim(claim)?;
        }
        self.shared.owners.claim(self.core, claim);
        Ok(())
    }

    fn release(&mut self, claim: &PortClaim) {
        self.shared.owners.release(self.core, claim);
        if let Some(below) = self.below.claims() {
            below.release(claim);
        }
    }

    fn answers_here(&self, key: &FlowKey) -> bool {
        self.shared.prediction.as_ref().is_none_or(|prediction| prediction.answers_at(key, self.core))
    }

    fn sharing(&mut self) -> Option<&mut dyn Sharing> {
        self.below.claims()?.sharing()
    }
}
