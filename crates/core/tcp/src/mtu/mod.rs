//! Segment sizes: what the path carries, by ICMP and by probes, and what a segment has room for.

pub(crate) mod icmp;
pub(crate) mod mtu_search;
pub(crate) mod path;
