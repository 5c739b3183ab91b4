//! The time of a network, for what a host lends out: a tap on a port dates what passes.

use base::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells the virtual time of the last step of a host. Cheap to clone, and `Send`, as the ports are.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    /// The time.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, now: Instant) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }
}
