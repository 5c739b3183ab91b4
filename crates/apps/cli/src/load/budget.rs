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
mod tests {
    //! Goal: exactly as many as allowed, whichever threads take them; and no end where there is no limit.
    use super::*;

    #[test]
    fn a_limit_is_kept_by_all_together() {
        let budget = Budget::new(Some(1000));
        let taken: usize = std::thread::scope(|scope| {
            let take = || (0..600).filter(|_| budget.take()).count();
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 1000);
        assert!(budget.is_spent() && !budget.take());
        assert!(Budget::new(Some(0)).is_spent());
    }

    #[test]
    fn without_a_limit_there_is_always_one_more() {
        let budget = Budget::new(None);
        assert!((0..1000).all(|_| budget.take()) && !budget.is_spent());
    }
}
