//! How the published card holds packets: until they are 64 KiB, or until a flow's next packet is late by its own
//! measure, however long that is.

use base::{Duration, FlowKey, Instant};
use offload::MergedRun;
use wire::checksum::Sum;
use wire::ethernet;

/// A packet of a flow is late after so many times what lies between two on average.
const LATE: u32 = 10;

struct Flow {
    key: FlowKey,
    last: Instant,
    average: Duration,
    run: Option<(MergedRun, Vec<Vec<u8>>)>,
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
pub(super) type Run = (Vec<Vec<u8>>, Option<MergedRun>);

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
        if let Some((merged_run, packets)) = &mut flow.run {
            if merged_run.join(&packet, Some(Sum::of)).is_ok() {
                packets.push(packet);
                return;
            }
            up.extend(flow.run.take().map(|(merged_run, packets)| (packets, Some(merged_run))));
        }
        match MergedRun::begin(&packet, ethernet::HEADER_LEN) {
            Some(merged_run) => flow.run = Some((merged_run, vec![packet])),
            None => up.push((vec![packet], None)),
        }
    }

    /// Adds packets that have waited long enough, or need not wait, to `up`.
    pub(super) fn settle(&mut self, now: Instant, up: &mut Vec<Run>) {
        for flow in &mut self.flows {
            let is_due = flow.due().is_some_and(|due| due <= now);
            if let Some((merged_run, packets)) =
                flow.run.take_if(|(merged_run, _)| is_due || merged_run.is_closed())
            {
                up.push((packets, Some(merged_run)));
            }
        }
    }

    /// When the next flow is late.
    pub(super) fn due(&self) -> Option<Instant> {
        self.flows.iter().map(Flow::due).fold(None, Instant::earliest)
    }
}
