//! `millstream doctor`: what an interface, this kernel and the rights of this user allow, how `nic:` opens the
//! interface, and whether packets come and go that way.
//!
//! The link is opened as every command opens it, and what is told of it is what the open link says of itself. So there
//! is no second opinion that could differ.

mod advice;
mod machine;
mod report;
mod selftest;

use crate::out;
use base::Duration;
use clap::Args as ClapArgs;
use machine::Machine;
use pio::Inspection;
use report::Report;
use selftest::{Link, Peer, Verdict};
use sock::{Clock, SystemClock};
use std::process::ExitCode;

/// The longest wait for one peer's answer: a SYN and two repetitions.
const TIMEOUT: Duration = Duration::from_secs(4);

/// The longest wait for a card that was reset.
const RESET: Duration = Duration::from_secs(6);

/// Exit status 1: the interface cannot be used.
const UNUSABLE: u8 = 1;
/// Exit status 3: the link opens, but nothing proves that packets come and go. (2 is a mistake in the command line.)
const UNPROVEN: u8 = 3;

/// Flags of `doctor`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Interface to test.
    interface: String,
    /// Peer to connect to, ADDRESS or ADDRESS:PORT (`[ADDRESS]:PORT` for IPv6); default: the gateway, then neighbours
    /// that the kernel knows. A reset counts as an answer.
    #[arg(long)]
    peer: Option<Peer>,
    /// Number of cores to open the link for; each is tested.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    cores: u16,
    /// Inspect only: open no link and send nothing. (Some cards lose the link for a second when an XDP program is
    /// attached.)
    #[arg(long)]
    look: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// `millstream doctor`.
pub(crate) fn run(args: &Args) -> ExitCode {
    let (report, status) = examine(args);
    if args.json {
        outln!("{}", report.json(status));
    } else {
        out::print(format_args!("{}", report.text()));
    }
    ExitCode::from(status)
}

/// Looks, opens, tests, and says what came of it: the report and the exit status.
fn examine(args: &Args) -> (Report, u8) {
    let name = &args.interface;
    let machine = Machine::of_this();
    let mut report = Report { link: format!("nic:{name}"), machine, ..Report::default() };
    let seen = match pio::inspect(name) {
        Ok(seen) => seen,
        Err(error) => {
            report.refused = Some(error.to_string());
            return (report, UNUSABLE);
        }
    };
    if seen.loopback {
        report.refused = Some(format!(
            "'{name}' is the loopback interface: what is sent there stays in this kernel; name a network card{}",
            others(name)
        ));
        report.seen = Some(seen);
        return (report, UNUSABLE);
    }
    let status = if args.look { 0 } else { try_link(args, &seen, &mut report) };
    report.advice = advice::advice(&seen, &report, args.cores);
    report.seen = Some(seen);
    (report, status)
}

/// Names other interfaces for a person to choose from.
fn others(name: &str) -> String {
    let all = pio::netlink::interfaces().unwrap_or_default();
    let names: Vec<_> = all.into_iter().filter(|i| !i.loopback && i.name != name).map(|i| i.name).collect();
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

/// Waits until packets can travel: some drivers reset the card when an XDP program is attached or detached (igb).
fn has_carrier(name: &str) -> bool {
    const PAUSE: Duration = Duration::from_millis(20);
    let clock = SystemClock::new();
    let begin = clock.now();
    loop {
        // An interface that vanished meanwhile has none either.
        if pio::netlink::interface(name).is_ok_and(|found| found.is_some_and(|found| found.up)) {
            return true;
        }
        if clock.now() - begin >= RESET {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Opens the link and has it ask a peer. Returns the exit status.
fn try_link(args: &Args, seen: &Inspection, report: &mut Report) -> u8 {
    let link = match Link::open(&report.link, args.cores) {
        Ok(link) => link,
        Err(why) => {
            report.refused = Some(why);
            return UNUSABLE;
        }
    };
    report.choice = Some(link.choice());
    let peers = match &args.peer {
        Some(peer) => vec![peer.clone()],
        None => selftest::peers(seen),
    };
    let verdict = if !seen.up {
        Verdict::unasked(format!("'{}' is switched off", seen.name))
    } else if !has_carrier(&seen.name) {
        let lost = if seen.running { "lost its carrier when the link opened" } else { "has no carrier" };
        Verdict::unasked(format!(
            "'{}' {lost}, and got none within {} s: is the cable in, and the other end on?",
            seen.name,
            RESET.as_secs()
        ))
    } else if seen.addresses.is_empty() {
        Verdict::unasked(format!("'{}' has no address to ask from", seen.name))
    } else if peers.is_empty() {
        Verdict::unasked("no gateway and no neighbour is known here; name a peer with --peer ADDRESS".into())
    } else {
        link.ask(&peers, TIMEOUT)
    };
    drop(link);
    let answered = verdict.answered();
    report.verdict = Some(if answered { verdict } else { verdict.explained(&report.link, &seen.name) });
    if answered { 0 } else { UNPROVEN }
}
