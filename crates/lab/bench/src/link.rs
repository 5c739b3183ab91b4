//! Servers on one core behind a link, ordinary kernel clients on another core, in network namespaces of our own.
//!
//! CPU is counted on both sides, by process (what it ran, its softirqs included) and by core (everything). veth
//! runs the receiver's softirq on the sender's core, so a server pays for the client's packets and the other way
//! round: the *ideal responder* shows how much of that no server can avoid.

use crate::{Plan, now, stats};
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SERVER_ADDR: &str = "10.77.0.1";
const CLIENT_BASE: &str = "10.77.1.1";
const CLIENT_ADDRS: u32 = 16;
const SERVER_CPU: &str = "0";
const CLIENT_CPU: &str = "1";

/// Runs a command to its end; its output, or what it said.
fn sh(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(args)
        .output()
        .map_err(|e| format!("{program}: {e}; install it (Debian: iproute2, ethtool, gcc)"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

/// Two namespaces and the link between them; gone when dropped.
struct Bed {
    server: String,
    client: String,
    dir: PathBuf,
}

impl Drop for Bed {
    fn drop(&mut self) {
        for ns in [&self.server, &self.client] {
            if let Err(e) = sh("ip", &["netns", "del", ns]) {
                eprintln!("millstream-bench: {e}");
            }
        }
        if let Err(e) = std::fs::remove_dir_all(&self.dir) {
            eprintln!("millstream-bench: {}: {e}", self.dir.display());
        }
    }
}

impl Bed {
    /// Namespaces joined by veth (`ms0` at the server's end), or only the client's with a tap device for us.
    fn new(offloads: bool) -> Result<Bed, String> {
        let pid = std::process::id();
        let (server, client) = (format!("ms-bench-s-{pid}"), format!("ms-bench-c-{pid}"));
        let dir = std::env::temp_dir().join(format!("ms-bench-{pid}"));
        std::fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
        sh("ip", &["netns", "add", &server])
            .map_err(|e| format!("{e}; network namespaces need root (sudo) or `unshare -Urn`"))?;
        let bed = Bed { server, client, dir };
        sh("ip", &["netns", "add", &bed.client])?;
        for ns in [&bed.server, &bed.client] {
            sh("ip", &["-n", ns, "link", "set", "lo", "up"])?;
            bed.in_ns(ns, "sysctl", &["-qw", "net.ipv4.ip_local_port_range=1024 65000", "net.core.somaxconn=65535", "net.ipv4.tcp_max_syn_backlog=65535"])?;
        }
        sh("ip", &["link", "add", "ms0", "netns", &bed.server, "type", "veth", "peer", "name", "ms1", "netns", &bed.client])?;
        bed.address("ms0", "ms1")?;
        if !offloads {
            for (ns, dev) in [(&bed.server, "ms0"), (&bed.client, "ms1")] {
                bed.in_ns(ns, "ethtool", &["-K", dev, "tso", "off", "gso", "off", "gro", "off"])?;
            }
        }
        Ok(bed)
    }

    fn address(&self, server_dev: &str, client_dev: &str) -> Result<(), String> {
        sh("ip", &["-n", &self.server, "addr", "add", &format!("{SERVER_ADDR}/16"), "dev", server_dev])?;
        sh("ip", &["-n", &self.server, "link", "set", server_dev, "up"])?;
        let base: std::net::Ipv4Addr = CLIENT_BASE.parse().map_err(|_| "address")?;
        for i in 0..CLIENT_ADDRS {
            let addr = std::net::Ipv4Addr::from(u32::from(base) + i);
            sh("ip", &["-n", &self.client, "addr", "add", &format!("{addr}/16"), "dev", client_dev])?;
        }
        sh("ip", &["-n", &self.client, "link", "set", client_dev, "up"])?;
        for (ns, dev) in [(&self.server, server_dev), (&self.client, client_dev)] {
            // The machine's default may be another: cubic on both sides, as the stack under test uses.
            sh("ip", &["-n", ns, "route", "replace", "10.77.0.0/16", "dev", dev, "congctl", "cubic"])?;
        }
        Ok(())
    }

    fn in_ns(&self, ns: &str, program: &str, args: &[&str]) -> Result<String, String> {
        let mut all = vec!["netns", "exec", ns, program];
        all.extend_from_slice(args);
        sh("ip", &all)
    }

    /// Starts a server pinned to its core and waits until it says that it serves.
    fn start(&self, ns: &str, program: &Path, args: &[&str]) -> Result<Server, String> {
        let mut child = Command::new("ip")
            .args(["netns", "exec", ns, "taskset", "-c", SERVER_CPU])
            .arg(program)
            .args(args)
            .env("MILLSTREAM_RUN", &self.dir)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("no output")?;
        BufReader::new(out).read_line(&mut line).map_err(|e| e.to_string())?;
        if !(line.contains("ready") || line.contains("serving")) {
            let status = child.wait().map_err(|e| e.to_string())?;
            return Err(format!("{} did not start ({status}): {line}", program.display()));
        }
        Ok(Server(child))
    }

    /// Runs the client to its end; what it printed.
    fn client(&self, program: &Path, mode: &str, in_flight: u32, seconds: f64) -> Result<Value, String> {
        let (n, secs, count) = (in_flight.to_string(), seconds.to_string(), CLIENT_ADDRS.to_string());
        let program = program.to_string_lossy();
        let text = self.in_ns(
            &self.client,
            "taskset",
            &["-c", CLIENT_CPU, &program, mode, SERVER_ADDR, "80", &n, &secs, CLIENT_BASE, &count],
        )?;
        serde_json::from_str(&text).map_err(|e| format!("the client said {text:?}: {e}"))
    }
}

/// A running server; ended when dropped.
struct Server(Child);

impl Server {
    /// CPU time of all its threads so far, nanoseconds.
    fn cpu_ns(&self) -> Result<u64, String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).map_err(|e| e.to_string())?;
        let mut total = 0;
        for task in tasks.flatten() {
            let text = std::fs::read_to_string(task.path().join("schedstat")).map_err(|e| e.to_string())?;
            total += text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).ok_or("odd schedstat")?;
        }
        Ok(total)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(e) = sh("kill", &["-TERM", &self.0.id().to_string()]) {
            eprintln!("millstream-bench: {e}");
        }
        if let Err(e) = self.0.wait() {
            eprintln!("millstream-bench: {e}");
        }
    }
}

/// Busy time of all CPUs so far, microseconds (10 ms ticks).
fn machine_busy_us() -> Result<u64, String> {
    let stat = std::fs::read_to_string("/proc/stat").map_err(|e| e.to_string())?;
    let line = stat.lines().next().ok_or("/proc/stat is empty")?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|n| n.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal: all but idle, iowait and steal.
    let busy: u64 = ticks.iter().enumerate().filter(|(i, _)| !matches!(i, 3 | 4 | 7..)).map(|(_, n)| n).sum();
    Ok(busy * 10_000)
}

/// Peers compiled for this run, and our own command.
struct Programs {
    server: PathBuf,
    client: PathBuf,
    ideal: PathBuf,
    ours: PathBuf,
}

impl Programs {
    fn build(dir: &Path) -> Result<Programs, String> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let compile = |name: &str| -> Result<PathBuf, String> {
            let out = dir.join(name);
            let file = source.join(format!("{name}.c"));
            sh("cc", &["-O2", "-o", &out.to_string_lossy(), &file.to_string_lossy()])?;
            Ok(out)
        };
        let ours = match std::env::var_os("MILLSTREAM_BIN") {
            Some(path) => PathBuf::from(path),
            None => std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("millstream"),
        };
        if !ours.exists() {
            return Err(format!("{} is missing; build it (cargo build --profile dist) or name it in MILLSTREAM_BIN", ours.display()));
        }
        Ok(Programs { server: compile("server")?, client: compile("client")?, ideal: compile("ideal")?, ours })
    }
}

/// One measurement of one server.
struct Sample {
    rate: f64,
    server_us: f64,
    client_us: f64,
    both_us: f64,
    p50: f64,
    p99: f64,
    errors: u64,
    octets_per_s: f64,
}

fn sample(bed: &Bed, server: &Server, client: &Path, mode: &str, in_flight: u32, seconds: f64) -> Result<Sample, String> {
    let (cpu, busy) = (server.cpu_ns()?, machine_busy_us()?);
    let said = bed.client(client, mode, in_flight, seconds)?;
    let (cpu, busy) = (server.cpu_ns()? - cpu, machine_busy_us()? - busy);
    let number = |key: &str| said[key].as_f64().unwrap_or(0.0);
    let requests = number("requests").max(1.0);
    Ok(Sample {
        rate: number("requests") / number("seconds"),
        server_us: cpu as f64 / 1e3 / requests,
        client_us: number("cpu_us") / requests,
        both_us: busy as f64 / requests,
        p50: number("p50_us"),
        p99: number("p99_us"),
        errors: number("errors") as u64,
        octets_per_s: number("octets") / number("seconds"),
    })
}

fn summary(samples: &[Sample]) -> Value {
    let median = |f: fn(&Sample) -> f64| stats::median(&samples.iter().map(f).collect::<Vec<_>>());
    json!({
        "per_s": median(|s| s.rate), "server_cpu_us": median(|s| s.server_us), "client_cpu_us": median(|s| s.client_us),
        "machine_cpu_us": median(|s| s.both_us), "p50_us": median(|s| s.p50), "p99_us": median(|s| s.p99),
        "errors": samples.iter().map(|s| s.errors).sum::<u64>(),
        "gbit_per_s": median(|s| s.octets_per_s) * 8e-9,
    })
}

/// The `link` benchmark.
pub fn run(plan: &Plan) -> Result<Value, String> {
    const LOADS: [(&str, &str, u32); 3] =
        [("short connections, 64 in flight", "short", 64), ("keep-alive, 64 connections", "keep", 64), ("ping-pong, 1 connection", "keep", 1)];
    let bed = Bed::new(true)?;
    let programs = Programs::build(&bed.dir)?;
    let ours = ["serve", "--link", "xdp:ms0", "--bytes", "64", "--cores", "1"];
    let contenders: [(&str, &Path, Vec<&str>); 3] = [
        ("kernel", &programs.server, vec![SERVER_ADDR, "80", "64"]),
        ("millstream", &programs.ours, ours.to_vec()),
        ("ideal", &programs.ideal, vec!["ms0", "80", "64"]),
    ];
    let mut rows = Vec::new();
    for (title, mode, in_flight) in LOADS {
        let mut samples: Vec<Vec<Sample>> = (0..3).map(|_| Vec::new()).collect();
        for _ in 0..plan.rounds {
            for (i, (_, program, args)) in contenders.iter().enumerate() {
                let server = bed.start(&bed.server, program, args)?;
                std::thread::sleep(Duration::from_millis(100));
                samples[i].push(sample(&bed, &server, &programs.client, mode, in_flight, plan.seconds)?);
            }
        }
        let column = |i: usize, f: fn(&Sample) -> f64| samples[i].iter().map(f).collect::<Vec<f64>>();
        let (kernel, ours, ideal) = (column(0, |s| s.server_us), column(1, |s| s.server_us), column(2, |s| s.server_us));
        let mut row = Map::new();
        row.insert("workload".into(), title.into());
        for ((name, ..), samples) in contenders.iter().zip(&samples) {
            let s = summary(samples);
            eprintln!("{title:<34} {name:<11} {:>10.0}/s  server {:>6.2} us  client {:>6.2} us  machine {:>6.2} us  p50 {:>8.1}  p99 {:>8.1}  errors {}",
                s["per_s"].as_f64().unwrap_or(0.0), s["server_cpu_us"].as_f64().unwrap_or(0.0), s["client_cpu_us"].as_f64().unwrap_or(0.0),
                s["machine_cpu_us"].as_f64().unwrap_or(0.0), s["p50_us"].as_f64().unwrap_or(0.0), s["p99_us"].as_f64().unwrap_or(0.0), s["errors"]);
            row.insert((*name).into(), s);
        }
        let over: Vec<f64> = ours.iter().zip(&ideal).map(|(a, b)| a - b).collect();
        row.insert("us_over_ideal".into(), stats::median(&over).into());
        row.insert("cpu_ratio_to_kernel".into(), stats::ratio(&ours, &kernel).into());
        row.insert("rate_ratio_to_kernel".into(), stats::ratio(&column(1, |s| s.rate), &column(0, |s| s.rate)).into());
        row.insert("p50_ratio_to_kernel".into(), stats::ratio(&column(1, |s| s.p50), &column(0, |s| s.p50)).into());
        row.insert("p99_ratio_to_kernel".into(), stats::ratio(&column(1, |s| s.p99), &column(0, |s| s.p99)).into());
        rows.push(Value::Object(row));
    }
    Ok(json!({"bench": "link", "rounds": plan.rounds, "seconds": plan.seconds, "rows": rows}))
}

/// The `bulk` benchmark: ours over tap with offloads beside the kernel over veth with offloads, and both over veth
/// without; one flow each way.
pub fn bulk(plan: &Plan) -> Result<Value, String> {
    let mut rows = Vec::new();
    for offloads in [true, false] {
        for mode in ["put", "get"] {
            let (mut kernel, mut ours) = (Vec::new(), Vec::new());
            for _ in 0..plan.rounds {
                kernel.push(bulk_kernel(plan, offloads, mode)?);
                ours.push(if offloads { bulk_tap(plan, mode)? } else { bulk_xdp(plan, mode)? });
            }
            let title = match (offloads, mode) {
                (true, "put") => "client to server, offloads (ours on tap)",
                (true, _) => "server to client, offloads (ours on tap)",
                (false, "put") => "client to server, MTU 1500, no offloads (ours on AF_XDP)",
                (false, _) => "server to client, MTU 1500, no offloads (ours on AF_XDP)",
            };
            eprintln!("{title:<60} kernel {:>7.2} Gbit/s  millstream {:>7.2} Gbit/s", stats::median(&kernel), stats::median(&ours));
            rows.push(json!({
                "workload": title, "kernel_gbit": stats::median(&kernel), "millstream_gbit": stats::median(&ours),
                "ratio": stats::ratio(&ours, &kernel), "kernel_all": kernel, "millstream_all": ours,
            }));
        }
    }
    Ok(json!({"bench": "bulk", "rounds": plan.rounds, "seconds": plan.seconds, "rows": rows}))
}

fn gbit(bed: &Bed, programs: &Programs, server: &Server, plan: &Plan, mode: &str) -> Result<f64, String> {
    let begin = now();
    let s = sample(bed, server, &programs.client, mode, 1, plan.seconds)?;
    if s.errors > 0 || s.octets_per_s == 0.0 {
        return Err(format!("bulk {mode}: {} errors, {} octets/s after {:?}", s.errors, s.octets_per_s, begin.elapsed()));
    }
    Ok(s.octets_per_s * 8e-9)
}

fn bulk_kernel(plan: &Plan, offloads: bool, mode: &str) -> Result<f64, String> {
    let bed = Bed::new(offloads)?;
    let programs = Programs::build(&bed.dir)?;
    let role = if mode == "put" { "sink" } else { "source" };
    let server = bed.start(&bed.server, &programs.server, &[SERVER_ADDR, "80", "64", role])?;
    gbit(&bed, &programs, &server, plan, mode)
}

fn bulk_xdp(plan: &Plan, mode: &str) -> Result<f64, String> {
    let bed = Bed::new(false)?;
    let programs = Programs::build(&bed.dir)?;
    let server = bed.start(&bed.server, &programs.ours, &["serve", "--link", "xdp:ms0"])?;
    gbit(&bed, &programs, &server, plan, mode)
}

/// Ours on a tap device whose other end is the client's own kernel.
fn bulk_tap(plan: &Plan, mode: &str) -> Result<f64, String> {
    let bed = Bed::new(true)?;
    let programs = Programs::build(&bed.dir)?;
    sh("ip", &["-n", &bed.client, "link", "del", "ms1"])?;
    sh("ip", &["-n", &bed.client, "tuntap", "add", "mst0", "mode", "tap", "vnet_hdr"])?;
    let base: std::net::Ipv4Addr = CLIENT_BASE.parse().map_err(|_| "address")?;
    for i in 0..CLIENT_ADDRS {
        let addr = std::net::Ipv4Addr::from(u32::from(base) + i);
        sh("ip", &["-n", &bed.client, "addr", "add", &format!("{addr}/16"), "dev", "mst0"])?;
    }
    sh("ip", &["-n", &bed.client, "link", "set", "mst0", "up"])?;
    sh("ip", &["-n", &bed.client, "route", "replace", "10.77.0.0/16", "dev", "mst0", "congctl", "cubic"])?;
    let address = format!("{SERVER_ADDR}/16");
    let server = bed.start(&bed.client, &programs.ours, &["serve", "--link", "tap:mst0", "--address", &address])?;
    gbit(&bed, &programs, &server, plan, mode)
}
