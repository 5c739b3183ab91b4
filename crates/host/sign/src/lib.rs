//! The algorithms of signed segments, from the RustCrypto libraries: `core` has none and depends on none, so keys bring
//! theirs along as [`tcp::auth::Algorithm`].
#![forbid(unsafe_code)]

use cmac::Cmac;
use hmac::Hmac;
use hmac::digest::{Digest, FixedOutput, KeyInit, Mac, Update};
use tcp::auth::{Algorithm, TAG_MAX};

/// TCP MD5 (RFC 2385): a hash with the key behind the bytes, which is no HMAC.
#[derive(Debug)]
pub struct Md5;

/// HMAC-SHA-1 (RFC 2104), of which TCP-AO takes 96 bits (RFC 5926, section 3.2.1).
#[derive(Debug)]
pub struct HmacSha1;

/// HMAC-SHA-256, as routers have it for TCP-AO beside what RFC 5926 demands.
#[derive(Debug)]
pub struct HmacSha256;

/// AES-128-CMAC (RFC 4493), with keys of any length by RFC 4615 (RFC 5926, sections 3.1.1.2 and 3.2.2).
#[derive(Debug)]
pub struct CmacAes128;

/// Algorithms of TCP-AO.
pub const ALL: &[&dyn Algorithm] = &[&HmacSha1, &HmacSha256, &CmacAes128];

/// The algorithm that TCP_AO_ADD_KEY calls so.
pub fn find(name: &str) -> Option<&'static dyn Algorithm> {
    ALL.iter().find(|known| known.name() == name).copied()
}

/// `bytes`, and zeros behind them.
fn tag(bytes: &[u8]) -> [u8; TAG_MAX] {
    let mut tag = [0; TAG_MAX];
    tag[..bytes.len()].copy_from_slice(bytes);
    tag
}

fn mac<M: Mac + KeyInit + Update + FixedOutput>(key: &[u8], parts: &[&[u8]]) -> [u8; TAG_MAX] {
    // Only a cipher's key can be of the wrong length, and ours comes at its right one.
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else {
        unreachable!("a key of {} bytes", key.len())
    };
    for part in parts {
        Update::update(&mut mac, part);
    }
    tag(&mac.finalize_fixed())
}

impl Algorithm for Md5 {
    fn name(&self) -> &'static str {
        "md5"
    }

    fn tag_len(&self) -> usize {
        16
    }

    fn tag(&self, key: &[u8], parts: &[&[u8]]) -> [u8; TAG_MAX] {
        let mut hash = md5::Md5::new();
        for part in parts {
            Digest::update(&mut hash, part);
        }
        Digest::update(&mut hash, key);
        tag(&hash.finalize())
    }
}

impl Algorithm for HmacSha1 {
    fn name(&self) -> &'static str {
        "hmac(sha1)"
    }

    fn tag_len(&self) -> usize {
        20
    }

    fn tag(&self, key: &[u8], parts: &[&[u8]]) -> [u8; TAG_MAX] {
        mac::<Hmac<sha1::Sha1>>(key, parts)
    }
}

impl Algorithm for HmacSha256 {
    fn name(&self) -> &'static str {
        "hmac(sha256)"
    }

    fn tag_len(&self) -> usize {
        32
    }

    fn tag(&self, key: &[u8], parts: &[&[u8]]) -> [u8; TAG_MAX] {
        mac::<Hmac<sha2::Sha256>>(key, parts)
    }
}

impl Algorithm for CmacAes128 {
    fn name(&self) -> &'static str {
        "cmac(aes128)"
    }

    fn tag_len(&self) -> usize {
        16
    }

    fn tag(&self, key: &[u8], parts: &[&[u8]]) -> [u8; TAG_MAX] {
        type Aes = Cmac<aes::Aes128>;
        match key.len() {
            16 => mac::<Aes>(key, parts),
            _ => mac::<Aes>(&mac::<Aes>(&[0; 16], &[key])[..16], parts),
        }
    }
}
