//! `millstream top`: what running stacks do, refreshed every second; on a terminal, with keys.

mod screen;
mod view;

use crate::command::CliResult;
use crate::stacks;
use crate::verdict::Verdict;
use clap::Args as ClapArgs;
use screen::Screen;
use serde_json::Value;
use std::io::Write;
use std::time::{Duration, Instant};
use view::View;

/// Flags of `top`.
#[derive(ClapArgs)]
pub(crate) struct TopArgs {
    /// Process to watch; default: every running stack.
    #[arg(long)]
    pid: Option<u32>,
    /// Seconds between two updates.
    #[arg(short, long, default_value_t = 1.0)]
    delay: f64,
    /// Number of connections to show; on a terminal, as many as fit.
    #[arg(short = 'n', long, default_value_t = 20)]
    flows: usize,
    /// Print one update after one delay and exit, for pipes.
    #[arg(long)]
    once: bool,
}

/// Snapshot of all stacks.
struct Look {
    at: Instant,
    cores: Vec<(u32, Value)>,
    flows: Vec<(u32, Value)>,
    /// Stacks that could not be asked, with the reasons.
    problems: Vec<String>,
}

/// Change of a connection between two snapshots.
struct Flow<'a> {
    pid: u32,
    row: &'a Value,
    /// Bits a second acknowledged and received, segments a second sent again.
    out: f64,
    into: f64,
    again: f64,
    verdict: Verdict,
}

impl Look {
    /// Programs come and go: one that does not answer is listed as missing.
    #[allow(clippy::disallowed_methods, reason = "an API is where time enters")]
    fn now(pid: Option<u32>) -> Look {
        let mut look =
            Look { at: Instant::now(), cores: Vec::new(), flows: Vec::new(), problems: Vec::new() };
        for (pid, path) in stacks::sockets(pid) {
            let both = stacks::answers_of(pid, &path, "stat")
                .and_then(|cores| Ok((cores, stacks::answers_of(pid, &path, "ss")?)));
            match both {
                Ok((cores, flows)) => {
                    look.cores.extend(cores);
                    look.flows.extend(flows);
                }
                Err(e) => look.problems.push(format!("process {pid}: {e}")),
            }
        }
        look
    }
}

/// `millstream top`.
pub(crate) fn run(args: &TopArgs) -> CliResult {
    let delay = Duration::try_from_secs_f64(args.delay).map_err(|_| "--delay takes seconds")?;
    let mut view = View::new(delay, args.flows);
    let screen = if args.once { None } else { Screen::take()? };
    match screen {
        Some(screen) => watch(args.pid, &mut view, &screen),
        None => print(args, &mut view),
    }
}

/// One picture after the other.
fn print(args: &TopArgs, view: &mut View) -> CliResult {
    let mut before = Look::now(args.pid);
    if args.once {
        // Who asks once wants to know that there is nothing.
        stacks::running(args.pid)?;
    }
    loop {
        std::thread::sleep(view.delay);
        let now = Look::now(args.pid);
        view.on_look(&before, &now);
        let mut out = std::io::stdout().lock();
        out.write_all(view.picture(&before, &now).as_bytes())?;
        if args.once {
            return Ok(());
        }
        writeln!(out)?;
        before = now;
    }
}

/// On a terminal, until the user has seen enough.
#[allow(clippy::disallowed_methods, reason = "an API is where time enters")]
fn watch(pid: Option<u32>, view: &mut View, screen: &Screen) -> CliResult {
    let mut looks = (Look::now(pid), Look::now(pid));
    // The first picture says at least who is there.
    let mut next = Instant::now() + view.delay.min(Duration::from_millis(300));
    loop {
        let heading = view.heading();
        // Beside the heading: heads, lines of cores, two more and the sum.
        let others = heading.lines().count() + looks.1.cores.len() + looks.1.problems.len() + 4;
        view.flows = screen.size().0.saturating_sub(others).max(3);
        screen.draw(&(heading + &view.picture(&looks.0, &looks.1)))?;
        match screen.key(next.saturating_duration_since(Instant::now()))? {
            Some(key) if !view.on_key(key) => return Ok(()),
            Some(_) => continue,
            None if view.paused => next = Instant::now() + view.delay,
            None if Instant::now() < next => continue,
            None => {
                looks = (looks.1, Look::now(pid));
                view.on_look(&looks.0, &looks.1);
                next = Instant::now() + view.delay;
            }
        }
    }
}
