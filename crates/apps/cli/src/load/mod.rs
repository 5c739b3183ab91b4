//! `millstream load`: HTTP load from our own stack, closed loop (a new request when the last was answered) or
//! open loop (requests at a fixed rate, latency counted from when each was due).

mod budget;
mod client;
mod idle;

use crate::command::CliResult;
use crate::config::StackArgs;
use base::Duration;
use budget::Budget;
use clap::Args as ClapArgs;
use client::Plan;
use hdrhistogram::Histogram;
use serde_json::json;
use sock::{Errno, Mode};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Flags of `load`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    stack: StackArgs,
    /// URL to request: `http://ADDRESS[:PORT]/PATH`.
    url: String,
    /// Number of concurrent connections over all cores.
    #[arg(short, long, default_value_t = 64)]
    connections: u32,
    /// Seconds to run.
    #[arg(short, long, default_value_t = 5)]
    seconds: u64,
    /// Send one request per connection.
    #[arg(long)]
    close: bool,
    /// Open loop: requests per second over all cores, sent whether or not answers keep up.
    #[arg(long)]
    rate: Option<f64>,
    /// Number of requests after which the run stops.
    #[arg(short = 'n', long)]
    requests: Option<u64>,
}

/// Measurement of one core.
pub(crate) struct Measured {
    /// Whole answers with status 200.
    pub(crate) requests: u64,
    /// Connections opened.
    pub(crate) connections: u64,
    /// Answers with another status, and connections that failed.
    pub(crate) errors: u64,
    /// Bytes of answers.
    pub(crate) bytes: u64,
    /// Nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// How long it measured.
    pub(crate) elapsed: Duration,
}

impl Measured {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        // 1 ns to 60 s at three digits: the bounds are valid by construction.
        let latency = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds in order");
        Measured { requests: 0, connections: 0, errors: 0, bytes: 0, latency, elapsed: Duration::ZERO }
    }
}

struct Url {
    addr: SocketAddr,
    host: String,
    path: String,
}

fn parse_url(url: &str) -> Result<Url, String> {
    let rest =
        url.strip_prefix("http://").ok_or_else(|| format!("{url}: write http://ADDRESS[:PORT]/PATH"))?;
    let (host, path) = match rest.find('/') {
        Some(at) => (&rest[..at], &rest[at..]),
        None => (rest, "/"),
    };
    let with_port = host.rsplit_once(':').is_some_and(|(h, p)| {
        p.parse::<u16>().is_ok() && !h.ends_with(':') && (h.ends_with(']') || !h.contains(':'))
    });
    let full = if with_port { host.to_string() } else { format!("{host}:80") };
    let addr = full
        .to_socket_addrs()
        .map_err(|e| format!("{host}: {e}"))?
        .next()
        .ok_or_else(|| format!("{host} has no address"))?;
    Ok(Url { addr, host: host.into(), path: path.into() })
}

/// Returns the message about a core's error.
fn complaint(errno: Errno, url: &Url, link: &str) -> String {
    let what = match errno {
        Errno::ENETUNREACH => {
            "no route leads there; --address says which network the link is in, --gateway who knows the rest"
        }
        _ => "the load ended",
    };
    format!("{} over {link}: {what} ({errno})", url.addr)
}

/// Runs the load and prints what was measured.
pub(crate) fn run(args: Args) -> CliResult {
    let settings = args.stack.settings()?;
    let url = parse_url(&args.url)?;
    if args.connections == 0 {
        return Err("--connections 0: at least one is needed".into());
    }
    let closing = if args.close { "Connection: close\r\n" } else { "" };
    let request = format!("GET {} HTTP/1.1\r\nHost: {}\r\n{closing}\r\n", url.path, url.host);
    let stop = Arc::new(AtomicBool::new(false));
    crate::ending::on(&[signal_hook::consts::SIGINT], &stop)?;
    let opened = args.stack.open(&settings)?;
    let _control = sock::control::serve(&opened)?;
    let cores = opened.stacks.len() as u32;
    let budget = Arc::new(Budget::new(args.requests));
    let done = Arc::new(AtomicU64::new(0));
    let progress = progress(&args, done.clone(), stop.clone());
    // A core that has done its part stays: its queue may bring packets of others.
    let threads: Vec<_> = opened
        .stacks
        .iter()
        .cloned()
        .enumerate()
        .map(|(core, stack)| {
            let plan = Plan {
                addr: url.addr,
                request: request.clone().into_bytes(),
                connections: args.connections / cores + u32::from((core as u32) < args.connections % cores),
                time: Duration::from_secs(args.seconds),
                close: args.close,
                interval: args.rate.map(|rate| Duration::from_secs_f64(f64::from(cores) / rate.max(0.001))),
            };
            let (stop, budget, done) = (stop.clone(), budget.clone(), done.clone());
            let pin = settings.pin && settings.mode == Mode::Direct;
            std::thread::Builder::new().name(format!("load-{core}")).spawn(move || {
                if pin {
                    sock::pin_to(core);
                }
                client::run(&stack, &plan, &stop, &budget, &done)
            })
        })
        .collect::<Result<_, _>>()?;
    let (mut total, mut shares) = (Measured::new(), Vec::new());
    for thread in threads {
        let one = thread.join().map_err(|_| "a worker panicked")?;
        let one = one.map_err(|errno| complaint(errno, &url, &settings.link))?;
        shares.push((one.requests, one.connections));
        total.requests += one.requests;
        total.connections += one.connections;
        total.errors += one.errors;
        total.bytes += one.bytes;
        total.elapsed = total.elapsed.max(one.elapsed);
        total.latency.add(one.latency)?;
    }
    stop.store(true, Ordering::Relaxed);
    progress.join().map_err(|_| "the progress bar panicked")?;
    report(&total, &shares, args.stack.json);
    if total.requests == 0 {
        return Err(format!(
            "no request was answered by {}; is a server listening, and can it be reached over {}?",
            url.addr, settings.link
        )
        .into());
    }
    Ok(())
}

/// A bar on the terminal that moves with the seconds and shows the requests so far.
fn progress(args: &Args, done: Arc<AtomicU64>, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    let bar = indicatif::ProgressBar::new(args.seconds * 10);
    if args.stack.json {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) && bar.position() < bar.length().unwrap_or(0) {
            std::thread::sleep(Duration::from_millis(100));
            bar.inc(1);
            bar.set_message(format!("{} requests", done.load(Ordering::Relaxed)));
        }
        bar.finish_and_clear();
    })
}

/// `shares` are the answered requests and the connections of each core.
fn report(m: &Measured, shares: &[(u64, u64)], json: bool) {
    let seconds = m.elapsed.as_secs_f64().max(1e-9);
    let us = |q: f64| m.latency.value_at_quantile(q) as f64 / 1e3;
    let quantiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];
    if json {
        let mut value = json!({
            "requests": m.requests, "connections": m.connections, "errors": m.errors, "bytes": m.bytes,
            "seconds": seconds, "requests_per_s": m.requests as f64 / seconds,
            "connections_per_s": m.connections as f64 / seconds, "max_us": m.latency.max() as f64 / 1e3,
            "core_requests": shares.iter().map(|share| share.0).collect::<Vec<_>>(),
            "core_connections": shares.iter().map(|share| share.1).collect::<Vec<_>>(),
        });
        for (name, q) in quantiles {
            value[format!("{}_us", name.replace('.', "_"))] = us(q).into();
        }
        outln!("{value}");
        return;
    }
    outln!("{} requests in {seconds:.2} s, {} errors", m.requests, m.errors);
    outln!(
        "{:>12.0} requests/s  {:>12.0} connections/s  {:>10.3} Gbit/s",
        m.requests as f64 / seconds,
        m.connections as f64 / seconds,
        m.bytes as f64 * 8e-9 / seconds
    );
    if shares.len() > 1 {
        let parts: Vec<_> = shares.iter().map(|(requests, _)| requests.to_string()).collect();
        outln!("requests of each core: {}", parts.join(" "));
    }
    for (name, q) in quantiles {
        outln!("{name:>8} {:>10.1} us", us(q));
    }
    outln!("{:>8} {:>10.1} us", "max", m.latency.max() as f64 / 1e3);
}

#[cfg(test)]
mod tests;
