//! TCP-AO of one connection (RFC 5925): its traffic keys, the extension of its sequence numbers, which key signs and
//! which is requested.

use alloc::vec::Vec;
use base::{FlowKey, Seq};
use wire::tcp::{Flags, Signature};

use super::bytes::{Covered, addresses};
use super::{KeyError, Keyring, MasterKey, Refused, TAG_MAX};

/// A sequence number of 64 bits, as far as it has come: the upper half is the extension (RFC 5925, section 6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Extended {
    extension: u32,
    latest: Seq,
}

impl Extended {
    fn new(first: Seq) -> Extended {
        Extended { extension: 0, latest: first }
    }

    /// The extension that belongs to `seq`, which lies nearer to the latest number than half the circle.
    /// RFC 5925, 6.2-1.
    fn of(&self, seq: Seq) -> u32 {
        let ahead = seq.at_or_after(self.latest);
        let wrapped = if ahead { seq.raw() < self.latest.raw() } else { seq.raw() > self.latest.raw() };
        match (wrapped, ahead) {
            (false, _) => self.extension,
            (true, true) => self.extension.wrapping_add(1),
            (true, false) => self.extension.wrapping_sub(1),
        }
    }

    fn advance(&mut self, seq: Seq) {
        if seq.after(self.latest) {
            *self = Extended { extension: self.of(seq), latest: seq };
        }
    }
}

/// A key of a connection, as good as its master key's tag is long.
#[derive(Clone, Copy)]
struct TrafficKey([u8; TAG_MAX]);

impl core::fmt::Debug for TrafficKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("TrafficKey")
    }
}

/// The two initial sequence numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Isns {
    local: Seq,
    remote: Seq,
}

/// A master key of this connection, and what became of it.
#[derive(Clone, Debug)]
struct Live {
    master: MasterKey,
    /// To send and to receive with, once both ISNs are known.
    traffic: Option<(TrafficKey, TrafficKey)>,
    good: u64,
    bad: u64,
}

/// Counters of TCP_AO_INFO.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AoCounts {
    /// Segments whose MAC was right.
    pub good: u64,
    /// Segments whose MAC was wrong.
    pub bad: u64,
    /// Segments with a KeyID that is unknown.
    pub key_not_found: u64,
    /// Segments without the option.
    pub required: u64,
    /// ICMP errors that were not believed.
    pub dropped_icmp: u64,
}

/// A key as TCP_AO_GET_KEYS tells it.
#[derive(Clone, Debug)]
pub struct AoKeyReport {
    /// The tuple.
    pub key: MasterKey,
    /// It signs what we send.
    pub current: bool,
    /// It is what we want to be answered with.
    pub next: bool,
    /// Segments with a right and a wrong MAC.
    pub counts: (u64, u64),
}

/// TCP-AO of one connection.
#[derive(Clone, Debug)]
pub(super) struct Ao {
    flow: FlowKey,
    keys: Vec<Live>,
    /// Index of the key that signs, and of the one asked for.
    current: usize,
    next: usize,
    isns: Isns,
    /// The peer's ISN is known.
    complete: bool,
    sent: Extended,
    received: Extended,
    pub(super) counts: AoCounts,
    pub(super) accept_icmps: bool,
}

impl Ao {
    /// With the keys of `ring` for this peer; `None` if it has none.
    /// RFC 5925, 7.4-1.
    pub(super) fn new(ring: &Keyring, flow: &FlowKey, isn: Seq) -> Option<Ao> {
        let live = |master: &MasterKey| Live { master: master.clone(), traffic: None, good: 0, bad: 0 };
        let keys: Vec<Live> = ring.ao_for(flow.remote().addr).map(live).collect();
        if keys.is_empty() {
            return None;
        }
        let by = |wanted: Option<u8>, id: fn(&MasterKey) -> u8| {
            keys.iter().position(|key| Some(id(&key.master)) == wanted).unwrap_or(0)
        };
        let (current, next) = (by(ring.current, |key| key.send_id), by(ring.next, |key| key.recv_id));
        Some(Ao {
            flow: *flow,
            keys,
            current,
            next,
            isns: Isns { local: isn, remote: Seq::new(0) },
            complete: false,
            sent: Extended::new(isn),
            received: Extended::new(Seq::new(0)),
            counts: AoCounts::default(),
            accept_icmps: ring.accept_icmps,
        })
    }

    /// Both ISNs are known.
    /// RFC 5925, 5.2-1.
    pub(super) fn complete(&mut self, local: Seq, remote: Seq) {
        self.isns = Isns { local, remote };
        self.complete = true;
        (self.sent, self.received) = (Extended::new(local), Extended::new(remote));
        for at in 0..self.keys.len() {
            self.derive_traffic(at);
        }
    }

    fn derive_traffic(&mut self, at: usize) {
        let Isns { local, remote } = self.isns;
        let master = &self.keys[at].master;
        let send = derive(master, &self.flow, local, remote);
        let receive = derive(master, &self.flow.reversed(), remote, local);
        self.keys[at].traffic = Some((send, receive));
    }

    /// Returns the signature option of a segment that is signed now.
    pub(super) fn signature(&self) -> Signature {
        let (current, next) = (&self.keys[self.current].master, &self.keys[self.next].master);
        Signature::Ao { key_id: current.send_id, next: next.recv_id, mac_len: current.mac_len }
    }

    /// A segment with this number leaves.
    pub(super) fn on_transmit(&mut self, seq: Seq) {
        self.sent.advance(seq);
    }

    /// The MAC of a segment of ours.
    /// RFC 5925, 7.4-2.
    pub(super) fn mac(&self, covered: &Covered<'_>) -> [u8; TAG_MAX] {
        let Live { master, traffic, .. } = &self.keys[self.current];
        // A SYN does not know the peer's ISN yet.
        let key = match traffic {
            Some((send, _)) if !is_first(covered.flags()) => *send,
            _ => derive(master, &self.flow, self.isns.local, Seq::new(0)),
        };
        tag(master, &key, covered, self.sent.of(covered.seq()))
    }

    /// Is this the MAC of a segment of the peer, signed with the key of this id? If so, its request for another key is
    /// heard: true if we sign with that one from now on.
    /// RFC 5925, 7.3-1, 7.5-1, 7.5-2 and 7.5-3.
    pub(super) fn verify(
        &mut self,
        covered: &Covered<'_>,
        mac: &[u8],
        (key_id, next): (u8, u8),
    ) -> Result<bool, Refused> {
        let Some(at) = self.keys.iter().position(|key| key.master.recv_id == key_id) else {
            self.counts.key_not_found += 1;
            return Err(Refused::AoKey);
        };
        let (flags, seq) = (covered.flags(), covered.seq());
        let Live { master, traffic, .. } = &self.keys[at];
        let their = self.flow.reversed();
        let key = match traffic {
            _ if is_first(flags) => derive(master, &their, seq, Seq::new(0)),
            Some((_, receive)) if !flags.has(Flags::SYN) => *receive,
            _ => derive(
                master,
                &their,
                if flags.has(Flags::SYN) { seq } else { self.isns.remote },
                self.isns.local,
            ),
        };
        let extension = if flags.has(Flags::SYN) || !self.complete { 0 } else { self.received.of(seq) };
        let right = tag(master, &key, covered, extension);
        if !super::algorithm::same(&right[..usize::from(master.mac_len)], mac) {
            self.counts.bad += 1;
            self.keys[at].bad += 1;
            return Err(Refused::AoBad);
        }
        self.counts.good += 1;
        self.keys[at].good += 1;
        let newest = seq.at_or_after(self.received.latest);
        if self.complete && !flags.has(Flags::SYN) {
            self.received.advance(seq);
        }
        if is_first(flags) && !self.complete {
            // It decides what a passive open begins with.
            self.next = at;
        }
        if self.complete && (flags.has(Flags::SYN) || !newest) {
            // Its MAC stays right for as long as the keys live: a SYN that comes now, or what lies below the latest
            // segment, may be a replay, and asks for nothing.
            return Ok(false);
        }
        Ok(self.follow(next))
    }

    /// The peer asks to be answered with this key.
    /// RFC 5925, 7.5-4.
    fn follow(&mut self, next: u8) -> bool {
        let requested = self.keys.iter().position(|key| key.master.send_id == next);
        match requested.filter(|&requested| requested != self.current) {
            Some(requested) => {
                self.current = requested;
                true
            }
            None => false,
        }
    }

    /// A key more.
    pub(super) fn add(&mut self, key: MasterKey) -> Result<(), KeyError> {
        key.check()?;
        if self.keys.iter().any(|known| known.master.is_like(&key)) {
            return Err(KeyError::Exists);
        }
        if !key.peers.has(self.flow.remote().addr) {
            return Err(KeyError::Invalid);
        }
        self.keys.push(Live { master: key, traffic: None, good: 0, bad: 0 });
        if self.complete {
            self.derive_traffic(self.keys.len() - 1);
        }
        Ok(())
    }

    /// A key less: not one in use.
    /// RFC 5925, 7.2-1.
    pub(super) fn remove(&mut self, (send_id, recv_id): (u8, u8)) -> Result<(), KeyError> {
        let is_it = |key: &Live| key.master.send_id == send_id && key.master.recv_id == recv_id;
        let at = self.keys.iter().position(is_it).ok_or(KeyError::Unknown)?;
        if at == self.current || at == self.next {
            return Err(KeyError::Busy);
        }
        self.keys.remove(at);
        self.current -= usize::from(self.current > at);
        self.next -= usize::from(self.next > at);
        Ok(())
    }

    /// Signs with the key of this KeyID, and asks for that one.
    pub(super) fn choose(&mut self, current: Option<u8>, next: Option<u8>) -> Result<(), KeyError> {
        let find = |wanted: Option<u8>, id: fn(&MasterKey) -> u8, now: usize| match wanted {
            None => Ok(now),
            Some(wanted) => {
                self.keys.iter().position(|key| id(&key.master) == wanted).ok_or(KeyError::Unknown)
            }
        };
        let current = find(current, |key| key.send_id, self.current)?;
        let next = find(next, |key| key.recv_id, self.next)?;
        (self.current, self.next) = (current, next);
        Ok(())
    }

    pub(super) fn report(&self) -> impl Iterator<Item = AoKeyReport> {
        self.keys.iter().enumerate().map(|(at, live)| AoKeyReport {
            key: live.master.clone(),
            current: at == self.current,
            next: at == self.next,
            counts: (live.good, live.bad),
        })
    }
}

/// A SYN without ACK: the only segment whose receiver's ISN its sender does not know.
fn is_first(flags: Flags) -> bool {
    flags.has(Flags::SYN) && !flags.has(Flags::ACK)
}

/// The traffic key of one direction (RFC 5926, section 3.1.1).
/// RFC 5926, 3.1-1 and 3.1-2.
fn derive(master: &MasterKey, flow: &FlowKey, source: Seq, destination: Seq) -> TrafficKey {
    let (from, to) = (flow.local(), flow.remote());
    let (addrs, len) = addresses(from.addr, to.addr);
    let bits = (master.algorithm.tag_len() as u16 * 8).to_be_bytes();
    let key = master.algorithm.tag(
        master.secret.bytes(),
        &[
            b"\x01TCP-AO",
            &addrs[..len],
            &from.port.to_be_bytes(),
            &to.port.to_be_bytes(),
            &source.raw().to_be_bytes(),
            &destination.raw().to_be_bytes(),
            &bits,
        ],
    );
    TrafficKey(key)
}

fn tag(master: &MasterKey, key: &TrafficKey, covered: &Covered<'_>, extension: u32) -> [u8; TAG_MAX] {
    let extension = extension.to_be_bytes();
    let key = &key.0[..master.algorithm.tag_len()];
    master.algorithm.tag(key, &covered.ao(&extension, master.covers_options))
}

#[cfg(test)]
mod tests;
