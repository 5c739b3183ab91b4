//! Shared state that a core lends to a connection for one call.

use base::Instant;

use crate::{Config, Counters, Frames, Pool, Probe};

/// Time, and the things all connections of a core share.
pub struct Cx<'a> {
    /// The time of this turn.
    pub now: Instant,
    /// The stack's defaults.
    pub config: &'a Config,
    /// Data chunks.
    pub pool: &'a mut Pool,
    /// The core's TCP counters (RFC 4022/4898 names).
    pub counters: &'a mut Counters,
    /// Observer of each step, if there is one.
    pub probe: Option<&'a mut dyn Probe>,
    /// Frames of the link that hold received data, in calls that receive or read; without, all data is copied.
    pub frames: Option<&'a mut dyn Frames>,
}
