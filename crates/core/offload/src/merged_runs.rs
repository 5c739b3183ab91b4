//! The merged runs of a batch.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use base::FlowKey;
use wire::checksum::Summer;

use crate::layout::word;
use crate::merged_run::{MergedRun, Refusal};

/// Places of flows; two flows that share one lose merged runs and nothing else.
const PLACES: usize = 256;
/// Bytes of a packet from which on it is worth looking whether it joins a merged run.
pub const MERGE_WORTH: usize = 512;
/// No packet.
const NONE: u16 = u16::MAX;

base::counters! {
    /// Counters of merged packets, and of the reasons why others were not merged.
    pub struct GroCounters {
        packets: "Packets of batches of several that stand alone or are the first of a merged run.",
        joined: "Packets that joined a merged run.",
        merged_runs: "Merged runs: runs of packets delivered as one.",
        closed: "Packets behind a merged run that had ended with PSH or a shorter segment.",
        full: "Packets behind a merged run as long as may be.",
        differs: "Packets with another header than the one before them.",
        gap: "Packets that are not next in sequence.",
    }
}

/// Finds packets that continue each other among those of a batch, where they are known by their places. Nothing is kept
/// from batch to batch, and nothing is allocated.
pub struct BatchGro {
    /// Run of each flow's last packet, by a few bits of the flow.
    lasts: [Last; PLACES],
    /// The batch's number.
    batch: u16,
    /// The merged run that the last packet joined, if it did: most often the next one does, too.
    current: u16,
    /// Which merged run a packet is the first of, by the packet's place.
    headed: Vec<u16>,
    /// The packet behind one of a merged run.
    after: Vec<u16>,
    merged_runs: Vec<Begun>,
    counters: GroCounters,
}

#[derive(Clone, Copy)]
struct Last {
    /// Bits of the flow that all packets of it have.
    flow: u32,
    /// The packet alone, or the first of its merged run.
    first: u16,
    /// The batch it came in.
    batch: u16,
}

impl Last {
    const NEVER: Last = Last { flow: 0, first: NONE, batch: 0 };
}

struct Begun {
    merged_run: MergedRun,
    last: u16,
}

impl BatchGro {
    /// For batches of at most `batch` packets.
    pub fn new(batch: usize) -> BatchGro {
        BatchGro {
            lasts: [Last::NEVER; PLACES],
            batch: 1,
            current: NONE,
            headed: vec![NONE; batch],
            after: vec![NONE; batch],
            merged_runs: Vec::with_capacity(batch),
            counters: GroCounters::default(),
        }
    }

    /// Returns the counters, of batches with several packets.
    pub fn counters(&self) -> &GroCounters {
        &self.counters
    }

    /// No packet has joined another.
    pub fn is_empty(&self) -> bool {
        self.merged_runs.is_empty()
    }

    /// The batch is over, if there are merged runs in it: what remains of another is not in the way.
    pub fn clear(&mut self) {
        self.merged_runs.clear();
        self.headed.fill(NONE);
    }

    /// A batch begins.
    #[inline]
    pub fn begin(&mut self) {
        self.current = NONE;
        self.batch = self.batch.wrapping_add(1);
        if self.batch == 0 {
            self.lasts.fill(Last::NEVER);
            self.batch = 1;
        }
    }

    /// The next packet of the batch, at place `at`, whose IP header starts at `ip`: true if it joined a merged run.
    /// With `sums` if its checksum is to be looked at; `packet` gives the bytes of an earlier packet that may have
    /// followers.
    #[inline]
    pub fn offer<'a>(
        &mut self,
        at: u16,
        next: &[u8],
        ip: usize,
        sums: Option<Summer>,
        packet: impl FnOnce(u16) -> Option<&'a [u8]>,
    ) -> bool {
        if next.len() < MERGE_WORTH {
            return false;
        }
        let Some(flow) = flow(next, ip) else { return false };
        let Last { flow: same, first, batch } = self.lasts[place(flow)];
        if (same, batch) != (flow, self.batch) {
            return false;
        }
        let known = self.headed[usize::from(first)];
        let joined = match self.merged_runs.get_mut(usize::from(known)) {
            Some(Begun { merged_run, last }) => merged_run.join(next, sums).map(|()| {
                self.current = known;
                core::mem::replace(last, at)
            }),
            None => match packet(first).and_then(|packet| MergedRun::begin(packet, ip)) {
                Some(mut merged_run) => merged_run.join(next, sums).map(|()| {
                    self.current = self.merged_runs.len() as u16;
                    self.headed[usize::from(first)] = self.current;
                    self.merged_runs.push(Begun { merged_run, last: at });
                    self.counters.merged_runs += 1;
                    first
                }),
                None => return false,
            },
        };
        match joined {
            Ok(before) => {
                self.after[usize::from(before)] = at;
                self.counters.joined += 1;
            }
            Err(refusal) => self.refused(refusal),
        }
        joined.is_ok()
    }

    /// Those of `packets`, which lie at place `at` and behind it, that join the merged run that the packet before them
    /// joined, as far as they are its usual ones ([`MergedRun::follow`]); how many.
    #[inline]
    pub fn follow<'a>(
        &mut self,
        at: u16,
        packets: impl Iterator<Item = (&'a [u8], bool)>,
        sum: Summer,
    ) -> u16 {
        let Some(Begun { merged_run, last }) = self.merged_runs.get_mut(usize::from(self.current)) else {
            return 0;
        };
        let joined = merged_run.follow(packets, sum);
        if joined > 0 {
            self.after[usize::from(*last)] = at;
            *last = at + joined - 1;
            for place in at..*last {
                self.after[usize::from(place)] = place + 1;
            }
        }
        self.counters.joined += u64::from(joined);
        joined
    }

    #[cold]
    fn refused(&mut self, refusal: Refusal) {
        *match refusal {
            Refusal::Closed => &mut self.counters.closed,
            Refusal::Full => &mut self.counters.full,
            Refusal::Differs => &mut self.counters.differs,
            Refusal::Gap => &mut self.counters.gap,
        } += 1;
    }

    /// The packets from place `at` on are a merged run that was found elsewhere.
    pub fn adopt(&mut self, at: u16, merged_run: MergedRun) {
        let last = at + merged_run.count() - 1;
        self.counters.packets += 1;
        self.counters.merged_runs += 1;
        self.counters.joined += u64::from(merged_run.count() - 1);
        for before in at..last {
            self.after[usize::from(before)] = before + 1;
        }
        self.headed[usize::from(at)] = self.merged_runs.len() as u16;
        self.merged_runs.push(Begun { merged_run, last });
    }

    /// The merged run that the packet at place `at` is the first of.
    #[inline]
    pub fn run_at(&self, at: u16) -> Option<&MergedRun> {
        let nth = *self.headed.get(usize::from(at))?;
        self.merged_runs.get(usize::from(nth)).map(|begun| &begun.merged_run)
    }

    /// The places of the packets of the merged run that the one at place `at` is the first of, if nothing lies between
    /// them.
    #[inline]
    pub fn stretch(&self, at: u16) -> Option<Range<u16>> {
        let nth = *self.headed.get(usize::from(at))?;
        let Begun { merged_run, last } = self.merged_runs.get(usize::from(nth))?;
        Some(at..*last + 1).filter(|places| places.len() == usize::from(merged_run.count()))
    }

    /// The packet behind the one at place `at` of a merged run, which is not the last of it.
    pub fn behind(&self, at: u16) -> u16 {
        self.after[usize::from(at)]
    }

    /// A packet of the batch that joined none, of flow `key`: what comes next of its flow may join it, and nothing may
    /// join what came before.
    #[inline]
    pub fn pass(&mut self, at: u16, key: &FlowKey) {
        self.counters.packets += 1;
        self.current = NONE;
        let (local, remote) = (key.local(), key.remote());
        let ports = u32::from(remote.port) << 16 | u32::from(local.port);
        let flow = mixed(remote.addr.words()[3], local.addr.words()[3], ports);
        self.lasts[place(flow)] = Last { flow, first: at, batch: self.batch };
    }
}

fn place(flow: u32) -> usize {
    flow as usize % PLACES
}

/// Bits of the flow of a packet from a peer; `None` if it is not plain.
#[inline(always)]
fn flow(packet: &[u8], ip: usize) -> Option<u32> {
    let (src, dst, ports) = match packet.get(ip)? {
        0x45 => (ip + 12, ip + 16, ip + 20),
        0x60..=0x6f => (ip + 20, ip + 36, ip + 40),
        _ => return None,
    };
    Some(mixed(word(packet, src)?, word(packet, dst)?, word(packet, ports)?))
}

/// Bits of the ends of addresses and of both ports, the sender's first.
#[inline(always)]
fn mixed(src: u32, dst: u32, ports: u32) -> u32 {
    let both = u64::from(src ^ dst.rotate_left(16)) << 32 | u64::from(ports);
    ((both ^ both >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}
