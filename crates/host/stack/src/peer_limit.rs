//! How often each peer may have an answer that belongs to no connection.

use base::{Addr, Instant, SipKey};

/// Buckets that peers share by a keyed hash: they bound memory, and the answers of a second to all peers together.
const BUCKETS: usize = 256;

/// A rate limit for each peer by itself, with a bound that no peer can know beforehand.
///
/// A limit that all peers share is a side channel: an attacker who sends in the name of another host, and then counts
/// the answers that are left for itself, learns whether the other's segments were answered, and so whether they met a
/// connection (CVE-2016-5696). Here a peer's answers do not depend on what came in the name of another. Two peers whose
/// hashes meet share a bucket, but every second deals the buckets anew, and draws a new bound for every peer.
pub(crate) struct PeerLimit {
    key: SipKey,
    /// Least bound a second; the greatest is twice that.
    least: u16,
    /// The second that `taken` is about.
    second: u64,
    taken: [u16; BUCKETS],
}

impl PeerLimit {
    /// A limit between `least` and twice as many answers a second for each peer.
    pub(crate) fn new(key: SipKey, least: u16) -> Self {
        PeerLimit { key, least, second: 0, taken: [0; BUCKETS] }
    }

    /// Returns true if `peer` may have one more answer at `now`.
    pub(crate) fn take(&mut self, now: Instant, peer: Addr) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if second != self.second {
            (self.second, self.taken) = (second, [0; BUCKETS]);
        }
        let [high, low] = peer.halves();
        let hash = self.key.strong(&[second, high, low]);
        let bound = self.least + ((hash >> 32) % (u64::from(self.least) + 1)) as u16;
        let taken = &mut self.taken[hash as usize % BUCKETS];
        let allowed = *taken < bound;
        *taken += u16::from(allowed);
        allowed
    }
}

#[cfg(test)]
mod tests {
    //! Goal: each peer has its own bound, which changes every second and cannot be told from another peer's use.
    use super::*;

    const LEAST: u16 = 100;

    fn peer(n: u32) -> Addr {
        let [a, b, c, d] = n.to_be_bytes();
        Addr::v6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d])
    }

    fn answers(limit: &mut PeerLimit, second: u64, n: u32) -> usize {
        (0..1_000).filter(|_| limit.take(Instant::from_secs(second), peer(n))).count()
    }

    #[test]
    fn bounds_change_with_second_and_peer_and_stay_between_once_and_twice() {
        let mut limit = PeerLimit::new(SipKey::new(1, 2), LEAST);
        let seen: Vec<usize> = (1..200).map(|second| answers(&mut limit, second, 7)).collect();
        assert!(seen.iter().all(|n| (100..=200).contains(n)), "{seen:?}");
        let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
        assert!(distinct.len() > 60, "{seen:?}");
    }

    #[test]
    fn one_peer_does_not_use_up_another_peers_answers() {
        let mut alone = PeerLimit::new(SipKey::new(1, 2), LEAST);
        let mut beside = PeerLimit::new(SipKey::new(1, 2), LEAST);
        let mut differ = 0;
        for second in 1..=512 {
            answers(&mut beside, second, 1);
            differ += usize::from(answers(&mut alone, second, 2) != answers(&mut beside, second, 2));
        }
        // Two hashes meet once in 256 seconds; which ones is not known to the peer.
        assert!(differ <= 6, "{differ}");
    }

    #[test]
    fn all_peers_together_are_bounded() {
        let mut limit = PeerLimit::new(SipKey::new(1, 2), LEAST);
        let all = (0..100_000).filter(|&n| limit.take(Instant::from_secs(9), peer(n))).count();
        assert!(all <= BUCKETS * 2 * usize::from(LEAST), "{all}");
    }
}
