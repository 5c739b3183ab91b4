//! Progress for a person who waits: one line on a terminal, a line every few seconds off it.

use base::{Duration, Instant};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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

    /// Returns the time that the rest of `goal` inputs takes at the rate so far.
    fn left(self, goal: u64, took: Duration) -> Option<Duration> {
        let rest = goal.saturating_sub(self.inputs);
        (self.inputs > 0).then(|| Duration::from_secs(took.as_secs() * rest / self.inputs))
    }
}

/// Returns a flag that the first Ctrl-C or SIGTERM sets: the run ends with its summary. The second one ends it at once.
///
/// # Errors
/// The kernel refuses a handler.
pub fn interrupted() -> Result<Arc<AtomicBool>, String> {
    let is_set = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, is_set.clone())
            .and_then(|_| flag::register(signal, is_set.clone()))
            .map_err(|error| format!("signal {signal}: {error}"))?;
    }
    Ok(is_set)
}

/// Returns a table of the reasons with the number of inputs that each explained, and the command that goes on.
pub fn summary(kind: &str, explained: &BTreeMap<&'static str, Vec<u64>>, next: u64) -> String {
    let mut rows: Vec<_> = explained.iter().map(|(name, seeds)| (seeds.len(), *name)).collect();
    rows.sort_by_key(|(count, name)| (usize::MAX - count, *name));
    let mut text = String::new();
    for (count, name) in rows {
        let _ = writeln!(text, "{count:>8}  {name}");
    }
    let _ = writeln!(text, "it goes on with `cargo xtask differ {kind} --seed {next}`");
    text
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
        let took = now.since(self.started);
        let mut text = counts.told(self.what, self.goal, took);
        if let Some(left) = self.goal.and_then(|goal| counts.left(goal, took)) {
            let _ = write!(text, "; {} min left", left.as_secs().div_ceil(60));
        }
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

#[test]
fn the_time_left_follows_the_rate() {
    let counts = Counts { inputs: 300, ..Counts::default() };
    assert_eq!(counts.left(1_200, Duration::from_secs(100)), Some(Duration::from_secs(300)));
    assert_eq!(Counts::default().left(10, Duration::from_secs(1)), None);
}

#[test]
fn a_summary_has_the_most_frequent_reasons_first() {
    let explained = BTreeMap::from([("a", vec![1]), ("b", vec![2, 3])]);
    let text = summary("calls", &explained, 40);
    assert_eq!(text, "       2  b\n       1  a\nit goes on with `cargo xtask differ calls --seed 40`\n");
}
