//! Programs of socket calls, each run on the kernel and under the launcher over the same kind of link, with the peer in
//! another namespace. Results are compared call by call: return value, errno, bytes, events and options that are read
//! back.
//!
//! Tolerance for timing: steps wait for events, never for a time (runtime.c). A result counts as different if the
//! kernel gave it in none of [`REPEATS`] further runs. A difference that is not seen again in as many runs
//! counts only if [`RARE`] programs have it.

mod circumstances;
mod compare;
mod generate;
mod kept;
mod reasons;
mod sides;
mod step;

use crate::options::{FIRST, Options};
use crate::progress::{Counts, Progress, interrupted, summary};
use crate::reasons::{CALLS, seeds_text, usage};
use crate::shrink;
use base::{Duration, Instant};
use bench::bed::sh;
use compare::{Difference, Verdict, compare};
use sides::Side;
use sock::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use step::{RUNTIME, Step};

const INTERPRETER: &str = include_str!("interpreter.c");

/// Further runs of a program whose results differ.
pub const REPEATS: usize = 6;
/// Programs with a difference that no second run shows, from which on it counts.
pub const RARE: usize = 3;
/// Candidates that are run to make a program smaller, and those where each takes the time limit.
const TRIES: usize = 160;
const TRIES_IN_VAIN: usize = 12;
/// Machines on each processor: while the calls of one wait for a time, another runs.
const PER_CPU: usize = 2;
/// Differences that are made smaller; more are counted alone.
const SHRUNK_MAX: usize = 60;

/// A kind of difference that no row explains.
struct Finding {
    seed: u64,
    difference: Difference,
    program: Vec<Step>,
    /// Runs of the first program that showed it, of `1 + REPEATS`.
    seen: usize,
    /// Programs that show it.
    seeds: Vec<u64>,
}

struct Machine {
    cpu: usize,
    kernel: Side,
    stack: Side,
    /// For programs with children. The thread that relays their connections leads the stack from the first one on,
    /// which makes each round trip half as long again.
    relaying: Side,
}

impl Machine {
    /// Runs a program on both sides at once.
    fn run(&mut self, steps: &[Step]) -> Result<(Vec<String>, Vec<String>), String> {
        let has_child = steps.iter().any(|step| step.name == "child");
        let stack = if has_child { &mut self.relaying } else { &mut self.stack };
        self.kernel.begin(steps)?;
        stack.begin(steps)?;
        Ok((self.kernel.results()?, stack.results()?))
    }

    /// Returns the difference of one run.
    fn difference(&mut self, steps: &[Step]) -> Result<Option<Difference>, String> {
        let (kernel, stack) = self.run(steps)?;
        Ok(match compare(steps, &kernel, &stack) {
            Verdict::Found(difference) => Some(difference),
            Verdict::Explained(_) => None,
        })
    }

    /// Returns how many of `REPEATS` further runs, in fresh processes first, show the difference, or `None` if the
    /// kernel itself gives the result at times.
    fn seen_again(&mut self, steps: &[Step], first: &Difference) -> Result<Option<usize>, String> {
        self.kernel.restart()?;
        self.stack.restart()?;
        self.relaying.restart()?;
        let mut seen = 0;
        for _ in 0..REPEATS {
            let (kernel, stack) = self.run(steps)?;
            if kernel.contains(&first.stack) {
                return Ok(None);
            }
            if let Verdict::Found(difference) = compare(steps, &kernel, &stack) {
                seen += usize::from(difference.key == first.key);
            }
        }
        Ok(Some(seen))
    }

    fn shows(&mut self, steps: &[Step], is: impl Fn(&Difference) -> bool) -> bool {
        !steps.is_empty()
            && self
                .difference(steps)
                .unwrap_or_else(|e| {
                    eprintln!("differ: {e}");
                    None
                })
                .is_some_and(|found| is(&found))
    }

    /// Returns the smallest program found that shows the difference, and how it shows it.
    fn shrink(&mut self, steps: Vec<Step>, first: Difference) -> Result<(Vec<Step>, Difference), String> {
        let hangs = first.stack.ends_with("hangs");
        let tries = if hangs { TRIES_IN_VAIN } else { TRIES };
        let mut small =
            shrink::steps(&steps, tries, |candidate| self.shows(candidate, |found| found.key == first.key));
        for at in 0..if hangs { 0 } else { small.len() } {
            while let Some(plainer) = small[at].plainer().into_iter().find_map(|step| {
                let mut candidate = small.clone();
                candidate[at] = step;
                self.shows(&candidate, |found| found.results == first.results).then_some(candidate)
            }) {
                small = plainer;
            }
        }
        let found = self.difference(&small)?;
        Ok(match found {
            Some(found) => (small, found),
            None => (steps, first),
        })
    }
}

/// Compiles a program of the runtime and `rest`.
fn compiled(dir: &Path, rest: &str) -> Result<PathBuf, String> {
    std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let (source, program) = (dir.join("interpreter.c"), dir.join("interpreter"));
    std::fs::write(&source, format!("{RUNTIME}{rest}")).map_err(|e| format!("{}: {e}", source.display()))?;
    let [source, to] = [&source, &program].map(|path| path.to_string_lossy().into_owned());
    sh("cc", &["-O1", "-w", "-pthread", "-o", &to, &source])?;
    Ok(program)
}

const HOW: &str = " * The bed, as root: namespaces joined by veth, the program in the first, its peer in the other.\n \
    *   ip netns add s; ip netns add c; ip -n s link add ms0 type veth peer name ms1 netns c\n \
    *   ip -n s addr add 10.77.0.1/16 dev ms0; ip -n s addr add fd77::1/64 dev ms0 nodad\n \
    *   ip -n c addr add 10.77.1.1/16 dev ms1; ip -n c addr add fd77::2/64 dev ms1 nodad\n \
    *   ip -n s link set ms0 up; ip -n c link set ms1 up; ip -n s link set lo up\n \
    *   cc -w -pthread -o p THIS_FILE\n \
    *   ip -n c route replace 10.77.0.0/16 dev ms1 quickack 1\n \
    *   ip netns exec s ./p c\n \
    *   ip netns exec s millstream run --link xdp:ms0 -- ./p c launched\n";

/// Returns the finding as a program in C.
fn text(finding: &Finding) -> String {
    let Difference { key, kernel, stack, .. } = &finding.difference;
    let clean = |text: &str| text.replace("*/", "* /");
    let head = format!(
        " * {}\n * kernel: {}\n * stack:  {}\n * Seed {}, seen in {} of {} runs.\n *\n{HOW}",
        clean(key),
        clean(kernel),
        clean(stack),
        finding.seed,
        finding.seen,
        1 + REPEATS
    );
    step::program(&finding.program, &head)
}

/// The steps of a program, for people.
fn listing(steps: &[Step]) -> String {
    steps.iter().enumerate().fold(String::new(), |mut all, (at, step)| {
        let _ = writeln!(all, "    {at:>2} {:<40} {}", step.line().trim(), step.kind());
        all
    })
}

/// State that the machines share.
struct State {
    seed: u64,
    progress: Progress,
    counts: Counts,
    findings: BTreeMap<String, Finding>,
    explained: BTreeMap<&'static str, Vec<u64>>,
    /// Keys of programs as they were made, with those of the smallest programs.
    names: BTreeMap<String, String>,
    by_timing: usize,
    /// A machine has failed, or `--first` has its difference: the others stop.
    stops: bool,
    interrupted: Arc<AtomicBool>,
}

impl State {
    /// The next seed, unless the run is over.
    fn next(&mut self, options: &Options, started: Instant, now: Instant) -> Option<u64> {
        let is_late =
            options.minutes.is_some_and(|minutes| now.since(started) > Duration::from_secs(60 * minutes));
        let is_last = options.goal().is_some_and(|goal| self.seed - options.seed >= goal);
        if self.stops || self.interrupted.load(Ordering::Relaxed) || is_late || is_last {
            return None;
        }
        self.progress.show(self.counts, now);
        self.seed += 1;
        Some(self.seed - 1)
    }

    /// Counts a program whose results were compared. Returns a difference that was not seen before.
    fn count(&mut self, seed: u64, verdict: Verdict) -> Option<Difference> {
        self.counts.inputs += 1;
        let difference = match verdict {
            Verdict::Explained(rows) => {
                let differs = u64::from(!rows.is_empty());
                self.counts.differences += differs;
                self.counts.explained += differs;
                rows.into_iter().for_each(|row| self.explained.entry(row).or_default().push(seed));
                return None;
            }
            Verdict::Found(difference) => difference,
        };
        let name = self.names.get(&difference.key).unwrap_or(&difference.key);
        let Some(known) = self.findings.get_mut(name) else { return Some(difference) };
        self.counts.differences += 1;
        known.seeds.push(seed);
        None
    }
}

impl Machine {
    /// Runs programs until there are no more seeds.
    fn work(&mut self, options: &Options, state: &Mutex<State>) -> Result<(), String> {
        let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
        let clock = SystemClock::new();
        let started = clock.now();
        sides::stay_on(self.cpu)?;
        loop {
            let Some(seed) = lock().next(options, started, clock.now()) else { return Ok(()) };
            let steps = generate::program(seed);
            let (kernel, stack) = self.run(&steps)?;
            let Some(difference) = lock().count(seed, compare(&steps, &kernel, &stack)) else { continue };
            let Some(seen) = self.seen_again(&steps, &difference)? else {
                lock().by_timing += 1;
                continue;
            };
            let first = difference.key.clone();
            let small = seen > 0 && !options.first && lock().findings.len() < SHRUNK_MAX;
            let (program, difference) =
                if small { self.shrink(steps, difference)? } else { (steps, difference) };
            let key = difference.key.clone();
            let mut state = lock();
            state.counts.differences += 1;
            state.names.insert(first, key.clone());
            let new = Finding { seed, difference, program, seen: seen + 1, seeds: Vec::new() };
            state.findings.entry(key).or_insert(new).seeds.push(seed);
            if options.first && seen > 0 && !state.stops {
                state.stops = true;
                println!("{FIRST}{seed}");
            }
        }
    }
}

/// Runs programs from seeds, some machines on each processor, and prints differences that no row explains.
///
/// # Errors
/// A difference was found that no row explains, or the programs cannot be run here.
pub fn run(options: &Options) -> Result<(), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let to = &target.join("differ");
    let program = compiled(to, INTERPRETER)?;
    let ours = bench::bed::our_command()?;
    let mut machines = Vec::new();
    for cpu in sides::processors()?.into_iter().flat_map(|cpu| [cpu; PER_CPU]) {
        let side = |millstream| Side::new(&program, millstream, cpu);
        let [stack, relaying] = [side(Some(&*ours))?, side(Some(&*ours))?];
        machines.push(Machine { cpu, kernel: side(None)?, stack, relaying });
    }
    let kept = machines.first_mut().map_or(Ok(()), kept::check);
    let progress = Progress::new("programs", options.goal(), SystemClock::new().now());
    let state = Mutex::new(State {
        seed: options.seed,
        progress,
        counts: Counts::default(),
        findings: BTreeMap::new(),
        explained: BTreeMap::new(),
        names: BTreeMap::new(),
        by_timing: 0,
        stops: false,
        interrupted: interrupted()?,
    });
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let work = |machine: &mut Machine| machine.work(options, &state).inspect_err(|_| lock().stops = true);
        let threads: Vec<_> = machines.iter_mut().map(|machine| scope.spawn(move || work(machine))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a machine panicked".to_owned())?)
    })?;
    let State { mut progress, counts, findings, explained, by_timing, seed, .. } =
        state.into_inner().unwrap_or_else(PoisonError::into_inner);
    progress.clear();
    let outcome = report(options, to, (counts, by_timing), &findings, &explained);
    print!("{}", summary("calls", &explained, seed));
    outcome.and(kept)
}

fn report(
    options: &Options,
    to: &Path,
    (counts, by_timing): (Counts, usize),
    findings: &BTreeMap<String, Finding>,
    explained: &BTreeMap<&'static str, Vec<u64>>,
) -> Result<(), String> {
    let is_one = |finding: &&Finding| finding.seen > 1 || finding.seeds.len() >= RARE;
    let failed: Vec<_> = findings.values().filter(is_one).collect();
    for finding in findings.values() {
        let Finding { seed, difference, program, seen, seeds } = finding;
        println!("{}", difference.key);
        println!("  kernel {}\n  stack  {}", difference.kernel, difference.stack);
        println!("  {}, the first seen in {seen} of {} runs", seeds_text(seeds), 1 + REPEATS);
        if is_one(&finding) {
            let path = to.join(format!("seed-{seed}.c"));
            std::fs::write(&path, text(finding)).map_err(|e| format!("{}: {e}", path.display()))?;
            print!("  {}\n{}", path.display(), listing(program));
        } else {
            println!("  not seen again: it counts from {RARE} programs on");
        }
    }
    if options.explain {
        print!("{}", usage(CALLS, explained, counts));
    }
    let known: usize = explained.values().map(Vec::len).sum();
    println!(
        "{} programs from seed {}: {} kinds of difference without a reason, {known} explained, {by_timing} that \
         the kernel shows as well",
        counts.inputs,
        options.seed,
        failed.len()
    );
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("{} kinds of difference without a reason", failed.len()))
    }
}

#[cfg(test)]
mod tests;
