//! Record of a segment: a fixed number of bytes, copied and not interpreted. A number names its flow; the first
//! record of a flow that reaches the writer announces the number, with the flow's two ends behind it.

use base::{Addr, Endpoint, FlowKey, Instant};
use tcp::{Features, State, Vitals};

/// Bytes of a record, and those of the two ends behind one that announces its flow.
pub(super) const LEN: usize = 18 * 4;
pub(super) const ENDS: usize = 9 * 4;
/// In the word of the flow's number: the segment went out.
const OUTBOUND: u32 = 1 << 31;

/// A segment's passing, and its connection at that moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) at: Instant,
    pub(super) outbound: bool,
    /// The flow's number, unique in its ring.
    pub(super) flow: u32,
    pub(super) vitals: Vitals,
    /// The last sample of the round-trip time, microseconds; 0 before the first.
    pub(super) rtt_us: u32,
    /// Of header and data, if hashes are wanted.
    pub(super) hash: u32,
}

/// Number of the flow of a record, and whether its segment went out.
pub(super) fn heading(record: &[u8]) -> (u32, bool) {
    let word = record.first_chunk().copied().map_or(0, u32::from_le_bytes);
    (word & !OUTBOUND, word & OUTBOUND != 0)
}

impl Record {
    /// Writes it to where it waits for the writer. What lies side by side in a connection does so here.
    #[inline(always)]
    pub(super) fn put(&self, into: &mut [u8; LEN]) {
        let v = &self.vitals;
        let mut at = 0;
        let mut word = |word: u32| {
            into[at..at + 4].copy_from_slice(&word.to_le_bytes());
            at += 4;
        };
        let nanos = self.at.as_nanos();
        word(self.flow | if self.outbound { OUTBOUND } else { 0 });
        word(self.rtt_us);
        word(nanos as u32);
        word((nanos >> 32) as u32);
        word(v.cwnd);
        word(v.ssthresh);
        word(v.sndbuf.1);
        word(v.sndbuf.0);
        word(v.snd_wnd);
        word(v.rcv_wnd);
        word(v.srtt_us);
        word(v.rto_us);
        word(v.rcvbuf.0);
        word(v.rcvbuf.1);
        word(v.flight);
        word(self.hash);
        word(u32::from(v.snd_mss) << 16 | u32::from(v.reassembly));
        word(u32::from_le_bytes([v.state as u8, v.features.byte(), v.scale.0, v.scale.1]));
        debug_assert_eq!(at, LEN);
    }

    /// Reads one back.
    pub(super) fn get(from: &[u8; LEN]) -> Record {
        let (words, _) = from.as_chunks::<4>();
        let word = |nth: usize| u32::from_le_bytes(words[nth]);
        let (flow, outbound) = heading(from);
        let [state, features, snd_scale, rcv_scale] = words[17];
        Record {
            at: Instant::from_nanos(u64::from(word(3)) << 32 | u64::from(word(2))),
            outbound,
            flow,
            vitals: Vitals {
                state: STATES.iter().copied().find(|known| *known as u8 == state).unwrap_or(State::Closed),
                cwnd: word(4),
                ssthresh: word(5),
                snd_wnd: word(8),
                rcv_wnd: word(9),
                scale: (snd_scale, rcv_scale),
                snd_mss: (word(16) >> 16) as u16,
                srtt_us: word(10),
                rto_us: word(11),
                features: Features::of(features),
                sndbuf: (word(7), word(6)),
                rcvbuf: (word(12), word(13)),
                flight: word(14),
                reassembly: word(16) as u16,
            },
            rtt_us: word(1),
            hash: word(15),
        }
    }
}

/// `record` with the ends of its flow behind it.
pub(super) fn announcing(record: &[u8], key: &FlowKey) -> [u8; LEN + ENDS] {
    let mut long = [0; LEN + ENDS];
    let (first, ends) = long.split_at_mut(LEN);
    first.copy_from_slice(record);
    let (local, remote) = (key.local().addr.bytes(), key.remote().addr.bytes());
    ends[..16].copy_from_slice(&local);
    ends[16..32].copy_from_slice(&remote);
    ends[32..].copy_from_slice(&key.ports().to_le_bytes());
    long
}

/// The flow of which these are the ends.
pub(super) fn announced(ends: &[u8; ENDS]) -> FlowKey {
    let addr = |nth: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&ends[16 * nth..16 * nth + 16]);
        Addr::v6(bytes)
    };
    let port = |nth: usize| u16::from_le_bytes([ends[nth], ends[nth + 1]]);
    FlowKey::new(Endpoint::new(addr(0), port(34)), Endpoint::new(addr(1), port(32)))
}

/// Every state.
pub(super) const STATES: [State; 9] = [
    State::SynSent,
    State::SynReceived,
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
    State::Closed,
];

#[cfg(test)]
mod tests;
