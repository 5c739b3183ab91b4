//! The archive of pairs of hosts that meet again: what a connection between them begins with, ready to be copied.
//!
//! A pair is our address, the peer's, and the port of the service on whichever side accepts; the other port is new
//! every time. The first connection of a pair leaves a mark only, a dozen octets: peers that come once cost nothing
//! more, and drive out nobody. When a pair is seen again it gets a [`Bundle`]. Only connections that completed their
//! handshake leave anything, so forged SYNs neither fill this nor empty it; they do not even make it younger.
//!
//! Places lie in sets, and all services of a pair share one, for IPv6 those of a whole network of 64 bits: that is a
//! peer's share. In a full set a mark makes room before a bundle, and what was used longest ago before the rest.
//!
//! A bundle is found by hash and proven by its key, its settings and the state of routes and listeners it was made
//! under; where one of them has changed, the connection begins as if there were none.

use base::{Addr, Endpoint, FlowKey, Instant};
use tcp::Archived;
use wire::packet::Template;

use crate::listeners::ListenerId;

/// Places of a set.
const WAYS: usize = 8;
/// No bundle.
pub(crate) const NONE: u32 = u32::MAX;
/// A bundle counts as this much younger than a mark, seconds.
const GRACE: u32 = 60;

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

/// Where a pair stands.
#[derive(Clone, Copy)]
struct Place {
    /// Of the pair's hash and its ports; 0 for vacant.
    tag: u32,
    /// When it was used last, seconds.
    at: u32,
    bundle: u32,
}

const VACANT: Place = Place { tag: 0, at: 0, bundle: NONE };

/// The archive of one core. It takes its memory when the first connection ends.
pub(crate) struct Repeats {
    places: Vec<Place>,
    bundles: Vec<Bundle>,
    /// Bundles that belong to no place.
    vacant: Vec<u32>,
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
        Repeats { places: Vec::new(), bundles: Vec::new(), vacant: Vec::new() }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Repeats::new();
    }

    /// Bundles in use.
    pub(crate) fn len(&self) -> usize {
        self.bundles.len() - self.vacant.len()
    }

    /// Octets held.
    pub(crate) fn footprint(&self) -> usize {
        self.places.capacity() * size_of::<Place>()
            + self.bundles.capacity() * size_of::<Bundle>()
            + self.vacant.capacity() * size_of::<u32>()
    }

    /// Where the set begins.
    #[inline]
    fn set(&self, hash: u64) -> usize {
        let sets = self.places.len() / WAYS;
        (((hash & 0xffff_ffff) * sets as u64) >> 32) as usize * WAYS
    }

    /// The pair's place, if it was seen less than `age` seconds ago. `hash` is that of [`hosts_of`] the pair.
    #[inline]
    pub(crate) fn find(&self, now: Instant, age: u32, pair: &FlowKey, hash: u64) -> Option<usize> {
        let (set, tag) = (self.set(hash), tag_of(pair, hash));
        let ways = self.places.get(set..set + WAYS)?;
        let way = ways.iter().position(|place| place.tag == tag)?;
        let place = &ways[way];
        let known = place.bundle == NONE || self.bundles[place.bundle as usize].pair == *pair;
        (known && seconds(now).wrapping_sub(place.at) < age).then_some(set + way)
    }

    /// The index of a place's bundle, or [`NONE`].
    #[inline]
    pub(crate) fn bundle_at(&self, place: usize) -> u32 {
        self.places[place].bundle
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
        self.places[place].at = seconds(now);
    }

    /// The same for the pair of a bundle, if it still has it.
    #[inline]
    pub(crate) fn touch_bundle(&mut self, now: Instant, bundle: u32) {
        if let Some(place) = self.get(bundle).map(|bundle| bundle.place)
            && self.places[place].bundle == bundle
        {
            self.touch(now, place);
        }
    }

    /// Did that happen in this very second?
    pub(crate) fn is_fresh(&self, now: Instant, place: usize) -> bool {
        self.places[place].at == seconds(now)
    }

    /// A pair was seen of which nothing is known, or nothing young enough. True if a bundle had to make room.
    pub(crate) fn mark(&mut self, now: Instant, pairs: u32, pair: &FlowKey, hash: u64) -> bool {
        if self.places.is_empty() {
            self.places = vec![VACANT; (pairs as usize).next_multiple_of(WAYS)];
        }
        let (set, tag, at) = (self.set(hash), tag_of(pair, hash), seconds(now));
        let ways = &self.places[set..set + WAYS];
        // Marks go first, and the oldest of each kind.
        let worth = |place: &Place| match (place.tag, place.bundle) {
            (0, _) => 0,
            (_, NONE) => 1 + u64::from(place.at),
            _ => 1 + u64::from(place.at) + u64::from(GRACE),
        };
        let known = ways.iter().position(|place| place.tag == tag);
        let way = known.or_else(|| (0..WAYS).min_by_key(|&way| worth(&ways[way]))).unwrap_or(0);
        let bundle = std::mem::replace(&mut self.places[set + way], Place { tag, at, bundle: NONE }).bundle;
        if bundle != NONE {
            self.vacant.push(bundle);
        }
        bundle != NONE
    }

    /// Gives the pair at `place` a bundle, in the place of its old one if it has one.
    pub(crate) fn keep(&mut self, now: Instant, place: usize, bundle: Bundle) {
        self.touch(now, place);
        let index = match self.places[place].bundle {
            NONE => self.vacant.pop(),
            index => Some(index),
        };
        let index = match index {
            Some(index) => {
                self.bundles[index as usize] = bundle;
                index
            }
            None => {
                self.bundles.push(bundle);
                self.bundles.len() as u32 - 1
            }
        };
        self.places[place].bundle = index;
    }
}

#[cfg(test)]
mod tests {
    //! Goal: bounded, whoever comes; a pair that comes again stays, and strangers make room for each other.
    use super::*;
    use base::SipKey;

    fn pair(n: u32) -> FlowKey {
        let local = Endpoint::new(Addr::v4([10, 0, 0, 1]), 80);
        FlowKey::new(local, Endpoint::new(Addr::v4((0x0b00_0000 + n).to_be_bytes()), 0))
    }

    fn hash(pair: &FlowKey) -> u64 {
        SipKey::new(1, 2).flow(&hosts_of(pair))
    }

    #[test]
    fn strangers_make_room_for_each_other() {
        let mut repeats = Repeats::new();
        let known: Vec<FlowKey> = (0..16).map(pair).collect();
        let at = |secs: u32| Instant::from_secs(1_000 + u64::from(secs));
        for pair in &known {
            repeats.mark(at(0), 256, pair, hash(pair));
        }
        let held = repeats.footprint();
        for n in 0..100_000 {
            let stranger = pair(1_000 + n);
            repeats.mark(at(n / 10_000), 256, &stranger, hash(&stranger));
            if n % 50 == 0 {
                let now = at(n / 10_000);
                for pair in &known {
                    if let Some(place) = repeats.find(now, 600, pair, hash(pair)) {
                        repeats.touch(now, place);
                    }
                }
            }
        }
        assert_eq!((repeats.footprint(), repeats.len()), (held, 0));
    }

    #[test]
    fn one_network_has_one_set() {
        let mut repeats = Repeats::new();
        let now = Instant::from_secs(1_000);
        let peer = |n: u16| {
            let [a, b] = n.to_be_bytes();
            let addr = Addr::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, a, b]);
            FlowKey::new(Endpoint::new(Addr::UNSPECIFIED_V6, 80), Endpoint::new(addr, 0))
        };
        for n in 0..5_000 {
            repeats.mark(now, 4_096, &peer(n), hash(&peer(n)));
        }
        assert_eq!(repeats.places.iter().filter(|place| place.tag != 0).count(), WAYS);
        let v4 = (0..1_000).map(pair).filter(|pair| {
            repeats.mark(now, 4_096, pair, hash(pair));
            repeats.find(now, 600, pair, hash(pair)).is_some()
        });
        assert_eq!(v4.count(), 1_000);
    }

    #[test]
    fn what_is_too_old_is_not_found() {
        let mut repeats = Repeats::new();
        let (one, start) = (pair(1), Instant::from_secs(1_000));
        assert_eq!(repeats.find(start, 600, &one, hash(&one)), None);
        repeats.mark(start, 64, &one, hash(&one));
        let after = |secs| repeats.find(start + base::Duration::from_secs(secs), 600, &one, hash(&one));
        assert!(after(599).is_some() && after(600).is_none());
    }
}
