//! An attached tracer.

use crate::probes::watch::ProbeId;
use crate::stats::PacketDrop;

/// State of a core while a tracer is attached.
pub(crate) struct Tracer {
    pub(super) probe: ProbeId,
    /// Packets dropped by reason, as far as they were told.
    pub(super) told: [u64; PacketDrop::ALL.len()],
}
