//! For fuzz targets: each function takes any bytes for what the kernel, a file, a user or another process
//! says, and panics if something worse than a refusal comes of it.

/// A datagram of rtnetlink.
pub fn netlink(data: &[u8]) {
    crate::netlink::fuzz(data);
}

/// Fuzzes shared memory under a hostile other process.
pub fn shared_memory(data: &[u8]) {
    crate::shm::fuzz(data);
}

/// A capture file.
pub fn capture(data: &[u8]) {
    crate::pcap::fuzz(data);
}

/// Fuzzes the text of a link.
pub fn link(data: &[u8]) {
    crate::open::fuzz(&String::from_utf8_lossy(data));
}

/// Fuzzes a group of processes that share a port.
pub fn group(data: &[u8]) {
    crate::group::fuzz::table(data);
}

/// A card whose workers take turns in any order, against plain queues.
pub fn card(data: &[u8]) {
    drop(crate::layers::card::fuzz::card(data));
}
