//! Packets counted flow by flow, for losses that hit certain packets of each.

use super::log::PacketName;
use base::Addr;
use std::collections::HashMap;

/// Most flows told apart.
const FLOWS_MAX: usize = 65_536;

/// Protocol, addresses and ports, source first.
type Flow = (u8, Addr, Addr, u16, u16);

/// Packets seen so far of each flow, and of all that is none or came too late.
#[derive(Default)]
pub(super) struct Flows {
    seen: HashMap<Flow, u64>,
    others: u64,
}

impl Flows {
    /// Counts a packet: its number in its flow, the first being 1.
    pub(super) fn position(&mut self, frame: &[u8]) -> u64 {
        let PacketName { ip, ports, .. } = PacketName::of(0, 0, frame);
        let flow = ip.map(|(protocol, src, dst)| {
            let (from, to) = ports.unwrap_or_default();
            (protocol, src, dst, from, to)
        });
        let told_apart = flow.filter(|flow| self.seen.len() < FLOWS_MAX || self.seen.contains_key(flow));
        let seen = match told_apart {
            Some(flow) => self.seen.entry(flow).or_default(),
            None => &mut self.others,
        };
        *seen += 1;
        *seen
    }
}

#[cfg(test)]
mod tests;
