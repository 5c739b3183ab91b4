//! The server's cookies: a keyed hash of both addresses, under one of two keys.

use alloc::string::String;
use core::fmt::Write;

use base::{Duration, FlowKey, Instant, SipKey};
use wire::tcp::FastOpen;

/// Tells apart what one secret is used for.
const OWN_KEY: u64 = 0x7466_6f6b_6579_0000;
/// How long a stack's own key is the first of the two. Cookies of the key before are good for as long again.
const LIFE: Duration = Duration::from_secs(12 * 3_600);

/// Bytes of a key.
const KEY: usize = 16;

/// The secrets of a server's cookies: the first makes them and the second, if there is one, is still believed, so
/// that keys can be replaced while clients hold older cookies (RFC 7413, section 4.1.2).
///
/// A cookie is SipHash-2-4 of the client's address and the server's in network order, least byte first: what Linux
/// computes from the same keys, so servers of either kind can stand behind one address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FastOpenKeys {
    first: [u8; KEY],
    second: Option<[u8; KEY]>,
}

/// Validity of a cookie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CookieWorth {
    /// Made with the first key.
    Good,
    /// Made with the second: good, and it should be replaced.
    Aging,
    /// Not one of ours, or another client's.
    Bad,
}

impl FastOpenKeys {
    /// From 16 bytes, or from 32: the first key and then the second.
    pub fn new(bytes: &[u8]) -> Option<FastOpenKeys> {
        let (first, rest) = bytes.split_first_chunk()?;
        let second = match rest {
            [] => None,
            rest => Some(rest.try_into().ok()?),
        };
        Some(FastOpenKeys { first: *first, second })
    }

    /// Both keys, and how many bytes of them there are.
    pub fn bytes(&self) -> ([u8; 2 * KEY], usize) {
        let mut bytes = [0; 2 * KEY];
        bytes[..KEY].copy_from_slice(&self.first);
        match self.second {
            None => (bytes, KEY),
            Some(second) => {
                bytes[KEY..].copy_from_slice(&second);
                (bytes, 2 * KEY)
            }
        }
    }

    /// The cookie of the client at the remote end of `flow`, as seen from the server.
    /// RFC 7413, 4.1.2-1.
    pub fn cookie(&self, flow: &FlowKey, experimental: bool) -> Option<FastOpen> {
        FastOpen::cookie(&hash(&self.first, flow), experimental)
    }

    /// Did we make this cookie for the client at the remote end of `flow`?
    pub fn judge(&self, flow: &FlowKey, cookie: &FastOpen) -> CookieWorth {
        if cookie.bytes() == hash(&self.first, flow) {
            return CookieWorth::Good;
        }
        match self.second {
            Some(second) if cookie.bytes() == hash(&second, flow) => CookieWorth::Aging,
            _ => CookieWorth::Bad,
        }
    }

    /// Keys as Linux's sysctl shows them: four words of eight digits each, the second key behind a comma.
    pub(crate) fn parse(text: &str) -> Option<FastOpenKeys> {
        let key = |text: &str| {
            let mut bytes = [0; KEY];
            let mut words = text.trim().split('-');
            for byte in bytes.as_chunks_mut::<4>().0 {
                let word = words.next().filter(|word| word.len() == 8)?;
                *byte = u32::from_str_radix(word, 16).ok()?.to_le_bytes();
            }
            words.next().is_none().then_some(bytes)
        };
        match text.split_once(',') {
            None => Some(FastOpenKeys { first: key(text)?, second: None }),
            Some((first, second)) => Some(FastOpenKeys { first: key(first)?, second: Some(key(second)?) }),
        }
    }

    pub(crate) fn show(&self) -> String {
        let mut text = String::new();
        for (nth, key) in [Some(self.first), self.second].iter().flatten().enumerate() {
            for (at, word) in key.as_chunks::<4>().0.iter().enumerate() {
                let mark = if at > 0 {
                    "-"
                } else if nth > 0 {
                    ","
                } else {
                    ""
                };
                // Writing to a String does not fail.
                let _ = write!(text, "{mark}{:08x}", u32::from_le_bytes(*word));
            }
        }
        text
    }
}

impl core::fmt::Debug for FastOpenKeys {
    /// Says how many there are, and no secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(if self.second.is_some() { "two keys" } else { "one key" })
    }
}

fn hash(key: &[u8; KEY], flow: &FlowKey) -> [u8; 8] {
    let half = |at: usize| key[at..at + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let key = SipKey::new(half(0), half(8));
    let (client, server) = (flow.remote().addr.halves(), flow.local().addr.halves());
    let hash = if flow.is_v4() {
        key.strong(&[(client[1] << 32 | server[1] & 0xffff_ffff).swap_bytes()])
    } else {
        key.strong(&[client[0], client[1], server[0], server[1]].map(u64::swap_bytes))
    };
    hash.to_le_bytes()
}

/// A stack's own keys, where none is configured: a new one every twelve hours, out of one secret.
pub struct FastOpenJar(SipKey);

impl FastOpenJar {
    /// From a secret. Stacks with the same secret believe each other's cookies.
    pub fn new(secret: SipKey) -> FastOpenJar {
        FastOpenJar(secret)
    }

    /// The keys of this time.
    /// RFC 7413, 4.1.2-2.
    pub fn keys(&self, now: Instant) -> FastOpenKeys {
        let period = now.as_nanos() / LIFE.as_nanos() as u64;
        FastOpenKeys { first: self.key(period), second: Some(self.key(period.wrapping_sub(1))) }
    }

    fn key(&self, period: u64) -> [u8; KEY] {
        let mut key = [0; KEY];
        key[..8].copy_from_slice(&self.0.strong(&[OWN_KEY, period, 0]).to_le_bytes());
        key[8..].copy_from_slice(&self.0.strong(&[OWN_KEY, period, 1]).to_le_bytes());
        key
    }
}

#[cfg(test)]
mod tests;
