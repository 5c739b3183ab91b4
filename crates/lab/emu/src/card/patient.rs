//! How the published card holds packets: until they are 64 KiB, or until a flow's next packet is late by its own
//! measure, however long that is.

use base::{Duration, FlowKey, Instant};
use offload::Train;
use wire::checksum::Sum;
use wire::ethernet;

/// A packet of a flow is late after so many times what lies between two on average.
const LATE: u32 = 10;

struct Flow {
    key: FlowKey,
    last: Instant,
    average: Duration,
    run: Option<(Train, Vec<Vec<u8>>)>,
}

impl Flow {
    fn due(&self) -> Option<Instant> {
        self.run.as_ref().map(|_| self.last + self.average * LATE)
    }
}

/// The flows of a worker, and what it holds of each.
#[derive(Default)]
pub(super) struct Patient {
    flows: Vec<Flow>,
}

/// Packets that go up, as one if they are a merged run of several.
pub(super) type Run = (Vec<Vec<u8>>, Option<Train>);

impl Patient {
    /// A TCP packet came; what goes up now is added to `up`.
    pub(super) fn take(&mut self, now: Instant, key: FlowKey, packet: Vec<u8>, up: &mut Vec<Run>) {
        let flow = match self.flows.iter().position(|flow| flow.key == key) {
            Some(at) => {
                let flow = &mut self.flows[at];
                flow.average = (flow.average + now.since(flow.last)) / 2;
                flow.last = now;
                flow
            }
            None => self.flows.push_mut(Flow { key, last: now, average: Duration::ZERO, run: None }),
        };
        if let Some((train, packets)) = &mut flow.run {
            if train.join(&packet, Some(Sum::of)).is_ok() {
                packets.push(packet);
                return;
            }
            up.extend(flow.run.take().map(|(train, packets)| (packets, Some(train))));
        }
        match Train::begin(&packet, ethernet::HEADER_LEN) {
            Some(train) => flow.run = Some((train, vec![packet])),
            None => up.push((vec![packet], None)),
        }
    }

    /// Adds packets that have waited long enough, or need not wait, to `up`.
    pub(super) fn settle(&mut self, now: Instant, up: &mut Vec<Run>) {
        for flow in &mut self.flows {
            let is_due = flow.due().is_some_and(|due| due <= now);
            if let Some((train, packets)) = flow.run.take_if(|(train, _)| is_due || train.is_closed()) {
                up.push((packets, Some(train)));
            }
        }
    }

    /// When the next flow is late.
    pub(super) fn due(&self) -> Option<Instant> {
        self.flows.iter().map(Flow::due).fold(None, Instant::earliest)
    }
}
