//! Values that can be changed while a log is written.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Which packets are logged, and how. Written by the log's owner, read by its hooks.
#[derive(Debug)]
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
    pub(super) fn new(ppl: u32, port: u16, hashes: bool) -> Knobs {
        let knobs = Knobs {
            ppl: AtomicU32::new(ppl.max(1)),
            port: AtomicU32::new(port.into()),
            hashes: AtomicBool::new(hashes),
            plain: AtomicBool::new(false),
        };
        knobs.sum_up();
        knobs
    }

    pub(super) fn set_ppl(&self, ppl: u32) {
        self.ppl.store(ppl.max(1), Ordering::Relaxed);
        self.sum_up();
    }

    pub(super) fn set_port(&self, port: u16) {
        self.port.store(port.into(), Ordering::Relaxed);
        self.sum_up();
    }

    pub(super) fn set_hashes(&self, on: bool) {
        self.hashes.store(on, Ordering::Relaxed);
        self.sum_up();
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

    fn sum_up(&self) {
        let plain = self.ppl() == 1 && self.port() == 0 && !self.hashes();
        self.plain.store(plain, Ordering::Relaxed);
    }
}
