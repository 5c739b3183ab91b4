//! For fuzz targets: each function takes any octets for what the kernel, a file, a user or another process says, and
//! panics if something worse than a refusal comes of it.

/// A datagram of rtnetlink.
pub fn netlink(data: &[u8]) {
    crate::netlink::fuzz(data);
}

/// A block of a packet socket's receive ring.
pub fn packet_ring(data: &[u8]) {
    crate::packet::fuzz(data);
}

/// What the other process does to shared memory.
pub fn shared_memory(data: &[u8]) {
    crate::shm::fuzz(data);
}
