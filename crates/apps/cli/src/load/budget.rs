//! How many requests may still be sent, over all cores.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests left; without a limit nothing is counted.
pub(crate) struct Budget(Option<AtomicU64>);

impl Budget {
    /// At most `limit` requests.
    pub(crate) fn new(limit: Option<u64>) -> Budget {
        Budget(limit.map(AtomicU64::new))
    }

    /// One request more, if there is one left.
    pub(crate) fn take(&self) -> bool {
        let Some(left) = &self.0 else { return true };
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
    }

    /// Is none left?
    pub(crate) fn is_spent(&self) -> bool {
        self.0.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) == 0)
    }
}

#[cfg(test)]
mod tests;
