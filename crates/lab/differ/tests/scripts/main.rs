//! Comparison of this stack with the kernel: a script of calls, losses and delays runs with the kernel as the far
//! end, once with this stack as the near end, once with the kernel again. Our stack plays it with the profile that
//! imitates Linux, and with what ships. What the near ends send, and what their applications are told, is compared,
//! and every difference has a row with its reason in `expected.rs`.
//!
//! ```text
//!   our stack ── PathPort ─┐
//!                          ├─ path, 25 ms, what the script says ── tap ── kernel in a namespace
//!   kernel in a ── tap ────┘
//!   namespace
//! ```
//! Needs /dev/net/tun and what a namespace needs; without them the test says that it was skipped. In real time, as the
//! kernel knows no other. One script: `MILLSTREAM_SCRIPT=Nagle`, which shows both lists.

mod bed;
mod compare;
mod expected;
mod kernel;
mod ours;
mod path;
mod play;
mod scripts;

use base::Duration;
use bed::{Bed, Who};
use compare::{Line, differences};
use drill::run::Profile;
use expected::{ANY, Verdict, rows};
use scripts::{SCRIPTS, Script};
use sock::{Clock, SystemClock};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Scripts at a time. They sleep most of the time.
const WORKERS: usize = 8;
/// Scripts with differences are played again until this much time has passed: a round takes less than 20 s.
const AGAIN_UNTIL: Duration = Duration::from_secs(35);
/// A round of so few takes half as many at a time.
const FEW: usize = 16;
/// A machine that wakes threads later than this decides itself what an end does: what it shows proves nothing.
const LATE: Duration = Duration::from_millis(12);

/// The settings that are compared, each with its own differences: those that imitate Linux, and what ships.
const PROFILES: [(Profile, &str); 2] = [(Profile::Linux, "linux"), (Profile::Production, "default")];

/// Outcome of a script.
struct Outcome {
    kernel: Vec<Line>,
    ours: [Ours; PROFILES.len()],
    /// How late the machine was.
    late: Duration,
}

/// Outcome of a script with one profile.
struct Ours {
    lines: Vec<Line>,
    verdict: Verdict,
}

impl Outcome {
    fn is_odd(&self) -> bool {
        self.ours.iter().any(|ours| !ours.verdict.is_as_expected())
    }
}

#[test]
fn our_stack_and_the_kernel_in_the_same_situations() {
    if let Err(why) = may_run() {
        println!("SKIPPED: no comparison with the kernel: {why}");
        return;
    }
    let wanted = std::env::var("MILLSTREAM_SCRIPT").unwrap_or_default();
    let scripts: Vec<&Script> = SCRIPTS.iter().filter(|script| script.name.contains(&wanted)).collect();
    let clock = SystemClock::new();
    let started = clock.now();
    let mut outcomes = run_all(&scripts, WORKERS);
    for round in 1.. {
        let odd: Vec<usize> = (0..scripts.len()).filter(|&index| outcomes[index].is_odd()).collect();
        if odd.is_empty() || clock.now().since(started) > AGAIN_UNTIL {
            break;
        }
        let again: Vec<&Script> = odd.iter().map(|&index| scripts[index]).collect();
        let workers = if again.len() > FEW { WORKERS } else { WORKERS / 2 };
        println!(
            "again ({round}): {}",
            again.iter().map(|script| script.name).collect::<Vec<_>>().join(", ")
        );
        for (index, outcome) in odd.into_iter().zip(run_all(&again, workers)) {
            outcomes[index] = outcome;
        }
    }
    let open: Vec<&str> = scripts
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| outcome.is_odd() && outcome.late > LATE)
        .map(|(script, _)| script.name)
        .collect();
    let mut failed = Vec::new();
    for (at, (profile, name)) in PROFILES.into_iter().enumerate() {
        failed.extend(tell(at, name, &scripts, &outcomes, !wanted.is_empty()));
        for row in
            rows(profile).iter().filter(|row| row.script == ANY && wanted.is_empty() && open.is_empty())
        {
            let seen = outcomes.iter().any(|outcome| outcome.ours[at].verdict.reasons.contains(&row.reason));
            assert!(seen, "{name}: no script shows this any more: {}", row.reason);
        }
    }
    if !open.is_empty() {
        println!("skipped: this machine is too busy to judge {}", open.join(", "));
    }
    assert!(failed.is_empty(), "differences that nothing decided on, or that are gone: {failed:?}");
}

/// Prints the table of a profile, with all segments of scripts that differ (or of `all`), and returns the scripts that
/// failed.
fn tell(at: usize, profile: &str, scripts: &[&Script], outcomes: &[Outcome], all: bool) -> Vec<String> {
    let (mut failed, mut reasons) = (Vec::new(), Vec::new());
    println!("\nProfile {profile}\n\n| Script | Kernel | Ours | Differences |\n|---|---|---|---|");
    for (script, Outcome { kernel, ours, late }) in scripts.iter().zip(outcomes) {
        let Ours { lines, verdict } = &ours[at];
        let numbers = verdict.reasons.iter().map(|reason| (number(&mut reasons, reason) + 1).to_string());
        let numbers = numbers.collect::<Vec<_>>().join(", ");
        let segments = |lines: &[Line]| lines.iter().filter(|line| line.at.is_some()).count();
        println!("| {} | {} | {} | {numbers} |", script.name, segments(kernel), segments(lines));
        if !verdict.is_as_expected() || all {
            verdict.unexplained.iter().for_each(|difference| println!("    UNEXPLAINED {difference}"));
            verdict.unseen.iter().for_each(|what| println!("    NOT SEEN ANY MORE {what}"));
            println!("    threads woke late by {late:.0?} at most");
            show("kernel", kernel);
            show("ours", lines);
        }
        if !verdict.is_as_expected() && *late <= LATE {
            failed.push(format!("{} ({profile})", script.name));
        }
    }
    println!();
    reasons.iter().enumerate().for_each(|(index, reason)| println!("{}. {reason}", index + 1));
    failed
}

#[test]
fn every_row_names_a_script_and_every_script_another() {
    let named = |name: &str| SCRIPTS.iter().filter(|script| script.name == name).count();
    SCRIPTS.iter().for_each(|script| assert_eq!(named(script.name), 1, "{}", script.name));
    for row in PROFILES.iter().flat_map(|(profile, _)| rows(*profile)).filter(|row| row.script != ANY) {
        assert_eq!(named(row.script), 1, "{}", row.script);
    }
}

/// Why not, if not.
fn may_run() -> Result<(), String> {
    if !pio::userns::is_privileged() {
        return Err("it needs CAP_NET_ADMIN, as root has it".into());
    }
    std::fs::metadata("/dev/net/tun").map_err(|e| format!("/dev/net/tun: {e}"))?;
    Bed::new().map(drop)
}

fn run_all(scripts: &[&Script], workers: usize) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let seen: Mutex<Vec<Option<Outcome>>> = Mutex::new(scripts.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..workers.min(scripts.len()) {
            scope.spawn(|| {
                let mut bed = Bed::new().expect("two namespaces");
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(script) = scripts.get(index) else { break };
                    let mut run = |who| {
                        bed.run(script, who).unwrap_or_else(|why| panic!("{}: {who:?}: {why}", script.name))
                    };
                    let (kernel, mut late) = run(Who::Kernel);
                    let ours = PROFILES.map(|(profile, _)| {
                        let (lines, later) = run(Who::Ours(profile));
                        late = late.max(later);
                        let verdict = Verdict::of(&rows(profile), script.name, differences(&kernel, &lines));
                        Ours { lines, verdict }
                    });
                    seen.lock().expect("no panic")[index] = Some(Outcome { kernel, ours, late });
                }
            });
        }
    });
    seen.into_inner()
        .expect("no panic")
        .into_iter()
        .map(|outcome| outcome.expect("every script ran"))
        .collect()
}

/// The place of a reason among those that were met.
fn number(reasons: &mut Vec<&'static str>, reason: &'static str) -> usize {
    reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    })
}

fn show(who: &str, lines: &[Line]) {
    println!("    {who}:");
    for Line { at, text, push } in lines {
        let at = at.map_or_else(|| "told".into(), |at| format!("{:.3}", at.as_secs_f64()));
        println!("      {at:>7} {text}{}", if *push { " PSH" } else { "" });
    }
}
