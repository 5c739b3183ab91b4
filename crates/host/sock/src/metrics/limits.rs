//! How many connections wait for what at this moment.

use super::Sample;
use base::Instant;
use stack::Core;
use tcp::{Info, Limit, ReceiveLimit};

/// Cores with more connections than this are not walked through for figures: it would take too long.
pub(super) const WALKED: usize = 4_096;

/// Brings the counters of limited time up to date, unless there are too many connections.
pub(crate) fn settle_limits(core: &mut Core, now: Instant) {
    if core.connections() <= WALKED {
        core.settle_limits(now);
    }
}

#[derive(Default)]
pub(super) struct Limits {
    senders: [u64; Limit::ALL.len()],
    receivers: [u64; ReceiveLimit::ALL.len()],
}

impl Limits {
    pub(super) fn add(&mut self, info: &Info) {
        self.senders[info.limit as usize] += 1;
        self.receivers[info.receive_limit as usize] += 1;
    }

    pub(super) fn samples(&self) -> impl Iterator<Item = Sample> {
        let gauge = |kind: &str, name: &str, help: &str, value: u64| {
            let help = format!("Connections of which this holds now: {help}");
            Sample::new("connections", &format!("{kind}_{}", name.replace('-', "_")), &help, false, value)
        };
        let rows = Limit::ALL.iter().zip(self.senders);
        let senders = rows.map(move |(limit, count)| gauge("limited_by", limit.name(), limit.help(), count));
        let rows = ReceiveLimit::ALL.iter().zip(self.receivers);
        senders.chain(
            rows.map(move |(limit, count)| gauge("peers_limited_by", limit.name(), limit.help(), count)),
        )
    }
}
