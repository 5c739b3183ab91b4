//! Members that do not run: which were asked, and which have not answered.
//!
//! A member raises its beat whenever it looks after the group: a few times a second, and whenever the group's file has
//! news. A member that has heard no news for a while asks all by such news, and what has not beaten [`ANSWER`] later is
//! stalled. A member that was late itself judges nothing: the machine was busy, or all were stopped.

use super::table::{MEMBERS, Table, each};
use base::{Duration, Instant};

/// Time in which a member that runs has answered.
pub(super) const ANSWER: Duration = Duration::from_millis(200);

/// Beats of the others that a member has seen.
#[derive(Clone)]
pub(super) struct Question {
    asked: Option<Instant>,
    /// The last news, by which another member may have asked.
    news: Option<Instant>,
    beats: [u64; MEMBERS],
}

impl Question {
    pub(super) fn new() -> Question {
        Question { asked: None, news: None, beats: [0; MEMBERS] }
    }

    /// The group's file has news: no other question is needed for a while.
    pub(super) fn on_news(&mut self, now: Instant) {
        self.news = Some(now);
    }

    /// Begins, if there are `others` and they were not asked lately. Returns true if they must hear of it.
    pub(super) fn ask(&mut self, now: Instant, table: &Table, others: u64) -> bool {
        let lately = self.news.is_some_and(|news| now.since(news) < ANSWER);
        let asks = others != 0 && self.asked.is_none() && !lately;
        if asks {
            self.asked = Some(now);
            each(others).for_each(|other| self.beats[other] = table.beats(other));
        }
        asks
    }

    /// Returns when the answers are due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.asked.map(|at| at + ANSWER)
    }

    /// Returns those of `others` that have not answered in time; nothing before that, and nothing twice.
    pub(super) fn silent(&mut self, now: Instant, table: &Table, others: u64) -> u64 {
        if self.due().is_none_or(|due| now < due) {
            return 0;
        }
        let late = self.asked.take().is_some_and(|asked| now.since(asked) > 2 * ANSWER);
        if late { 0 } else { self.still(table, others) }
    }

    /// Returns those of `others` that have not beaten since they were asked.
    pub(super) fn still(&self, table: &Table, others: u64) -> u64 {
        each(others)
            .filter(|other| table.beats(*other) == self.beats[*other])
            .fold(0, |all, other| all | 1 << other)
    }
}
