//! How far a sweep is: a bar on a terminal, lines elsewhere, and after Ctrl-C how to go on.

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::error::Error;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// Least time between two lines.
const PACE: Duration = Duration::from_secs(1);

/// A sweep under way.
struct State {
    name: String,
    path: PathBuf,
    /// Runs that are kept, those that failed among them, and all.
    kept: u64,
    failed: u64,
    all: u64,
    bar: ProgressBar,
    /// Time of the last line; `None` on a terminal, which has a bar.
    told: Option<Instant>,
}

/// The sweep of this process, of which a signal to end tells.
static SWEEP: Mutex<Option<State>> = Mutex::new(None);

/// Progress of the sweep of an experiment.
pub(super) struct Progress(());

impl Progress {
    /// Begins with `kept` runs of `all`, which lie in the file `path`.
    pub(super) fn begin(name: &str, kept: u64, all: u64, path: &Path) -> Result<Progress, Box<dyn Error>> {
        watch_signals()?;
        let style =
            ProgressStyle::with_template("{prefix:<20} {bar:40} {pos}/{len} runs, {eta} left{wide_msg}")?;
        let bar = ProgressBar::new(all).with_style(style).with_prefix(name.to_owned());
        bar.set_position(kept);
        bar.reset_eta();
        let told = (!io::stderr().is_terminal()).then(now);
        let (name, path) = (name.to_owned(), path.to_owned());
        *sweep() = Some(State { name, path, kept, failed: 0, all, bar, told });
        Ok(Progress(()))
    }

    /// Counts `count` runs that `keep` keeps.
    pub(super) fn keep(
        &self,
        count: u64,
        failed: bool,
        keep: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        // Held meanwhile: no signal cuts a line of the file off.
        let mut sweep = sweep();
        keep()?;
        if let Some(state) = sweep.as_mut() {
            state.count(count, failed);
        }
        Ok(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(state) = sweep().take() {
            state.bar.finish_and_clear();
        }
    }
}

/// Has a signal tell how to go on with the sweep, if there is one, and end the process as it does by default.
fn watch_signals() -> io::Result<()> {
    static ONCE: Once = Once::new();
    let mut watched = Ok(());
    ONCE.call_once(|| {
        let begin = || {
            let mut signals = Signals::new([SIGINT, SIGTERM])?;
            // The second one does not wait for a run that is being written.
            crate::ending::on(&[SIGINT, SIGTERM], &Arc::default())?;
            std::thread::Builder::new().spawn(move || {
                for signal in signals.forever() {
                    let sweep = sweep();
                    if let Some(state) = sweep.as_ref() {
                        state.bar.finish_and_clear();
                        eprintln!("\n{}", state.stopped());
                    }
                    let Err(error) = signal_hook::low_level::emulate_default_handler(signal) else {
                        continue;
                    };
                    eprintln!("millstream: signal {signal}: {error}");
                    std::process::exit(1);
                }
            })
        };
        watched = begin().map(drop);
    });
    watched
}

fn sweep() -> MutexGuard<'static, Option<State>> {
    SWEEP.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn count(&mut self, count: u64, failed: bool) {
        self.kept += count;
        self.failed += if failed { count } else { 0 };
        if self.failed > 0 {
            self.bar.set_message(format!(", {} failed", self.failed));
        }
        self.bar.inc(count);
        let is_due = |told: Instant| now().duration_since(told) >= PACE || self.kept == self.all;
        if self.told.is_some_and(is_due) {
            eprintln!("{}", self.line());
            self.told = Some(now());
        }
    }

    fn line(&self) -> String {
        let failed = if self.failed == 0 { String::new() } else { format!(", {} failed", self.failed) };
        format!("{}: {} of {} runs{failed}", self.name, self.kept, self.all)
    }

    /// Returns what is kept, and the command that goes on.
    fn stopped(&self) -> String {
        let words: Vec<String> = std::env::args().map(|word| quoted(&word)).collect();
        format!(
            "{} are kept in {}. This command goes on with the others:\n  {}",
            self.line(),
            self.path.display(),
            words.join(" ")
        )
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[allow(clippy::disallowed_methods, reason = "a person waits in real time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
