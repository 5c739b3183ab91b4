//! Keyed initial sequence numbers and timestamp offsets.

use base::{Endpoint, FlowKey, Instant, Seq, SipKey};

/// Tells apart what one secret is used for.
const ISN: u64 = 0x6973_6e00;
const OFFSET: u64 = 0x7473_6f00;

/// A key of its own for one purpose, so that its hashes need not name the purpose.
fn derived(secret: SipKey, purpose: u64) -> SipKey {
    SipKey::new(secret.strong(&[purpose, 0]), secret.strong(&[purpose, 1]))
}

/// Keyed initial sequence numbers (RFC 6528): M + F(flow, secret), where M is a clock of 4-microsecond ticks
/// and F a keyed hash. Numbers of one flow grow with time, so a new incarnation starts above the last;
/// numbers of other flows tell an attacker nothing.
pub struct IsnSource {
    isns: SipKey,
    offsets: Offsets,
}

impl IsnSource {
    /// From a secret.
    pub fn new(key: SipKey) -> Self {
        IsnSource { isns: derived(key, ISN), offsets: Offsets::new(key) }
    }

    /// The ISN for `key` at `now`.
    /// RFC 9293, MUST-8, MUST-9 and SHLD-1; RFC 6528, 3-1 and 3-2.
    pub fn isn(&self, now: Instant, key: &FlowKey) -> Seq {
        Seq::new(self.isns.strong_flow(key) as u32) + (now.as_micros() / 4) as u32
    }

    /// The timestamp offset for a pair of hosts (RFC 7323, section 5.4): the same for all their connections,
    /// so that timestamps grow from one incarnation of a flow to the next, as RFC 6191 wants.
    /// RFC 7323, 7-1.
    pub fn ts_offset(&self, key: &FlowKey) -> u32 {
        self.offsets.of(key)
    }
}

/// Keyed offsets of the timestamp clock.
pub(crate) struct Offsets(SipKey);

impl Offsets {
    pub(crate) fn new(secret: SipKey) -> Self {
        Offsets(derived(secret, OFFSET))
    }

    /// The offset for the two hosts of `key`, whatever their ports.
    pub(crate) fn of(&self, key: &FlowKey) -> u32 {
        let end = |end: Endpoint| Endpoint::new(end.addr, 0);
        self.0.strong_flow(&FlowKey::new(end(key.local()), end(key.remote()))) as u32
    }
}

#[cfg(test)]
mod tests;
