//! Keyed initial sequence numbers and timestamp offsets.

use base::{FlowKey, Instant, Seq, SipKey};

/// Tells apart what one secret is used for.
const ISN: u64 = 0x6973_6e00;
const OFFSET: u64 = 0x7473_6f00;

/// Keyed initial sequence numbers (RFC 6528): M + F(flow, secret), where M is a clock of 4-microsecond ticks and F a
/// keyed hash. Numbers of one flow grow with time, so a new incarnation starts above the last; numbers of other
/// flows tell an attacker nothing.
pub struct IsnSource {
    key: SipKey,
}

impl IsnSource {
    /// From a secret.
    pub fn new(key: SipKey) -> Self {
        IsnSource { key }
    }

    /// The ISN for `key` at `now`.
    pub fn isn(&self, now: Instant, key: &FlowKey) -> Seq {
        let [a, b, c, d, e] = key.words();
        Seq::new(self.key.strong(&[ISN, a, b, c, d, e]) as u32) + (now.as_micros() / 4) as u32
    }

    /// The timestamp offset for a pair of hosts (RFC 7323, section 5.4): the same for all their connections, so that
    /// timestamps grow from one incarnation of a flow to the next, as RFC 6191 wants.
    pub fn ts_offset(&self, key: &FlowKey) -> u32 {
        ts_offset(self.key, key)
    }
}

/// The keyed offset of the timestamp clock for a pair of hosts.
pub(crate) fn ts_offset(secret: SipKey, key: &FlowKey) -> u32 {
    let [a, b, c, d, _] = key.words();
    secret.strong(&[OFFSET, a, b, c, d]) as u32
}
