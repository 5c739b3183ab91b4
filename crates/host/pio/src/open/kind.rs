//! Rows of the table of links, and what several kinds of link share.

use super::spec::Spec;
use crate::open_error::OpenError;
use crate::port::PacketIo;
use crate::xdp::device::Ethtool;
use crate::{Rss, steer};

/// Capabilities, a bit each; the numbers are the kernel's.
pub(crate) type Rights = u64;

/// None.
pub(crate) const NO_RIGHTS: Rights = 0;
/// CAP_NET_ADMIN: to change an interface, and on some kernels the filter of a socket.
pub(crate) const ADMIN: Rights = 1 << 12;
/// CAP_NET_RAW beside it: packet sockets.
pub(crate) const RAW: Rights = ADMIN | 1 << 13;
/// CAP_BPF beside these: to put a program on an interface.
pub(crate) const STEER: Rights = RAW | 1 << 39;

pub(super) type Ports = Vec<Box<dyn PacketIo>>;

/// A kind of port that [`open`](super::open) knows.
pub(super) struct Kind {
    /// Kind: the text before the colon.
    pub(super) name: &'static str,
    /// Form of the text behind the colon.
    pub(super) what: &'static str,
    /// Names of what can be said of it, `name=value`.
    pub(super) options: &'static [&'static str],
    /// Options that are not ours are for the host behind the link.
    pub(super) passes_on: bool,
    /// Privileges needed to open one.
    pub(super) rights: Rights,
    /// Further text of [`open_wire`](super::open_wire).
    pub(super) as_wire: &'static str,
    pub(super) open: fn(&Spec<'_>, u16) -> Result<Ports, OpenError>,
}

pub(super) fn boxed<P: PacketIo + 'static>(ports: Vec<P>) -> Ports {
    ports.into_iter().map(|port| Box::new(port) as Box<dyn PacketIo>).collect()
}

/// The ports of a card's queues; of several, each gets the packets to ports that its core claims, whichever queue the
/// card chooses by its `rule`. Without a rule all steering is done here.
pub(super) fn steered<P: PacketIo + 'static>(
    ports: Vec<P>,
    rule: impl FnOnce(&P) -> Option<Rss>,
) -> Result<Ports, OpenError> {
    let cores = ports.len() as u16;
    let (Some(first), 2..) = (ports.first(), cores) else { return Ok(boxed(ports)) };
    let rule = rule(first).map(|rule| rule.for_cores(cores));
    Ok(boxed(steer(ports, rule.as_ref()).map_err(|e| OpenError::os("make doorbells", e))?))
}

/// The rule by which an interface's card chooses receive queues, if the driver tells.
pub(super) fn rule_of(iface: &str) -> Option<Rss> {
    Ethtool::new(iface).ok()?.rss()
}
