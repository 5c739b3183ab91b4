//! Goal: two connections over any path, with any settings and applications, carry all data once and in order or say
//! that they did not; they end in a bounded time; and the invariants of their sequence spaces hold at each step.
//!
//! ```text
//! cargo test -p millstream-tcp --test pairs                                    # 20,000 runs
//! MILLSTREAM_PAIRS=1000000 cargo test --release -p millstream-tcp --test pairs -- --nocapture
//! MILLSTREAM_PAIR=4711 cargo test -p millstream-tcp --test pairs               # one run, with its time line
//! ```

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tcp::Error;
use tcp::fuzz::{Course, pair_bytes, pair_told};

/// Lines of a failure's time line that are shown.
const LINES: usize = 120;
/// Runs that a thread takes at a time.
const LOT: u64 = 250;

/// Statistics of the runs.
#[derive(Default, Debug)]
struct Sum {
    segments: u64,
    lost: u64,
    bytes: u64,
    retransmits: u64,
    timeouts: u64,
    complete: u64,
    reset: u64,
    timed_out: u64,
    refused: u64,
    closed_windows: u64,
    syn_data: u64,
}

impl Sum {
    fn add(&mut self, course: &Course) {
        self.segments += u64::from(course.segments);
        self.lost += u64::from(course.lost);
        self.bytes += u64::from(course.bytes);
        self.retransmits += course.retransmits;
        self.timeouts += course.timeouts;
        self.complete += u64::from(course.complete);
        let told = |error| u64::from(course.errors.contains(&Some(error)));
        self.reset += told(Error::Reset);
        self.timed_out += told(Error::TimedOut);
        self.refused += told(Error::Refused);
        self.closed_windows += u64::from(course.closed_window);
        self.syn_data += u64::from(course.syn_data);
    }

    fn join(&mut self, other: &Sum) {
        self.segments += other.segments;
        self.lost += other.lost;
        self.bytes += other.bytes;
        self.retransmits += other.retransmits;
        self.timeouts += other.timeouts;
        self.complete += other.complete;
        self.reset += other.reset;
        self.timed_out += other.timed_out;
        self.refused += other.refused;
        self.closed_windows += other.closed_windows;
        self.syn_data += other.syn_data;
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.replace('_', "").parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn course(seed: u64) -> Result<Course, ()> {
    let quietly = AssertUnwindSafe(|| pair_told(&pair_bytes(seed), &mut |_, _| {}));
    catch_unwind(quietly).map_err(drop)
}

/// Runs `seed` again, and shows the end of its time line if it fails.
fn replay(seed: u64, all: bool) {
    let mut lines = VecDeque::new();
    let mut begun = None;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        pair_told(&pair_bytes(seed), &mut |now, what| {
            let at = now.since(*begun.get_or_insert(now)).as_secs_f64();
            lines.push_back(format!("{at:12.6} {what}"));
            if lines.len() > LINES && !all {
                lines.pop_front();
            }
        })
    }));
    if all || outcome.is_err() {
        lines.iter().for_each(|line| eprintln!("{line}"));
    }
    match outcome {
        Ok(course) => eprintln!("{course:#?}"),
        Err(_) => panic!("seed {seed} failed; MILLSTREAM_PAIR={seed} replays it"),
    }
}

/// A line that overwrites itself, where a person looks.
fn show(done: u64, runs: u64) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        let bar = "#".repeat((40 * done / runs) as usize);
        // Nothing is hurt if it cannot be shown.
        let _ = write!(err, "\r[{bar:<40}] {done} of {runs} runs");
        let _ = err.flush();
    }
}

/// All seeds below `runs`, on every core; the least of those that failed first.
fn drive(runs: u64) -> Result<Sum, u64> {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (sum, failed) = (Mutex::new(Sum::default()), Mutex::new(None));
    let lane = || {
        let mut own = Sum::default();
        while !stop.load(Ordering::Relaxed) {
            let first = next.fetch_add(LOT, Ordering::Relaxed);
            if first >= runs {
                break;
            }
            show(first, runs);
            for seed in first..(first + LOT).min(runs) {
                match course(seed) {
                    Ok(course) => own.add(&course),
                    Err(()) => {
                        stop.store(true, Ordering::Relaxed);
                        let mut failed = failed.lock().unwrap();
                        *failed = Some(failed.map_or(seed, |other: u64| other.min(seed)));
                        break;
                    }
                }
            }
        }
        sum.lock().unwrap().join(&own);
    };
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..lanes).for_each(|_| drop(scope.spawn(lane))));
    show(runs, runs);
    match failed.into_inner().unwrap() {
        Some(seed) => Err(seed),
        None => Ok(sum.into_inner().unwrap()),
    }
}

#[test]
fn pairs_of_connections() {
    if let Some(seed) = number("MILLSTREAM_PAIR") {
        return replay(seed, true);
    }
    let runs = number("MILLSTREAM_PAIRS").unwrap_or(20_000).max(1);
    match drive(runs) {
        Ok(sum) => {
            eprintln!("\n{runs} runs: {sum:#?}");
            // A generator that never gets into trouble would prove nothing.
            let kinds =
                [sum.complete, sum.reset, sum.timed_out, sum.refused, sum.closed_windows, sum.syn_data];
            assert!(runs < 10_000 || kinds.iter().all(|&kind| kind > runs / 2000), "{sum:?}");
            assert!(runs < 10_000 || sum.lost > runs && sum.timeouts > runs / 20, "{sum:?}");
        }
        Err(seed) => replay(seed, false),
    }
}
