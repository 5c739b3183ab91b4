//! The archive of pairs of hosts that meet again: what a connection between them begins with, ready to be copied.
//!
//! A pair is our address, the peer's, and the port of the service on whichever side accepts; the other port is new
//! every time. The first connection of a pair leaves a mark only, eight octets, which lie apart: peers that come once
//! cost nothing more, and drive out each other's marks and nobody else. When a pair is seen again it gets a [`Bundle`].
//! Only connections that completed their handshake leave anything, so forged SYNs neither fill this nor empty it; they
//! do not even make it younger.
//!
//! Bundles lie in sets, and all services of a pair share one, for IPv6 those of a whole network of 64 bits: that is a
//! peer's share. In a full set the one makes room that was used longest ago, but nobody who was used a moment ago:
//! where more pairs meet again and again than there is room for, some of them have bundles all the time.
//!
//! A bundle is found by hash and proven by its key, its settings and the state of routes and listeners it was made
//! under; where one of them has changed, the connection begins as if there were none.

use base::{Addr, Endpoint, FlowKey, Instant};
use tcp::Archived;
use wire::packet::Template;

use crate::listeners::ListenerId;

/// Places of a set.
const WAYS: usize = 8;
/// Who was used less than so many seconds ago makes room for nobody.
const BUSY: u32 = 10;
/// No bundle.
const NONE: u32 = u32::MAX;
/// Everything that is alike in the connections of a pair.
#[derive(Clone, Copy)]
pub(crate) struct Bundle {
    pub(crate) pair: FlowKey,
    pub(crate) place: usize,
    pub(crate) archived: Archived,
    /// Our SYN or SYN-ACK from the IP header on.
    pub(crate) template: Template,
    /// The way, as found under generation `way` of the routes: the neighbour.
    pub(crate) hop: u32,
    pub(crate) way: u32,
    pub(crate) mtu: u16,
    /// Offset of the timestamp clock between these two hosts.
    pub(crate) ts_offset: u32,
    /// Where the host's memory lies, as far as known.
    pub(crate) host: u32,
    /// Who accepts, found when the listeners were at this version; nobody where we connect.
    pub(crate) listener: Option<(ListenerId, u32)>,
}

/// Where pairs stand: what is looked at first lies together.
#[derive(Clone, Copy)]
struct Set {
    /// Of the pair's hash and its ports; 0 for vacant.
    tags: [u32; WAYS],
    /// When each was used last, seconds.
    at: [u32; WAYS],
    bundles: [u32; WAYS],
}

const VACANT: Set = Set { tags: [0; WAYS], at: [0; WAYS], bundles: [NONE; WAYS] };

impl Set {
    #[inline]
    fn way_of(&self, tag: u32) -> Option<usize> {
        let mut hits = 0;
        for (way, &known) in self.tags.iter().enumerate() {
            hits |= u32::from(known == tag) << way;
        }
        (hits != 0).then(|| hits.trailing_zeros() as usize)
    }

    /// Who makes room: nobody, or the one that was used longest ago.
    fn victim(&self, now: u32) -> usize {
        let idle = |way: &usize| match self.tags[*way] {
            0 => u64::MAX,
            _ => now.wrapping_sub(self.at[*way]).into(),
        };
        (0..WAYS).max_by_key(idle).unwrap_or(0)
    }
}

/// That a pair was there.
#[derive(Clone, Copy)]
struct Mark {
    tag: u32,
    /// When, seconds.
    at: u32,
}

/// The archive of one core. It takes its memory when the first connection ends.
pub(crate) struct Repeats {
    marks: Vec<Mark>,
    sets: Vec<Set>,
    bundles: Vec<Bundle>,
}

/// The pair of a flow: without the port of the side that connected.
#[inline]
pub(crate) fn pair_of(key: &FlowKey, active: bool) -> FlowKey {
    let (local, remote) = (key.local(), key.remote());
    match active {
        true => FlowKey::new(Endpoint::new(local.addr, 0), remote),
        false => FlowKey::new(local, Endpoint::new(remote.addr, 0)),
    }
}

/// What decides about the set: both hosts, or the network of an IPv6 peer.
#[inline]
pub(crate) fn hosts_of(pair: &FlowKey) -> FlowKey {
    let (local, mut remote) = (pair.local().addr, pair.remote().addr);
    if !remote.is_v4() {
        let mut octets = remote.octets();
        octets[8..].fill(0);
        remote = Addr::v6(octets);
    }
    FlowKey::new(Endpoint::new(local, 0), Endpoint::new(remote, 0))
}

#[inline]
fn tag_of(pair: &FlowKey, hash: u64) -> u32 {
    let host = pair.remote().addr.words()[3];
    let mixed = (u64::from(pair.ports()) << 32 | u64::from(host)) ^ hash.rotate_left(17);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1
}

#[inline]
pub(crate) fn seconds(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000_000) as u32
}

impl Repeats {
    pub(crate) fn new() -> Repeats {
        Repeats { marks: Vec::new(), sets: Vec::new(), bundles: Vec::new() }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Repeats::new();
    }

    /// Bundles in use.
    pub(crate) fn len(&self) -> usize {
        self.bundles.len()
    }

    /// Octets held.
    pub(crate) fn footprint(&self) -> usize {
        self.marks.capacity() * size_of::<Mark>()
            + self.sets.capacity() * size_of::<Set>()
            + self.bundles.capacity() * size_of::<Bundle>()
    }

    #[inline]
    fn set(&self, hash: u64) -> usize {
        (((hash & 0xffff_ffff) * self.sets.len() as u64) >> 32) as usize
    }

    /// The place of the pair's bundle, if it has one that was used less than `age` seconds ago. `hash` is that of
    /// [`hosts_of`] the pair.
    #[inline]
    pub(crate) fn find(&self, now: Instant, age: u32, pair: &FlowKey, hash: u64) -> Option<usize> {
        let nth = self.set(hash);
        let set = self.sets.get(nth)?;
        let way = set.way_of(tag_of(pair, hash))?;
        let bundle = &self.bundles[set.bundles[way] as usize];
        // It takes several lines, and all of them are needed soon.
        ring::prefetch_read(&bundle.archived);
        ring::prefetch_read(&bundle.template);
        ring::prefetch_read(&bundle.hop);
        (bundle.pair == *pair && seconds(now).wrapping_sub(set.at[way]) < age).then_some(nth * WAYS + way)
    }

    /// Was the pair there less than `age` seconds ago?
    #[inline]
    pub(crate) fn has_seen(&self, now: Instant, age: u32, pair: &FlowKey, hash: u64) -> bool {
        let tag = tag_of(pair, hash);
        let mark = self.marks.get(tag as usize >> 1 & self.marks.len().wrapping_sub(1));
        mark.is_some_and(|mark| mark.tag == tag && seconds(now).wrapping_sub(mark.at) < age)
    }

    /// The pair is there; `pairs` may have bundles. Was it already, less than `age` seconds ago?
    #[inline]
    pub(crate) fn mark(&mut self, now: Instant, (age, pairs): (u32, u32), pair: &FlowKey, hash: u64) -> bool {
        if self.marks.is_empty() {
            self.marks = vec![Mark { tag: 0, at: 0 }; (pairs as usize * 2).next_power_of_two()];
        }
        let (tag, at, mask) = (tag_of(pair, hash), seconds(now), self.marks.len() - 1);
        let mark = &mut self.marks[tag as usize >> 1 & mask];
        let seen = mark.tag == tag && at.wrapping_sub(mark.at) < age;
        *mark = Mark { tag, at };
        seen
    }

    /// The index of a place's bundle, or [`NONE`].
    #[inline]
    pub(crate) fn bundle_at(&self, place: usize) -> u32 {
        self.sets[place / WAYS].bundles[place % WAYS]
    }

    /// The bundle of this index, which may be another pair's by now.
    #[inline]
    pub(crate) fn get(&self, bundle: u32) -> Option<&Bundle> {
        self.bundles.get(bundle as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, bundle: u32) -> Option<&mut Bundle> {
        self.bundles.get_mut(bundle as usize)
    }

    /// The pair has met again.
    #[inline]
    pub(crate) fn touch(&mut self, now: Instant, place: usize) {
        self.sets[place / WAYS].at[place % WAYS] = seconds(now);
    }

    /// The same for the pair of a bundle, if it still has it.
    #[inline]
    pub(crate) fn touch_bundle(&mut self, now: Instant, bundle: u32) {
        if let Some(place) = self.get(bundle).map(|bundle| bundle.place)
            && self.bundle_at(place) == bundle
        {
            self.touch(now, place);
        }
    }

    /// Did that happen in this very second?
    pub(crate) fn is_fresh(&self, now: Instant, place: usize) -> bool {
        self.sets[place / WAYS].at[place % WAYS] == seconds(now)
    }

    /// Would [`Repeats::keep`] find room for the pair?
    pub(crate) fn has_room(&self, now: Instant, pair: &FlowKey, hash: u64) -> bool {
        let Some(set) = self.sets.get(self.set(hash)) else { return true };
        let (tag, at) = (tag_of(pair, hash), seconds(now));
        let victim = set.way_of(tag).unwrap_or_else(|| set.victim(at));
        set.tags[victim] == tag || set.tags[victim] == 0 || at.wrapping_sub(set.at[victim]) >= BUSY
    }

    /// Gives a pair a bundle, in the place of its old one if it has one. True if another's had to make room.
    pub(crate) fn keep(&mut self, now: Instant, pairs: u32, hash: u64, mut bundle: Bundle) -> bool {
        if self.sets.is_empty() {
            self.sets = vec![VACANT; (pairs as usize).div_ceil(WAYS)];
        }
        let (nth, tag, at) = (self.set(hash), tag_of(&bundle.pair, hash), seconds(now));
        let set = &mut self.sets[nth];
        let own = set.way_of(tag);
        let way = own.unwrap_or_else(|| set.victim(at));
        bundle.place = nth * WAYS + way;
        (set.tags[way], set.at[way]) = (tag, at);
        match self.bundles.get_mut(set.bundles[way] as usize) {
            Some(old) => *old = bundle,
            None => {
                set.bundles[way] = self.bundles.len() as u32;
                self.bundles.push(bundle);
                return false;
            }
        }
        own.is_none()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: bounded, whoever comes; strangers drive out nobody who came twice, and a network no other one.
    use super::*;
    use base::{Duration, SipKey};

    fn pair(n: u32) -> FlowKey {
        let local = Endpoint::new(Addr::v4([10, 0, 0, 1]), 80);
        FlowKey::new(local, Endpoint::new(Addr::v4((0x0b00_0000 + n).to_be_bytes()), 0))
    }

    fn hash(pair: &FlowKey) -> u64 {
        SipKey::new(1, 2).flow(&hosts_of(pair))
    }

    #[test]
    fn marks_are_bounded_and_grow_old() {
        let mut repeats = Repeats::new();
        let (one, start) = (pair(1), Instant::from_secs(1_000));
        assert!(!repeats.has_seen(start, 600, &one, hash(&one)));
        assert!(!repeats.mark(start, (600, 64), &one, hash(&one)));
        let seen = |repeats: &Repeats, secs| {
            repeats.has_seen(start + Duration::from_secs(secs), 600, &one, hash(&one))
        };
        assert!(seen(&repeats, 599) && !seen(&repeats, 600));
        assert!(repeats.mark(start, (600, 64), &one, hash(&one)));
        let held = repeats.footprint();
        for n in 0..10_000 {
            repeats.mark(start, (600, 64), &pair(n), hash(&pair(n)));
        }
        assert_eq!((repeats.footprint(), repeats.len()), (held, 0));
        let left = (0..10_000).filter(|&n| repeats.has_seen(start, 600, &pair(n), hash(&pair(n))));
        assert!((100..=128).contains(&left.count()));
    }

    #[test]
    fn one_network_has_one_set() {
        let peer = |n: u16| {
            let [a, b] = n.to_be_bytes();
            let addr = Addr::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, a, b]);
            FlowKey::new(Endpoint::new(Addr::UNSPECIFIED_V6, 80), Endpoint::new(addr, 0))
        };
        let mut repeats = Repeats::new();
        repeats.sets = vec![VACANT; 512];
        let set = repeats.set(hash(&peer(0)));
        assert!((1..5_000).all(|n| repeats.set(hash(&peer(n))) == set));
        let mut tags: Vec<u32> = (0..5_000).map(|n| tag_of(&peer(n), hash(&peer(n)))).collect();
        tags.sort_unstable();
        tags.dedup();
        assert!(tags.len() > 4_990, "but a place of its own");
        let mut sets: Vec<usize> = (0..5_000).map(|n| repeats.set(hash(&pair(n)))).collect();
        sets.sort_unstable();
        sets.dedup();
        assert!(sets.len() > 500);
    }

    #[test]
    fn the_longest_unused_makes_room() {
        let mut set = VACANT;
        assert_eq!(set.way_of(5), None);
        for way in 0..WAYS {
            assert_eq!(set.tags[set.victim(100)], 0);
            let vacant = set.victim(100);
            (set.tags[vacant], set.at[vacant]) = (way as u32 + 1, 50 + (way as u32 * 5) % 8);
        }
        let oldest = set.victim(100);
        assert_eq!(set.at[oldest], 50);
        assert_eq!(set.way_of(set.tags[oldest]), Some(oldest));
        set.at = [100; WAYS];
        let repeats = Repeats { sets: vec![set], ..Repeats::new() };
        let room = |secs| repeats.has_room(Instant::from_secs(secs), &pair(1), hash(&pair(1)));
        assert!(!room(109) && room(110) && Repeats::new().has_room(Instant::ZERO, &pair(1), 0));
    }
}
