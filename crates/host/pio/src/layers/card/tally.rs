//! Counters of workers, for other threads to read.

use super::worker::RECEIVERS_MAX;
use offload::HoldCounters;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

base::counters! {
    /// Counters of a receive worker.
    pub(super) struct ReceiverCounters {
        packets: "Packets that were steered to it.",
        merged: "Packets of the wire that went up in one with others.",
        supers: "Packets made of several.",
        data: "Packets that went up with data.",
        control: "Packets that went up without data, ahead of others' data.",
        behind_own: "Packets without data that went up behind data of their own flow.",
        unsound: "Packets whose checksum it did not vouch for.",
        no_frame: "Runs that went up packet by packet, because every large frame was in use.",
    }
}

base::counters! {
    /// Counters of the worker that passes packets up.
    pub(super) struct MoverCounters {
        control: "Packets without data that went up.",
        data: "Packets with data that went up.",
        bytes: "Bytes of those with data.",
        full: "Times the host's ring was full.",
    }
}

base::counters! {
    /// Counters of the worker at the link.
    pub(super) struct LinkCounters {
        received: "Packets that came from the link.",
        sent: "Packets that went to the link.",
        summed: "Checksums that it filled in.",
        invalid: "Packets to send that asked for what makes no sense.",
        rx_full: "Times it left packets in the link because as many as may be were on their way.",
        tx_full: "Times the link took no more.",
        no_frame: "Times the link had no frame to send in.",
    }
}

/// Numbers that one thread writes and others read, each for itself.
#[derive(Debug)]
pub(super) struct Tally(Box<[AtomicU64]>);

impl Tally {
    pub(super) fn new(rows: usize) -> Tally {
        Tally((0..rows).map(|_| AtomicU64::new(0)).collect())
    }

    /// The writer's: these are the numbers now, from the `first`th on.
    pub(super) fn publish(&self, first: usize, values: &[u64]) {
        for (row, value) in self.0[first..].iter().zip(values) {
            row.store(*value, Ordering::Relaxed);
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|row| row.load(Ordering::Relaxed))
    }
}

/// Rows of a receive worker: its own, then those of its engine.
pub(super) const RECEIVER_ROWS: usize = ReceiverCounters::ROWS.len() + HoldCounters::ROWS.len();

/// Returns the names of the rows of the `nth` receive worker: as names of counters live for ever, those of all
/// workers that there may be are made once.
pub(super) fn receiver_names(nth: usize) -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    let all = NAMES.get_or_init(|| {
        let rows = || ReceiverCounters::ROWS.iter().map(|row| ("", row.0));
        let held = || HoldCounters::ROWS.iter().map(|row| ("engine_", row.0));
        let of =
            |nth: usize| rows().chain(held()).map(move |(part, row)| format!("card_rx{nth}_{part}{row}"));
        (0..RECEIVERS_MAX).flat_map(of).collect()
    });
    &all[nth * RECEIVER_ROWS..(nth + 1) * RECEIVER_ROWS]
}

/// Returns the names of the rows of the worker that passes packets up, and of the one at the link.
pub(super) fn other_names() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let up = MoverCounters::ROWS.iter().map(|row| format!("card_up_{}", row.0));
        up.chain(LinkCounters::ROWS.iter().map(|row| format!("card_link_{}", row.0))).collect()
    })
}
