//! `millstream iperf`: a server that an ordinary iperf3 client measures, one test at a time, both directions.
//!
//! iperf3 talks over a control connection: one octet per state, and JSON behind a four-octet length. Every data
//! connection begins with the cookie that the control connection began with.

use crate::CliResult;
use crate::config::StackArgs;
use clap::Args as ClapArgs;
use serde_json::{Value, json};
use sock::{Clock, SystemClock, TcpListener, TcpStream};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Octets of the cookie, its final NUL included.
const COOKIE: usize = 37;
/// Most connections of one test.
const STREAMS_MAX: u64 = 128;
/// Longest JSON taken from a client.
const JSON_MAX: usize = 1 << 20;

const TEST_START: u8 = 1;
const TEST_RUNNING: u8 = 2;
const TEST_END: u8 = 4;
const PARAM_EXCHANGE: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const EXCHANGE_RESULTS: u8 = 13;
const DISPLAY_RESULTS: u8 = 14;

/// Flags of `iperf`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    stack: StackArgs,
    /// Where to listen.
    #[arg(long, default_value = "0.0.0.0:5201")]
    listen: String,
    /// Stop after this many tests.
    #[arg(long)]
    tests: Option<u64>,
}

/// Serves tests until it is ended, or `--tests` are done.
pub(crate) fn run(args: Args) -> CliResult {
    let settings = args.stack.settings()?;
    let opened = sock::open(&settings)?;
    let listener = TcpListener::bind(&opened.stacks[0], args.listen.as_str())
        .map_err(|e| format!("listening on {}: {e}; choose another port with --listen", args.listen))?;
    let _control = sock::control::serve(&opened)?;
    println!("serving iperf3 on {} over {}", args.listen, settings.link);
    let mut left = args.tests.unwrap_or(u64::MAX);
    while left > 0 {
        match test(&listener, &settings.cc) {
            Ok(line) => println!("{line}"),
            // One client's mistake is not the next one's: say it and go on.
            Err(e) => eprintln!("millstream: a test ended early: {e}"),
        }
        left -= 1;
    }
    Ok(())
}

/// One data connection's thread and what it moved.
struct Stream {
    octets: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

fn test(listener: &TcpListener, cc: &str) -> io::Result<String> {
    let (mut control, peer) = listener.accept()?;
    let mut cookie = [0; COOKIE];
    control.read_exact(&mut cookie)?;
    control.write_all(&[PARAM_EXCHANGE])?;
    let params = read_json(&mut control)?;
    if params["udp"] == true {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the client asked for UDP; this stack speaks TCP",
        ));
    }
    let reverse = params["reverse"] == true;
    let count = params["parallel"].as_u64().unwrap_or(1).clamp(1, STREAMS_MAX);
    let len = params["len"].as_u64().unwrap_or(131_072).clamp(1, 1 << 20) as usize;
    control.write_all(&[CREATE_STREAMS])?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut streams = Vec::new();
    while (streams.len() as u64) < count {
        let (mut stream, _) = listener.accept()?;
        let mut theirs = [0; COOKIE];
        stream.read_exact(&mut theirs)?;
        if theirs == cookie {
            streams.push(start(stream, reverse, len, stop.clone()));
        }
    }
    control.write_all(&[TEST_START, TEST_RUNNING])?;
    let clock = SystemClock::new();
    let begin = clock.now();
    let ended = wait_for(&mut control, TEST_END);
    let seconds = (clock.now() - begin).as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    let moved: Vec<u64> = streams.iter().map(|s| s.octets.load(Ordering::Relaxed)).collect();
    ended?;
    control.write_all(&[EXCHANGE_RESULTS])?;
    read_json(&mut control)?;
    write_json(&mut control, &results(&moved, seconds, cc))?;
    control.write_all(&[DISPLAY_RESULTS])?;
    // IPERF_DONE or the end of the connection: either way it is over, and the data connections with it.
    let mut last = [0];
    let _ = control.read(&mut last)?;
    for stream in streams {
        stream.thread.join().map_err(|_| io::Error::other("a data thread panicked"))?;
    }
    let total: u64 = moved.iter().sum();
    let way = if reverse { "sent to" } else { "received from" };
    Ok(format!("{total} octets {way} {peer} in {seconds:.2} s: {:.2} Gbit/s", total as f64 * 8e-9 / seconds))
}

/// Moves octets one way until the peer or `stop` ends it.
fn start(mut stream: TcpStream, send: bool, len: usize, stop: Arc<AtomicBool>) -> Stream {
    let octets = Arc::new(AtomicU64::new(0));
    let moved = octets.clone();
    let thread = std::thread::spawn(move || {
        let mut buf = vec![0; len];
        while !(send && stop.load(Ordering::Relaxed)) {
            match if send { stream.write(&buf) } else { stream.read(&mut buf) } {
                // The client closes or resets its data connections when it has had enough.
                Ok(0) | Err(_) => return,
                Ok(n) => moved.fetch_add(n as u64, Ordering::Relaxed),
            };
        }
    });
    Stream { octets, thread }
}

fn wait_for(control: &mut TcpStream, state: u8) -> io::Result<()> {
    let mut got = [0];
    control.read_exact(&mut got)?;
    if got[0] == state {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the client went to state {}, not {state}", got[0]),
    ))
}

fn read_json(control: &mut TcpStream) -> io::Result<Value> {
    let mut len = [0; 4];
    control.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len) as usize;
    if len > JSON_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{len} octets of JSON are too many")));
    }
    let mut text = vec![0; len];
    control.read_exact(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn write_json(control: &mut TcpStream, value: &Value) -> io::Result<()> {
    let text = value.to_string();
    control.write_all(&(text.len() as u32).to_be_bytes())?;
    control.write_all(text.as_bytes())
}

/// What we measured, as iperf3 wants it. Its stream numbers go 1, 3, 4, 5, ...
fn results(moved: &[u64], seconds: f64, cc: &str) -> Value {
    let streams: Vec<_> = moved
        .iter()
        .enumerate()
        .map(|(i, octets)| {
            json!({
                "id": if i == 0 { 1 } else { i + 2 }, "bytes": octets, "retransmits": -1, "jitter": 0, "errors": 0,
                "packets": 0, "start_time": 0, "end_time": seconds,
            })
        })
        .collect();
    json!({
        "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0, "sender_has_retransmits": -1,
        "congestion_used": cc, "streams": streams,
    })
}
