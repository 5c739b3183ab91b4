//! Runs: the engine's output.

use base::{FlowKey, Instant};

use crate::MergedRun;

base::names! {
    /// Why a run went up when it did.
    pub enum Flush {
        Alone: "alone", "It may not be held: no data, a control bit, an option, merged already.",
        Push: "push", "The sender said that nothing follows at once (PSH).",
        Short: "short", "A segment shorter than those before it ends a run.",
        Full: "full", "As long as a run may be.",
        Differs: "differs", "The next segment's header is another.",
        Gap: "gap", "Something is missing, or comes again.",
        Control: "control", "A segment of the flow that is not held came.",
        Batch: "batch", "The batch is over, and no more is expected.",
        Budget: "budget", "It was held as long as it may be.",
        Evicted: "evicted", "Another flow needed the place.",
        Crowded: "crowded", "No place is left for packets.",
    }
}

/// Packets of one flow that continue each other, or one alone. They come from
/// [`Engine::next_packet`](crate::Engine::next_packet), in order.
#[derive(Clone, Debug)]
pub struct Run {
    /// Flow of the run.
    pub key: FlowKey,
    /// The hash that came with it.
    pub hash: u64,
    /// Common header of the packets, if there are several.
    pub merged_run: Option<MergedRun>,
    /// Why it goes up now.
    pub why: Flush,
    /// The next packet to take.
    pub(crate) packet: u32,
}

/// A run that still grows.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) merged_run: MergedRun,
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// When its first packet came.
    pub(crate) since: Instant,
    /// Something joined it since the batch of its first packet was over.
    pub(crate) grew: bool,
    /// It outlived a batch.
    pub(crate) held: bool,
}
