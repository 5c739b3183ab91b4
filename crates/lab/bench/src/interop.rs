//! Our stack beside stacks that are not Linux's: smoltcp, lwIP and gVisor's netstack, in every role, over a path with
//! every ill that the emulator has, in virtual time. The bytes are compared, and no stall may be longer than what
//! the path lost explains.
//!
//! A foreign stack is anything that takes frames and gives frames at a date (`theirs::Stack`): smoltcp in this process,
//! the others as programs with one protocol on their standard input and output, `peers/interop/lwip.c`.

mod ours;
mod pattern;
mod smol;
mod theirs;
mod watch;

use crate::compare::contender::Contender;
use crate::{now, peers};
use base::{Duration, Instant, Rate};
use emu::{CoreHost, DropReason, Host, Network, PipeConfig, PipeCounters, PipeId, PortConfig, Queue, Sight};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use theirs::{Program, Theirs};
use watch::{Stall, Watch};

/// Bytes that an application writes or reads at once.
const PIECE: usize = 64 << 10;
/// Least time between two turns of smoltcp without a packet: its clock's unit.
const SHORTEST: Duration = Duration::from_micros(1);
/// Segments that a failed row is told with.
const LAST: usize = 40;
/// Longest that a row may take by the wall's clock, seconds.
const LIMIT: u32 = 900;
/// Longest round trips of the path, ms: queues, delays and overtaking both ways, and what they vary by.
const PATH_MS: u64 = 60;
/// The window of the others, about: what the path holds, or the buffers of smoltcp and lwIP.
const WINDOW: u32 = 64 << 10;
/// The receiver's buffer where windows are tiny, bytes: fewer than three segments.
const TINY: u32 = 4_096;

/// One transfer: what goes where.
#[derive(Clone, Copy, Debug)]
struct Job {
    they_connect: bool,
    they_send: bool,
    bytes: u64,
    seed: u64,
    /// The receiver's window at most, bytes.
    window: Option<u32>,
    /// The largest segment that our SYN announces, bytes; 0 for the path's.
    max_seg: u16,
    sack: bool,
    timestamps: bool,
}

/// A foreign stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// In this process.
    Smoltcp,
    /// Debian's library, in a program.
    Lwip,
    /// Debian's package, in a program.
    Gvisor,
}

impl Peer {
    const ALL: [Peer; 3] = [Peer::Smoltcp, Peer::Lwip, Peer::Gvisor];

    fn name(self) -> &'static str {
        match self {
            Peer::Smoltcp => "smoltcp",
            Peer::Lwip => "lwip",
            Peer::Gvisor => "gvisor",
        }
    }

    /// Its version, or how it can be had.
    fn present(self) -> Result<String, String> {
        Contender::of(self.name()).ok_or("no such peer")?.present()
    }

    /// The longest that a sender waits after the last thing that helped, where nothing is lost meanwhile.
    fn timeout(self, they_send: bool) -> Duration {
        let millis = match (self, they_send) {
            // RTTE_MAX_RTO, 60 s. Each fast retransmission doubles the timeout as well (`dispatch` of socket/tcp.rs),
            // and only data that were never sent before make it short again.
            (Peer::Smoltcp, true) => 60_000,
            // LWIP_TCP_RTO_TIME, its first timeout: six ticks of 500 ms, and one that has begun. At least three ticks
            // stay (tcp_receive).
            (Peer::Lwip, true) => 3_500,
            // MinRTO above a round trip or two.
            (Peer::Gvisor, true) => 200,
            // Ours, 200 ms above the round trip. But smoltcp answers a duplicate once a second (challenge_ack_reply):
            // when an acknowledgment is lost, our retransmissions may get none for that long, and their interval
            // doubles meanwhile.
            (Peer::Smoltcp, false) => 200 + 2 * 1_000,
            // Ours, where acknowledgments wait for up to 250 ms (TCP_TMR_INTERVAL): as much in the smoothed round trip,
            // and twice as much in four times its variance.
            (Peer::Lwip, false) => 200 + 3 * 250,
            (Peer::Gvisor, false) => 200,
        };
        Duration::from_millis(millis + PATH_MS)
    }
}

/// Difference from the plain worst path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    Plain,
    NoSack,
    NoTimestamps,
    TinyWindow,
}

impl Variant {
    const ALL: [Variant; 4] = [Variant::Plain, Variant::NoSack, Variant::NoTimestamps, Variant::TinyWindow];

    fn name(self) -> &'static str {
        match self {
            Variant::Plain => "plain",
            Variant::NoSack => "no-sack",
            Variant::NoTimestamps => "no-timestamps",
            Variant::TinyWindow => "tiny-window",
        }
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    peer: Peer,
    they_connect: bool,
    they_send: bool,
    variant: Variant,
}

impl Row {
    /// Every row, in the table's order.
    pub fn all() -> impl Iterator<Item = Row> {
        let ways = [(true, true), (true, false), (false, true), (false, false)];
        Peer::ALL.into_iter().flat_map(move |peer| {
            Variant::ALL.into_iter().flat_map(move |variant| {
                ways.map(|(they_connect, they_send)| Row { peer, they_connect, they_send, variant })
            })
        })
    }

    /// The foreign stack.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Returns stack, role and variant: `lwip-connects-sends-plain`.
    pub fn name(&self) -> String {
        let opens = if self.they_connect { "connects" } else { "accepts" };
        let moves = if self.they_send { "sends" } else { "takes" };
        format!("{}-{opens}-{moves}-{}", self.peer.name(), self.variant.name())
    }

    fn job(&self, bytes: u64, seed: u64) -> Job {
        Job {
            they_connect: self.they_connect,
            they_send: self.they_send,
            bytes,
            seed,
            window: (self.variant == Variant::TinyWindow).then_some(TINY),
            // smoltcp 0.13 does not count its timestamps: with an MSS of 1460 its packets have 1512 bytes, and its own
            // link drops them.
            max_seg: if self.peer == Peer::Smoltcp { 1_448 } else { 0 },
            sack: self.variant != Variant::NoSack,
            timestamps: self.variant != Variant::NoTimestamps,
        }
    }
}

/// The path, the same each way: 100 Mbit/s with 64 packets of room and a round trip of 2 to 3 ms. One packet in a
/// hundred is lost, and one held back for up to 4 ms, so that up to thirty overtake it. One in two hundred arrives
/// twice, and one has a bit flipped.
fn path() -> PipeConfig {
    PipeConfig {
        rate: Some(Rate::from_bits_per_sec(100_000_000)),
        delay: Duration::from_millis(1),
        jitter: Duration::from_micros(500),
        queue: Queue::Slots(64),
        loss: 0.01,
        reorder: 0.01,
        reorder_by: Duration::from_millis(4),
        duplicate: 0.005,
        corrupt: 0.005,
        // What is lost of ARP is asked for a second later, which is no matter of TCP's.
        spares_neighbours: true,
        ..PipeConfig::default()
    }
}

/// Either end.
enum End {
    Ours(Box<CoreHost<ours::Ours>>),
    Theirs(Box<Theirs>),
}

impl Host for End {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        match self {
            End::Ours(host) => host.step(now),
            End::Theirs(host) => host.step(now),
        }
    }
}

/// Result of a row.
pub struct Outcome {
    /// All bytes arrived as they were sent, both ends closed, and each stall was explained.
    pub verdict: Result<(), String>,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Virtual time that it took.
    pub took: Duration,
    longest: Stall,
    /// Our retransmissions.
    again: u64,
    /// Both pipes together.
    path: PipeCounters,
}

fn total(net: &Network<End>) -> PipeCounters {
    let [a, b] = [0, 1].map(|nth| net.pipe(PipeId(nth)).counters());
    PipeCounters {
        delivered: a.delivered + b.delivered,
        lost: a.lost + b.lost,
        full: a.full + b.full,
        duplicated: a.duplicated + b.duplicated,
        corrupted: a.corrupted + b.corrupted,
        reordered: a.reordered + b.reordered,
        ..PipeCounters::default()
    }
}

/// How far a transfer is, and how it ended if it has.
fn progress(net: &Network<End>, job: &Job) -> (u64, Option<Result<(), String>>) {
    let (End::Ours(ours), End::Theirs(theirs)) = (net.host(emu::HostId(0)), net.host(emu::HostId(1))) else {
        unreachable!("the first host is ours")
    };
    let taken = if job.they_send { ours.app.bytes } else { theirs.report.bytes };
    // Ends count as well: the close has its own retransmissions.
    let ended = u64::from(ours.app.end.is_some()) + u64::from(theirs.report.done);
    let end = match (&theirs.failed, &ours.app.end) {
        (Some(error), _) | (None, Some(Err(error))) => Some(Err(error.clone())),
        (None, Some(Ok(()))) if theirs.report.done => Some(Ok(())),
        _ => None,
    };
    (taken + ended, end)
}

/// The last things that happened on the path: when, and the packet that entered with why it was dropped, or nothing for
/// a flipped bit.
#[derive(Default)]
struct Last {
    all: VecDeque<(Instant, Option<Entered>)>,
    spare: Vec<u8>,
}

/// A packet that came to the path.
struct Entered {
    fate: Result<(), DropReason>,
    bytes: Vec<u8>,
}

impl Last {
    fn note(&mut self, at: Instant, entered: Option<Entered>) {
        if self.all.len() == LAST
            && let Some((_, Some(old))) = self.all.pop_front()
        {
            self.spare = old.bytes;
        }
        self.all.push_back((at, entered));
    }

    fn packet(&mut self, sight: &Sight<'_>) {
        let mut bytes = std::mem::take(&mut self.spare);
        bytes.clear();
        bytes.extend_from_slice(sight.packet);
        self.note(sight.at, Some(Entered { fate: sight.fate, bytes }));
    }

    fn told(&self) -> String {
        self.all.iter().fold(String::new(), |mut text, (at, entered)| {
            let _ = match entered {
                Some(Entered { fate: Ok(()), bytes }) => {
                    write!(text, "\n    {at} {}", wire::print::frame(bytes))
                }
                Some(Entered { fate: Err(why), bytes }) => {
                    write!(text, "\n    {at} {} dropped: {why}", wire::print::frame(bytes))
                }
                None => write!(text, "\n    {at} a bit is flipped in one of those that entered just now"),
            };
            text
        })
    }
}

/// Plays a row with so many bytes; `program` is the foreign stack's, where that is a program.
pub fn play(row: &Row, bytes: u64, seed: u64, program: Option<&Path>) -> Outcome {
    let job = row.job(bytes, seed);
    let mut outcome = Outcome {
        verdict: Ok(()),
        bytes: 0,
        took: Duration::ZERO,
        longest: Stall::default(),
        again: 0,
        path: PipeCounters::default(),
    };
    let stack: Box<dyn theirs::Stack> = match program {
        None => Box::new(smol::Smol::new(&job)),
        Some(path) => {
            let words = [
                if job.they_connect { "connect" } else { "listen" }.to_string(),
                if job.they_send { "send" } else { "take" }.to_string(),
                job.bytes.to_string(),
                job.seed.to_string(),
                job.window.filter(|_| !job.they_send).unwrap_or(0).to_string(),
            ];
            match Program::start(path, &words, LIMIT) {
                Ok(program) => Box::new(program),
                Err(error) => {
                    outcome.verdict = Err(error);
                    return outcome;
                }
            }
        }
    };
    let mut net = Network::new(job.seed);
    let ports = [net.port(&PortConfig::default()), net.port(&PortConfig::default())];
    let ids = [ports[0].id(), ports[1].id()];
    let [near, far] = ports;
    net.add_host(End::Ours(Box::new(ours::host(&job, near))), &[ids[0]]);
    net.add_host(End::Theirs(Box::new(Theirs::new(far, stack))), &[ids[1]]);
    net.link(ids[0], ids[1], &path(), &path());
    let last = Rc::new(RefCell::new(Last::default()));
    let watcher = last.clone();
    net.watch(move |sight| watcher.borrow_mut().packet(sight));

    let timeout = row.peer.timeout(row.they_send);
    let window = job.window.unwrap_or(WINDOW).into();
    let (mut watch, begin, mut steps) = (Watch::new(timeout, job.bytes, window), now(), 0u64);
    let (mut verdict, mut flipped) = (None, 0);
    net.run(Instant::FAR_FUTURE, |net| {
        let (progress, end) = progress(net, &job);
        let path = total(net);
        let looked = watch.look(net.now(), progress, path.lost + path.full + path.corrupted);
        steps += 1;
        if flipped != path.corrupted {
            flipped = path.corrupted;
            last.borrow_mut().note(net.now(), None);
        }
        verdict = match (end, looked) {
            (Some(end), _) => Some(end),
            (None, Err(long)) => Some(Err(format!(
                "nothing moved for {:?} since {}, and the {} losses in it explain {:?}",
                long.lasted, long.since, long.lost, long.explained
            ))),
            (None, Ok(())) if steps.is_multiple_of(1 << 12) && begin.elapsed().as_secs() > LIMIT.into() => {
                Some(Err(format!("not done after {LIMIT} s")))
            }
            (None, Ok(())) => None,
        };
        verdict.is_some()
    });
    outcome.verdict = verdict
        .unwrap_or_else(|| Err("both ends wait for ever".into()))
        .map_err(|why| why + &last.borrow().told());
    outcome.took = net.now().since(Instant::ZERO);
    outcome.longest = watch.longest;
    outcome.path = total(&net);
    if let End::Ours(ours) = net.host(emu::HostId(0)) {
        outcome.again = ours.core.tcp_counters().retransmits;
    }
    outcome.bytes = progress(&net, &job).0.min(job.bytes);
    outcome
}

/// Which rows, and how much each carries.
pub struct Chosen {
    /// Of every random choice.
    pub seed: u64,
    /// Bytes of a row.
    pub bytes: u64,
    /// Rows whose names hold one of these; none: all.
    pub names: Vec<String>,
}

/// The head of the table.
const HEAD: &str = "| Peer | It | Path | MB | s | Mbit/s | sent again | lost | flipped | doubled | held back | \
                    longest stall, ms | explained, ms | |\n\
                    |---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";

fn word(outcome: &Outcome) -> &'static str {
    if outcome.verdict.is_ok() { "whole" } else { "FAILED" }
}

fn line(row: &Row, outcome: &Outcome) -> String {
    let (opens, moves) = (
        if row.they_connect { "connects" } else { "accepts" },
        if row.they_send { "sends" } else { "takes" },
    );
    let seconds = outcome.took.as_secs_f64();
    let again = if row.they_send { "".into() } else { outcome.again.to_string() };
    let path = &outcome.path;
    format!(
        "| {} | {opens}, {moves} | {} | {} | {seconds:.1} | {:.2} | {again} | {} | {} | {} | {} | {} | {} | {} |",
        row.peer.name(),
        row.variant.name(),
        outcome.bytes / 1_000_000,
        outcome.bytes as f64 * 8e-6 / seconds,
        path.lost + path.full,
        path.corrupted,
        path.duplicated,
        path.reordered,
        outcome.longest.lasted.as_millis(),
        outcome.longest.explained.as_millis(),
        word(outcome),
    )
}

/// Plays the rows on all cores and prints the table.
///
/// # Errors
/// No such row, what is missing for one, or rows that failed.
pub fn run(chosen: &Chosen) -> Result<(), String> {
    let wanted = |row: &Row| {
        chosen.names.is_empty() || chosen.names.iter().any(|name| row.name().contains(name.as_str()))
    };
    let rows: Vec<Row> = Row::all().filter(wanted).collect();
    if rows.is_empty() {
        let names: Vec<_> = Row::all().map(|row| row.name()).collect();
        return Err(format!("no such row; there are {}", names.join(", ")));
    }
    let dir = peers::Dir::new("ms-interop")?;
    let mut programs: Vec<(Peer, Option<PathBuf>)> = Vec::new();
    let mut missing = Vec::new();
    for peer in Peer::ALL.into_iter().filter(|peer| rows.iter().any(|row| row.peer == *peer)) {
        match peer.present() {
            Ok(version) => {
                println!("{}: {version}", peer.name());
                let program = match peer {
                    Peer::Smoltcp => None,
                    Peer::Lwip => Some(dir.c("interop/lwip", &["-I/usr/include/lwip", "-l:liblwip.so.0"])?),
                    Peer::Gvisor => Some(dir.gvisor("interop/gvisor")?),
                };
                programs.push((peer, program));
            }
            Err(how) => {
                println!("{}: left out: {how}", peer.name());
                missing.push(peer.name());
            }
        }
    }
    let rows: Vec<(Row, Option<&Path>)> = rows
        .into_iter()
        .filter_map(|row| {
            let (_, program) = programs.iter().find(|(peer, _)| *peer == row.peer)?;
            Some((row, program.as_deref()))
        })
        .collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((row, program)) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            let begin = now();
            let outcome = play(row, chosen.bytes, chosen.seed, *program);
            let seconds = begin.elapsed().as_secs_f64();
            eprintln!("{}: {} after {seconds:.1} s", row.name(), word(&outcome));
            let mut done = done.lock().unwrap_or_else(|broken| broken.into_inner());
            done.push((row.name(), line(row, &outcome), outcome.verdict));
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(rows.len());
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let done = done.into_inner().unwrap_or_else(|broken| broken.into_inner());
    print!("{HEAD}");
    let mut failed = Vec::new();
    for (row, _) in &rows {
        for (name, line, verdict) in done.iter().filter(|(name, ..)| *name == row.name()) {
            println!("{line}");
            if let Err(why) = verdict {
                failed.push(format!("{name}: {why}"));
            }
        }
    }
    match (failed.is_empty() && done.len() == rows.len(), missing.is_empty()) {
        (true, true) => Ok(()),
        (true, false) => Err(format!("not played: {}", missing.join(", "))),
        (false, _) => Err(failed.join("\n")),
    }
}
