//! Signature algorithms. This crate has no cryptography of its own: a key carries its algorithm.

/// Most bytes of a tag, before it is cut to the length that the option has room for.
pub const TAG_MAX: usize = 32;

/// A keyed hash: from a key and bytes to a tag. Implemented outside of `core`, by a library.
///
/// The function is also the pseudo-random function of the key derivation (RFC 5926, section 3.1.1), so whatever it does
/// with keys of unusual lengths holds for master keys (RFC 4615 for AES-128-CMAC).
pub trait Algorithm: core::fmt::Debug + Send + Sync {
    /// Its name, as Linux's TCP_AO_ADD_KEY has it: `hmac(sha1)`.
    fn name(&self) -> &'static str;
    /// Bytes of a tag, at most [`TAG_MAX`].
    fn tag_len(&self) -> usize;
    /// The tag of `parts`, one behind the other, under `key` of any length: its first [`Algorithm::tag_len`] bytes.
    fn tag(&self, key: &[u8], parts: &[&[u8]]) -> [u8; TAG_MAX];
}

/// Are both the same? Takes as long wherever they differ, so that no attacker can find a tag byte by byte.
pub(super) fn same(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && core::hint::black_box(differences) == 0
}
