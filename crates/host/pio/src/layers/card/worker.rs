//! A worker of the card, how workers are made, and what goes between them.

use crate::port::{BATCH_MAX, RxPacket};
use ::wire::checksum::Summer;
use base::{Duration, Instant, SipKey};

/// Most receive workers: those of the published card.
pub const RECEIVERS_MAX: usize = 13;
/// Most of the port's frames that are not the port's at a time: fewer than the smallest port has.
pub(super) const OUT_MAX: usize = 448;
/// Frames that lie ready to be sent in, and long ones where the port keeps those apart.
pub(super) const FREE: usize = 64;
pub(super) const LONG: usize = 8;
/// Packets that wait for the host behind which nothing goes ahead any more: two batches.
pub(super) const HOST_RING: usize = 2 * BATCH_MAX;
/// Large frames of a receive worker.
pub(super) const SUPERS: usize = 32;

const _: () = assert!(OUT_MAX + BATCH_MAX <= 512, "the smallest port has frames left to receive in");
const _: () = assert!(RECEIVERS_MAX <= offload::QUEUES_MAX);

/// How a [`Card`](super::Card) is made.
#[derive(Clone)]
pub struct CardConfig {
    /// Receive workers, 1 to [`RECEIVERS_MAX`]; there are two more, at the link and on the way up.
    pub receivers: usize,
    /// How they merge packets; `None` hands up each as it came. (How many packets an engine has is the card's affair.)
    pub engine: Option<offload::Config>,
    /// Of the hash that deals flows to workers, and of the order of workers without threads.
    pub seed: u64,
    /// How long a worker without work looks for some before it sleeps. Zero where there are fewer CPUs than workers.
    pub spin: Duration,
    /// How it sums bytes up.
    pub summer: Summer,
}

impl CardConfig {
    /// So many receive workers, which merge what they find together and hold nothing.
    pub fn new(receivers: usize, seed: u64) -> CardConfig {
        let engine = Some(offload::Config::default());
        CardConfig { receivers, engine, seed, spin: Duration::ZERO, summer: crate::summer() }
    }

    /// The hash that deals flows to workers.
    pub(super) fn steering(&self) -> SipKey {
        SipKey::new(self.seed, !self.seed)
    }

    /// Is anything held beyond its batch?
    pub(super) fn holds(&self) -> bool {
        self.engine.is_some_and(|engine| !engine.hold.is_zero())
    }
}

/// A packet on its way to a receive worker.
pub(super) struct Steered {
    pub(super) packet: RxPacket,
    /// Of its flow; 0 if it is no TCP.
    pub(super) hash: u64,
    /// Bytes of all frames, in the first one's.
    pub(super) whole: u32,
}

/// A packet with data on its way up.
pub(super) struct Up {
    pub(super) packet: RxPacket,
    /// How many packets without data went ahead of data before it: those are before it still.
    pub(super) after: u64,
}

/// Something that has its turns, on a thread of its own or not.
pub(super) trait Worker: Send {
    /// One bounded round with no more than `most` packets; whether there was anything to do.
    fn turn(&mut self, now: Instant, most: usize) -> bool;

    /// When it is to have a turn though nothing came.
    fn due(&self) -> Option<Instant>;

    /// Is there something to do?
    fn is_ready(&mut self) -> bool;

    /// Sleeps until there is, `timeout` passes or a program wakes it.
    fn sleep(&mut self, timeout: Option<Duration>);

    /// Is there nothing to do for it any more?
    fn is_over(&self) -> bool {
        false
    }
}
