//! SIFTR: a line about a connection for each of its packets, as FreeBSD's module of that name writes it.
//!
//! Each packet in or out is an occasion to tell the variables of its connection: inbound as they were before the packet
//! was processed, outbound as they are after it was sent. Two stages: a [`Hook`] on each core makes a record of fixed
//! length for each, and puts those of a turn into the core's ring ([`crate::queue`]); the queue's writer makes lines of
//! records. A packet is never delayed or lost because of the log, and one that finds no room in it is counted: with one
//! packet per line, `lines = packets - skipped`.
//!
//! [`Log`] is one log from its first line to its last; [`Siftr`] is the controls that people know.

mod columns;
mod controls;
mod digits;
mod flows;
mod hook;
mod knobs;
mod profile;
mod record;
#[cfg(test)]
mod tests;

pub use controls::{CONTROLS, Control, ControlError, Cores, LOGFILE, Siftr, keep};
pub use hook::Hook;
pub use profile::{Profile, Skipped, Summary};

use crate::queue::{self, Output, Policy, Queue};
use base::{Duration, Instant, SipKey};
use hook::Book;
use knobs::Knobs;
use profile::Lines;
use std::sync::{Arc, PoisonError};

/// Bytes of a core's ring: some thousand records, in the cache of the core.
const ROOM: usize = 4 << 20;
/// Flows of a core that a log follows; packets of more are counted as skipped.
const FLOWS: usize = 65_536;

/// How a log is begun.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Its format.
    pub profile: Profile,
    /// Every how many packets of a flow one is logged; 0 counts as 1.
    pub ppl: u32,
    /// Packets are hashed, so that they are found again in another host's log.
    pub genhashes: bool,
    /// Only packets to or from this port are logged; 0 for all.
    pub port_filter: u16,
    /// Cores, each with a hook of its own.
    pub cores: usize,
    /// From 1970 to the beginning of the cores' time.
    pub epoch: Duration,
    /// A thread writes; otherwise [`Log::drain`] does, and the same packets give the same file.
    pub threaded: bool,
    /// Treatment of records that find no room.
    pub policy: Policy,
    /// Bytes of each core's ring.
    pub room: usize,
    /// Flows that each core follows.
    pub flows: usize,
    /// Seed of what must not be guessed.
    pub seed: u64,
}

impl Default for LogConfig {
    /// Every packet of one core, written by a thread in TEACUP's format.
    fn default() -> Self {
        LogConfig {
            profile: Profile::Teacup,
            ppl: 1,
            genhashes: false,
            port_filter: 0,
            cores: 1,
            epoch: Duration::ZERO,
            threaded: true,
            policy: Policy::DropNew,
            room: ROOM,
            flows: FLOWS,
            seed: 0,
        }
    }
}

/// One log, from the line that says that it begins to the one that sums it up.
pub struct Log {
    queue: Queue,
    knobs: Arc<Knobs>,
    book: Book,
    profile: Profile,
    epoch: Duration,
}

impl Log {
    /// Begins a log at `now`; each of the hooks is a probe for one core.
    ///
    /// # Errors
    /// There is no thread for us, or `output` refuses the first line.
    pub fn begin(config: &LogConfig, output: Output, now: Instant) -> std::io::Result<(Log, Vec<Hook>)> {
        let epoch_us = config.epoch.as_micros() as u64;
        let queue_config = queue::Config {
            rings: config.cores,
            room: config.room,
            longest: record::LEN + record::ENDS,
            policy: config.policy,
            threaded: config.threaded,
        };
        let lines = Box::new(Lines::new(config.profile, epoch_us));
        let (queue, producers) = queue::open(&queue_config, lines, output)?;
        let mut line = Vec::new();
        config.profile.enable_line(&mut line, epoch_us + now.as_micros());
        queue.line(&line)?;
        let knobs = Arc::<Knobs>::default();
        knobs.set(config);
        let book = Book::default();
        let hooks = producers.into_iter().zip(1..).map(|(producer, nth)| {
            let secret = SipKey::new(config.seed, nth);
            Hook::new(producer, knobs.clone(), config.profile, config.flows, secret, book.clone())
        });
        let hooks = hooks.collect();
        Ok((Log { queue, knobs, book, profile: config.profile, epoch: config.epoch }, hooks))
    }

    /// From now on `ppl`, `port_filter` and `genhashes` are those of `config`.
    pub fn set(&self, config: &LogConfig) {
        self.knobs.set(config);
    }

    /// Writes what waits; for logs without a thread.
    ///
    /// # Errors
    /// The file's error.
    pub fn drain(&self) -> std::io::Result<()> {
        self.queue.drain()
    }

    /// Writes to `output` from now on.
    ///
    /// # Errors
    /// The last error of the old file.
    pub fn switch(&self, output: Output) -> std::io::Result<()> {
        self.queue.switch(output)
    }

    /// Ends the log at `now`: writes what waits and the last line. The hooks must be gone; what one counts later is not
    /// told.
    ///
    /// # Errors
    /// The file's error: then the last line may be missing.
    pub fn end(mut self, now: Instant) -> std::io::Result<Summary> {
        let closed = self.queue.close();
        let mut summary = Summary::default();
        for found in self.book.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            for (sum, skipped) in [
                (&mut summary.packets, found.packets),
                (&mut summary.skipped.malloc, found.skipped.malloc),
                (&mut summary.skipped.tcpcb, found.skipped.tcpcb),
                (&mut summary.skipped.inpcb, found.skipped.inpcb),
            ] {
                (sum[0], sum[1]) = (sum[0] + skipped[0], sum[1] + skipped[1]);
            }
            summary.flows.extend(found.flows);
        }
        closed?;
        let mut line = Vec::new();
        let micros = (self.epoch.as_micros() as u64) + now.as_micros();
        self.profile.disable_line(&mut line, micros, &summary)?;
        self.queue.line(&line)?;
        Ok(summary)
    }
}
