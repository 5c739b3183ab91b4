//! What a core lends to a connection for one call.

use base::{FlowKey, Instant};
use wire::tcp::Header;

use crate::{Config, Counters, Incident, Info, Pool, State};

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
    /// Who wants to see each step, if anybody.
    pub probe: Option<&'a mut dyn Probe>,
}

/// Sees a connection's packets and state changes; for SIFTR, captures and tests. Must not block.
pub trait Probe {
    /// A segment came in (before processing) or went out (after).
    fn packet(
        &mut self,
        now: Instant,
        outbound: bool,
        key: &FlowKey,
        info: &Info,
        header: &Header,
        payload_len: u32,
    );
    /// The state changed.
    fn state(&mut self, now: Instant, key: &FlowKey, from: State, to: State);
    /// Something else happened; who looks at segments only need not care.
    fn incident(&mut self, _now: Instant, _key: &FlowKey, _incident: &Incident) {}
}
