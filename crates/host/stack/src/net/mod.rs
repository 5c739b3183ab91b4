//! IP and below: addresses, routes, neighbours, ICMP.

pub(crate) mod arp_nd;
mod host_hints;
pub(crate) mod icmp;
pub(crate) mod ip;
pub(crate) mod neighbours;
pub(crate) mod paths;
