//! A core's part of a log: it counts, gathers a record for each packet, and puts those of a turn into its ring. It
//! neither formats, allocates, waits nor calls the system.

use super::flows::Flows;
use super::knobs::Knobs;
use super::profile::{Profile, Summary};
use super::record::{LEN, Record, announcing, heading};
use crate::queue::{Batch, Producer};
use base::{Duration, FlowKey, Instant, SipKey};
use std::sync::{Arc, Mutex, PoisonError};
use tcp::{Probe, Seen, State, Stray};
use wire::checksum::{Sum, pseudo};
use wire::{protocol, tcp as header};

/// Counters of all hooks of a log that their cores have released.
pub(super) type Book = Arc<Mutex<Vec<Summary>>>;

/// The probe of one core. What it counted is told when it is dropped.
pub struct Hook {
    producer: Producer,
    knobs: Arc<Knobs>,
    profile: Profile,
    flows: Flows,
    /// Records since the core last paused.
    batch: Batch<{ 4 + LEN }>,
    found: Summary,
    book: Book,
}

impl Hook {
    pub(super) fn new(
        producer: Producer,
        knobs: Arc<Knobs>,
        profile: Profile,
        flows: usize,
        secret: SipKey,
        book: Book,
    ) -> Hook {
        let flows = Flows::new(flows, secret);
        Hook { producer, knobs, profile, flows, batch: Batch::new(), found: Summary::default(), book }
    }

    /// Counts a packet; true if it is to be looked at.
    fn admits(&mut self, outbound: bool, key: &FlowKey) -> bool {
        let port = self.knobs.port();
        let ports = key.ports();
        let wanted = port == 0 || ports >> 16 == port || ports & 0xffff == port;
        if wanted || self.profile.counts_filtered() {
            self.found.packets[usize::from(outbound)] += 1;
        }
        wanted
    }

    /// Counts a packet where not each is logged as it comes; its hash, if it is logged.
    #[inline(never)]
    fn choose(&mut self, seen: &Seen<'_>) -> Option<u32> {
        let (key, side) = (seen.conn.key(), usize::from(seen.outbound));
        if !self.admits(seen.outbound, key) {
            return None;
        }
        if self.profile.skips_handshakes() && !seen.conn.state().is_synchronized() {
            self.found.skipped.tcpcb[side] += 1;
            return None;
        }
        let Some((_, flow)) = self.flows.get(key) else {
            self.found.skipped.malloc[side] += 1;
            return None;
        };
        let ppl = self.knobs.ppl();
        // It may have become less since the last one was logged.
        flow.pass = flow.pass.min(ppl);
        if flow.pass > 0 {
            flow.pass -= 1;
            return None;
        }
        flow.pass = ppl - 1;
        Some(if self.knobs.hashes() { hash(seen) } else { 0 })
    }

    /// Gathers the record that `make` makes of the number of its flow and the flow's last round-trip time.
    #[inline(always)]
    fn keep(&mut self, key: &FlowKey, outbound: bool, make: impl FnOnce(u32, u32) -> Record) {
        if self.batch.is_full() {
            self.hand_over();
        }
        let Some((number, flow)) = self.flows.get(key) else {
            self.found.skipped.malloc[usize::from(outbound)] += 1;
            return;
        };
        match self.batch.spare().and_then(<[u8]>::first_chunk_mut) {
            Some(place) => make(number, flow.rtt_us).put(place),
            None => self.found.skipped.malloc[usize::from(outbound)] += 1,
        }
    }

    /// Puts the records that wait into the ring.
    #[inline(never)]
    fn hand_over(&mut self) {
        // With one copy, unless the writer is to learn of a flow or the ring's end or fill is near.
        if !self.flows.all_announced() || !self.producer.write_batch(&mut self.batch) {
            self.hand_over_singly();
        }
    }

    #[cold]
    fn hand_over_singly(&mut self) {
        for record in self.batch.records() {
            let (flow, outbound) = heading(record);
            let taken = match self.flows.unannounced(flow) {
                None => self.producer.write(record),
                Some(key) => {
                    self.producer.write(&announcing(record, &key)).inspect(|()| self.flows.announce(flow))
                }
            };
            self.found.skipped.malloc[usize::from(outbound)] += u64::from(taken.is_err());
        }
        self.batch.clear();
    }
}

impl Probe for Hook {
    fn packet(&mut self, seen: &Seen<'_>) {
        let hash = if self.knobs.are_plain() && !self.profile.skips_handshakes() {
            self.found.packets[usize::from(seen.outbound)] += 1;
            0
        } else {
            let Some(hash) = self.choose(seen) else { return };
            hash
        };
        self.keep(seen.conn.key(), seen.outbound, |flow, rtt_us| Record {
            at: seen.now,
            outbound: seen.outbound,
            flow,
            vitals: seen.conn.vitals(),
            rtt_us,
            hash,
        });
    }

    /// The other end knows a packet by its hash, and knows nothing of merging.
    fn wants_each(&self) -> bool {
        self.knobs.hashes()
    }

    fn pause(&mut self) {
        if !self.batch.is_empty() {
            self.hand_over();
        }
    }

    fn state(&mut self, _: Instant, _: &FlowKey, _: State, _: State) {}

    fn round_trip(&mut self, _: Instant, key: &FlowKey, sample: Duration) {
        if let Some(flow) = self.flows.known(key) {
            flow.rtt_us = u32::try_from(sample.as_micros()).unwrap_or(u32::MAX);
        }
    }

    fn stray(&mut self, _: Instant, outbound: bool, key: &FlowKey, whose: Stray) {
        if self.admits(outbound, key) {
            let skipped = &mut self.found.skipped;
            let why = if whose == Stray::TimeWait { &mut skipped.tcpcb } else { &mut skipped.inpcb };
            why[usize::from(outbound)] += 1;
        }
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.pause();
        let mut found = std::mem::take(&mut self.found);
        found.flows = self.flows.keys().collect();
        self.book.lock().unwrap_or_else(PoisonError::into_inner).push(found);
    }
}

/// The hash by which a packet is found again in the log of the other end: of the TCP header with its checksum, and of
/// the data (Bernstein's, as FreeBSD has it). Of IPv4 only, as SIFTR's. The header is the one that this stack would
/// write.
#[cold]
fn hash(seen: &Seen<'_>) -> u32 {
    let key = seen.conn.key();
    if !key.is_v4() {
        return 0;
    }
    let (src, dst) = match seen.outbound {
        true => (key.local().addr, key.remote().addr),
        false => (key.remote().addr, key.local().addr),
    };
    let mut bytes = [0; 60];
    let len = seen.header().emit(&mut bytes);
    let mut sum =
        pseudo(src, dst, protocol::TCP, len as u32 + seen.payload.len()).plus(Sum::of(&bytes[..len]));
    let mut at = len;
    seen.payload.for_each(|piece| {
        sum = sum.plus_at(at, Sum::of(piece));
        at += piece.len();
    });
    header::set_checksum(&mut bytes, sum.checksum());
    let step = |hash: u32, byte: &u8| hash.wrapping_mul(33).wrapping_add((*byte).into());
    let mut hash = bytes[..len].iter().fold(0, step);
    seen.payload.for_each(|piece| hash = piece.iter().fold(hash, step));
    hash
}

#[cfg(test)]
mod tests;
