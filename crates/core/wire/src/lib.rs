//! Bytes to headers and back: Ethernet, ARP, IPv4 and IPv6, ICMP and Neighbour Discovery, TCP and its
//! options, checksums, the virtio-net header, and a printer in tcpdump's manner.
//!
//! Two kinds of type per protocol: a *view* that was checked once when it was made and then only reads,
//! and a *header* (plain values) that emits itself, so an illegal one cannot be built.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod tcp;
