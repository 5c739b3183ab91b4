//! Second pass of receiving: which connection or TIME-WAIT entry does a segment belong to?

use base::FlowKey;

use crate::core::Core;
use crate::rx::{Arrival, Rx};
use crate::tables::conns::SlotFlags;
use crate::tables::flows::Flow;

impl Core {
    /// Second pass: which connection, probably? Its memory is asked for.
    pub(crate) fn look_up(&self, rx: &mut Rx) {
        rx.version = self.table.version();
        self.table.prefetch_far(rx.arrivals.iter().map(|arrival| arrival.hash));
        for arrival in &mut rx.arrivals {
            arrival.flow = self.table.candidate(arrival.hash);
            match arrival.flow {
                Some(Flow::Connection(index)) => {
                    self.conns.prefetch(index);
                    self.wheel.prefetch(index);
                }
                Some(Flow::TimeWait(index)) => self.time_waits.prefetch(index),
                None => {}
            }
        }
    }

    /// Returns the flow of a packet that was looked up when the flow table had that version.
    #[inline(always)]
    pub(crate) fn flow_of(&self, arrival: &Arrival, version: u32) -> Option<Flow> {
        match arrival.flow {
            Some(flow) if self.is_flow(flow, &arrival.key) => Some(flow),
            None if version == self.table.version() => None,
            _ => self.find(arrival.hash, &arrival.key),
        }
    }

    /// The flow that `key` belongs to.
    pub(crate) fn find(&self, hash: u64, key: &FlowKey) -> Option<Flow> {
        self.table.find(hash, |flow| self.is_flow(flow, key))
    }

    /// Is `flow` the one of `key`?
    #[inline(always)]
    pub(crate) fn is_flow(&self, flow: Flow, key: &FlowKey) -> bool {
        match flow {
            Flow::Connection(index) => self
                .conns
                .get(index)
                .is_some_and(|(meta, tcp)| meta.flags.has(SlotFlags::IN_TABLE) && tcp.key() == key),
            Flow::TimeWait(index) => self.time_waits.get(index).key == *key,
        }
    }
}
