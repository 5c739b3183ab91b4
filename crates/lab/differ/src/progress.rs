//! Progress for a person who waits: one line on a terminal, a line every few seconds off it.

use base::{Duration, Instant};
use std::io::{self, IsTerminal, Write};

/// Pause between two lines where there is no terminal.
const PAUSE: Duration = Duration::from_secs(5);
/// Pause between two states of the line on a terminal.
const REDRAW: Duration = Duration::from_millis(200);

/// Counts of a run so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Inputs that ran on both sides.
    pub inputs: u64,
    /// Inputs whose results differed, the explained ones among them.
    pub differences: u64,
    /// Inputs whose differences all have a row in [`crate::reasons`].
    pub explained: u64,
}

impl Counts {
    /// Returns the counts as text, after this much time.
    pub fn told(self, what: &str, goal: Option<u64>, took: Duration) -> String {
        let Counts { inputs, differences, explained } = self;
        let goal = goal.map_or(String::new(), |goal| format!(" of {goal}"));
        let rate = inputs as f64 / took.as_secs_f64().max(1e-3);
        let open = differences - explained;
        format!(
            "{inputs}{goal} {what}, {differences} with differences: {explained} explained, {open} not; {rate:.1}/s"
        )
    }
}

/// A progress line on standard error.
pub struct Progress {
    what: &'static str,
    goal: Option<u64>,
    started: Instant,
    told: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    /// A line about `what` (plural: "peers"), of which `goal` are wanted.
    pub fn new(what: &'static str, goal: Option<u64>, now: Instant) -> Progress {
        Progress { what, goal, started: now, told: None, is_terminal: io::stderr().is_terminal() }
    }

    /// Shows the counts, if the last line is old enough.
    pub fn show(&mut self, counts: Counts, now: Instant) {
        let pause = if self.is_terminal { REDRAW } else { PAUSE };
        if self.told.is_some_and(|told| now.since(told) < pause) {
            return;
        }
        self.told = Some(now);
        let text = counts.told(self.what, self.goal, now.since(self.started));
        if self.is_terminal {
            eprint!("\r\x1b[K{text}");
        } else {
            eprintln!("{text}");
        }
        self.flush();
    }

    /// Removes the line, so that other text can be printed.
    pub fn clear(&mut self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
            self.flush();
        }
        self.told = None;
    }

    /// Shows the final counts.
    pub fn end(&mut self, counts: Counts, now: Instant) {
        self.clear();
        eprintln!("{}", counts.told(self.what, self.goal, now.since(self.started)));
    }

    fn flush(&self) {
        // A closed standard error shows nothing; the run's outcome does not depend on it.
        drop(io::stderr().flush());
    }
}

#[test]
fn counts_are_told_with_their_rate() {
    let counts = Counts { inputs: 300, differences: 5, explained: 4 };
    assert_eq!(
        counts.told("peers", Some(1000), Duration::from_secs(2)),
        "300 of 1000 peers, 5 with differences: 4 explained, 1 not; 150.0/s"
    );
}
