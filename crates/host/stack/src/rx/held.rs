//! Receiving where packets are held for a budget ([`pio::Gro`]): a batch then has merged runs of several batches.

use base::{FlowKey, Instant};
use offload::MergedRun;
use pio::{BATCH_MAX, RxChecksum, RxPacket};

use crate::core::Core;
use crate::rx::Rx;
use crate::rx::parse::pieces;
use crate::turn::Turn;

impl Core {
    /// Receives and processes a bounded number of packets, those that are held between.
    #[inline(never)]
    pub(crate) fn receive_held(&mut self, now: Instant, rx: &mut Rx, turn: &mut Turn) {
        let Rx { batch, merged_runs, gro: Some(gro), .. } = rx else { return };
        let runs = merged_runs.as_deref_mut().filter(|_| self.shared.merges());
        let hash = |key: &FlowKey| self.table.hash(key);
        let (received, error) = gro.rx(now, self.port.io.as_mut(), self.batches, (batch, runs), hash);
        if let Some(error) = error {
            self.fail(error);
        }
        turn.received += received as u32;
        turn.more |= received == usize::from(self.batches) * BATCH_MAX;
        self.stats.packets_in += received as u64;
        self.parse_held(now, rx);
        self.deliver_batch(now, rx);
    }

    /// Parses a batch whose merged runs are known.
    fn parse_held(&mut self, now: Instant, Rx { batch, arrivals, merged_runs, gro, .. }: &mut Rx) {
        let mut at = 0;
        while at < batch.len() {
            let run = merged_runs.as_ref().and_then(|runs| runs.run_at(at as u16)).map(MergedRun::count);
            let frames = if run.is_some() { 1 } else { pieces(&batch[at..]) };
            let before = arrivals.len();
            self.parse_one(now, &batch[at..at + frames], at, arrivals);
            if let (Some(count), Some(arrival)) = (run, arrivals.get(before)) {
                if let (Some(srtt), Some(gro)) =
                    (self.round_trip(self.find(arrival.hash, &arrival.key)), &mut *gro)
                {
                    gro.on_round_trip(&arrival.key, arrival.hash, srtt);
                }
                for RxPacket { frame, meta } in &batch[at + 1..at + usize::from(count)] {
                    self.stats.bytes_in += frame.len() as u64;
                    // As good as right, but not right ([`Core::is_sound`]).
                    self.stats.partial_checksums += u64::from(meta.checksum == RxChecksum::Unverified);
                }
            } else if let (Some(arrival), Some(runs)) = (arrivals.get(before), &mut *merged_runs) {
                runs.pass(arrival.at, &arrival.key);
            }
            at += run.map_or(frames, usize::from);
        }
    }
}
