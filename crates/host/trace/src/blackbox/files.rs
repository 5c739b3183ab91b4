//! Records of connections that died by an error, as files in a directory: written by a thread of their own.

use super::ring::Ring;
use pio::apart;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Dumps that wait for the disk at most.
const WAITING: usize = 64;
/// Files kept at most; the oldest goes.
pub(super) const KEPT: usize = 256;

/// Counters of dumps.
#[derive(Default, Debug)]
struct Counts {
    written: AtomicU64,
    lost: AtomicU64,
}

/// The cores' end: hands records over, never waits.
#[derive(Clone)]
pub struct Files {
    queue: SyncSender<Ring>,
    counts: Arc<Counts>,
}

impl Files {
    /// A copy of the ring goes to the writer, or is counted as lost.
    pub(super) fn keep(&mut self, ring: &Ring) {
        match self.queue.try_send(ring.clone()) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.counts.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Dumps written, and dumps that could not be: the queue was full, or the file could not be made.
    pub fn counts(&self) -> (u64, u64) {
        (self.counts.written.load(Ordering::Relaxed), self.counts.lost.load(Ordering::Relaxed))
    }
}

impl Files {
    /// Dumps go to `directory`, which is made if need be: one file a connection, `PID-NUMBER.txt`, the newest 256 of
    /// this process. The thread that writes them ends when nothing can hand it any more.
    ///
    /// # Errors
    /// The directory cannot be made, or the thread not be started.
    pub fn in_directory(directory: &Path) -> io::Result<Files> {
        std::fs::create_dir_all(directory)?;
        let (queue, dumps) = sync_channel(WAITING);
        let counts = Arc::<Counts>::default();
        let (directory, mine) = (directory.to_path_buf(), counts.clone());
        apart::spawn("millstream-blackbox", move || write_all(&directory, &dumps, &mine))?;
        Ok(Files { queue, counts })
    }
}

/// Makes a file. Others may write to the directory, and know the name beforehand: what is there is removed, not
/// followed.
fn write(path: &Path, text: &str) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

fn write_all(directory: &Path, dumps: &Receiver<Ring>, counts: &Counts) {
    let mut kept: VecDeque<PathBuf> = VecDeque::with_capacity(KEPT + 1);
    for (number, ring) in dumps.iter().enumerate() {
        let path = directory.join(format!("{}-{number}.txt", std::process::id()));
        match write(&path, &ring.to_string()) {
            Ok(()) => counts.written.fetch_add(1, Ordering::Relaxed),
            Err(_) => counts.lost.fetch_add(1, Ordering::Relaxed),
        };
        kept.push_back(path);
        if kept.len() > KEPT
            && let Some(oldest) = kept.pop_front()
        {
            // An observer may have tidied up before us.
            let _ = std::fs::remove_file(oldest);
        }
    }
}
