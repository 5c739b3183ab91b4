//! What the hook keeps of a segment: a fixed number of octets, copied and not interpreted.

use base::{Addr, Endpoint, FlowKey, Instant};
use tcp::{State, Vitals};

/// Octets of a record.
pub(super) const LEN: usize = 13 * 8;

/// A segment's passing, and its connection at that moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) at: Instant,
    pub(super) outbound: bool,
    pub(super) key: FlowKey,
    pub(super) vitals: Vitals,
    /// The last sample of the round-trip time, microseconds; 0 before the first.
    pub(super) rtt_us: u32,
    /// Of header and data, if hashes are wanted.
    pub(super) hash: u32,
}

/// Flags of a record, from its lowest bit up: outbound; scaling, then timestamps, offered and negotiated; SACK;
/// TCP_NODELAY.
fn flags(record: &Record) -> u8 {
    let v = &record.vitals;
    let bits = [record.outbound, v.scaling.0, v.scaling.1, v.timestamps.0, v.timestamps.1, v.sack, v.nodelay];
    bits.iter().rev().fold(0, |all, &bit| all << 1 | u8::from(bit))
}

impl Record {
    /// Writes it to where it waits for the writer.
    #[inline]
    pub(super) fn put(&self, into: &mut [u8; LEN]) {
        let v = &self.vitals;
        let (local, remote) = (self.key.local(), self.key.remote());
        let ([l0, l1], [r0, r1]) = (local.addr.halves(), remote.addr.halves());
        let mut at = 0;
        let mut word = |word: u64| {
            into[at..at + 8].copy_from_slice(&word.to_le_bytes());
            at += 8;
        };
        let two = |a: u32, b: u32| u64::from(a) << 32 | u64::from(b);
        let small = u32::from_le_bytes([flags(self), v.state as u8, v.scale.0, v.scale.1]);
        let sizes = u32::from(v.snd_mss) << 16 | u32::from(v.reassembly);
        word(self.at.as_nanos());
        [l0, l1, r0, r1].into_iter().for_each(&mut word);
        word(two(self.key.ports(), small));
        word(two(sizes, v.flight));
        word(two(v.cwnd, v.ssthresh));
        word(two(v.snd_wnd, v.rcv_wnd));
        word(two(v.srtt_us, v.rto_us));
        word(two(v.sndbuf.0, v.sndbuf.1));
        word(two(v.rcvbuf.0, v.rcvbuf.1));
        word(two(self.rtt_us, self.hash));
        debug_assert_eq!(at, LEN);
    }

    /// Reads one back.
    pub(super) fn get(from: &[u8; LEN]) -> Record {
        let (words, _) = from.as_chunks::<8>();
        let word = |nth: usize| u64::from_le_bytes(words[nth]);
        let two = |nth: usize| ((word(nth) >> 32) as u32, word(nth) as u32);
        let addr = |nth: usize| {
            let mut octets = [0; 16];
            octets[..8].copy_from_slice(&word(nth).to_be_bytes());
            octets[8..].copy_from_slice(&word(nth + 1).to_be_bytes());
            Addr::v6(octets)
        };
        let ((ports, small), (sizes, flight)) = (two(5), two(6));
        let [flags, state, snd_scale, rcv_scale] = small.to_le_bytes();
        let bit = |nth: u32| flags >> nth & 1 == 1;
        let ((cwnd, ssthresh), (snd_wnd, rcv_wnd), (srtt_us, rto_us)) = (two(7), two(8), two(9));
        let (rtt_us, hash) = two(12);
        Record {
            at: Instant::from_nanos(word(0)),
            outbound: bit(0),
            key: FlowKey::new(
                Endpoint::new(addr(1), (ports >> 16) as u16),
                Endpoint::new(addr(3), ports as u16),
            ),
            vitals: Vitals {
                state: STATES.iter().copied().find(|known| *known as u8 == state).unwrap_or(State::Closed),
                cwnd,
                ssthresh,
                snd_wnd,
                rcv_wnd,
                scale: (snd_scale, rcv_scale),
                snd_mss: (sizes >> 16) as u16,
                srtt_us,
                rto_us,
                scaling: (bit(1), bit(2)),
                timestamps: (bit(3), bit(4)),
                sack: bit(5),
                nodelay: bit(6),
                sndbuf: two(10),
                rcvbuf: two(11),
                flight,
                reassembly: sizes as u16,
            },
            rtt_us,
            hash,
        }
    }
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
mod tests {
    //! Goal: what goes in comes out, whatever it is.
    use super::*;
    use base::Rng;

    #[test]
    fn round_trip() {
        let mut rng = Rng::new(1);
        for nth in 0..2_000 {
            let mut word = || rng.next_u64() as u32;
            let mut pair = || (word(), word());
            let (a, b, c, d, e) = (pair(), pair(), pair(), pair(), pair());
            let mut octets = [0; 16];
            rng.fill(&mut octets);
            let mut bit = || rng.below(2) == 1;
            let record = Record {
                at: Instant::from_nanos(u64::from(a.0) << 20),
                outbound: bit(),
                key: FlowKey::new(
                    Endpoint::new(Addr::v6(octets), a.0 as u16),
                    Endpoint::new(Addr::v4([1, 2, 3, nth as u8]), a.1 as u16),
                ),
                vitals: Vitals {
                    state: STATES[nth % STATES.len()],
                    cwnd: b.0,
                    ssthresh: b.1,
                    snd_wnd: c.0,
                    rcv_wnd: c.1,
                    scale: (d.0 as u8, d.1 as u8),
                    snd_mss: e.0 as u16,
                    srtt_us: a.1,
                    rto_us: !b.0,
                    scaling: (bit(), bit()),
                    timestamps: (bit(), bit()),
                    sack: bit(),
                    nodelay: bit(),
                    sndbuf: d,
                    rcvbuf: e,
                    flight: !c.0,
                    reassembly: e.1 as u16,
                },
                rtt_us: !d.0,
                hash: !e.1,
            };
            let mut octets = [0; LEN];
            record.put(&mut octets);
            assert_eq!(Record::get(&octets), record);
        }
    }
}
