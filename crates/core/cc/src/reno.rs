//! The steps of RFC 5681 that window-based policies share, counted in bytes (RFC 3465).
//!
//! ```text
//!   slow_start()          add_per_window()        reduce()       collapse()
//!   cwnd += acked          cwnd += n segments      cwnd =         cwnd = 1 segment,
//!   (at most L segments    a window acked          ssthresh =     slow start up to
//!   an acknowledgment)                             part of it     the same threshold
//! ```

use crate::controller::{AckSample, PathInfo};
use crate::hystart::{HyStart, Pace, Rule};
use crate::tunable::tunables;

/// No window grows beyond what a scaled receive window can offer (RFC 7323, section 2.3).
pub(crate) const WINDOW_MAX: u32 = 1 << 30;

/// The L of RFC 9406, section 4.3: segments that slow start grows by for one acknowledgment at most. It holds where
/// departures are not paced; any other limit that is set holds always.
const ABC_LIMIT: u8 = 8;
/// Acknowledgments are counted, not bytes: as before RFC 3465.
const ABC_OFF: u8 = 0;

/// Slow start after a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Repair {
    None,
    Runs,
    /// The acknowledgment that ends it is still to be counted: it, more than any, covers bytes of before the timeout.
    Ends,
}

/// Congestion window and threshold in bytes, and how they move.
#[derive(Clone, Copy, Debug)]
pub struct Reno {
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
    /// Bytes acknowledged towards the next full window, in avoidance.
    credit: u32,
    mss: u16,
    abc_limit: u8,
    /// Slow start after a timeout, where L is 1: an acknowledgment may cover bytes that arrived before the
    /// timeout and say nothing about the network's rate now (RFC 3465, section 2.3).
    repair: Repair,
    /// Watches the first slow start (RFC 9406).
    first: HyStart,
}

impl Reno {
    /// One segment, in the thousandths that [`add_per_window`](Reno::add_per_window) takes.
    pub const ONE: u32 = 1000;

    /// Until a path is known: the default MSS of RFC 9293, section 3.7.1, and ten segments.
    pub(crate) const fn new() -> Self {
        Reno {
            cwnd: 5360,
            ssthresh: u32::MAX,
            credit: 0,
            mss: 536,
            abc_limit: ABC_LIMIT,
            repair: Repair::None,
            first: HyStart::new(Rule::Plus),
        }
    }

    /// Begins on `path`, keeping the tunables.
    /// RFC 5681, 3.1-4.
    pub(crate) fn begin(&mut self, path: &PathInfo) {
        self.mss = segment(path.mss);
        self.cwnd = path.initial_window.clamp(self.mss(), WINDOW_MAX);
        self.ssthresh = path.ssthresh.map_or(u32::MAX, |remembered| remembered.max(2 * self.mss()));
        self.credit = 0;
        self.repair = Repair::None;
        self.first.restart();
    }

    /// Congestion window, bytes.
    pub fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// Slow-start threshold, bytes; [`u32::MAX`] until something set it.
    pub fn ssthresh(&self) -> u32 {
        self.ssthresh
    }

    /// Bytes of payload in a full segment.
    pub fn mss(&self) -> u32 {
        u32::from(self.mss)
    }

    /// Is the window still below the threshold?
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start (RFC 3465, section 2.2). Returns the acknowledged bytes left over for avoidance once the
    /// window has reached the threshold.
    /// RFC 9293, MUST-19; RFC 5681, 3.1-1, 3.1-5 and 3.1-6; RFC 3465, 2.2-1 and 2.3-1; RFC 9406, 4.3-1 and 4.3-3.
    pub(crate) fn slow_start(&mut self, ack: &AckSample) -> u32 {
        let limit = match self.repair {
            Repair::None if ack.paced && self.abc_limit == ABC_LIMIT => u32::MAX,
            Repair::None => self.abc_limit.max(1).into(),
            Repair::Runs | Repair::Ends => 1,
        };
        if self.repair == Repair::Ends {
            self.repair = Repair::None;
        }
        let allowed = u32::from(ack.segments.max(1)).saturating_mul(limit).saturating_mul(self.mss());
        let room = self.ssthresh - self.cwnd;
        let step = ack.bytes.min(allowed).min(room);
        if self.ssthresh == u32::MAX {
            let pace = self.first.on_ack(ack, self.cwnd / self.mss());
            self.grow(pace.of(step, ack.hystart));
            if matches!(pace, Pace::Enough | Pace::Stop) {
                self.ssthresh = self.cwnd.max(2 * self.mss());
            }
            return 0;
        }
        self.grow(step);
        if step < room {
            return 0;
        }
        self.repair = Repair::None;
        ack.bytes - step
    }

    /// Avoidance: `share` thousandths of a segment for each window acknowledged, and never more than slow start would
    /// give. One acknowledgment is worth one window at most.
    /// RFC 9293, MUST-19; RFC 5681, 3.1-7 and 3.1-8; RFC 3465, 2.1-1.
    pub fn add_per_window(&mut self, share: u32, bytes: u32, ack: &AckSample) {
        if self.abc_limit == ABC_OFF {
            return self.add_per_ack(share, ack);
        }
        let counted = u64::from(bytes.min(self.cwnd)) * u64::from(share) / u64::from(Reno::ONE);
        let windows = self.acked_windows(counted);
        if windows > 0 {
            self.grow(windows.saturating_mul(self.mss()).min(bytes.max(self.mss())));
        }
    }

    /// RFC 5681, equation 3: an acknowledgment adds its share of a segment, whatever it covers, a byte at least.
    #[cold]
    fn add_per_ack(&mut self, share: u32, ack: &AckSample) {
        let square = u64::from(self.mss()).pow(2) * u64::from(ack.segments.max(1));
        let step = u128::from(square) * u128::from(share) / u128::from(self.cwnd) / u128::from(Reno::ONE);
        self.grow(step.clamp(1, u128::from(self.mss())) as u32);
    }

    /// True once for each full window of acknowledged bytes (RFC 3465, section 2.1).
    pub(crate) fn acked_a_window(&mut self, bytes: u32) -> bool {
        self.acked_windows(u64::from(bytes.min(self.cwnd))) > 0
    }

    /// Counts bytes towards full windows; how many are now full. The remainder is kept.
    fn acked_windows(&mut self, bytes: u64) -> u32 {
        let credit = u64::from(self.credit) + bytes;
        let cwnd = u64::from(self.cwnd);
        if credit < cwnd {
            self.credit = credit as u32;
            return 0;
        }
        self.credit = (credit % cwnd) as u32;
        u32::try_from(credit / cwnd).unwrap_or(u32::MAX)
    }

    /// Widens the window by `bytes`; it never grows beyond 2^30.
    pub fn grow(&mut self, bytes: u32) {
        self.cwnd = self.cwnd.saturating_add(bytes).min(WINDOW_MAX.max(self.cwnd));
    }

    /// Forgets progress towards the next full window.
    pub(crate) fn clear_credit(&mut self) {
        self.credit = 0;
    }

    /// The threshold after congestion with `flight` bytes outstanding: `keep` = (part, whole) of them, and two
    /// segments at least (RFC 5681, equation 4). What limited transmit sent beyond the window does not count
    /// (section 3.2, step 2).
    /// RFC 5681, 3.2-5.
    pub(crate) fn reduced(&self, flight: u32, keep: (u32, u32)) -> u32 {
        self.part_of(flight.min(self.cwnd), keep)
    }

    fn part_of(&self, flight: u32, (part, whole): (u32, u32)) -> u32 {
        let kept = u64::from(flight) * u64::from(part) / u64::from(whole);
        (kept as u32).max(2 * self.mss())
    }

    /// A policy that yields to delay takes from the window: down to `cwnd` bytes, two segments at least, and no slow
    /// start from there.
    pub fn yield_to(&mut self, cwnd: u32) {
        let least = (2 * self.mss()).min(self.cwnd);
        self.cwnd = self.cwnd.min(cwnd).max(least);
        self.ssthresh = self.cwnd.max(2 * self.mss());
        self.credit = 0;
    }

    /// Loss found without a timeout, or an ECN echo: the window falls to the threshold and never rises to it.
    pub(crate) fn reduce(&mut self, flight: u32, keep: (u32, u32)) {
        self.ssthresh = self.reduced(flight, keep);
        self.cwnd = self.cwnd.min(self.ssthresh);
        self.credit = 0;
    }

    /// The retransmission timer fired (RFC 5681, section 3.1). The threshold moves once an episode: not for
    /// backed-off timeouts, and not below what this recovery has already taken.
    /// RFC 5681, 3.1-9, 3.1-10 and 3.1-11.
    pub(crate) fn collapse(&mut self, flight: u32, keep: (u32, u32), first: bool, in_recovery: bool) {
        if first {
            self.ssthresh = if in_recovery {
                self.ssthresh.min(self.part_of(flight, keep))
            } else {
                self.reduced(flight, keep)
            };
        }
        self.cwnd = self.mss();
        self.credit = 0;
        self.repair = Repair::Runs;
    }

    /// After [`collapse`](Reno::collapse), for a connection that stands for several flows: each keeps its segment of
    /// the `before` bytes that there were, and its two of a threshold that has `moved`.
    pub(crate) fn spare(&mut self, flows: u32, before: u32, moved: bool) {
        self.cwnd = self.cwnd.max(before.min(flows * self.mss()));
        if moved {
            self.ssthresh = self.ssthresh.max(2 * flows * self.mss());
        }
    }

    /// Fast recovery is over: no more than what is in flight and one segment may leave in a burst (RFC 6582,
    /// section 3.2, step 3, first choice).
    /// RFC 5681, 3.2-8; RFC 6582, 3.2-2.
    pub(crate) fn leave_recovery(&mut self, flight: u32) {
        self.cwnd = self.cwnd.min(flight.max(self.mss()).saturating_add(self.mss()));
        self.credit = 0;
    }

    /// The connection recovered everything that was outstanding at the timeout.
    pub(crate) fn repaired(&mut self) {
        if self.repair == Repair::Runs {
            self.repair = Repair::Ends;
        }
    }

    /// A reduction was a mistake.
    pub(crate) fn restore(&mut self, cwnd: u32, ssthresh: u32) {
        self.cwnd = self.cwnd.max(cwnd);
        self.ssthresh = self.ssthresh.max(ssthresh);
        self.credit = 0;
        self.repair = Repair::None;
    }

    /// Sending resumes after idling (RFC 5681, section 4.1); the threshold remembers most of the old window
    /// (RFC 2861, section 3).
    pub(crate) fn idle_restart(&mut self, path: &PathInfo) {
        let remembered = self.cwnd - self.cwnd / 4;
        if self.ssthresh != u32::MAX {
            self.ssthresh = self.ssthresh.max(remembered);
        }
        self.cwnd = self.cwnd.min(path.initial_window).max(self.mss());
        self.credit = 0;
    }

    /// The window shrinks with the MSS, so that there is no burst of more segments (RFC 5681, section 3.1), and keeps
    /// its bytes when that grows.
    pub(crate) fn mss_change(&mut self, mss: u32) {
        let before = self.mss();
        self.mss = segment(mss);
        self.cwnd = self.scaled(self.cwnd, before).max(self.mss());
        if self.ssthresh != u32::MAX {
            self.ssthresh = self.scaled(self.ssthresh, before).max(2 * self.mss());
        }
    }

    /// Returns a window of segments of `before` bytes in those of now, if these are smaller.
    fn scaled(&self, window: u32, before: u32) -> u32 {
        (u64::from(window) * u64::from(self.mss().min(before)) / u64::from(before)) as u32
    }

    tunables! { pub
        "abc_limit": abc_limit, ABC_OFF => u8::MAX,
            "The L of RFC 3465, segments; 0 counts acknowledgments instead of bytes.";
        "hystart": first, 0 => 2,
            "Does the first slow start watch the round-trip time: 0 no, 1 as in RFC 9406, 2 as in Linux?";
    }
}

impl Default for Reno {
    fn default() -> Self {
        Reno::new()
    }
}

/// A segment's payload as IP can carry it.
fn segment(mss: u32) -> u16 {
    mss.clamp(1, u32::from(u16::MAX)) as u16
}
