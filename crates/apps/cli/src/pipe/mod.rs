//! `millstream pipe`: the emulator's pipes between two links, in real time, so that any programs run through them.
//!
//! Here is the clock: the bridge of `emu` says when it wants to be called, this loop sleeps until shortly before and
//! looks at the clock for the rest.

mod listing;

use crate::command::CliResult;
use ::lab::{Path as PathWords, pipes};
use base::{Duration, Instant};
use emu::{Bridge, LogRow, PipeConfig};
use listing::{Ends, Meter};
use pio::IoError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use sock::{Clock, SystemClock};
use std::io::{BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Longest sleep: how late a signal may be heard that comes right before it.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Arguments of the command.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Links to join, each xdp:IFACE, packet:IFACE, tap:NAME or shm:PATH; `down` is the direction from the first to the
    /// second.
    #[arg(num_args = 2, value_names = ["LINK", "LINK"], required = true)]
    links: Vec<String>,
    /// TOML file whose table `path` describes the path, as in an experiment; it is read again on SIGHUP.
    #[arg(long)]
    path: Option<PathBuf>,
    /// Key of the table `path`, KEY=VALUE: rtt_ms=40, down_kbit=20000, queue="strict 100000", up.loss=0.01. Can be
    /// repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of random losses, delays and marks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// File for a log of every packet (CSV).
    #[arg(long)]
    log: Option<PathBuf>,
    /// Seconds after which the command ends; default: never.
    #[arg(short, long)]
    seconds: Option<f64>,
    /// Seconds between two status lines, 0 for none; default: 1 on a terminal, else 0.
    #[arg(long)]
    every: Option<f64>,
    /// Largest number of packets in each direction; further ones are dropped as by a full queue.
    #[arg(long, default_value_t = 65_536)]
    holds: u32,
    /// Microseconds before a packet's departure from which the command polls the clock instead of sleeping.
    #[arg(long, default_value_t = 50)]
    spin_us: u64,
    /// Print results as JSON.
    #[arg(long)]
    json: bool,
}

/// Requests by signals.
struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        let signals = Signals { stop: Arc::default(), reload: Arc::default() };
        crate::ending::on(&[SIGINT, SIGTERM], &signals.stop)?;
        signal_hook::flag::register(SIGHUP, signals.reload.clone())?;
        Ok(signals)
    }
}

/// Joins the links until it is told to stop, and lists what happened.
pub(crate) fn run(args: Args) -> CliResult {
    let pipes = read_pipes(&args)?;
    let signals = Signals::listen()?;
    let [first, second] = &args.links[..] else { return Err("want two links".into()) };
    let ports = [pio::open_wire(first)?, pio::open_wire(second)?];
    let mut bridge = Bridge::new(ports, pipes, args.seed);
    let log = open_log(&args, &mut bridge)?;
    let ends = Ends::new([first, second]);
    // Who started us may wait for this line.
    outln!("ready: {first} and {second}, seed {}", args.seed);
    let result = forward(&args, &mut bridge, &signals, &ends);
    if args.json {
        outln!("{}", ends.json(&bridge));
    } else {
        out!("{}", ends.text(&bridge));
    }
    if let Some(log) = log {
        log.finish(bridge)?;
    }
    result
}

fn read_pipes(args: &Args) -> Result<[PipeConfig; 2], Box<dyn std::error::Error>> {
    let text = match &args.path {
        Some(path) => std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?,
        None => String::new(),
    };
    let words = args.set.iter().map(|word| {
        let (key, value) =
            word.split_once('=').ok_or_else(|| format!("--set {word}: write it as KEY=VALUE"))?;
        Ok((key.trim().to_string(), value.trim().to_string()))
    });
    let words: Vec<_> = words.collect::<Result<_, String>>()?;
    let pipes = pipes(&PathWords::read(&text, &words)?)?;
    Ok(pipes.map(|pipe| PipeConfig { holds: Some(args.holds), ..pipe }))
}

/// The forensic log's file. Rows are written by the pipes, on the thread of the loop: what could not be written is said
/// at the end.
struct Log {
    path: PathBuf,
    out: Arc<Mutex<Result<BufWriter<std::fs::File>, std::io::Error>>>,
}

fn open_log(args: &Args, bridge: &mut Bridge) -> Result<Option<Log>, String> {
    let Some(path) = args.log.clone() else { return Ok(None) };
    let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut file = BufWriter::with_capacity(1 << 18, std::fs::File::create(&path).map_err(wrong)?);
    writeln!(file, "# seed {}\n{}", args.seed, LogRow::HEADER).map_err(wrong)?;
    let out = Arc::new(Mutex::new(Ok(file)));
    for end in 0..2 {
        let out = out.clone();
        bridge.pipe_mut(end).log(move |row| {
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = out.as_mut().map_or(Ok(()), |file| writeln!(file, "{row}")) {
                *out = Err(error);
            }
        });
    }
    Ok(Some(Log { path, out }))
}

impl Log {
    /// Writes the rest; `bridge` has no more to say.
    fn finish(self, bridge: Bridge) -> CliResult {
        drop(bridge);
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let flushed = match &mut *out {
            Ok(file) => file.flush().map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        flushed.map_err(|e| format!("{}: {e}", self.path.display()).into())
    }
}

fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX)
}

fn forward(args: &Args, bridge: &mut Bridge, signals: &Signals, ends: &Ends) -> CliResult {
    let clock = SystemClock::new();
    pio::wake_precisely()?;
    let every = args.every.unwrap_or(if std::io::stderr().is_terminal() { 1.0 } else { 0.0 });
    let mut meter = Meter::new(seconds(every), clock.now());
    let end = args.seconds.map(|s| clock.now() + seconds(s));
    let spin = Duration::from_micros(args.spin_us);
    while !signals.stop.load(Ordering::Relaxed) {
        bridge.receive(clock.now()).map_err(broken)?;
        let due = bridge.send(clock.now()).map_err(broken)?;
        if signals.reload.swap(false, Ordering::Relaxed) {
            reload(args, bridge);
        }
        let now = clock.now();
        if end.is_some_and(|end| now >= end) {
            break;
        }
        if let Some(line) = meter.line(bridge, ends, now, args.json) {
            show(&line, args.json);
        }
        let next = Instant::earliest(Instant::earliest(due, end), meter.next());
        let sleep = next.map_or(SLEEP_MAX, |next| next.since(now).saturating_sub(spin).min(SLEEP_MAX));
        if sleep > Duration::ZERO {
            pio::wait(bridge.ports(), &[], Some(sleep)).map_err(broken)?;
        }
    }
    if every > 0.0 && !args.json {
        eprintln!();
    }
    Ok(())
}

fn show(line: &str, json: bool) {
    if json {
        outln!("{line}");
    } else if std::io::stderr().is_terminal() {
        eprint!("\r{line}\x1b[K");
    } else {
        eprintln!("{line}");
    }
}

/// New pipes from the file; a file that makes no sense changes nothing. Packets under way stay so.
fn reload(args: &Args, bridge: &mut Bridge) {
    match read_pipes(args) {
        Ok(pipes) => {
            for (end, pipe) in pipes.into_iter().enumerate() {
                bridge.pipe_mut(end).set_config(pipe);
            }
            eprintln!("millstream: the path has changed; positions count from here");
        }
        Err(e) => eprintln!("millstream: the path stays as it was: {e}"),
    }
}

fn broken(error: IoError) -> String {
    match error {
        IoError::Gone => "an interface is gone".into(),
        IoError::Os(error) => format!("a link is broken: {error}"),
        other => format!("a link is broken: {other:?}"),
    }
}
