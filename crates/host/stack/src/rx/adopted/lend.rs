//! Lends connections the frames whose data they adopt or have adopted.

use base::Instant;
use pio::RxPacket;
use tcp::{Cx, Probe};

use super::{Arriving, FrameBytes};
use crate::core::{Core, Shared};
use crate::tables::conns::ConnId;

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

    /// Takes at most `max` readable bytes where they lie in frames of the link, for another thread to read them. `None`
    /// if there is nothing to read, or it lies elsewhere: see [`Core::read`].
    pub fn take_frames(&mut self, now: Instant, id: ConnId, max: usize) -> Option<FrameBytes> {
        let (_, tcp) = self.conns.get_mut(id.0)?;
        let max = tcp.readable().min(u32::try_from(max).unwrap_or(u32::MAX));
        let bytes = self.shared.adopted.share(tcp.adopted()?, max).filter(|bytes| bytes.len > 0)?;
        tcp.consume(&mut self.shared.cx_to_read(now), bytes.len());
        self.touch_open(id.0);
        if self.shared.adopted.is_read() {
            self.end_all_adopted();
        }
        Some(bytes)
    }

    /// Copies what was adopted and not read, and gives back all frames that are not shared.
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
