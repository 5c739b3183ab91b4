//! `millstream ss`, `stat` and `capture`: questions to running stacks through their control sockets.

use crate::command::CliResult;
use crate::stacks::{Unasked, answers, answers_here, ask, leftovers, running};
use crate::verdict;
use clap::Args as ClapArgs;
use serde_json::Value;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

/// Flags of all that list.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// Process to ask; default: every running stack.
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `ss`.
#[derive(ClapArgs)]
pub(crate) struct SsArgs {
    #[command(flatten)]
    show: Args,
    /// Show the stacks of every network namespace; default: those of this one, or of the directory in MILLSTREAM_RUN.
    #[arg(short, long, conflicts_with = "pid")]
    all: bool,
    /// Print more about each connection: windows, times, limits and out-of-order data.
    #[arg(short, long)]
    info: bool,
}

/// Flags of `stat`.
#[derive(ClapArgs)]
pub(crate) struct StatArgs {
    #[command(flatten)]
    show: Args,
    /// Print OpenMetrics text, as served by the setting `metrics`.
    #[arg(long, conflicts_with = "json")]
    openmetrics: bool,
    /// Print the host cache instead: values kept of each peer for later connections.
    #[arg(long, conflicts_with = "openmetrics")]
    hosts: bool,
}

/// Flags of `capture`.
#[derive(ClapArgs)]
pub(crate) struct CaptureArgs {
    /// Process to record; not needed if only one stack runs.
    #[arg(long)]
    pid: Option<u32>,
    /// File for the packets (pcapng); - is the standard output.
    #[arg(short, long, default_value = "-")]
    write: PathBuf,
    /// Seconds to record.
    #[arg(short, long, default_value_t = 10)]
    seconds: u64,
    /// Add the connection's state to each packet as a comment: before a received packet, after a sent one.
    #[arg(long)]
    state: bool,
}

/// Columns as wide as what stands in them.
pub(crate) struct Table(Vec<Vec<String>>);

impl Table {
    /// With these heads.
    pub(crate) fn new(heads: &[&str]) -> Table {
        Table(vec![heads.iter().map(|head| head.to_string()).collect()])
    }

    /// One more row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        // A process that the caller does not trust may have said it: nothing of it steers a terminal.
        let plain = |cell: String| cell.replace(|c: char| c.is_control(), "?");
        self.0.push(cells.into_iter().map(plain).collect());
    }

    /// One line a row: numbers, and what is missing where numbers stand, to the right.
    pub(crate) fn lines(&self) -> Vec<String> {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or(0);
        let cells = |at: usize| self.0.iter().filter_map(move |row| row.get(at));
        let width = |at: usize| cells(at).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let is_number = |cell: &String| cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit());
        // Addresses begin with digits too.
        let right = |at: usize| cells(at).skip(1).all(|cell| is_number(cell) && !cell.contains(':'));
        let shape: Vec<(usize, bool)> = (0..columns).map(|at| (width(at), right(at))).collect();
        let line = |row: &Vec<String>| {
            let cell = |(cell, &(width, right)): (&String, &(usize, bool))| match right {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            };
            row.iter().zip(&shape).map(cell).collect::<Vec<_>>().join("  ").trim_end().to_string()
        };
        self.0.iter().map(line).collect()
    }

    /// The lines as one text.
    pub(crate) fn show(&self) -> String {
        self.lines().into_iter().map(|line| line + "\n").collect()
    }
}

/// A time of a row in milliseconds, nothing where it is zero or missing.
pub(crate) fn millis(row: &Value, key: &str) -> String {
    match row[key].as_u64() {
        None | Some(0) => String::new(),
        Some(micros) => format!("{}.{:03}", micros / 1_000, micros % 1_000),
    }
}

/// Details of a connection below its line in `ss -i`.
const DETAILS: [(&str, &[&str]); 8] = [
    ("window", &["snd_wnd", "rcv_wnd", "ssthresh", "mss"]),
    ("time", &["rttvar_us", "min_rtt_us", "rto_us"]),
    ("moved", &["bytes_acked", "bytes_received", "delivered"]),
    ("waiting", &["unsent", "in_flight"]),
    ("busy", &["busy_us", "window_starved_us", "buffer_starved_us"]),
    ("limited", &["limited_us", "reader_us", "snd_lim"]),
    (
        "reassembly",
        &["reassembly", "reassembly_bytes", "reassembly_memory", "reassembly_limit", "reassembly_refused"],
    ),
    ("options", &["timestamps", "sack", "recovery"]),
];

/// The details of a row, a line each; those where everything is zero are left out.
fn details(row: &Value) -> Vec<String> {
    let line = |(what, keys): &(&str, &[&str])| {
        let said: Vec<_> = keys.iter().filter_map(|key| detail(key, &row[*key])).collect();
        (!said.is_empty()).then(|| format!("    {what}: {}", said.join(", ")))
    };
    DETAILS.iter().filter_map(line).collect()
}

/// Returns the text of a value, if it has one; a table gives one for each of its values.
fn detail(key: &str, value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::Bool(true) => Some(key.into()),
        Value::Object(rows) => {
            let said: Vec<_> = rows.iter().filter_map(|(key, value)| detail(key, value)).collect();
            (!said.is_empty()).then(|| said.join(", "))
        }
        value if value.as_u64() == Some(0) => None,
        value => Some(format!("{key} {value}")),
    }
}

/// `millstream ss`.
pub(crate) fn ss(args: &SsArgs) -> CliResult {
    let rows = if args.all { answers(args.show.pid, "ss") } else { answers_here(args.show.pid, "ss") }?;
    let mut out = std::io::stdout().lock();
    if args.show.json {
        return rows.iter().try_for_each(|(_, row)| writeln!(out, "{row}")).map_err(Into::into);
    }
    let mut table =
        Table::new(&["State", "Recv-Q", "Send-Q", "Local", "Peer", "CC", "cwnd", "rtt ms", "retrans", "Why"]);
    for (_, row) in &rows {
        let text = |key: &str| row[key].as_str().unwrap_or("").to_string();
        let number = |key: &str| row[key].as_u64().map_or(String::new(), |n| n.to_string());
        let (recv, send) =
            if text("state") == "LISTEN" { ("waiting", "backlog") } else { ("recv_q", "send_q") };
        table.row(vec![
            text("state"),
            number(recv),
            number(send),
            text("local"),
            text("remote"),
            text("cc"),
            number("cwnd"),
            millis(row, "srtt_us"),
            number("retransmits"),
            verdict::word(row).into(),
        ]);
    }
    let nothing = Value::Null;
    for (line, row) in
        table.lines().iter().zip(std::iter::once(&nothing).chain(rows.iter().map(|(_, row)| row)))
    {
        writeln!(out, "{line}")?;
        if args.info {
            details(row).iter().try_for_each(|detail| writeln!(out, "{detail}"))?;
        }
    }
    Ok(())
}

/// `millstream stat`.
pub(crate) fn stat(args: &StatArgs) -> CliResult {
    if args.openmetrics {
        return openmetrics(args.show.pid);
    }
    if args.hosts {
        return hosts(&args.show);
    }
    let args = &args.show;
    for (pid, value) in answers(args.pid, "stat")? {
        if args.json {
            outln!("{value}");
            continue;
        }
        outln!("process {pid}, core {}", value["core"]);
        // A process that the caller does not trust may have said it: nothing of it steers a terminal.
        for (name, text) in value["port"].as_object().into_iter().flatten() {
            if let Some(text) = text.as_str() {
                outln!("  {:<40} {}", format!("port.{name}"), text.replace(|c: char| c.is_control(), "?"));
            }
        }
        for section in ["tcp", "stack", "link", "sock", "blackbox"] {
            let Some(map) = value[section].as_object() else { continue };
            for (name, number) in map.iter().filter(|(_, n)| n.as_u64() != Some(0)) {
                outln!("  {:<40} {:>16}", format!("{section}.{name}"), number);
            }
        }
    }
    Ok(())
}

/// `millstream stat --hosts`.
fn hosts(args: &Args) -> CliResult {
    let rows = answers(args.pid, "hosts")?;
    let mut out = std::io::stdout().lock();
    if args.json {
        return rows.iter().try_for_each(|(_, row)| writeln!(out, "{row}")).map_err(Into::into);
    }
    let columns = [
        ("rtt ms", "srtt_us"),
        ("var ms", "rttvar_us"),
        ("ssthresh", "ssthresh"),
        ("cwnd", "cwnd"),
        ("rto ms", "rto_us"),
        ("connections", "connections"),
        ("age s", "age_s"),
    ];
    let heads = columns.map(|(head, _)| head);
    let mut table = Table::new(&[&["Peer"], &heads[..]].concat());
    for (_, row) in &rows {
        let number = |key: &str| row[key].as_u64().map_or(String::new(), |n| n.to_string());
        let cell = |(_, key): (&str, &str)| if key.ends_with("_us") { millis(row, key) } else { number(key) };
        let peer = row["remote"].as_str().unwrap_or("").to_string();
        table.row([vec![peer], columns.map(cell).to_vec()].concat());
    }
    Ok(write!(out, "{}", table.show())?)
}

/// The metrics of every running stack as one text: what several processes say about a family stands together.
fn openmetrics(pid: Option<u32>) -> CliResult {
    let mut families: Vec<(String, String)> = Vec::new();
    let (found, mut refused) = (running(pid)?, Vec::new());
    let count = found.len();
    for (pid, path) in found {
        let mut socket = match ask(pid, &path, "metrics") {
            Err(Unasked::Gone) => continue,
            Err(Unasked::Refused(why)) => {
                refused.push(why);
                continue;
            }
            Err(Unasked::Failed(why)) => return Err(why.into()),
            Ok(socket) => socket,
        };
        let mut text = String::new();
        socket.read_to_string(&mut text)?;
        refusal(text.as_bytes())?;
        let body = text.strip_suffix("# EOF\n").ok_or_else(|| format!("{}: cut off", path.display()))?;
        for family in
            body.split_inclusive('\n').collect::<Vec<_>>().chunk_by(|_, next| !next.starts_with("# TYPE "))
        {
            let (head, samples): (Vec<&str>, Vec<&str>) =
                family.iter().partition(|line| line.starts_with('#'));
            let head = head.concat();
            match families.iter_mut().find(|(known, _)| *known == head) {
                Some((_, all)) => *all += &samples.concat(),
                None => families.push((head, samples.concat())),
            }
        }
    }
    leftovers(&refused, count)?;
    let mut out = std::io::stdout().lock();
    families.iter().try_for_each(|(head, samples)| write!(out, "{head}{samples}"))?;
    Ok(writeln!(out, "# EOF")?)
}

/// Fails with the reason if an answer that is not JSON is a refusal instead.
fn refusal(answer: &[u8]) -> Result<(), String> {
    let said = std::str::from_utf8(answer).ok().filter(|text| text.starts_with('{'));
    let refused = said.and_then(|text| serde_json::from_str::<Value>(text.trim()).ok());
    match refused.as_ref().and_then(|value| value["error"].as_str()) {
        Some(why) => Err(why.into()),
        None => Ok(()),
    }
}

/// `millstream capture`.
pub(crate) fn capture(args: &CaptureArgs) -> CliResult {
    if args.write == Path::new("-") && std::io::stdout().is_terminal() {
        return Err("packets are not for a terminal; -w FILE keeps them, `| tshark -r -` shows them".into());
    }
    let found = running(args.pid)?;
    let [(pid, path)] = &found[..] else {
        let pids: Vec<_> = found.iter().map(|(pid, _)| pid.to_string()).collect();
        return Err(
            format!("several stacks run (processes {}); choose one with --pid", pids.join(", ")).into()
        );
    };
    let question = format!("capture {}{}", args.seconds, if args.state { " state" } else { "" });
    let mut socket = ask(*pid, path, &question)?;
    // Packets may be long in coming.
    socket.set_read_timeout(None)?;
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
        if total == 0 && buf[0] == b'{' {
            // No capture begins so.
            let mut text = buf[..n].to_vec();
            socket.read_to_end(&mut text)?;
            refusal(&text)?;
            return Err("the answer is no capture".into());
        }
        total += n;
        out.write_all(&buf[..n])?;
    }
    out.flush()?;
    eprintln!("{total} bytes of pcapng in {}", args.write.display());
    Ok(())
}

#[cfg(test)]
mod tests;
