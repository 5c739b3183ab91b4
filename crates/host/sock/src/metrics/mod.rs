//! Everything that is counted, as OpenMetrics text (OpenMetrics 1.0): from the control socket, or over HTTP.

mod histogram;
mod limits;
mod serve;
#[cfg(test)]
mod tests;

pub(crate) use limits::settle_limits;
pub use serve::{Serving, serve};

use crate::Engine;
use crate::net::Stack;
use histogram::Histogram;
use limits::{Limits, WALKED};
use stack::{Figure, Row};
use std::fmt::Write;
use trace::blackbox::{BlackBox, Files};

/// Content type of the text in HTTP.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Figures of a link that are present values, not running counts.
const LINK_GAUGES: [&str; 6] =
    ["frames_free", "frames_lent", "frames_out", "partners", "xdp_native", "xdp_zero_copy"];

/// How a number is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    None,
    Bytes,
    /// Counted in microseconds.
    Seconds,
}

/// A number of one core, with the name of its family.
struct Sample {
    name: String,
    unit: Unit,
    help: String,
    counter: bool,
    value: u64,
}

impl Sample {
    fn new(section: &str, name: &str, help: &str, counter: bool, value: u64) -> Sample {
        let (name, unit) = family(section, name);
        Sample { name, unit, help: help.into(), counter, value }
    }

    fn of(section: &str, figure: &Figure) -> Sample {
        Sample::new(section, figure.name, figure.help, figure.counter, figure.value)
    }
}

/// Figures in microseconds. A name that ends so may end in a word: `drop_not_for_us`.
const MICROSECONDS: [&str; 2] = ["spin_us", "sleep_us"];

/// The name of a family: units stand at its end, where OpenMetrics wants them.
fn family(section: &str, name: &str) -> (String, Unit) {
    let bytes = name.strip_prefix("bytes_").or_else(|| name.strip_prefix("bytes_"));
    let micros =
        name.strip_suffix("_us").filter(|_| MICROSECONDS.contains(&name) || name.starts_with("limited_"));
    let (name, unit) = match (bytes, micros) {
        (Some(rest), _) => (format!("{rest}_bytes"), Unit::Bytes),
        (None, Some(rest)) => (format!("{rest}_seconds"), Unit::Seconds),
        (None, None) if name == "footprint" => ("footprint_bytes".into(), Unit::Bytes),
        (None, None) => (name.into(), Unit::None),
    };
    (format!("millstream_{section}_{name}"), unit)
}

/// Figures of one core.
#[derive(Default)]
struct Told {
    samples: Vec<Sample>,
    histograms: Vec<Histogram>,
}

fn look(engine: &mut Engine) -> Told {
    let (descriptors, watches) = engine.open();
    let (footprint, now) = (engine.footprint() as u64, engine.time());
    let (spun, slept) = (engine.load.spun(), engine.load.slept(now));
    let (wakes, events, jobs) = (engine.load.wakes(), engine.load.events, engine.load.jobs);
    let core = engine.core();
    settle_limits(core, now);
    let mut samples = Vec::new();
    let tcp = core.tcp_counters();
    let rows = tcp::Counters::ROWS.iter().zip(tcp.values());
    samples.extend(rows.map(|(&(name, help), value)| Sample::new("tcp", name, help, true, value)));
    samples.extend(core.figures().iter().map(|figure| Sample::of("stack", figure)));
    samples.extend(core.offload_figures().iter().map(|figure| Sample::of("offload", figure)));
    for (name, value) in core.io().stats() {
        let help = format!("Counted by the port: {}.", name.replace('_', " "));
        samples.push(Sample::new("link", name, &help, !LINK_GAUGES.contains(&name), value));
    }
    samples.extend([
        Sample::new("sock", "descriptors", "Open descriptors.", false, descriptors as u64),
        Sample::new("sock", "watches", "Descriptors in epoll sets.", false, watches.into()),
        Sample::new("sock", "footprint", "Bytes of memory held by descriptors.", false, footprint),
        Sample::new(
            "sock",
            "spin_us",
            "Time spent looking for packets that were not there.",
            true,
            spun.as_micros() as u64,
        ),
        Sample::new("sock", "sleep_us", "Time asleep, for want of work.", true, slept.as_micros() as u64),
        Sample::new("sock", "wakes", "Sleeps of a thread that turns the core.", true, wakes),
        Sample::new(
            "sock",
            "events",
            "Events told to sockets, or to applications in paired mode.",
            true,
            events,
        ),
        Sample::new("sock", "jobs", "Requests of applications to a stack thread.", true, jobs),
    ]);
    if let Some((_, box_)) = core.probe::<BlackBox>() {
        let (written, lost) = box_.files().map_or((0, 0), Files::counts);
        let kept = box_.rings(None).count() as u64;
        samples.extend([
            Sample::new("blackbox", "connections", "Connections recorded.", false, kept),
            Sample::new("blackbox", "untracked", "Connections without a place.", true, box_.untracked()),
            Sample::new("blackbox", "footprint", "Bytes held.", false, box_.footprint() as u64),
            Sample::new("blackbox", "dumps_written", "Dumps written.", true, written),
            Sample::new("blackbox", "dumps_lost", "Dumps that could not be written.", true, lost),
        ]);
    }
    let mut histograms = Vec::new();
    if core.connections() <= WALKED {
        let [mut rtt, mut bytes] = Histogram::of_connections();
        let mut limits = Limits::default();
        core.for_each(now, &mut |row| {
            if let Row::Connection(conn) = row {
                let info = conn.info(now);
                rtt.add(info.srtt.as_micros() as u64);
                bytes.add(info.bytes_acked + info.bytes_received);
                limits.add(&info);
            }
        });
        histograms.extend([rtt, bytes]);
        samples.extend(limits.samples());
    }
    Told { samples, histograms }
}

/// The whole text, every core of this process in it.
pub fn text(stacks: &[Stack]) -> String {
    let mut cores: Vec<Told> = Vec::new();
    for stack in stacks {
        stack.inspect(Box::new(|engine| cores.push(look(engine))));
    }
    render(&cores, std::process::id())
}

fn render(cores: &[Told], process: u32) -> String {
    let mut out = String::new();
    let mut names: Vec<&str> = Vec::new();
    for sample in cores.iter().flat_map(|told| &told.samples) {
        if !names.contains(&sample.name.as_str()) {
            names.push(&sample.name);
        }
    }
    for name in names {
        let of_core = |told: &'_ Told| told.samples.iter().position(|sample| sample.name == name);
        let mut headed = false;
        for (core, told) in cores.iter().enumerate() {
            let Some(sample) = of_core(told).map(|at| &told.samples[at]) else { continue };
            if !headed {
                let kind = if sample.counter { "counter" } else { "gauge" };
                head(&mut out, name, kind, sample.unit, &sample.help);
                headed = true;
            }
            let suffix = if sample.counter { "_total" } else { "" };
            let value = number(sample.value, sample.unit);
            line(&mut out, format_args!("{name}{suffix}{{core=\"{core}\",process=\"{process}\"}} {value}"));
        }
    }
    for at in 0..cores.iter().map(|told| told.histograms.len()).max().unwrap_or(0) {
        let all = cores.iter().enumerate().filter_map(|(core, told)| Some((core, told.histograms.get(at)?)));
        for (nth, (core, histogram)) in all.enumerate() {
            if nth == 0 {
                head(&mut out, histogram.name, "gaugehistogram", histogram.unit, histogram.help);
            }
            histogram.write(&mut out, core, process);
        }
    }
    out.push_str("# EOF\n");
    out
}

fn head(out: &mut String, name: &str, kind: &str, unit: Unit, help: &str) {
    line(out, format_args!("# TYPE {name} {kind}"));
    match unit {
        Unit::None => {}
        Unit::Bytes => line(out, format_args!("# UNIT {name} bytes")),
        Unit::Seconds => line(out, format_args!("# UNIT {name} seconds")),
    }
    let help = help.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    line(out, format_args!("# HELP {name} {help}"));
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = out.write_fmt(text);
    out.push('\n');
}

/// A value in its unit: what is counted in microseconds is told in seconds.
fn number(value: u64, unit: Unit) -> String {
    match unit {
        Unit::None | Unit::Bytes => value.to_string(),
        Unit::Seconds => format!("{}.{:06}", value / 1_000_000, value % 1_000_000),
    }
}
