//! Proportional rate reduction (RFC 6937, and the slow-start part as its successor RFC 9937 has it): how much a
//! recovery may send for what each acknowledgment says was delivered, so that the window arrives at the policy's
//! target smoothly, neither in a burst nor after half a round trip of silence.

/// One recovery's account, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prr {
    /// Delivered since the recovery began (prr_delivered).
    delivered: u64,
    /// Sent since then (prr_out).
    out: u64,
    /// In flight when it began (RecoverFS).
    flight: u64,
    /// Target of the policy (ssthresh; more, once it lets its window grow meanwhile).
    target: u32,
    /// Bytes that may leave before the next acknowledgment (SndCnt, less the bytes sent of it).
    space: u32,
    /// That part of it for which there was no occasion yet: acknowledgments that arrive together are read before
    /// anything is sent. The next one counts it as sent, so that a batch allows what its acknowledgments would one by
    /// one.
    kept: u32,
}

impl Prr {
    /// A recovery begins with `flight` bytes outstanding and aims at `target`. One segment may leave at once.
    /// RFC 9937, 6-1.
    pub(crate) fn new(flight: u32, target: u32, mss: u32) -> Prr {
        Prr { delivered: 0, out: 0, flight: u64::from(flight.max(1)), target, space: mss, kept: 0 }
    }

    /// The policy lets its window grow: of several flows in one, some have nothing to repair.
    pub(crate) fn aim(&mut self, window: u32) {
        self.target = self.target.max(window);
    }

    /// A retransmission was lost, and the policy aims at `target` now. What the network holds, `pipe` bytes, is
    /// reduced to that. If it is below already, the account goes on, and none of what was delivered so far is
    /// forgotten. One segment may leave at once: perhaps nothing else is under way.
    pub(crate) fn reduce_again(&mut self, pipe: u32, target: u32, mss: u32) {
        if pipe > target {
            *self = Prr::new(pipe, target, mss);
        } else {
            self.target = target;
            self.space = self.space.max(mss);
        }
    }

    /// An acknowledgment said that `delivered` bytes arrived; `pipe` are left in the network. `progress`:
    /// SND.UNA advanced and nothing more was found lost, so catching up cannot do harm (SafeACK).
    /// RFC 9937, 6-2, 6-3 and 6-4.
    pub(crate) fn on_ack(&mut self, delivered: u32, pipe: u32, progress: bool, mss: u32) {
        if delivered == 0 {
            return;
        }
        self.delivered += u64::from(delivered);
        let (out, pipe) = (self.out + u64::from(self.kept), u64::from(pipe) + u64::from(self.kept));
        let target = u64::from(self.target);
        let space = if pipe > target {
            (self.delivered * target).div_ceil(self.flight).saturating_sub(out)
        } else {
            let due = self.delivered.saturating_sub(out).max(u64::from(delivered));
            let due = due + if progress { u64::from(mss) } else { 0 };
            due.min(target - pipe)
        };
        // The first retransmission leaves in any case.
        let least = if out == 0 { u64::from(mss) } else { 0 };
        self.space = u32::try_from(space.max(least) + u64::from(self.kept)).unwrap_or(u32::MAX);
        self.kept = self.space;
    }

    /// `bytes` left, old or new.
    /// RFC 9937, 6-5.
    pub(crate) fn on_sent(&mut self, bytes: u32) {
        self.out += u64::from(bytes);
        self.space = self.space.saturating_sub(bytes);
        self.kept = self.kept.min(self.space);
    }

    /// Notes that all that could leave has left: the rest waits for data, for the peer's window or for the pace.
    pub(crate) fn on_occasion(&mut self) {
        self.kept = 0;
    }

    /// Bytes that may leave now.
    pub(crate) fn space(&self) -> u32 {
        self.space
    }
}

#[cfg(test)]
mod tests;
