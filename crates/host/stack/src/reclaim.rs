//! Memory that connections pin for nothing, taken back while chunks are scarce: a peer that sends one byte at the far
//! edge of each window, and nothing more, would otherwise keep the holes in front of it for ever.

use base::Instant;

use crate::core::Core;

/// Places of connections looked at in one turn.
const LOOKED_AT: u32 = 64;

impl Core {
    /// Looks at the next few connections, so that all have their turn however many there are.
    #[cold]
    pub(crate) fn reclaim(&mut self, now: Instant) {
        let places = self.conns.places();
        for _ in 0..LOOKED_AT.min(places) {
            self.reclaimed = (self.reclaimed + 1) % places;
            if let Some((_, tcp)) = self.conns.get_mut(self.reclaimed) {
                tcp.prune(&mut self.shared.cx(now));
            }
        }
    }
}
