//! Rates of unmodified programs on this stack and on the kernel's: each row of docs/PROGRAMS.md that has a rate,
//! the same program and the same configuration on the kernel and under `millstream run`, in turns.
//!
//! The program under test is pinned to one core, what talks to it runs on the kernel and is pinned to another.

mod rates;
mod rows;

use crate::bed::{
    Bed, CLIENT_BASE, CLIENT_CPU, SERVER_ADDR, SERVER_CPU, Server, TAP_ADDR, busy_us, of_file, our_command,
    sh,
};
use lab::stats;
pub use rows::ALL;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest that one measurement may take before it is an error, seconds.
const LIMIT: &str = "30";
/// Programs of our own.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");
/// How long a server may take until it can be connected to.
const START: Duration = Duration::from_secs(15);

/// Kind of our end of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// AF_XDP on the veth link that the kernel's run has, too.
    Xdp,
    /// A packet socket on it.
    Packet,
    /// A tap device beside it, with the client's kernel at the other end.
    Tap,
}

impl Link {
    fn argument(self) -> String {
        match self {
            Link::Xdp => "--link xdp:ms0".into(),
            Link::Packet => "--link packet:ms0".into(),
            Link::Tap => format!("--link tap:mst0 --address {TAP_ADDR}/24"),
        }
    }
}

/// A row: what is run, and what is read from what it says. In lines for the shell `{run}` is where the launcher goes
/// (on the kernel nothing is there), and these stand for what they say: `{server}`, the address of the program under
/// test; `{client}`, that of the other end; `{dir}`, a directory of the run's own; `{peers}`, programs of
/// ours; `{secs}`, how long to measure.
pub struct Row {
    /// The program, and what is asked of it.
    pub name: &'static str,
    /// Programs that must be there.
    pub needs: &'static [&'static str],
    /// Run once, before anything else.
    pub prepare: &'static str,
    /// The server.
    pub server: &'static str,
    /// Where it listens.
    pub port: u16,
    /// The client. Whichever of both has `{run}` is the program under test.
    pub client: &'static str,
    /// Reads the rate from the client's output, in `unit`; it is told how long the client ran, in seconds.
    pub rate: fn(&str, f64) -> Option<f64>,
    /// Of the rate, without "a second".
    pub unit: &'static str,
    /// Our link.
    pub link: Link,
}

/// How often, how long, and which rows (those whose names begin with one of the words; none: all).
pub struct Chosen {
    /// Kernel and ours, so often.
    pub rounds: u32,
    /// Seconds of one measurement.
    pub seconds: f64,
    /// Prefixes of names.
    pub names: Vec<String>,
    /// Whether a signal came, after which nothing more is begun.
    pub stop: Arc<AtomicBool>,
}

/// Owner of a process: server or client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Kernel,
    Ours,
}

/// A rate, and what the core of the program under test had to do for each unit of it, in microseconds.
struct Figure {
    rate: f64,
    cpu_us: f64,
}

/// Measures the rows; prints a table on the way and gives the same as JSON.
///
/// # Errors
/// A program failed, or said what was not expected.
pub fn run(chosen: &Chosen) -> Result<Value, String> {
    let is_chosen =
        |row: &&Row| chosen.names.is_empty() || chosen.names.iter().any(|n| row.name.starts_with(n));
    let rows: Vec<&Row> = ALL.iter().filter(is_chosen).collect();
    if rows.is_empty() {
        let names: Vec<_> = ALL.iter().map(|row| row.name).collect();
        return Err(format!(
            "no row begins with {}; there are {}",
            chosen.names.join(", "),
            names.join(", ")
        ));
    }
    let mut done = Vec::new();
    for row in rows {
        if let Some(missing) = row.needs.iter().find(|program| sh("which", &[program]).is_err()) {
            eprintln!("{}: skipped: {missing} is not installed", row.name);
            continue;
        }
        let figures = measure(row, chosen).map_err(|e| format!("{}: {e}", row.name))?;
        eprintln!("{}", line(&figures));
        done.push(figures);
    }
    Ok(json!({"bench": "programs", "rows": done}))
}

/// All rounds of a row.
fn measure(row: &Row, chosen: &Chosen) -> Result<Value, String> {
    let bed = Bed::new(true)?;
    if row.link == Link::Tap {
        bed.tap_beside()?;
    }
    let row_in = InBed { row, bed: &bed, seconds: chosen.seconds, ours: our_command()? };
    row_in.prepare()?;
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..chosen.rounds {
        for (whose, figures) in [Whose::Kernel, Whose::Ours].into_iter().zip(&mut all) {
            if chosen.stop.load(Ordering::Relaxed) {
                return Err("stopped by a signal".into());
            }
            figures.push(row_in.once(whose)?);
        }
    }
    let [kernel, ours] = &all;
    let each = |figures: &[Figure], f: fn(&Figure) -> f64| figures.iter().map(f).collect::<Vec<_>>();
    let (of_kernel, of_ours) = (each(kernel, |f| f.rate), each(ours, |f| f.rate));
    Ok(json!({
        "name": row.name, "unit": row.unit,
        "kernel": stats::median(&of_kernel), "ours": stats::median(&of_ours),
        "ratio": stats::median(&of_ours) / stats::median(&of_kernel),
        "pairs": of_ours.iter().zip(&of_kernel).map(|(a, b)| a / b).collect::<Vec<_>>(),
        "kernel_cpu_us": stats::median(&each(kernel, |f| f.cpu_us)),
        "ours_cpu_us": stats::median(&each(ours, |f| f.cpu_us)),
    }))
}

/// A line of the table.
fn line(figures: &Value) -> String {
    let number = |key: &str| figures[key].as_f64().unwrap_or(0.0);
    let pairs = figures["pairs"].as_array().into_iter().flatten().filter_map(Value::as_f64);
    let mut ratios = String::new();
    for ratio in pairs {
        let _ = write!(ratios, " {ratio:.2}");
    }
    format!(
        "{:<34} kernel {:>12.1} ours {:>12.1} {}/s ratio {:.2} ({}); core {:.2} and {:.2} us a unit",
        figures["name"].as_str().unwrap_or_default(),
        number("kernel"),
        number("ours"),
        figures["unit"].as_str().unwrap_or_default(),
        number("ratio"),
        ratios.trim_start(),
        number("kernel_cpu_us"),
        number("ours_cpu_us"),
    )
}

/// A row where it is measured.
struct InBed<'b> {
    row: &'b Row,
    bed: &'b Bed,
    seconds: f64,
    ours: std::path::PathBuf,
}

impl InBed<'_> {
    /// Compiles the client of our own, copies the library to where any user can read it, and runs what the row wants.
    fn prepare(&self) -> Result<(), String> {
        let library = self.ours.with_file_name("libmillstream_preload.so");
        let copy = self.bed.dir.join("libmillstream_preload.so");
        std::fs::copy(&library, copy).map_err(|e| format!("{}: {e}", library.display()))?;
        let body: Vec<u8> = (0..64).collect();
        std::fs::write(self.bed.dir.join("64"), body).map_err(of_file(&self.bed.dir))?;
        let (asker, out) = (Path::new(PEERS).join("asker.c"), self.bed.dir.join("asker"));
        sh("cc", &["-O2", "-o", &out.to_string_lossy(), &asker.to_string_lossy()])?;
        match self.row.prepare {
            "" => Ok(()),
            line => sh("sh", &["-ec", &self.filled(line, Whose::Kernel)]).map(drop),
        }
    }

    /// Is it the client that is under test?
    fn asks(&self) -> bool {
        self.row.client.contains("{run")
    }

    /// Where the program under test is: its namespace and its address.
    fn place(&self, whose: Whose) -> (&str, &str) {
        match (whose, self.row.link) {
            (Whose::Ours, Link::Tap) => (&self.bed.client, TAP_ADDR),
            _ => (&self.bed.server, SERVER_ADDR),
        }
    }

    /// A line for the shell, with what its words stand for.
    fn filled(&self, line: &str, whose: Whose) -> String {
        let dir = self.bed.dir.to_string_lossy();
        let run = format!(
            "env MILLSTREAM_PRELOAD={dir}/libmillstream_preload.so {} run {}",
            self.ours.display(),
            self.row.link.argument()
        );
        let (run, run_as) = match whose {
            Whose::Kernel => {
                (String::new(), "setpriv --reuid=postgres --regid=postgres --init-groups".into())
            }
            Whose::Ours => (format!("{run} --"), format!("{run} --user postgres --")),
        };
        let seconds = format!("{}", self.seconds.ceil().max(1.0));
        let words = [
            ("{run}", run.as_str()),
            ("{run as postgres}", &run_as),
            ("{server}", self.place(whose).1),
            ("{client}", CLIENT_BASE),
            ("{dir}", &dir),
            ("{peers}", PEERS),
            ("{secs}", &seconds),
        ];
        words.iter().fold(line.to_owned(), |line, (word, text)| line.replace(word, text))
    }

    /// The command that runs a line on a core of a namespace, and ends it after a while.
    fn command(&self, line: &str, ns: &str, cpu: &str) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", ns, "taskset", "-c", cpu, "timeout", "-k", "5", LIMIT, "sh", "-c", line]);
        command.env("MILLSTREAM_RUN", &self.bed.dir);
        command
    }

    /// One measurement.
    fn once(&self, whose: Whose) -> Result<Figure, String> {
        let under_test = (self.place(whose).0, SERVER_CPU);
        let other_end = (self.bed.client.as_str(), CLIENT_CPU);
        let (serves, asks) = if self.asks() { (other_end, under_test) } else { (under_test, other_end) };
        let server = self.filled(self.row.server, whose);
        let mut server = self.command(&format!("exec {server}"), serves.0, serves.1);
        server.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let _server = Server::spawn(server)?;
        self.wait_until_it_listens(if self.asks() { CLIENT_BASE } else { self.place(whose).1 })?;
        let mut client = self.command(&self.filled(self.row.client, whose), asks.0, asks.1);
        let (begun, busy) = (crate::now(), busy_us(SERVER_CPU)?);
        let output = client.output().map_err(|e| e.to_string())?;
        let (took, busy) = (begun.elapsed().as_secs_f64(), busy_us(SERVER_CPU)? - busy);
        let said = String::from_utf8_lossy(&output.stdout);
        let rate = (self.row.rate)(&said, took).filter(|rate| output.status.success() && *rate > 0.0);
        let rate = rate.ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!(
                "{}: the client said\n{said}{errors}",
                if whose == Whose::Ours { "ours" } else { "kernel" }
            )
        })?;
        Ok(Figure { rate, cpu_us: busy as f64 / took / rate })
    }

    fn wait_until_it_listens(&self, address: &str) -> Result<(), String> {
        let (begun, port) = (crate::now(), self.row.port);
        let connect = format!("exec 3<>/dev/tcp/{address}/{port}");
        while begun.elapsed() < START {
            if self.bed.in_ns(&self.bed.client, "timeout", &["1", "bash", "-c", &connect]).is_ok() {
                // A server that takes one connection at a time is through with this one.
                std::thread::sleep(Duration::from_millis(300));
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(format!("nothing listens at {address}:{port}"))
    }
}

#[cfg(test)]
mod tests;
