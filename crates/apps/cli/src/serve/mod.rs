//! `millstream serve`: an HTTP/1.1 server, one event loop per core.

mod content;
mod request;
mod worker;

use crate::command::CliResult;
use crate::config::StackArgs;
use base::Duration;
use clap::Args as ClapArgs;
use content::Content;
use rustix::process::Resource;
use serde_json::json;
use sock::{Mode, Stack, TcpListener};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flags of `serve`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    stack: StackArgs,
    /// Address and port to listen on; without an address, on all addresses of the stack.
    #[arg(long, default_value = "80")]
    listen: String,
    /// Serve the files below this directory.
    #[arg(long, conflicts_with = "bytes")]
    dir: Option<PathBuf>,
    /// Answer every request with this many bytes; a path of digits, such as /4096, asks for another number.
    #[arg(long, default_value_t = 64)]
    bytes: u64,
    /// Share the port with other processes that use this flag (nic: and packet: links). The setting `share` separates
    /// groups of them.
    #[arg(long)]
    reuse_port: bool,
    /// Seconds within which a client must send a request, or 1 KiB of a body, or take 1 KiB of an answer; otherwise its
    /// connection is closed. 0: clients may take any time.
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=86_400))]
    timeout: u64,
    /// Seconds after which the server stops; default: never.
    #[arg(long)]
    seconds: Option<u64>,
}

fn listen_addr(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port));
    }
    text.parse().map_err(|_| format!("--listen {text}: write a port, ADDRESS:PORT or [IPV6]:PORT"))
}

/// Totals of all workers.
#[derive(Default, Clone, Copy)]
pub(crate) struct Totals {
    /// Connections accepted.
    pub(crate) connections: u64,
    /// Requests answered.
    pub(crate) requests: u64,
    /// Requests answered with an error status.
    pub(crate) errors: u64,
    /// Bytes of answers handed to the stack.
    pub(crate) bytes: u64,
}

/// Runs the server until a signal or `--seconds`.
pub(crate) fn run(args: Args) -> CliResult {
    let mut settings = args.stack.settings()?;
    if args.reuse_port && settings.share == 0 {
        settings.share = 1;
    }
    let addr = listen_addr(&args.listen)?;
    let content = Arc::new(match &args.dir {
        Some(dir) => {
            raise_descriptor_limit();
            Content::directory(dir)?
        }
        None => Content::generated(args.bytes),
    });
    let stop = Arc::new(AtomicBool::new(false));
    crate::ending::on(&[signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM], &stop)?;
    let opened = args.stack.open(&settings)?;
    // Listening comes before the word "serving": the program that waits for it may connect.
    let listeners = opened.stacks.iter().map(|stack| listen(stack, addr)).collect::<Result<Vec<_>, _>>()?;
    let _control = sock::control::serve(&opened)
        .map_err(|e| format!("the control socket: {e}; the setting control = \"off\" does without"))?;
    let mode = if settings.mode == Mode::Direct { "direct" } else { "paired" };
    if args.stack.json {
        outln!(
            "{}",
            json!({"serving": addr.to_string(), "link": opened.taps[0].name, "cores": settings.cores, "mode": mode})
        );
    } else {
        outln!(
            "serving http://{addr} on {} ({} core(s), {mode}, {})",
            opened.taps[0].name,
            settings.cores,
            settings.cc
        );
    }
    let pin = settings.pin && settings.mode == Mode::Direct;
    let timeout = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
    let totals = work(opened.stacks, listeners, &content, &stop, pin, args.seconds, timeout)?;
    report(&totals, args.stack.json)
}

fn listen(stack: &Stack, addr: SocketAddr) -> Result<TcpListener, String> {
    let listener = TcpListener::bind_shared(stack, addr, 65_535).map_err(|e| match e.raw_os_error() {
        Some(libc::EADDRINUSE) => format!(
            "{addr} is taken by another program (or by the kernel); choose another port with --listen"
        ),
        Some(libc::EACCES) => format!("{addr}: ports below 1024 need root or CAP_NET_BIND_SERVICE"),
        Some(libc::EADDRNOTAVAIL) => {
            format!("{addr} is not an address of this link; give it with --address or leave the address out")
        }
        _ => format!("listening on {addr}: {e}"),
    })?;
    listener.set_nonblocking(true).map_err(|e| e.to_string())?;
    // Connections inherit it. An answer is complete when it is written: no part of it is to wait for an acknowledgment.
    stack
        .setsockopt(listener.fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32.to_ne_bytes())
        .map_err(|e| format!("TCP_NODELAY: {e}"))?;
    Ok(listener)
}

/// Every client of a long file holds a descriptor; the limit that a shell sets is for programs that use select().
fn raise_descriptor_limit() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it clients get a 503 earlier.
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
}

fn work(
    stacks: Vec<Stack>,
    listeners: Vec<TcpListener>,
    content: &Arc<Content>,
    stop: &Arc<AtomicBool>,
    pin: bool,
    seconds: Option<u64>,
    timeout: Option<Duration>,
) -> Result<Totals, Box<dyn std::error::Error>> {
    if let Some(seconds) = seconds {
        let stop = stop.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(seconds));
            stop.store(true, Ordering::Relaxed);
        });
    }
    let threads: Vec<_> = stacks
        .into_iter()
        .zip(listeners)
        .enumerate()
        .map(|(core, (stack, listener))| {
            let (content, stop) = (content.clone(), stop.clone());
            std::thread::Builder::new().name(format!("serve-{core}")).spawn(move || {
                if pin && !sock::pin_to(core) {
                    eprintln!("millstream: no CPU {core} to pin to; running unpinned");
                }
                let _stops = StopAll(&stop);
                worker::run(&stack, &listener, &content, &stop, timeout)
            })
        })
        .collect::<Result<_, _>>()?;
    let mut totals = Totals::default();
    for thread in threads {
        let one = thread.join().map_err(|_| "a worker panicked")??;
        totals.connections += one.connections;
        totals.requests += one.requests;
        totals.errors += one.errors;
        totals.bytes += one.bytes;
    }
    Ok(totals)
}

/// Stops all workers when one ends, by an error or a panic too: a server that lost a core is not left half alive.
struct StopAll<'a>(&'a AtomicBool);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn report(t: &Totals, json: bool) -> CliResult {
    let text = if json {
        json!({"connections": t.connections, "requests": t.requests, "errors": t.errors, "bytes": t.bytes})
            .to_string()
    } else {
        let Totals { connections, requests, errors, bytes } = t;
        format!("{connections} connections, {requests} requests ({errors} errors), {bytes} bytes")
    };
    // The program that started us may have gone: then no reader is left.
    match writeln!(std::io::stdout(), "{text}") {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}
