//! The client's memory: for each pair of hosts the cookie, the peer's MSS, and what went wrong.

use alloc::vec::Vec;

use base::{Addr, Duration, Instant};
use wire::tcp::FastOpen;

use super::{FastOpenOffer, FastOpenOutcome, Lesson};

/// Places of one set; the one used longest ago makes room.
const WAYS: usize = 4;
const SETS: usize = 256;
/// A pause doubles with each one in a row, this many times at most.
const DOUBLINGS: u8 = 6;

/// One loss or a busy server explains it as well: the pause is so much shorter.
const MILDER: u32 = 60;

/// Cache entry of one pair of hosts.
#[derive(Clone, Copy)]
struct Entry {
    src: Addr,
    dst: Addr,
    cookie: Option<FastOpen>,
    /// Zero: not known.
    mss: u16,
    /// Requests of this kind were left unanswered; the other kind is tried next, once.
    unanswered: Unanswered,
    /// Pauses in a row.
    pauses: u8,
    until: Instant,
    used: Instant,
}

impl Entry {
    /// Fast Open pauses. What began before a pause and fails during it is no further reason.
    fn rest(&mut self, now: Instant, pause: Duration) {
        if now < self.until {
            self.until = self.until.max(now + pause);
            return;
        }
        self.until = now + pause * (1 << self.pauses.min(DOUBLINGS));
        self.pauses = self.pauses.saturating_add(1);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unanswered {
    None,
    Standard,
    Both,
}

/// Cookies by the two hosts' addresses: a cookie is bound to the client's (RFC 7413, section 4.1.3). Bounded; takes
/// its memory when the first outcome is to be remembered.
#[derive(Default)]
pub struct FastOpenCache {
    entries: Vec<Option<Entry>>,
}

impl FastOpenCache {
    /// Destinations it can remember.
    pub const LIMIT: usize = SETS * WAYS;

    /// Empty.
    pub const fn new() -> FastOpenCache {
        FastOpenCache { entries: Vec::new() }
    }

    /// Bytes held.
    pub fn footprint(&self) -> usize {
        self.entries.capacity() * size_of::<Option<Entry>>()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries = Vec::new();
    }

    /// Returns the Fast Open option for a SYN from `src` to `dst`: the cookie, or a request for one. With
    /// `no_cookie` data goes without any. `None` while the path is suspected of swallowing such SYNs.
    pub fn offer(&mut self, now: Instant, src: Addr, dst: Addr, no_cookie: bool) -> Option<FastOpenOffer> {
        let Some(entry) = self.find(src, dst) else {
            let option = (!no_cookie).then_some(FastOpen::request(false));
            return Some(FastOpenOffer { option, mss: 0 });
        };
        if now < entry.until {
            return None;
        }
        entry.used = now;
        let request = FastOpen::request(entry.unanswered == Unanswered::Standard);
        let option = (!no_cookie).then(|| entry.cookie.unwrap_or(request));
        Some(FastOpenOffer { option, mss: entry.mss })
    }

    /// Remembers how it went. What speaks against Fast Open on this path pauses it there for `pause` or a part of that,
    /// and twice as long each further time (RFC 7413, section 4.1.3.1).
    /// RFC 7413, 4.1.3-1, 4.1.3-2, 4.1.3.1-1 and 4.1.3.1-2.
    pub fn learn(&mut self, now: Instant, src: Addr, dst: Addr, outcome: &FastOpenOutcome, pause: Duration) {
        let entry = self.entry(now, src, dst);
        if outcome.mss != 0 {
            entry.mss = outcome.mss;
        }
        if outcome.cookie.is_some() {
            entry.cookie = outcome.cookie;
        }
        match outcome.lesson {
            Lesson::Answered => entry.pauses = 0,
            Lesson::NoCookie { experimental } => {
                entry.pauses = 0;
                if entry.cookie.is_none() {
                    let both = experimental || entry.unanswered == Unanswered::Both;
                    entry.unanswered = if both { Unanswered::Both } else { Unanswered::Standard };
                }
            }
            Lesson::Refused | Lesson::Lost => entry.rest(now, pause / MILDER),
            Lesson::Unreachable | Lesson::Silence => entry.rest(now, pause),
        }
    }

    fn set(src: Addr, dst: Addr) -> usize {
        let words = src.words().into_iter().chain(dst.words());
        let mixed = words.fold(0u32, |mixed, word| (mixed.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9));
        (mixed >> 16) as usize % SETS * WAYS
    }

    fn find(&mut self, src: Addr, dst: Addr) -> Option<&mut Entry> {
        let at = FastOpenCache::set(src, dst);
        let set = self.entries.get_mut(at..at + WAYS)?;
        set.iter_mut().flatten().find(|entry| (entry.src, entry.dst) == (src, dst))
    }

    /// The entry of the pair, made if it does not exist.
    fn entry(&mut self, now: Instant, src: Addr, dst: Addr) -> &mut Entry {
        if self.entries.is_empty() {
            self.entries.resize(FastOpenCache::LIMIT, None);
        }
        let at = FastOpenCache::set(src, dst);
        let set = &mut self.entries[at..at + WAYS];
        let known = |entry: &Option<Entry>| entry.is_some_and(|entry| (entry.src, entry.dst) == (src, dst));
        let way = set.iter().position(known).unwrap_or_else(|| {
            // A vacant place is older than any.
            let oldest = (0..WAYS).min_by_key(|&way| set[way].map(|entry| entry.used)).unwrap_or(0);
            set[oldest] = None;
            oldest
        });
        set[way].get_or_insert(Entry {
            src,
            dst,
            cookie: None,
            mss: 0,
            unanswered: Unanswered::None,
            pauses: 0,
            until: Instant::ZERO,
            used: now,
        })
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what was learned is offered, to that pair of hosts only, and the cache neither grows nor forgets the
    //! latest.
    use super::*;

    const US: Addr = Addr::v4([192, 0, 2, 1]);
    const PAUSE: Duration = Duration::from_secs(60);

    fn peer(n: u32) -> Addr {
        let [_, b, c, d] = n.to_be_bytes();
        Addr::v4([10, b, c, d])
    }

    fn now(secs: u64) -> Instant {
        Instant::from_secs(1_000 + secs)
    }

    fn got(bytes: &[u8]) -> FastOpenOutcome {
        FastOpenOutcome { mss: 1_400, cookie: FastOpen::cookie(bytes, false), lesson: Lesson::Answered }
    }

    #[test]
    fn a_cookie_is_offered_to_its_destination() {
        let mut cache = FastOpenCache::new();
        let asks = FastOpenOffer { option: Some(FastOpen::request(false)), mss: 0 };
        assert_eq!(cache.offer(now(0), US, peer(1), false), Some(asks));
        assert_eq!(cache.footprint(), 0, "asking costs nothing");
        cache.learn(now(0), US, peer(1), &got(&[7; 8]), PAUSE);
        let knows = FastOpenOffer { option: FastOpen::cookie(&[7; 8], false), mss: 1_400 };
        assert_eq!(cache.offer(now(1), US, peer(1), false), Some(knows));
        assert_eq!(
            cache.offer(now(1), US, peer(1), true),
            Some(FastOpenOffer { option: None, mss: 1_400 }),
            "without a cookie if asked so"
        );
        for (src, dst) in [(US, peer(2)), (peer(1), US), (peer(3), peer(1))] {
            assert_eq!(cache.offer(now(1), src, dst, false), Some(asks));
        }
        cache.clear();
        assert_eq!(cache.offer(now(1), US, peer(1), false), Some(asks));
    }

    #[test]
    fn the_experimental_option_is_tried_once() {
        let mut cache = FastOpenCache::new();
        let asked = |cache: &mut FastOpenCache| {
            let option = cache.offer(now(0), US, peer(1), false).unwrap().option.unwrap();
            assert!(option.is_request());
            let lesson = Lesson::NoCookie { experimental: option.experimental };
            cache.learn(now(0), US, peer(1), &FastOpenOutcome { mss: 0, cookie: None, lesson }, PAUSE);
            option.experimental
        };
        assert_eq!([(); 5].map(|()| asked(&mut cache)), [false, true, false, false, false]);
    }

    /// RFC 7413, 4.1.3.1-1 and 4.1.3.1-2.
    #[test]
    fn silence_pauses_and_an_answer_forgives() {
        let mut cache = FastOpenCache::new();
        cache.learn(now(0), US, peer(1), &got(&[7; 8]), PAUSE);
        let silence = FastOpenOutcome { mss: 0, cookie: None, lesson: Lesson::Silence };
        cache.learn(now(0), US, peer(1), &silence, PAUSE);
        assert_eq!(cache.offer(now(59), US, peer(1), false), None);
        assert!(cache.offer(now(60), US, peer(1), false).is_some());
        cache.learn(now(60), US, peer(1), &silence, PAUSE);
        assert_eq!(cache.offer(now(179), US, peer(1), false), None, "twice as long");
        assert!(cache.offer(now(180), US, peer(1), false).is_some());
        assert!(cache.offer(now(61), US, peer(2), false).is_some(), "another destination is not to blame");
        cache.learn(now(180), US, peer(1), &got(&[8; 8]), PAUSE);
        cache.learn(now(180), US, peer(1), &silence, PAUSE);
        assert!(cache.offer(now(240), US, peer(1), false).is_some(), "once as long again");
        for n in 0..20 {
            cache.learn(now(1_000 * n), US, peer(1), &silence, PAUSE);
        }
        assert!(cache.offer(now(19_000 + 64 * 60), US, peer(1), false).is_some(), "an hour at most");
    }

    /// RFC 7413, 4.1.3.1-2.
    #[test]
    fn milder_lessons_pause_for_less() {
        for (lesson, seconds) in [(Lesson::Refused, 1), (Lesson::Lost, 1), (Lesson::Unreachable, 60)] {
            let mut cache = FastOpenCache::new();
            let outcome = FastOpenOutcome { mss: 1_400, cookie: None, lesson };
            for (nth, factor) in [(0, 1), (1, 2)] {
                let at = 1_000 * nth;
                cache.learn(now(at), US, peer(1), &outcome, PAUSE);
                assert_eq!(
                    cache.offer(now(at + factor * seconds - 1), US, peer(1), false),
                    None,
                    "{lesson:?}"
                );
                assert!(cache.offer(now(at + factor * seconds), US, peer(1), false).is_some(), "{lesson:?}");
            }
            // Two that fail together pause no longer than one.
            let other = now(1_500);
            cache.learn(other, US, peer(2), &outcome, PAUSE);
            cache.learn(other, US, peer(2), &outcome, PAUSE);
            assert!(cache.offer(now(1_500 + seconds), US, peer(2), false).is_some(), "{lesson:?}");
            cache.learn(now(2_000), US, peer(1), &outcome, Duration::ZERO);
            assert!(cache.offer(now(2_000), US, peer(1), false).is_some(), "no pause is wanted");
        }
    }

    #[test]
    fn it_is_bounded_and_keeps_the_latest() {
        let mut cache = FastOpenCache::new();
        for n in 0..10_000u32 {
            cache.learn(now(n.into()), US, peer(n), &got(&n.to_be_bytes()), PAUSE);
            assert_eq!(
                cache.offer(now(n.into()), US, peer(n), false).unwrap().option,
                FastOpen::cookie(&n.to_be_bytes(), false)
            );
        }
        let mut known =
            |n| !cache.offer(now(20_000), US, peer(n), false).unwrap().option.unwrap().is_request();
        let kept = (0..10_000).filter(|&n| known(n)).count();
        assert!((FastOpenCache::LIMIT / 2..=FastOpenCache::LIMIT).contains(&kept), "{kept}");
        assert!(known(9_999));
    }
}
