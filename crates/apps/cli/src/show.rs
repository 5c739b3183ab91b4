//! `millstream ss`, `stat` and `capture`: questions to running stacks through their control sockets.

use crate::CliResult;
use clap::Args as ClapArgs;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Flags of `ss` and `stat`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Only this process; without it, every running stack.
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Print JSON, one object a line.
    #[arg(long)]
    pub(crate) json: bool,
    /// Instead, what is remembered of peers for the next connections to them (`stat` only).
    #[arg(long)]
    hosts: bool,
}

/// Flags of `capture`.
#[derive(ClapArgs)]
pub(crate) struct CaptureArgs {
    /// The process; not needed when just one stack runs.
    #[arg(long)]
    pid: Option<u32>,
    /// Where the packets go (pcapng); - is the standard output.
    #[arg(short, long, default_value = "-")]
    write: PathBuf,
    /// How long.
    #[arg(short, long, default_value_t = 10)]
    seconds: u64,
    /// Comment each packet with the state of its connection: before one that arrived, after one that left.
    #[arg(long)]
    state: bool,
}

/// Control sockets of running stacks: process number and path.
fn running(pid: Option<u32>) -> Result<Vec<(u32, PathBuf)>, String> {
    let dir = sock::control::directory();
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir(&dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let number = path.file_name()?.to_str()?.strip_suffix(".sock")?.parse().ok()?;
            Some((number, path))
        })
        .filter(|(number, _)| pid.is_none_or(|wanted| wanted == *number))
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(match pid {
            Some(pid) => format!("process {pid} runs no stack ({} has no {pid}.sock)", dir.display()),
            None => format!(
                "no stack runs here ({} is empty); MILLSTREAM_RUN names another directory",
                dir.display()
            ),
        });
    }
    Ok(found)
}

fn ask(path: &Path, question: &str) -> std::io::Result<UnixStream> {
    let mut socket = UnixStream::connect(path)?;
    writeln!(socket, "{question}")?;
    Ok(socket)
}

/// Every answer of every running stack, with its process number.
pub(crate) fn answers(
    pid: Option<u32>,
    question: &str,
) -> Result<Vec<(u32, Value)>, Box<dyn std::error::Error>> {
    let mut all = Vec::new();
    for (pid, path) in running(pid)? {
        let socket = match ask(&path, question) {
            Ok(socket) => socket,
            // A process that was killed leaves its socket behind.
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(&path)?;
                continue;
            }
            Err(e) => return Err(format!("{}: {e}", path.display()).into()),
        };
        for line in BufReader::new(socket).lines() {
            let mut value: Value = serde_json::from_str(&line?)?;
            if let Some(error) = value["error"].as_str() {
                return Err(error.to_string().into());
            }
            value["pid"] = pid.into();
            all.push((pid, value));
        }
    }
    Ok(all)
}

/// `millstream ss`.
pub(crate) fn ss(args: &Args) -> CliResult {
    let rows = answers(args.pid, "ss")?;
    if args.json {
        rows.iter().for_each(|(_, row)| println!("{row}"));
        return Ok(());
    }
    println!(
        "{:<12} {:>8} {:>8} {:<28} {:<28} {:<8} {:>9} {:>9} {:>7}",
        "State", "Recv-Q", "Send-Q", "Local", "Peer", "CC", "cwnd", "rtt us", "retrans"
    );
    for (_, row) in &rows {
        let text = |key: &str| row[key].as_str().unwrap_or("").to_string();
        let number = |key: &str| row[key].as_u64().map_or(String::new(), |n| n.to_string());
        let (recv, send) =
            if text("state") == "LISTEN" { ("waiting", "backlog") } else { ("recv_q", "send_q") };
        println!(
            "{:<12} {:>8} {:>8} {:<28} {:<28} {:<8} {:>9} {:>9} {:>7}",
            text("state"),
            number(recv),
            number(send),
            text("local"),
            text("remote"),
            text("cc"),
            number("cwnd"),
            number("srtt_us"),
            number("retransmits")
        );
    }
    Ok(())
}

/// `millstream stat`.
pub(crate) fn stat(args: &Args) -> CliResult {
    if args.hosts {
        return hosts(args);
    }
    for (pid, value) in answers(args.pid, "stat")? {
        if args.json {
            println!("{value}");
            continue;
        }
        println!("process {pid}, core {}", value["core"]);
        for section in ["tcp", "stack", "link", "sock", "blackbox"] {
            let Some(map) = value[section].as_object() else { continue };
            for (name, number) in map.iter().filter(|(_, n)| n.as_u64() != Some(0)) {
                println!("  {:<40} {:>16}", format!("{section}.{name}"), number);
            }
        }
    }
    Ok(())
}

/// `millstream stat --hosts`.
fn hosts(args: &Args) -> CliResult {
    let rows = answers(args.pid, "hosts")?;
    if args.json {
        rows.iter().for_each(|(_, row)| println!("{row}"));
        return Ok(());
    }
    println!(
        "{:<40} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>7}",
        "Peer", "rtt us", "var us", "ssthresh", "cwnd", "rto us", "connections", "age s"
    );
    for (_, row) in &rows {
        let number = |key: &str| row[key].as_u64().map_or(String::new(), |n| n.to_string());
        println!(
            "{:<40} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11} {:>7}",
            row["remote"].as_str().unwrap_or(""),
            number("srtt_us"),
            number("rttvar_us"),
            number("ssthresh"),
            number("cwnd"),
            number("rto_us"),
            number("connections"),
            number("age_s")
        );
    }
    Ok(())
}

/// `millstream capture`.
pub(crate) fn capture(args: &CaptureArgs) -> CliResult {
    let found = running(args.pid)?;
    let [(_, path)] = &found[..] else {
        let pids: Vec<_> = found.iter().map(|(pid, _)| pid.to_string()).collect();
        return Err(
            format!("several stacks run (processes {}); choose one with --pid", pids.join(", ")).into()
        );
    };
    let mut socket =
        ask(path, &format!("capture {}{}", args.seconds, if args.state { " state" } else { "" }))?;
    let mut out: Box<dyn Write> = if args.write == Path::new("-") {
        Box::new(std::io::stdout())
    } else {
        Box::new(std::fs::File::create(&args.write).map_err(|e| format!("{}: {e}", args.write.display()))?)
    };
    let mut buf = vec![0; 64 * 1024];
    let mut total = 0;
    loop {
        let n = socket.read(&mut buf)?;
        if n == 0 {
            break;
        }
        total += n;
        out.write_all(&buf[..n])?;
    }
    out.flush()?;
    eprintln!("{total} octets of pcapng in {}", args.write.display());
    Ok(())
}
