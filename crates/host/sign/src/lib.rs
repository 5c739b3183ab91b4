//! The algorithms of signed segments, from the RustCrypto libraries: `core` has none and depends on none, so keys bring
//! theirs along as [`tcp::auth::Algorithm`].
#![forbid(unsafe_code)]

use cmac::Cmac;
use hmac::Hmac;
use hmac::digest::{Digest, FixedOutput, KeyInit, Mac, Update};
use tcp::auth::{Algorithm, TAG_MAX};

/// The algorithms, a row each: its type, its name, the bytes of a tag, and what makes one.
macro_rules! algorithms {
    ($($(#[$doc:meta])+ $id:ident: $name:literal, $len:literal, $tag:expr;)+) => {$(
        $(#[$doc])+
        #[derive(Debug)]
        pub struct $id;

        impl Algorithm for $id {
            fn name(&self) -> &'static str {
                $name
            }

            fn tag_len(&self) -> usize {
                $len
            }

            fn tag(&self, key: &[u8], parts: &[&[u8]]) -> [u8; TAG_MAX] {
                $tag(key, parts)
            }
        }
    )+};
}

algorithms! {
    /// TCP MD5 (RFC 2385): a hash with the key behind the bytes, which is no HMAC.
    Md5: "md5", 16, hash_behind;
    /// HMAC-SHA-1 (RFC 2104), of which TCP-AO takes 96 bits (RFC 5926, section 3.2.1).
    HmacSha1: "hmac(sha1)", 20, mac::<Hmac<sha1::Sha1>>;
    /// HMAC-SHA-256, as routers have it for TCP-AO beside what RFC 5926 demands.
    HmacSha256: "hmac(sha256)", 32, mac::<Hmac<sha2::Sha256>>;
    /// AES-128-CMAC (RFC 4493), with keys of any length by RFC 4615 (RFC 5926, sections 3.1.1.2 and 3.2.2).
    CmacAes128: "cmac(aes128)", 16, cmac;
}

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

fn hash_behind(key: &[u8], parts: &[&[u8]]) -> [u8; TAG_MAX] {
    let mut hash = md5::Md5::new();
    for part in parts {
        Digest::update(&mut hash, part);
    }
    Digest::update(&mut hash, key);
    tag(&hash.finalize())
}

fn cmac(key: &[u8], parts: &[&[u8]]) -> [u8; TAG_MAX] {
    type Aes = Cmac<aes::Aes128>;
    match key.len() {
        16 => mac::<Aes>(key, parts),
        _ => mac::<Aes>(&mac::<Aes>(&[0; 16], &[key])[..16], parts),
    }
}
