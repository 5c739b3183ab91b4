//! Connections whose clients have proven nothing but a cookie.

use base::{Duration, Instant};
use std::collections::VecDeque;
use tcp::FastOpenKeys;

/// How long a connection that was reset before its client proved itself still counts: spoofed SYNs make
/// the owners of the addresses answer with RSTs (RFC 7413, section 5.1).
const RESET_COUNTS: Duration = Duration::from_secs(60);

/// A listener's unproven connections.
#[derive(Default)]
pub(crate) struct Unproven {
    pub(super) queue: u32,
    pub(super) keys: Option<FastOpenKeys>,
    pub(super) count: u32,
    /// When those that were reset count no longer, oldest first.
    pub(super) resets: VecDeque<Instant>,
}

impl Unproven {
    pub(crate) fn new(queue: u32) -> Unproven {
        Unproven { queue, ..Unproven::default() }
    }

    /// May another one begin?
    pub(super) fn has_room(&mut self, now: Instant) -> bool {
        while self.resets.front().is_some_and(|&until| until <= now) {
            self.resets.pop_front();
        }
        (self.count as usize + self.resets.len()) < self.queue as usize
    }

    /// One is proven, or over.
    /// RFC 7413, 5.1-1.
    pub(super) fn leave(&mut self, now: Instant, reset: bool) {
        self.count -= 1;
        // Never more than the queue was long when each began.
        if reset {
            self.resets.push_back(now + RESET_COUNTS);
        }
    }
}
