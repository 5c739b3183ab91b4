//! Numbers out of packets.

/// Two bytes, in network order.
#[inline(always)]
pub(crate) fn half(packet: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?))
}

/// Four bytes, in network order.
#[inline(always)]
pub(crate) fn word(packet: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*packet.get(at..)?.first_chunk()?))
}
