//! How long nothing moved, and how long the path can explain that nothing does.
//!
//! The sender's timer runs out at most `timeout` after the last thing that helped. If what it then sends, or the
//! answer, is lost, it runs out again after twice that (RFC 6298, section 5.5), and so on. So a stall is explained
//! up to `timeout * (1 + 2 + ... + 2^k)`, where `k` packets were lost after its first tenth of a second: what was lost
//! before is why the timer ran at all. The doubled timeout stays until something that was sent once is acknowledged
//! (Karn's rule, section 3): a stall within four windows after one of at least a quarter of the timeout, the
//! least that lwIP's ticks make of it, begins where that one ended.

use base::{Duration, Instant};

/// Doublings that are counted at most.
const DOUBLINGS: u32 = 10;
/// The timeout is not doubled beyond this (RFC 6298, section 2.5).
const MOST: Duration = Duration::from_secs(60);
/// Before that no timer runs out and nothing that helped is still under way: round trips of the path are shorter than
/// this, all timeouts are longer.
const EARLIEST: Duration = Duration::from_millis(100);

/// A time without progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    /// How long it lasted.
    pub(super) lasted: Duration,
    /// How long it can be explained.
    pub(super) explained: Duration,
    /// Packets lost after its first tenth of a second.
    pub(super) lost: u64,
    /// When it began.
    pub(super) since: Instant,
}

/// The timeout before a sender knows the path, and of FINs, before which one end has only acknowledged. A lost SYN is
/// sent again after a second by most, after up to seven ticks of half a second by lwIP; if it was sent again, the first
/// timeout of data is three seconds (RFC 6298, section 5.7).
const UNKNOWN: Duration = Duration::from_millis(3_560);
/// Bytes after which the path is known: some tens of segments.
const KNOWN: u64 = 50_000;

/// Watches one transfer.
pub(super) struct Watch {
    /// Bytes of the transfer; beyond them FINs count.
    bytes: u64,
    timeout: Duration,
    /// Bytes after which something that was sent once has been acknowledged.
    settled: u64,
    progress: u64,
    since: Instant,
    /// Packets lost when the first tenth of a second ended, or by now if it has not.
    lost: u64,
    /// How often the timeout was doubled before this stall, and how far the transfer was then.
    doubled: u32,
    at: u64,
    pub(super) longest: Stall,
}

impl Watch {
    /// Watches a transfer of so many bytes with such a window.
    pub(super) fn new(timeout: Duration, bytes: u64, window: u64) -> Watch {
        Watch {
            bytes,
            timeout,
            settled: 4 * window,
            progress: 0,
            since: Instant::ZERO,
            lost: 0,
            doubled: 0,
            at: 0,
            longest: Stall::default(),
        }
    }

    /// Notes how far the transfer is and how many packets the path has lost so far.
    ///
    /// # Errors
    /// A stall that is longer than the path explains.
    pub(super) fn look(&mut self, now: Instant, progress: u64, lost: u64) -> Result<(), Stall> {
        let lasted = now.since(self.since);
        let known = self.progress >= KNOWN && self.progress < self.bytes;
        let timeout = if known { self.timeout } else { self.timeout.max(UNKNOWN) };
        if lasted <= EARLIEST {
            self.lost = lost;
        }
        let after = lost - self.lost;
        let last = self.doubled + after.min(DOUBLINGS.into()) as u32;
        let backed_off = |times: u32| (timeout * (1 << times.min(DOUBLINGS))).min(MOST.max(timeout));
        let explained = (self.doubled..=last).map(backed_off).sum();
        let this = Stall { lasted, explained, lost: after, since: self.since };
        if lasted > self.longest.lasted {
            self.longest = this;
        }
        if progress != self.progress {
            if lasted > EARLIEST.max(timeout / 4) {
                (self.doubled, self.at) = (DOUBLINGS.min(last + 1), progress);
            } else if progress - self.at > self.settled {
                self.doubled = 0;
            }
            (self.progress, self.since, self.lost) = (progress, now, lost);
        }
        if lasted > explained { Err(this) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
