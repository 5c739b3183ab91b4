//! Workloads of `make demo`: ordinary clients against nginx and a minimal epoll server on the kernel, against the
//! same nginx under `millstream run`, and against `millstream serve`; bytes compared, one table.
//!
//! With privilege ours sits on the same veth link as the kernel's servers (AF_XDP); without, on a tap device.

use crate::Plan;
use crate::bed::{Bed, CLIENT_CPU, Programs, SERVER_ADDR, Server, of_file, our_command, sh};
use lab::stats;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Sizes of the files whose bytes are compared: around the MSS, a few windows, many windows.
const SIZES: [usize; 6] = [0, 1, 1_448, 1_449, 100_000, 8_000_000];
/// wrk's connections.
const CONNECTIONS: &str = "64";

/// How the programs reach each other here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Xdp,
    Tap,
}

/// A server of the table.
struct Contender {
    name: &'static str,
    program: PathBuf,
    args: Vec<String>,
    namespace: fn(&Bed) -> &str,
    /// It serves the files of the comparison.
    files: bool,
    /// It says when it is ready.
    speaks: bool,
}

/// One cell group of the table.
struct Figures {
    rate: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us: f64,
}

/// Runs the demo; prints the table on the way and gives the same as JSON.
pub fn run(plan: &Plan) -> Result<Value, String> {
    let link = if privileged() { Link::Xdp } else { Link::Tap };
    let bed = Bed::new(true)?;
    let programs = Programs::build(&bed.dir, &our_command()?)?;
    if link == Link::Tap {
        // The kernel's servers keep the veth link; ours has an address of its own on a tap device beside it.
        bed.tap_beside()?;
    }
    let site = make_site(&bed.dir)?;
    let contenders = contenders(&bed, &programs, &site, link)?;
    let compared = compare_bytes(&bed, &contenders, &site, link)?;
    eprintln!("bytes compared: {compared} files identical from every server");
    let mut rows = Vec::new();
    for (workload, header) in
        [("keep-alive requests", None), ("short connections", Some("Connection: close"))]
    {
        let mut all: Vec<Vec<Figures>> = contenders.iter().map(|_| Vec::new()).collect();
        for round in 0..plan.rounds {
            for (contender, figures) in contenders.iter().zip(&mut all) {
                eprintln!("{workload}: round {}/{} {}", round + 1, plan.rounds, contender.name);
                figures.push(measure(&bed, contender, header, plan.seconds, link)?);
            }
        }
        for (contender, figures) in contenders.iter().zip(&all) {
            let median = |f: fn(&Figures) -> f64| stats::median(&figures.iter().map(f).collect::<Vec<_>>());
            rows.push(json!({
                "workload": workload, "server": contender.name, "per_s": median(|f| f.rate),
                "p50_us": median(|f| f.p50_us), "p99_us": median(|f| f.p99_us), "cpu_us": median(|f| f.cpu_us),
            }));
        }
    }
    let result =
        json!({"bench": "demo", "link": if link == Link::Xdp { "xdp on veth" } else { "tap" }, "rows": rows});
    eprintln!("\n{}", table(&result));
    Ok(result)
}

/// May we attach XDP programs here? (Root of a user namespace may not.)
fn privileged() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn ours_addr(link: Link) -> &'static str {
    if link == Link::Xdp { SERVER_ADDR } else { crate::bed::TAP_ADDR }
}

fn contenders(bed: &Bed, programs: &Programs, site: &Path, link: Link) -> Result<Vec<Contender>, String> {
    let kernel_conf = nginx_conf(bed, site, "kernel", SERVER_ADDR)?;
    let our_conf = nginx_conf(bed, site, "ours", ours_addr(link))?;
    let text = |items: &[&str]| items.iter().map(|s| s.to_string()).collect::<Vec<_>>();
    let dir = site.to_string_lossy();
    let address = format!("{}/24", crate::bed::TAP_ADDR);
    let (our_link, our_namespace): (_, fn(&Bed) -> &str) = match link {
        Link::Xdp => (text(&["xdp:ms0"]), |bed| &bed.server),
        Link::Tap => (text(&["tap:mst0", "--address", &address]), |bed| &bed.client),
    };
    let args = [text(&["serve", "--dir", &dir, "--link"]), our_link.clone()].concat();
    Ok(vec![
        Contender {
            name: "kernel, nginx",
            program: "nginx".into(),
            args: text(&["-c", &kernel_conf.to_string_lossy(), "-e", "stderr"]),
            namespace: |bed| &bed.server,
            files: true,
            speaks: false,
        },
        Contender {
            name: "kernel, epoll server",
            program: programs.server.clone(),
            args: text(&[SERVER_ADDR, "80", "64"]),
            namespace: |bed| &bed.server,
            files: false,
            speaks: true,
        },
        Contender {
            name: "millstream, nginx",
            program: programs.ours.clone(),
            args: [
                // Its CPU time is taken by its number.
                text(&["run", "--exec", "--link"]),
                our_link,
                text(&["--", "nginx", "-c", &our_conf.to_string_lossy(), "-e", "stderr"]),
            ]
            .concat(),
            namespace: our_namespace,
            files: true,
            speaks: false,
        },
        Contender {
            name: "millstream serve",
            program: programs.ours.clone(),
            args,
            namespace: our_namespace,
            files: true,
            speaks: true,
        },
    ])
}

/// Files to serve: one per size, and the 64 bytes of the load.
fn make_site(dir: &Path) -> Result<PathBuf, String> {
    let site = dir.join("site");
    std::fs::create_dir_all(&site).map_err(of_file(&site))?;
    let write = |name: String, size: usize| {
        let body: Vec<u8> = (0..size).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
        let path = site.join(name);
        std::fs::write(&path, body).map_err(of_file(path))
    };
    write("64".into(), 64)?;
    SIZES.iter().try_for_each(|&size| write(format!("f{size}"), size))?;
    Ok(site)
}

/// nginx as its own documentation tunes it: one worker, no access log, long keep-alive, SO_REUSEPORT, a long queue.
fn nginx_conf(bed: &Bed, site: &Path, whose: &str, address: &str) -> Result<PathBuf, String> {
    let conf = bed.dir.join(format!("nginx-{whose}.conf"));
    let dir = bed.dir.display();
    let temp =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].iter().fold(String::new(), |mut all, kind| {
            let _ = write!(all, "{kind}_temp_path {dir}/{kind}; ");
            all
        });
    let text = format!(
        "user root; daemon off; master_process off; worker_processes 1; pid {dir}/nginx.pid; error_log stderr crit;\n\
         events {{ worker_connections 65536; multi_accept on; }}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; {temp}\n\
         open_file_cache max=100; default_type application/octet-stream;\n\
         server {{ listen {address}:80 reuseport backlog=65535; root {}; }} }}\n",
        site.display()
    );
    std::fs::write(&conf, text).map_err(of_file(&conf))?;
    Ok(conf)
}

fn start(bed: &Bed, contender: &Contender, link: Link) -> Result<Server, String> {
    let args: Vec<&str> = contender.args.iter().map(String::as_str).collect();
    let ns = (contender.namespace)(bed);
    if !contender.speaks {
        // Ask until it answers.
        let server = bed.spawn(ns, &contender.program, &args)?;
        let url = format!("http://{}/64", address(contender, link));
        for _ in 0..50 {
            if bed.in_ns(&bed.client, "curl", &["-sf", "-o", "/dev/null", "--max-time", "1", &url]).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        return Err(format!("{}: does not answer", contender.name));
    }
    bed.start(ns, &contender.program, &args)
}

fn address(contender: &Contender, link: Link) -> &'static str {
    if contender.name.starts_with("millstream") { ours_addr(link) } else { SERVER_ADDR }
}

/// Every file from every server that serves files, byte for byte; how many were compared.
fn compare_bytes(bed: &Bed, contenders: &[Contender], site: &Path, link: Link) -> Result<usize, String> {
    let got = bed.dir.join("got");
    let mut compared = 0;
    for contender in contenders.iter().filter(|c| c.files) {
        let _server = start(bed, contender, link)?;
        for size in SIZES {
            let url = format!("http://{}/f{size}", address(contender, link));
            bed.in_ns(&bed.client, "curl", &["-sSf", "--max-time", "20", "-o", &got.to_string_lossy(), &url])
                .map_err(|e| format!("{}: {e}", contender.name))?;
            let read = |path: &Path| std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
            if read(&got)? != read(&site.join(format!("f{size}")))? {
                return Err(format!("{}: the {size} bytes of {url} differ", contender.name));
            }
            compared += 1;
        }
    }
    Ok(compared)
}

fn measure(
    bed: &Bed,
    contender: &Contender,
    header: Option<&str>,
    seconds: f64,
    link: Link,
) -> Result<Figures, String> {
    let server = start(bed, contender, link)?;
    let url = format!("http://{}/64", address(contender, link));
    let time = format!("{}s", seconds.ceil().max(1.0) as u64);
    let mut args = vec!["-c", CLIENT_CPU, "wrk", "-t1", "-c", CONNECTIONS, "-d", &time, "--latency"];
    if let Some(header) = header {
        args.extend(["-H", header]);
    }
    args.push(&url);
    let before = server.cpu_ns()?;
    let text = bed.in_ns(&bed.client, "taskset", &args)?;
    let cpu = server.cpu_ns()? - before;
    let wrk = parse_wrk(&text).ok_or_else(|| format!("{}: wrk said\n{text}", contender.name))?;
    if wrk.bad > 0 {
        return Err(format!("{}: wrk counted {} errors\n{text}", contender.name, wrk.bad));
    }
    Ok(Figures {
        rate: wrk.rate,
        p50_us: wrk.p50_us,
        p99_us: wrk.p99_us,
        cpu_us: cpu as f64 / 1e3 / wrk.requests.max(1.0),
    })
}

struct Wrk {
    requests: f64,
    rate: f64,
    p50_us: f64,
    p99_us: f64,
    bad: u64,
}

/// Reads wrk's report.
fn parse_wrk(text: &str) -> Option<Wrk> {
    let after = |label: &str| text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim);
    let requests = text.lines().find_map(|line| line.trim().split_once(" requests in "))?.0.parse().ok()?;
    // Every read, write, connect error and time-out counts; status errors have a line of their own.
    let numbers = |line: &str| {
        line.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok()).sum::<u64>()
    };
    let bad =
        after("Socket errors:").map_or(0, numbers) + after("Non-2xx or 3xx responses:").map_or(0, numbers);
    Some(Wrk {
        requests,
        rate: after("Requests/sec:")?.parse().ok()?,
        p50_us: time(after("50%")?)?,
        p99_us: time(after("99%")?)?,
        bad,
    })
}

/// `12.34ms` in microseconds.
fn time(text: &str) -> Option<f64> {
    let (digits, unit) = text.split_at(text.find(|c: char| c.is_alphabetic())?);
    let scale = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(digits.parse::<f64>().ok()? * scale)
}

/// The table people look at; ratios are to the first server of each workload.
pub fn table(result: &Value) -> String {
    let mut out = String::new();
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap_or(0.0);
    let mut last = "";
    let mut base: Option<&Value> = None;
    for row in result["rows"].as_array().into_iter().flatten() {
        let workload = row["workload"].as_str().unwrap_or_default();
        if workload != last {
            let unit = if workload.starts_with("short") { "conn/s" } else { "req/s" };
            let _ = writeln!(
                out,
                "{workload:<24} {unit:>10} {:>8} {:>9} {:>9} {:>11} {:>8}",
                "ratio", "p50 us", "p99 us", "CPU us/req", "ratio"
            );
            (last, base) = (workload, Some(row));
        }
        let ratio = |key: &str| number(row, key) / base.map_or(1.0, |base| number(base, key));
        let _ = writeln!(
            out,
            "  {:<22} {:>10.0} {:>7.2}x {:>9.0} {:>9.0} {:>11.2} {:>7.2}x",
            row["server"].as_str().unwrap_or_default(),
            number(row, "per_s"),
            ratio("per_s"),
            number(row, "p50_us"),
            number(row, "p99_us"),
            number(row, "cpu_us"),
            ratio("cpu_us"),
        );
    }
    let _ = write!(
        out,
        "one server core, one client core; ours on {}; ratios to nginx on the kernel",
        result["link"].as_str().unwrap_or_default()
    );
    out
}

/// Is everything here that the demo runs?
pub fn missing() -> Vec<&'static str> {
    ["ip", "cc", "curl", "wrk", "nginx", "taskset", "sysctl", "ethtool"]
        .into_iter()
        .filter(|program| sh("which", &[program]).is_err())
        .collect()
}

#[cfg(test)]
mod tests;
