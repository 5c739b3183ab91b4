//! Writing what is sent beside the traffic: packets are copied into a lot, and a thread of its own writes the
//! lots. A disk that is too slow costs packets in the file, which are counted, and never delays one on the
//! wire.

use crate::regular;
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

/// Bytes after which a lot is handed to the writer.
const LOT: usize = 64 << 10;
/// Lots that may wait for the writer.
const LOTS_MAX: usize = 256;

/// Writes packets to a pcapng file.
pub(super) struct Recorder {
    /// `None` once dropped, so that the writer sees the end.
    writer: Option<SyncSender<Vec<u8>>>,
    lot: Vec<u8>,
    in_lot: u64,
    lost: u64,
    failed: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Make the file (or empty it) and write its head: one interface called `name`, whose packets start with
    /// `link`.
    pub(super) fn create(path: &Path, link: LinkType, name: &str) -> io::Result<Recorder> {
        let options = &mut File::options();
        let mut file = regular::open(options.write(true).create(true).truncate(true), path)?;
        let mut head = Vec::new();
        ng::write_section(&mut head, "Millstream");
        ng::write_interface(&mut head, link, name);
        file.write_all(&head)?;
        let (sender, receiver) = sync_channel::<Vec<u8>>(LOTS_MAX);
        let failed = Arc::new(AtomicU64::new(0));
        let failures = failed.clone();
        let thread = std::thread::Builder::new().name("ms-recorder".into()).spawn(move || {
            for lot in receiver {
                if file.write_all(&lot).is_err() {
                    failures.fetch_add(1, Ordering::Relaxed);
                }
            }
        })?;
        let lot = Vec::with_capacity(LOT);
        Ok(Recorder { writer: Some(sender), lot, in_lot: 0, lost: 0, failed, thread: Some(thread) })
    }

    /// Copy a packet, which was sent at `at`.
    pub(super) fn packet(&mut self, at: Instant, data: &[u8]) {
        let packet = Packet {
            interface: 0,
            at,
            original_len: data.len() as u32,
            data,
            direction: Some(Direction::Outbound),
            comment: "",
        };
        ng::write_packet(&mut self.lot, &packet);
        self.in_lot += 1;
        if self.lot.len() >= LOT {
            self.flush();
        }
    }

    /// Hand what was copied so far to the writer: before a sleep, so that a reader of the file sees it.
    pub(super) fn flush(&mut self) {
        let Some(writer) = &self.writer else { return };
        if self.lot.is_empty() {
            return;
        }
        let lot = std::mem::replace(&mut self.lot, Vec::with_capacity(LOT));
        let count = std::mem::take(&mut self.in_lot);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = writer.try_send(lot) {
            self.lost += count;
        }
    }

    /// Packets that the writer was too slow for.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Lots that could not be written (a full disk).
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Drop for Recorder {
    /// Waits until everything is written.
    fn drop(&mut self) {
        self.flush();
        self.writer = None;
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has nothing more to write.
            let _ = thread.join();
        }
    }
}
