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
mod tests;
