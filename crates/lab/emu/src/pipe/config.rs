//! How a pipe behaves.

use super::{Aqm, GilbertElliott, Named};
use base::{Duration, Rate};

/// Capacity of a queue before it drops at the tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Queue {
    /// Everything.
    #[default]
    Unlimited,
    /// So many packets, the one on the line included.
    Slots(u32),
    /// So many bytes, never more.
    Strict(u64),
    /// A packet as long as fewer bytes than this are there before it: one packet over at most (dummynet's
    /// way).
    Loose(u64),
}

/// How a pipe behaves. Probabilities are 0.0 to 1.0, per packet.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PipeConfig {
    /// Rate of the line; `None` for no limit (and no queue).
    pub rate: Option<Rate>,
    /// Bytes that each packet takes on the line besides its own (24 for Ethernet's preamble, check and gap).
    pub overhead: u32,
    /// Line and queue count IP packets without the Ethernet header, as dummynet does.
    pub ip_only: bool,
    /// Time every packet travels.
    pub delay: Duration,
    /// Up to this much more, uniformly; packets stay in order.
    pub jitter: Duration,
    /// Room before the line.
    pub queue: Queue,
    /// Active queue management: packets dropped or marked before the queue is full.
    pub aqm: Aqm,
    /// Chance to vanish.
    pub loss: f64,
    /// Every so-many-th packet vanishes, besides; 0 for none.
    pub every: u64,
    /// Losses that come in bursts, besides.
    pub bursts: Option<GilbertElliott>,
    /// Chance to arrive twice.
    pub duplicate: f64,
    /// Chance that one bit flips. Only inside IP packets: a frame that Ethernet's own check would catch never
    /// reaches a host, so what does reach it was corrupted inside a router.
    pub corrupt: f64,
    /// Chance to be held back and overtaken.
    pub reorder: f64,
    /// Up to how long such a packet is held back, uniformly.
    pub reorder_by: Duration,
    /// ARP and Neighbour Discovery pass unharmed: the ills stand for a long path, whose first link is sound.
    pub spares_neighbours: bool,
    /// Packets to drop by their number since the pipe got this configuration.
    pub discard: Named,
    /// Packets to hold back by their number, so that later ones overtake them.
    pub hold: Named,
    /// For how long.
    pub hold_by: Duration,
    /// Most packets inside, waiting and travelling together; beyond, they are dropped as for a full queue. `None` for
    /// no bound, which only virtual time can do with.
    pub holds: Option<u32>,
    /// Nothing passes.
    pub down: bool,
}
