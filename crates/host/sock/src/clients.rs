//! Threads for clients of the control socket and of the metrics.
//!
//! Threads with descriptors of their own ([`pio::apart`]) accept clients, read questions and write answers. A desk
//! makes the answers: it asks the stacks, which wake threads by the process's descriptors.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Pieces of an answer that wait for the client at most, and the bytes of one.
const PIECES: usize = 4;
const PIECE: usize = 32 << 10;

/// Starts a thread with the process's descriptors that serves jobs, as long as they can come.
pub(crate) fn desk<J: Send + 'static>(
    name: &str,
    serve: impl Fn(J) + Send + 'static,
) -> io::Result<Sender<J>> {
    let (sender, jobs) = channel();
    std::thread::Builder::new().name(name.into()).spawn(move || jobs.into_iter().for_each(serve))?;
    Ok(sender)
}

/// An answer that is being made, for a client that another thread writes to.
pub(crate) struct Answer {
    pieces: SyncSender<Vec<u8>>,
    piece: Vec<u8>,
}

impl Answer {
    /// Returns an answer, and its pieces as they come.
    pub(crate) fn new() -> (Answer, Receiver<Vec<u8>>) {
        let (pieces, come) = sync_channel(PIECES);
        (Answer { pieces, piece: Vec::new() }, come)
    }
}

impl Write for Answer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece);
        if piece.is_empty() {
            return Ok(());
        }
        self.pieces.send(piece).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // A client that has left loses the rest.
        let _ = self.flush();
    }
}

/// Serves a client from a thread of its own, or from the caller's where no thread can be made (RLIMIT_NPROC).
pub(crate) fn in_thread<C, S>(name: &str, client: C, serve: S)
where
    C: Send + 'static,
    S: Fn(C) + Send + Sync + 'static,
{
    let job = Arc::new((Mutex::new(Some(client)), serve));
    let other = job.clone();
    let run = |(client, serve): &(Mutex<Option<C>>, S)| {
        let client = client.lock().unwrap_or_else(PoisonError::into_inner).take();
        client.into_iter().for_each(serve);
    };
    if std::thread::Builder::new().name(name.into()).spawn(move || run(&other)).is_err() {
        run(&job);
    }
}
