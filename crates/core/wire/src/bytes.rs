//! Big-endian fields at fixed places. Reads give `None` past the end; writes go to arrays of known size.

/// The two bytes at `at`, in host order.
pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

/// The four bytes at `at`, in host order.
pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_be_bytes(*b))
}

/// `N` bytes at `at`.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Writes `field` at `at`; the caller's buffer is long enough by its own contract.
pub(crate) fn put<const N: usize>(into: &mut [u8], at: usize, field: [u8; N]) {
    into[at..at + N].copy_from_slice(&field);
}
