//! RFC 8985's order of transmissions, the latest delivery, and what is known of reordering on the path.

use base::Seq;

use crate::buffers::sent::{Cursor, Sent, TxTimes};

/// Recoveries that a widened reordering window lasts (RACK.reo_wnd_persist).
const PERSIST: u8 = 16;

/// A time that a transmission left, with the end of what left: RFC 8985's order among transmissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    /// Microseconds, modulo 2^32.
    pub(crate) at: u32,
    pub(crate) end: Seq,
    /// Was it a retransmission?
    pub(crate) again: bool,
}

impl Left {
    /// RACK_sent_after (RFC 8985, section 6.2). Within one turn time stands still; first transmissions then leave
    /// in the order of their numbers, and so do retransmissions, but nothing tells one kind from the other.
    pub(crate) fn after(self, other: Left) -> bool {
        match self.at.wrapping_sub(other.at) as i32 {
            0 => self.again == other.again && self.end.after(other.end),
            later => later > 0,
        }
    }
}

/// RACK's state: the latest delivery. It lives as long as the recovery.
#[derive(Debug)]
pub(crate) struct Rack {
    /// Latest transmission among the delivered ones (RACK.segment), once there is one.
    pub(super) latest: Option<Left>,
    /// Its round trip, microseconds (RACK.rtt).
    pub(super) rtt: u32,
    /// One past the highest byte delivered (RACK.fack).
    pub(super) fack: Seq,
    /// Edge below which everything not SACKed is lost.
    pub(crate) lost: Seq,
    /// Where in the log `lost` and `fack` stand.
    pub(crate) cursors: [Cursor; 2],
}

impl Rack {
    pub(crate) fn new(una: Seq, sent: &Sent) -> Rack {
        Rack { latest: None, rtt: 0, fack: una, lost: una, cursors: [sent.cursor(); 2] }
    }

    /// Notes that the transmission `left` was delivered at `now` (microseconds).
    /// RFC 8985, 6.2-1.
    pub(super) fn deliver(&mut self, left: Left, now: u32) {
        if self.latest.is_none_or(|latest| left.after(latest)) {
            self.latest = Some(left);
            self.rtt = now.wrapping_sub(left.at);
        }
    }

    /// Moves the edge over what is lost at `now`, given the reordering window `wnd`; for how long, if at all,
    /// the next stretch still may be under way.
    /// RFC 8985, 6.2-6.
    pub(super) fn advance(
        &mut self,
        sent: &Sent,
        log: &TxTimes,
        now: u32,
        wnd: u32,
        missing: impl Fn(Seq, Seq) -> u32,
    ) -> Option<u32> {
        let latest = self.latest?;
        while let Some((end, at)) = self.cursors[0].seek(sent, log, self.lost) {
            let left = Left { at, end: self.lost, again: false };
            if !latest.after(left) {
                return None;
            }
            let end = if at == latest.at { end.earlier(latest.end) } else { end };
            if missing(self.lost, end) > 0
                && let Some(left) = self.remaining(at, now, wnd)
            {
                return Some(left);
            }
            self.lost = end;
        }
        None
    }

    /// Returns the end of what a timeout shows to be lost at `now` (RACK_mark_losses_on_RTO of RFC 8985, section 6.3):
    /// the first segment, which ends at `first`, and whatever left `limit` microseconds ago or earlier.
    /// RFC 8985, 6.3-2.
    pub(crate) fn lost_by_timeout(
        &mut self,
        sent: &Sent,
        log: &TxTimes,
        first: Seq,
        now: u32,
        limit: u32,
    ) -> Seq {
        let mut edge = self.lost.later(first);
        while let Some((end, at)) = self.cursors[0].seek(sent, log, edge) {
            if now.wrapping_sub(at) < limit {
                break;
            }
            edge = end;
        }
        edge
    }

    /// How much longer what left at `at` may be under way.
    pub(super) fn remaining(&self, at: u32, now: u32, wnd: u32) -> Option<u32> {
        let left = self.rtt.saturating_add(wnd).saturating_sub(now.wrapping_sub(at));
        (left > 0).then_some(left)
    }
}

/// A connection's knowledge of reordering on its path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reordering {
    /// How often something was seen to be overtaken.
    pub(crate) seen: u32,
    /// By how many segments at most something was overtaken (Linux's measure, in its TCP_INFO).
    pub(crate) degree: u16,
    /// The window in quarters of the smallest round-trip time (RACK.reo_wnd_mult).
    pub(super) mult: u8,
    pub(super) persist: u8,
    /// SND.NXT when a duplicate was last reported, if it is `fresh`: more of them below it are no news
    /// (RACK.dsack_round).
    pub(super) round: Seq,
    pub(super) fresh: bool,
}

impl Reordering {
    pub(crate) const fn new() -> Reordering {
        Reordering { seen: 0, degree: 3, mult: 1, persist: 0, round: Seq::new(0), fresh: false }
    }

    /// The peer got something twice: the window was too narrow (RFC 8985, section 6.2, step 4).
    /// RFC 8985, 6.2-5.
    pub(super) fn on_duplicate(&mut self, una: Seq, nxt: Seq) {
        if !self.fresh || una.at_or_after(self.round) {
            (self.round, self.fresh) = (nxt, true);
            self.mult = self.mult.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// Something arrived although what left later, `segments` of it, had been there before.
    /// RFC 8985, 6.2-3.
    pub(crate) fn on_overtaken(&mut self, segments: u32) {
        self.seen = self.seen.saturating_add(1);
        self.degree = self.degree.max(segments.min(300) as u16);
    }

    /// A recovery is over.
    /// RFC 8985, 6.2-5.
    pub(crate) fn on_recovery_end(&mut self) {
        // Long ago it would be ahead of SND.UNA again.
        self.fresh = false;
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.mult = 1;
        }
    }
}
