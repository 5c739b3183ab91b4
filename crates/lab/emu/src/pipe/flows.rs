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
mod tests {
    //! Goal: each flow counts for itself, a bounded number of them, and what is no flow counts together.
    use super::*;

    fn udp(from: u32) -> Vec<u8> {
        let mut frame = vec![0; 42];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..18].copy_from_slice(&[0x45, 0, 0, 28]);
        frame[23] = 17;
        frame[26..30].copy_from_slice(&from.to_be_bytes());
        let sum = wire::checksum::Sum::of(&frame[14..34]).checksum();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    #[test]
    fn flows_count_for_themselves_until_there_are_too_many() {
        let mut flows = Flows::default();
        let mut count = |from| flows.position(&udp(from));
        assert_eq!([count(1), count(2), count(1), count(1), count(2)], [1, 1, 2, 3, 2]);
        for from in 3..=FLOWS_MAX as u32 {
            assert_eq!(count(from), 1);
        }
        assert_eq!([count(1 << 24), count((1 << 24) + 1), count(1)], [1, 2, 4], "too many");
        assert_eq!([flows.position(&[0; 60]), flows.position(&[])], [3, 4], "no flows");
    }
}
