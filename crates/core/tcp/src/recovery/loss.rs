//! State of a recovery, and what outlives it.

use alloc::boxed::Box;

use base::Seq;
use cc::Signal;

use crate::buffers::sent::Cursor;
use crate::recovery::prr::Prr;
use crate::recovery::reordering::{Rack, Reordering};
use crate::recovery::resent::Resent;
use crate::recovery::scoreboard::Scoreboard;
use crate::state::Phase;

/// State of a recovery. It exists from the first sign of loss until all is acknowledged.
#[derive(Debug)]
pub(super) struct Loss {
    pub(super) board: Scoreboard,
    pub(super) phase: Phase,
    /// The repair ends when this is acknowledged: SND.NXT when it began.
    pub(super) recover: Seq,
    /// One past the highest byte retransmitted (HighRxt of RFC 6675), or where sending again stands.
    pub(super) resend: Seq,
    /// Loss detection by time (RACK), and the edge below which everything not SACKed is lost.
    pub(super) rack: Rack,
    /// Retransmissions where there is SACK, and which of them were lost.
    pub(super) resent: Resent,
    /// Amount that a fast recovery by SACK may send.
    pub(super) prr: Prr,
    /// Whether a timeout was needless is being tested.
    pub(super) frto: Frto,
    /// Bytes retransmitted in this repair, and how many of them the peer reported as duplicates (RFC 2883). Zero
    /// retransmitted where no report can undo anything.
    pub(super) again: u32,
    pub(super) needless: u32,
    /// Sequence number at or behind which the retransmissions of this recovery lie (Linux's `undo_marker`), and
    /// before `resend`.
    pub(super) marker: Seq,
    /// Until this is acknowledged, such reports about a repair that is over may still come.
    pub(super) reports_until: Option<Seq>,
    /// When the policy last reduced, microseconds modulo 2^32: what is lost of what left before is no news (RFC 5681,
    /// section 4.3).
    pub(super) reduced_at: u32,
    /// Bytes that duplicate acknowledgments say have left the network (RFC 6582's inflation of the window).
    pub(super) inflation: u32,
    /// Our timestamp when the repair's first retransmission left: an acknowledgment of something older shows
    /// that the repair was needless (RFC 3522).
    pub(super) first_ts: Option<u32>,
    /// Whether the repair was needless is known, or cannot be known any more.
    pub(super) judged: bool,
    /// Signal that the policy got when the recovery began.
    pub(super) signal: Signal,
    /// A partial acknowledgment restarted the timer (RFC 6582, section 3.2, the impatient variant).
    pub(super) restarted: bool,
    /// The oldest hole goes out whatever the window says: a repair begins (RFC 6675, section 5, step 4.3), or
    /// without SACK a partial acknowledgment named the next hole (RFC 6582, section 3.2, step 3).
    pub(super) urgent: bool,
}

/// Knowledge that outlives a recovery.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(super) reordering: Reordering,
    /// SND.NXT when the tail loss probe had left (TLP.end_seq).
    pub(super) probe_end: Seq,
}

impl Learned {
    pub(crate) fn new(una: Seq) -> Learned {
        Learned { reordering: Reordering::new(), probe_end: una }
    }
}

/// The repair under way, if the peer misses something or may.
#[derive(Default, Debug)]
pub(crate) struct Recovery {
    pub(super) loss: Option<Box<Loss>>,
}

impl Recovery {
    /// Does the peer miss something, or may it?
    #[inline(always)]
    pub(crate) fn is_active(&self) -> bool {
        self.loss.is_some()
    }

    /// Is nothing missing, and nothing being sent again?
    pub(crate) fn is_calm(&self) -> bool {
        self.loss.as_ref().is_none_or(|loss| loss.is_calm())
    }

    pub(crate) fn phase(&self) -> Phase {
        self.loss.as_ref().map_or(Phase::Disorder, |loss| loss.phase)
    }

    /// The scoreboard, if anything was SACKed.
    pub(crate) fn scoreboard(&self) -> Option<&Scoreboard> {
        self.loss.as_ref().map(|loss| &loss.board)
    }

    /// Is anything from `seq` on counted as lost, before `nxt`?
    pub(crate) fn is_lost_behind(&self, seq: Seq, nxt: Seq) -> bool {
        self.loss.as_ref().is_some_and(|loss| {
            let edge = loss.rack.lost.earlier(nxt);
            edge.after(seq) && loss.board.unsacked(seq, edge) > 0
        })
    }

    /// The first byte in `from..to` that is neither SACKed nor was retransmitted.
    pub(crate) fn first_original(&self, from: Seq, to: Seq) -> Option<Seq> {
        self.loss.as_ref().and_then(|loss| loss.first_original(from, to))
    }

    /// Places in the log of what was sent, which move with SND.UNA.
    #[inline(always)]
    pub(crate) fn cursors(&mut self) -> Option<&mut [Cursor; 2]> {
        self.loss.as_mut().map(|loss| &mut loss.rack.cursors)
    }

    /// Notes that all that could leave has left.
    pub(crate) fn on_occasion(&mut self) {
        if let Some(loss) = &mut self.loss {
            loss.prr.on_occasion();
            if loss.frto == Frto::Push {
                loss.frto = Frto::New;
            }
        }
    }

    /// Steps that lists took since the last call.
    pub(crate) fn take_steps(&mut self) -> u64 {
        self.loss.as_mut().map_or(0, |loss| loss.board.take_steps() + loss.resent.take_steps())
    }

    pub(crate) fn end(&mut self) {
        self.loss = None;
    }
}

impl Loss {
    /// Nothing is missing, and nothing is being sent again.
    pub(super) fn is_calm(&self) -> bool {
        self.phase == Phase::Disorder && self.board.is_empty()
    }

    /// A repair begins at `marker`, and with it the account by which it may be found needless; not by timestamps if it
    /// goes on where another one stopped or is over (`judged`).
    pub(super) fn begin_judging(&mut self, marker: Seq, judged: bool) {
        self.first_ts = None;
        self.judged = judged;
        self.again = 0;
        self.needless = 0;
        self.marker = marker;
        self.reports_until = None;
    }

    /// Ends the account: the policy reduced for something else, which no report undoes.
    pub(super) fn end_judging(&mut self, una: Seq) {
        self.begin_judging(una, true);
    }

    /// Counts bytes that were retransmitted. Neither a probe nor what was cut anew is a repair that could be undone.
    pub(super) fn count_again(&mut self, bytes: u32) {
        if matches!(self.phase, Phase::Fast | Phase::Timeout) {
            self.again = self.again.saturating_add(bytes);
        }
    }
}

/// How far the test has come.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Frto {
    /// Not testing.
    #[default]
    Off,
    /// The first segment was sent again, and nothing else (section 2.1, step 1).
    One,
    /// Its acknowledgment arrived: up to two new segments leave (step 2b), whatever Nagle's algorithm or a cork says.
    Push,
    /// They have left.
    New,
}

impl Frto {
    /// Is sending again held back?
    pub(super) fn holds_back(self) -> bool {
        matches!(self, Frto::Push | Frto::New)
    }
}
