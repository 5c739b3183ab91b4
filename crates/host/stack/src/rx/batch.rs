//! Buffers of receiving, and segments in them.

use base::{Duration, FlowKey};
use offload::{BatchGro, HOLD_MAX};
use pio::{BATCH_MAX, Gro, Medium, RxBatch, RxPacket};

use crate::tables::flows::Flow;

/// Receive offload of segments that continue each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {
    /// Each is delivered for itself.
    Off,
    /// Those that arrive together are delivered as one.
    Inline,
    /// As `Inline`; where more of a flow is expected its data waits for that, for the budget at most.
    Hold(Duration),
    /// As inline, and those that came too early wait for what is missing before them, for the budget at the most.
    Reorder(Duration),
}

impl Offload {
    /// The longest that anything is held, whatever the budget.
    pub const BUDGET_MAX: Duration = HOLD_MAX;

    /// Returns what holds packets, where something does.
    pub(crate) fn gro(self) -> Option<Gro> {
        match self {
            Offload::Off | Offload::Inline => None,
            Offload::Hold(budget) => Some(Gro::new(budget, Duration::ZERO)),
            Offload::Reorder(budget) => Some(Gro::new(Duration::ZERO, budget)),
        }
    }
}

/// Batches received in one turn at most, unless said otherwise.
pub(crate) const BATCHES: u8 = 2;

/// Buffers of receiving, kept from turn to turn to avoid allocation.
pub(crate) struct Rx {
    pub(crate) batch: RxBatch,
    pub(crate) arrivals: Vec<Arrival>,
    /// The flow table's version when the arrivals were looked up.
    pub(super) version: u32,
    /// Packets that continue each other, if they are to be delivered as one.
    pub(crate) merged_runs: Option<Box<BatchGro>>,
    /// Holds packets before they are delivered, if that is on.
    pub(crate) gro: Option<Box<Gro>>,
}

/// Sender of a segment, and its flow.
#[derive(Clone, Copy)]
pub(crate) struct Sender<'a> {
    pub(crate) key: &'a FlowKey,
    pub(crate) hash: u64,
    /// Header and data, which a signature covers.
    pub(crate) tcp: &'a [u8],
    pub(crate) frame: &'a [u8],
    /// The batch it came with.
    pub(crate) batch: &'a [RxPacket],
}

impl Rx {
    pub(crate) fn new(offload: Offload, batches: u8) -> Self {
        let gro = offload.gro().map(Box::new);
        let batch = if gro.is_some() { Gro::up_max(batches.into()) } else { BATCH_MAX };
        Rx {
            batch: RxBatch::with_capacity(batch),
            arrivals: Vec::with_capacity(batch),
            version: 0,
            merged_runs: (offload != Offload::Off).then(|| Box::new(BatchGro::new(batch))),
            gro,
        }
    }
}

impl Sender<'_> {
    /// The link-layer sender: where an answer that belongs to no connection goes.
    pub(crate) fn mac(&self, medium: Medium) -> [u8; 6] {
        sender_of(self.frame, medium)
    }
}

pub(super) fn sender_of(frame: &[u8], medium: Medium) -> [u8; 6] {
    match medium {
        Medium::Ethernet => frame.get(6..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default(),
        Medium::Ip => [0; 6],
    }
}

/// A TCP segment of the batch.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) key: FlowKey,
    pub(crate) hash: u64,
    pub(crate) flow: Option<Flow>,
    /// Where TCP starts and ends, from the first byte of the frame; it may end in a later one.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Its place in the batch, and how many frames it takes.
    pub(crate) at: u16,
    pub(crate) frames: u16,
    /// DSCP and ECN.
    pub(crate) tos: u8,
}
