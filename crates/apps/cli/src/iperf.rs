//! `millstream iperf`: a server that an ordinary iperf3 client measures, one test at a time, both directions.
//!
//! iperf3 talks over a control connection: one byte per state, and JSON behind a four-byte length. Every data
//! connection begins with the cookie that the control connection began with.

use crate::command::CliResult;
use crate::config::StackArgs;
use base::Duration;
use clap::Args as ClapArgs;
use serde_json::{Value, json};
use sock::{Clock, SystemClock, TcpListener, TcpStream};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Bytes of the cookie, its final NUL included.
const COOKIE: usize = 37;
/// Most connections of one test.
const STREAMS_MAX: u64 = 128;
/// How long a client may keep us waiting, but for the test itself.
const TIMEOUT: Duration = Duration::from_secs(10);
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
    /// Address and port to listen on.
    #[arg(long, default_value = "0.0.0.0:5201")]
    listen: String,
    /// Stop after this many tests.
    #[arg(long)]
    tests: Option<u64>,
}

/// Serves tests until it is ended, or `--tests` are done.
pub(crate) fn run(args: Args) -> CliResult {
    let settings = args.stack.settings()?;
    if settings.cores > 1 {
        return Err(format!(
            "cores = {}: iperf measures one core; leave it at 1 (`serve` and `load` use all)",
            settings.cores
        )
        .into());
    }
    let opened = args.stack.open(&settings)?;
    let listener = TcpListener::bind(&opened.stacks[0], args.listen.as_str())
        .map_err(|e| format!("listening on {}: {e}; choose another port with --listen", args.listen))?;
    let _control = sock::control::serve(&opened)?;
    outln!("serving iperf3 on {} over {}", args.listen, settings.link);
    let mut left = args.tests.unwrap_or(u64::MAX);
    while left > 0 {
        match test(&listener, &settings.cc, TIMEOUT) {
            Ok(line) => outln!("{line}"),
            // One client's mistake is not the next one's: say it and go on.
            Err(e) => eprintln!("millstream: a test ended early: {e}"),
        }
        left -= 1;
    }
    Ok(())
}

/// One data connection, its thread and what that moved.
struct Stream {
    connection: TcpStream,
    bytes: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

/// The data connections of one test. However it ends, they and their threads end with it.
#[derive(Default)]
struct Streams {
    all: Vec<Stream>,
    stop: Arc<AtomicBool>,
}

impl Streams {
    /// Bytes move one way until the peer, or the end of the test, ends it.
    fn start(&mut self, mut stream: TcpStream, send: bool, len: usize) -> io::Result<()> {
        let connection = stream.try_clone()?;
        let bytes = Arc::new(AtomicU64::new(0));
        let (moved, stop) = (bytes.clone(), self.stop.clone());
        let thread = std::thread::Builder::new().name("iperf-data".into()).spawn(move || {
            let mut buf = vec![0; len];
            while !(send && stop.load(Ordering::Relaxed)) {
                match if send { stream.write(&buf) } else { stream.read(&mut buf) } {
                    // The client closes or resets its data connections when it has had enough.
                    Ok(0) | Err(_) => return,
                    Ok(n) => moved.fetch_add(n as u64, Ordering::Relaxed),
                };
            }
        })?;
        self.all.push(Stream { connection, bytes, thread });
        Ok(())
    }

    /// Ends them all, and returns what each moved; an error if a thread panicked.
    fn end(&mut self) -> io::Result<Vec<Moved>> {
        self.stop.store(true, Ordering::Relaxed);
        for stream in &self.all {
            // Wakes the thread if it waits for the peer; one that has failed already needs no waking.
            let _ = stream.connection.shutdown(Shutdown::Both);
        }
        // All are joined before the first error is told.
        let ends: Vec<_> = self
            .all
            .drain(..)
            .map(|stream| (stream.thread.join(), stream.bytes, retransmissions(&stream.connection)))
            .collect();
        ends.into_iter()
            .map(|(end, bytes, retransmissions)| match end {
                Ok(()) => {
                    Ok(Moved { bytes: bytes.load(Ordering::Relaxed), retransmissions: retransmissions? })
                }
                Err(_) => Err(io::Error::other("a data thread panicked")),
            })
            .collect()
    }
}

/// Bytes that one data connection moved.
#[derive(Clone, Copy)]
struct Moved {
    bytes: u64,
    /// Segments that this end sent more than once.
    retransmissions: u32,
}

/// Returns tcpi_total_retrans of a connection: segments sent again since it began.
fn retransmissions(connection: &TcpStream) -> io::Result<u32> {
    const AT: usize = 100;
    let mut info = [0; AT + 4];
    let len = connection.option(libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    let value = info[..len].get(AT..).and_then(|value| value.try_into().ok());
    value.map(u32::from_ne_bytes).ok_or_else(|| io::Error::other("a TCP_INFO without tcpi_total_retrans"))
}

impl Drop for Streams {
    fn drop(&mut self) {
        // An error that ends the test early is told already.
        let _ = self.end();
    }
}

/// The next connection, whenever it comes.
fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    listener.set_accept_timeout(None)?;
    listener.accept()
}

/// One test, from the client's coming to its going. It may take as long as the client wants, but what comes before
/// and after no longer than `timeout` a step.
fn test(listener: &TcpListener, cc: &str, timeout: Duration) -> io::Result<String> {
    let (mut control, peer) = accept(listener)?;
    control.set_read_timeout(Some(timeout))?;
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
    let mut streams = Streams::default();
    listener.set_accept_timeout(Some(timeout))?;
    while (streams.all.len() as u64) < count {
        let (mut stream, _) = listener.accept()?;
        let mut theirs = [0; COOKIE];
        stream.read_exact(&mut theirs)?;
        if theirs == cookie {
            stream.set_read_timeout(None)?;
            streams.start(stream, reverse, len)?;
        }
    }
    control.write_all(&[TEST_START, TEST_RUNNING])?;
    let clock = SystemClock::new();
    let begin = clock.now();
    control.set_read_timeout(None)?;
    wait_for(&mut control, TEST_END)?;
    control.set_read_timeout(Some(timeout))?;
    let seconds = (clock.now() - begin).as_secs_f64();
    // Before the results: a client that we send to goes on reading its data connections a block at a time, and one
    // that ends within a block keeps it from the control connection.
    let moved = streams.end()?;
    control.write_all(&[EXCHANGE_RESULTS])?;
    read_json(&mut control)?;
    write_json(&mut control, &results(&moved, reverse, seconds, cc))?;
    control.write_all(&[DISPLAY_RESULTS])?;
    // IPERF_DONE or the end of the connection: either way it is over.
    let mut last = [0];
    let _ = control.read(&mut last)?;
    let total: u64 = moved.iter().map(|moved| moved.bytes).sum();
    let way = if reverse { "sent to" } else { "received from" };
    Ok(format!("{total} bytes {way} {peer} in {seconds:.2} s: {:.2} Gbit/s", total as f64 * 8e-9 / seconds))
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
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{len} bytes of JSON are too many")));
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

/// Returns the measurement in iperf3's form. Its stream numbers go 1, 3, 4, 5, ... Only the end that sends knows of
/// retransmissions; the other one says -1.
fn results(moved: &[Moved], sent: bool, seconds: f64, cc: &str) -> Value {
    let streams: Vec<_> = moved
        .iter()
        .enumerate()
        .map(|(i, moved)| {
            let retransmits = if sent { i64::from(moved.retransmissions) } else { -1 };
            json!({
                "id": if i == 0 { 1 } else { i + 2 }, "bytes": moved.bytes, "retransmits": retransmits, "jitter": 0,
                "errors": 0, "packets": 0, "start_time": 0, "end_time": seconds,
            })
        })
        .collect();
    let known = if sent { 1 } else { -1 };
    json!({
        "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0, "sender_has_retransmits": known,
        "congestion_used": cc, "streams": streams,
    })
}

#[cfg(test)]
mod tests;
