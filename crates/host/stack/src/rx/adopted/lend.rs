//! Lends connections the frames whose data they adopt or have adopted.

use base::Instant;
use pio::RxPacket;
use tcp::{Cx, Probe};

use super::Arriving;
use crate::core::{Core, Shared};

impl Shared {
    /// Lends a connection what it needs to hand over received data.
    #[inline]
    pub(crate) fn cx_to_read(&mut self, now: Instant) -> Cx<'_> {
        let probe = self.probes.as_mut().map(|probe| &mut **probe as &mut dyn Probe);
        let Shared { config, pool, counters, adopted, .. } = self;
        Cx { now, config, pool, counters, probe, frames: Some(adopted) }
    }

    /// Lends a connection what it needs to process a segment of a batch.
    #[inline]
    pub(crate) fn with_batch<R>(
        &mut self,
        now: Instant,
        batch: &[RxPacket],
        process: impl FnOnce(&mut Cx<'_>) -> R,
    ) -> R {
        let probe = self.probes.as_mut().map(|probe| &mut **probe as &mut dyn Probe);
        let Shared { config, pool, counters, adopted, .. } = self;
        let mut frames = Arriving { adopted, batch };
        process(&mut Cx { now, config, pool, counters, probe, frames: Some(&mut frames) })
    }
}

impl Core {
    /// A turn begins: what was adopted and not read is copied, and the port has all its frames.
    #[inline]
    pub(crate) fn end_adopted(&mut self) {
        if !self.shared.adopted.is_idle() {
            self.end_all_adopted();
        }
    }

    /// Copies what was adopted and not read, and gives all frames back.
    pub(crate) fn end_all_adopted(&mut self) {
        let mut copied = 0;
        for number in 0..self.shared.adopted.payloads.len() {
            let payload = self.shared.adopted.payloads[number];
            // Its connection may be gone, and with it what was not read.
            if !payload.is_read()
                && let Some((_, tcp)) = self.conns.get_mut(payload.index)
            {
                copied += tcp.copy_adopted(&mut self.shared.cx_to_read(Instant::ZERO));
            }
        }
        self.stats.bytes_copied_late += u64::from(copied);
        self.shared.adopted.end(self.port.io.as_mut(), copied > 0);
    }
}
