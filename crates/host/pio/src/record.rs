//! Writing captures beside the traffic: packets are copied into a lot, and a thread of its own writes the
//! lots. A disk that is too slow costs packets in the file, which are counted, and never delays one on the
//! wire.

use base::Instant;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use wire::pcap::LinkType;
use wire::pcap::ng::{self, Direction, Packet};

/// Octets after which a lot is handed to the writer.
const LOT: usize = 64 << 10;
/// Lots that may wait for the writer.
const LOTS_MAX: usize = 256;

/// Writes packets to a pcapng file. Clones write to the same file, each from its own thread.
pub struct Recorder {
    /// `None` once dropped, so that the writer sees the end.
    writer: Option<SyncSender<Vec<u8>>>,
    lot: Vec<u8>,
    in_lot: u64,
    file: Arc<Writing>,
}

/// What all clones share. Whoever is last waits until everything is written.
struct Writing {
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Counts {
    lost: AtomicU64,
    failed: AtomicU64,
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has nothing more to write.
            let _ = thread.join();
        }
    }
}

impl Recorder {
    /// Make the file (or empty it) and write its head: one interface called `name`, whose packets start with
    /// `link`.
    pub fn create(path: &Path, link: LinkType, name: &str) -> io::Result<Recorder> {
        let mut file = File::create(path)?;
        let mut head = Vec::new();
        ng::write_section(&mut head, "Millstream");
        ng::write_interface(&mut head, link, name);
        file.write_all(&head)?;
        let (sender, receiver) = sync_channel::<Vec<u8>>(LOTS_MAX);
        let counts = Arc::new(Counts::default());
        let failures = counts.clone();
        let thread = std::thread::Builder::new().name("ms-recorder".into()).spawn(move || {
            for lot in receiver {
                if file.write_all(&lot).is_err() {
                    failures.failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        })?;
        let file = Arc::new(Writing { counts, thread: Some(thread) });
        Ok(Recorder { writer: Some(sender), lot: Vec::with_capacity(LOT), in_lot: 0, file })
    }

    /// Copy a packet, which travelled at `at`.
    pub fn packet(&mut self, at: Instant, direction: Direction, data: &[u8]) {
        self.copy(at, direction, data);
        self.flush_if_full();
    }

    /// Copy a packet, and keep it until [`Recorder::flush_if_full`].
    pub(crate) fn copy(&mut self, at: Instant, direction: Direction, data: &[u8]) {
        let packet = Packet {
            interface: 0,
            at,
            original_len: data.len() as u32,
            data,
            direction: Some(direction),
            comment: "",
        };
        ng::write_packet(&mut self.lot, &packet);
        self.in_lot += 1;
    }

    pub(crate) fn flush_if_full(&mut self) {
        if self.lot.len() >= LOT {
            self.flush();
        }
    }

    /// Where the lot ends now; see [`Recorder::forget`].
    pub(crate) fn mark(&self) -> (usize, u64) {
        (self.lot.len(), self.in_lot)
    }

    /// Forget what was copied since `mark`, with no flush in between.
    pub(crate) fn forget(&mut self, mark: (usize, u64)) {
        self.lot.truncate(mark.0);
        self.in_lot = mark.1;
    }

    /// Hand what was copied so far to the writer: before a sleep, so that a reader of the file sees it.
    pub fn flush(&mut self) {
        let Some(writer) = &self.writer else { return };
        if self.lot.is_empty() {
            return;
        }
        let lot = std::mem::replace(&mut self.lot, Vec::with_capacity(LOT));
        let count = std::mem::take(&mut self.in_lot);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = writer.try_send(lot) {
            self.file.counts.lost.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Packets that the writer was too slow for, by all clones.
    pub fn lost(&self) -> u64 {
        self.file.counts.lost.load(Ordering::Relaxed)
    }

    /// Lots that could not be written (a full disk), by all clones.
    pub fn failed(&self) -> u64 {
        self.file.counts.failed.load(Ordering::Relaxed)
    }
}

impl Clone for Recorder {
    /// Writes to the same file, with a lot of its own.
    fn clone(&self) -> Recorder {
        let (writer, file) = (self.writer.clone(), self.file.clone());
        Recorder { writer, lot: Vec::with_capacity(LOT), in_lot: 0, file }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.flush();
        self.writer = None;
    }
}
