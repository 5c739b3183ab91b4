//! Values that can be changed while a log is written.

use super::LogConfig;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Which packets are logged, and how. Written by the log's owner, read by its hooks.
#[derive(Debug, Default)]
pub(super) struct Knobs {
    /// Every how many packets of a flow one is logged.
    ppl: AtomicU32,
    /// The port to which or from which packets must go; 0 for any.
    port: AtomicU32,
    hashes: AtomicBool,
    /// Every packet is logged, and none hashed: a hook need not look at the others.
    plain: AtomicBool,
}

impl Knobs {
    pub(super) fn set(&self, config: &LogConfig) {
        let LogConfig { ppl, port_filter, genhashes, .. } = *config;
        self.ppl.store(ppl.max(1), Ordering::Relaxed);
        self.port.store(port_filter.into(), Ordering::Relaxed);
        self.hashes.store(genhashes, Ordering::Relaxed);
        self.plain.store(ppl <= 1 && port_filter == 0 && !genhashes, Ordering::Relaxed);
    }

    pub(super) fn ppl(&self) -> u32 {
        self.ppl.load(Ordering::Relaxed)
    }

    pub(super) fn port(&self) -> u32 {
        self.port.load(Ordering::Relaxed)
    }

    pub(super) fn hashes(&self) -> bool {
        self.hashes.load(Ordering::Relaxed)
    }

    /// Is every packet logged, without a hash?
    #[inline]
    pub(super) fn are_plain(&self) -> bool {
        self.plain.load(Ordering::Relaxed)
    }
}
