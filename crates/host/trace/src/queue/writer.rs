//! The other end of a queue: records become bytes of a file, in order, in large pieces, whatever the file does.

use crate::queue::ring::{Consumer, Shared};
use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes handed to the file at once, about.
const BATCH: usize = 256 << 10;

/// Makes of a record what is written for it.
pub trait Format: Send {
    /// Appends what is to be written for `record`, which came by ring `ring`: nothing, or something that is written in
    /// whole.
    fn record(&mut self, ring: usize, record: &[u8], out: &mut Vec<u8>);
}

/// Writes records as they are.
#[derive(Clone, Copy, Default, Debug)]
pub struct Plain;

impl Format for Plain {
    fn record(&mut self, _: usize, record: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(record);
    }
}

/// Where a queue's bytes go.
pub type Output = Box<dyn Write + Send>;

/// Records on their way from the rings to the file.
pub(super) struct Writer {
    pub(super) rings: Vec<Consumer>,
    /// The ring that is looked at first next time.
    turn: usize,
    format: Box<dyn Format>,
    output: Output,
    /// Bytes for the file; those before `at` are written.
    out: Vec<u8>,
    at: usize,
    /// Where the last record ends that it has in whole.
    whole: usize,
    /// Where the others end, and by which ring they came.
    ends: VecDeque<(usize, Option<usize>)>,
    shared: Arc<Shared>,
    /// The last thing that went wrong with the file.
    pub(super) fault: Option<std::io::Error>,
}

impl Writer {
    pub(super) fn new(
        rings: Vec<Consumer>,
        format: Box<dyn Format>,
        output: Output,
        shared: Arc<Shared>,
    ) -> Writer {
        Writer {
            rings,
            turn: 0,
            format,
            output,
            out: Vec::with_capacity(BATCH + BATCH / 4),
            at: 0,
            whole: 0,
            ends: VecDeque::new(),
            shared,
            fault: None,
        }
    }

    /// Is a ring so full that it should be drained at once?
    pub(super) fn is_pressing(&self) -> bool {
        self.rings.iter().any(Consumer::is_pressing)
    }

    /// Writes what waits in the rings; what is put in meanwhile may stay.
    pub(super) fn drain(&mut self) -> Result<(), ErrorKind> {
        let bound = self.rings.iter().map(Consumer::capacity).sum::<usize>() / BATCH + self.rings.len();
        self.push()?;
        for _ in 0..=bound {
            if !self.gather() {
                break;
            }
            self.push()?;
        }
        self.output.flush().map_err(|error| self.fail(error))
    }

    /// Formats a batch of records; false if there were none.
    fn gather(&mut self) -> bool {
        let Writer { rings, turn, format, out, ends, .. } = self;
        let (count, first) = (rings.len(), *turn);
        for ring in (first..first + count).map(|nth| nth % count) {
            // Each ring has its share of a batch, so that none waits for another.
            let most = out.len() + (BATCH / count).max(1);
            rings[ring].drain(|record| {
                format.record(ring, record, out);
                ends.push_back((out.len(), Some(ring)));
                out.len() < most
            });
        }
        *turn = (first + 1) % count.max(1);
        !ends.is_empty()
    }

    /// Hands the file what is formatted.
    fn push(&mut self) -> Result<(), ErrorKind> {
        while self.at < self.out.len() {
            match self.output.write(&self.out[self.at..]) {
                Ok(0) => return Err(self.fail(ErrorKind::WriteZero.into())),
                Ok(count) => self.at += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fail(error)),
            }
            self.count_written();
        }
        // Records for which nothing was to be written.
        self.count_written();
        self.out.clear();
        (self.at, self.whole) = (0, 0);
        self.shared.failed.store(false, Ordering::Release);
        Ok(())
    }

    fn count_written(&mut self) {
        while let Some(&(end, ring)) = self.ends.front().filter(|(end, _)| *end <= self.at) {
            if let Some(ring) = ring {
                self.rings[ring].count_written();
            }
            self.whole = end;
            self.ends.pop_front();
        }
    }

    fn fail(&mut self, error: std::io::Error) -> ErrorKind {
        let kind = error.kind();
        self.fault = Some(error);
        self.shared.failed.store(true, Ordering::Release);
        kind
    }

    /// Writes `line` behind everything that came before it.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<(), ErrorKind> {
        self.drain()?;
        self.out.extend_from_slice(line);
        self.ends.push_back((self.out.len(), None));
        self.drain()
    }

    /// From now on `output` gets what is written; first of all what the old one did not take, in whole records.
    pub(super) fn switch(&mut self, output: Output) -> Result<(), ErrorKind> {
        let last = self.drain();
        self.at = self.whole;
        self.output = output;
        self.shared.failed.store(false, Ordering::Release);
        last
    }
}
