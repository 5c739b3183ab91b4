//! An asynchronous log: cores put records into rings of their own, one writer puts them into a file.
//!
//! A producer never waits for the file ([`Policy::DropNew`]) unless it is told to ([`Policy::Block`]). The writer is a
//! thread, which looks ten times a second and when a ring is half full, or the caller itself ([`Queue::drain`]): then
//! the same records give the same file, whatever the machine does meanwhile. What does not find room is counted, and
//! after [`Queue::close`] `written + dropped = offered` for each ring.

mod batch;
mod config;
mod ring;
#[cfg(test)]
mod tests;
mod writer;

pub use batch::Batch;
pub use config::{Config, Policy, Refused, Totals};
pub use ring::Producer;
pub use writer::{Format, Output, Plain};

use ::ring::{Ringer, doorbell};
use base::Duration;
use ring::{Consumer, Shared, ring_pair};
use std::io::{Error, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use writer::Writer;

/// How long what was put in may wait for the file while no ring is half full.
const TIMEOUT: Duration = Duration::from_millis(100);

/// The writer's side of an asynchronous log.
pub struct Queue {
    writer: Arc<Mutex<Writer>>,
    shared: Arc<Shared>,
    bell: Option<Ringer>,
    thread: Option<JoinHandle<()>>,
}

/// Opens a log that `format` makes of records and `output` keeps, and the ends that records are put in.
///
/// # Errors
/// The machine has no thread or no bell for us.
pub fn open(
    config: &Config,
    format: Box<dyn Format>,
    output: Output,
) -> std::io::Result<(Queue, Vec<Producer>)> {
    let shared = Arc::<Shared>::default();
    let (bell, sleeper) =
        if config.threaded { doorbell().map(|(a, b)| (Some(a), Some(b)))? } else { (None, None) };
    let ends = (0..config.rings).map(|_| ring_pair(config, &shared, bell.clone()));
    let (producers, consumers): (Vec<_>, Vec<_>) = ends.unzip();
    let writer = Arc::new(Mutex::new(Writer::new(consumers, format, output, shared.clone())));
    let mut queue = Queue { writer, shared, bell, thread: None };
    if let Some(mut sleeper) = sleeper {
        let (writer, shared) = (queue.writer.clone(), queue.shared.clone());
        shared.active.store(true, Ordering::Release);
        let thread = std::thread::Builder::new().name("millstream-log".into()).spawn(move || {
            let _end = Alive(&shared);
            while !shared.closed.load(Ordering::Acquire) {
                let ready = || shared.closed.load(Ordering::Acquire) || lock(&writer).is_pressing();
                if sleeper.sleep(Some(TIMEOUT), ready).is_err() {
                    // No bell: the time alone must do.
                    std::thread::sleep(TIMEOUT);
                }
                // What went wrong is kept for who asks, and is tried again.
                let _ = lock(&writer).drain();
            }
        })?;
        queue.thread = Some(thread);
    }
    Ok((queue, producers))
}

/// However the thread ends, threads that wait for it are notified.
struct Alive<'a>(&'a Shared);

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.active.store(false, Ordering::Release);
    }
}

fn lock(writer: &Mutex<Writer>) -> MutexGuard<'_, Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// Writes what waits, from the calling thread.
    ///
    /// # Errors
    /// The file's error; data that was not written is tried again the next time.
    pub fn drain(&self) -> std::io::Result<()> {
        self.with(Writer::drain)
    }

    /// Writes `line` behind everything that was put in before.
    ///
    /// # Errors
    /// As for [`Queue::drain`].
    pub fn line(&self, line: &[u8]) -> std::io::Result<()> {
        self.with(|writer| writer.line(line))
    }

    /// Writes to `output` from now on, first of all what the old one did not take.
    ///
    /// # Errors
    /// The last error of the old file; the new one is in its place nevertheless.
    pub fn switch(&self, output: Output) -> std::io::Result<()> {
        self.with(|writer| writer.switch(output))
    }

    /// Returns the latest error of the file, if there was one.
    pub fn fault(&self) -> Option<String> {
        lock(&self.writer).fault.as_ref().map(ToString::to_string)
    }

    /// Returns the counters of each ring's records.
    pub fn totals(&self) -> Vec<Totals> {
        let over = self.shared.closed.load(Ordering::Acquire);
        let total = |ring: &Consumer| {
            let [taken, refused, written] = [&ring.tally.taken, &ring.tally.refused, &ring.tally.written]
                .map(|counter| counter.load(Ordering::Relaxed));
            let offered = taken + refused;
            Totals { offered, written, dropped: if over { offered - written } else { refused } }
        };
        lock(&self.writer).rings.iter().map(total).collect()
    }

    /// Takes no more, writes what waits, and gives what became of the records of each ring. Exact if no producer is in
    /// a call.
    ///
    /// # Errors
    /// The file's error; [`Queue::totals`] says how much it did not take.
    pub fn close(&mut self) -> std::io::Result<Vec<Totals>> {
        self.stop();
        self.drain()?;
        Ok(self.totals())
    }

    fn stop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        if let Some(bell) = &self.bell {
            bell.ring_anyway();
        }
        if let Some(thread) = self.thread.take() {
            // Its panic was reported, and what it left is written by who closes.
            let _ = thread.join();
        }
    }

    fn with(&self, work: impl FnOnce(&mut Writer) -> Result<(), ErrorKind>) -> std::io::Result<()> {
        let mut writer = lock(&self.writer);
        work(&mut writer).map_err(|kind| match &writer.fault {
            Some(fault) => Error::new(kind, fault.to_string()),
            None => kind.into(),
        })
    }
}

impl Drop for Queue {
    /// The program that did not close it does not care whether the file took the rest; it gets it.
    fn drop(&mut self) {
        self.stop();
        let _ = self.drain();
    }
}
