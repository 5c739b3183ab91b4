//! Reports by the stack thread about a connection that the application has not asked for yet.

use base::Instant;
use std::collections::VecDeque;
use tcp::Report;

/// Most reports before sends that ask for more are refused, and most times of arrival.
const MOST: usize = 1_024;

/// Reports, and when what was received arrived.
#[derive(Default)]
pub(super) struct Told {
    reports: VecDeque<Report>,
    /// One past the last byte, and when.
    arrivals: VecDeque<(u32, Instant)>,
}

impl Told {
    /// One more. An application that does not listen misses times, but no completion.
    pub(super) fn report(&mut self, report: Report) {
        let missed = matches!(report, Report::Stamp { .. }) && self.reports.len() >= 2 * MOST;
        if !missed && !self.reports.back_mut().is_some_and(|back| back.absorb(&report)) {
            self.reports.push_back(report);
        }
    }

    pub(super) fn take_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    pub(super) fn has_reports(&self) -> bool {
        !self.reports.is_empty()
    }

    /// So many reports lie here that nothing more can be asked for.
    pub(super) fn is_full(&self) -> bool {
        self.reports.len() >= MOST
    }

    pub(super) fn arrived(&mut self, end: u32, at: Instant) {
        let full = self.arrivals.len() >= MOST;
        match self.arrivals.back_mut() {
            Some(last) if full || last.1 == at => *last = (end, at),
            _ => self.arrivals.push_back((end, at)),
        }
    }

    /// When the last of the first `read` bytes arrived.
    pub(super) fn arrival(&mut self, read: u32) -> Option<Instant> {
        while self.arrivals.front().is_some_and(|(end, _)| (end.wrapping_sub(read) as i32) < 0) {
            self.arrivals.pop_front();
        }
        self.arrivals.front().map(|(_, at)| *at)
    }
}
