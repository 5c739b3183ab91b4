//! The table of workloads.

use super::contender::Contender;
use super::ground::{Ground, Load};
use super::{Figures, Group, Measure, Point, Where, Workload};
use crate::bed::our_command;
use crate::crosscheck;

const fn at(label: &'static str, value: f64) -> Point {
    Point { label, value, quick: true, longer: 0.0 }
}

/// A point that only a full run has.
const fn full(label: &'static str, value: f64) -> Point {
    Point { label, value, quick: false, longer: 0.0 }
}

/// A point that takes so many seconds longer than others.
const fn long(label: &'static str, value: f64, longer: f64) -> Point {
    Point { label, value, quick: false, longer }
}

const VETH: Where = Where::Veth { offloads: true };
const SERVERS: &[&str] = &["millstream", "paired", "kernel", "ideal"];
const TCPS: &[&str] = &["millstream", "paired", "kernel"];
const WAITS: &[&str] = &["millstream", "spinning", "blocking", "paired", "kernel"];
const STACKS: &[&str] = &["millstream", "smoltcp", "lwip", "gvisor"];
const OURS: &[&str] = &["millstream"];

/// Peers that walk every connection for each packet would take minutes to open more, or run out of ports.
const FEW: &[(&str, f64)] = &[("smoltcp", 1e3), ("lwip", 1e3), ("gvisor", 1e3)];

/// A row of this group with its usual place and contenders; the name, the texts, the points and the charts are the
/// row's own.
const fn row(group: Group, place: Where, contenders: &'static [&'static str], measure: Measure) -> Workload {
    Workload {
        name: "",
        title: "",
        about: "",
        group,
        place,
        axis: "",
        points: &[],
        charts: &[],
        contenders,
        measure,
    }
}

const fn link(measure: Measure) -> Workload {
    row(Group::Link, VETH, TCPS, measure)
}

const fn latency(measure: Measure) -> Workload {
    row(Group::Latency, VETH, WAITS, measure)
}

const fn lossy(rtt_ms: u32) -> Workload {
    let row = row(Group::Paths, Where::Pipe, &["millstream", "kernel"], Measure::Path(rtt_ms));
    Workload { axis: "loss", charts: &["mbit"], ..row }
}

const fn memory(load: &'static str, most: &'static [(&'static str, f64)]) -> Workload {
    row(Group::Memory, Where::Memory, STACKS, Measure::Memory(load, most))
}

const fn idea(measure: Measure) -> Workload {
    row(Group::Ideas, Where::Memory, OURS, measure)
}

/// Every workload.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "sizes",
        title: "Short connections by size of the answer (mTCP's E1 and E3)",
        about: "64 clients at a time: connect, ask, be answered, close.",
        axis: "bytes",
        points: &[
            at("64 B", 64.0),
            full("256 B", 256.0),
            at("1 KB", 1024.0),
            full("2 KB", 2048.0),
            full("4 KB", 4096.0),
            at("8 KB", 8192.0),
        ],
        charts: &["per_s", "cpu_us", "machine_us"],
        ..link(Measure::Served(|value| Load::new("short", 64).with(value)))
    },
    Workload {
        name: "requests",
        title: "Requests per connection (mTCP's E2)",
        about: "64 connections at a time, 64 bytes an answer; the last request of each says close.",
        axis: "requests per connection",
        points: &[
            at("1", 1.0),
            full("2", 2.0),
            full("4", 4.0),
            full("8", 8.0),
            full("16", 16.0),
            full("32", 32.0),
            full("64", 64.0),
            at("128", 128.0),
        ],
        charts: &["per_s", "cpu_us"],
        ..link(Measure::Served(|value| Load::new("short", 64).with(64.0).with(value)))
    },
    Workload {
        name: "accept",
        title: "Accept rate (mTCP's E4)",
        about: "Connect, close: no data.",
        axis: "connections at a time",
        points: &[at("64", 64.0), full("512", 512.0)],
        charts: &["per_s", "cpu_us"],
        ..link(Measure::Served(|value| Load::new("accept", value as u32)))
    },
    Workload {
        name: "keep-alive",
        title: "Requests over connections that stay",
        about: "64 bytes an answer; every connection asks again as soon as it was answered.",
        axis: "connections",
        points: &[
            at("1", 1.0),
            at("64", 64.0),
            at("1,000", 1_000.0),
            full("10,000", 10_000.0),
            long("100,000", 100_000.0, 5.0),
        ],
        charts: &["per_s", "cpu_us", "p99_us"],
        contenders: SERVERS,
        ..link(Measure::Served(|value| Load::new("keep", value as u32)))
    },
    Workload {
        name: "bulk-1500",
        title: "Bulk, MTU 1500, no offloads, server to client",
        about: "Endless bodies; segments of 1,448 bytes all the way.",
        place: Where::Veth { offloads: false },
        axis: "flows",
        points: &[at("1", 1.0), full("4", 4.0), full("16", 16.0), full("64", 64.0)],
        charts: &["gbit", "cores"],
        ..link(Measure::Served(|value| Load::new("get", value as u32)))
    },
    Workload {
        name: "bulk-1500-in",
        title: "Bulk, MTU 1500, no offloads, client to server",
        about: "The same the other way.",
        place: Where::Veth { offloads: false },
        axis: "flows",
        points: &[at("1", 1.0), full("4", 4.0), full("16", 16.0), full("64", 64.0)],
        charts: &["gbit", "cores"],
        ..link(Measure::Served(|value| Load::new("put", value as u32)))
    },
    Workload {
        name: "bulk-out",
        title: "Bulk with offloads, server to client",
        about: "Super-segments: the kernel over veth, ours over a tap device, whose other end is the client's kernel.",
        axis: "flows",
        points: &[at("1", 1.0), full("4", 4.0), full("16", 16.0), full("64", 64.0)],
        charts: &["gbit", "cores"],
        ..link(Measure::Served(|value| Load::new("get", value as u32)))
    },
    Workload {
        name: "bulk-in",
        title: "Bulk with offloads, client to server",
        about: "The same the other way.",
        axis: "flows",
        points: &[at("1", 1.0), full("4", 4.0), full("16", 16.0), full("64", 64.0)],
        charts: &["gbit", "cores"],
        ..link(Measure::Served(|value| Load::new("put", value as u32)))
    },
    Workload {
        name: "files",
        title: "One file after the other",
        about: "Four connections that stay, each asks for a file of this size again and again; MTU 1500, no offloads.",
        place: Where::Veth { offloads: false },
        axis: "bytes",
        points: &[
            at("1 KB", 1e3),
            full("10 KB", 1e4),
            at("100 KB", 1e5),
            full("1 MB", 1e6),
            full("10 MB", 1e7),
            full("100 MB", 1e8),
            long("1 GB", 1e9, 6.0),
        ],
        charts: &["gbit", "cores"],
        ..link(Measure::Other(|ground, who, point, seconds| {
            // The longest ones must be answered within the time that is measured.
            let seconds = seconds.max(point.value * 4.0 * 8.0 / 5e9);
            let place = Where::Veth { offloads: false };
            ground.served(who, place, &Load::new("keep", 4).with(point.value), seconds)
        }))
    },
    Workload {
        name: "flood",
        title: "Short connections under a flood of SYNs",
        about: "64 legitimate clients while SYNs come from 131,072 addresses that do not exist. The flood leaves \
                from the clients' core, which it takes from them.",
        axis: "SYNs a second",
        points: &[full("none", 0.0), full("10,000", 1e4), at("50,000", 5e4), full("200,000", 2e5)],
        charts: &["per_s", "p99_us"],
        ..link(Measure::Other(|ground, who, point, seconds| {
            ground.flooded(who, &Load::new("short", 64).with(64.0), seconds, point.value)
        }))
    },
    Workload {
        name: "load",
        title: "CPU against load",
        about: "Requests that come by chance over 64 connections, so many a second.",
        axis: "requests a second",
        points: &[
            full("100", 1e2),
            full("1,000", 1e3),
            at("10,000", 1e4),
            full("30,000", 3e4),
            full("60,000", 6e4),
            at("100,000", 1e5),
        ],
        charts: &["cores", "worked"],
        contenders: WAITS,
        ..link(Measure::Served(|value| Load::new("open", 64).with(64.0).with(value)))
    },
    Workload {
        name: "ping-pong",
        title: "Ping-pong by size of the answer",
        about: "One connection, one request at a time.",
        axis: "bytes",
        points: &[
            at("1 B", 1.0),
            full("64 B", 64.0),
            full("1 KB", 1024.0),
            full("8 KB", 8192.0),
            at("64 KB", 65536.0),
        ],
        charts: &["p50_us", "p99_us", "p999_us", "cpu_us"],
        ..latency(Measure::Served(|value| Load::new("keep", 1).with(value)))
    },
    Workload {
        name: "rpc",
        title: "Latency under load, open loop",
        about: "Requests that come by chance over 1,000 connections, whether or not answers keep up: a latency \
                counts from when its request was due, so a server that stalls is charged for all that waited.",
        axis: "requests a second",
        points: &[
            full("5,000", 5e3),
            full("10,000", 1e4),
            full("20,000", 2e4),
            at("40,000", 4e4),
            full("80,000", 8e4),
            full("120,000", 1.2e5),
        ],
        charts: &["p50_us", "p99_us", "p999_us"],
        ..latency(Measure::Served(|value| Load::new("open", 1_000).with(64.0).with(value)))
    },
    Workload {
        name: "loss-10ms",
        title: "Loss, round trips of 10 ms",
        about: "Packets to the receiver are lost by chance, in each round the same ones for every sender.",
        points: &[full("none", 0.0), full("0.1 %", 0.001), full("1 %", 0.01)],
        ..lossy(10)
    },
    Workload {
        name: "loss-40ms",
        title: "Loss, round trips of 40 ms",
        about: "The same.",
        points: &[full("none", 0.0), at("0.1 %", 0.001), full("1 %", 0.01)],
        ..lossy(40)
    },
    Workload {
        name: "loss-100ms",
        title: "Loss, round trips of 100 ms",
        about: "The same.",
        points: &[full("none", 0.0), full("0.1 %", 0.001), full("1 %", 0.01)],
        ..lossy(100)
    },
    Workload {
        name: "memory-short",
        title: "Short connections in memory",
        about: "Connect, 64 bytes there, 64 back, the server closes.",
        axis: "in flight",
        points: &[at("1", 1.0), at("100", 1e2), full("10,000", 1e4)],
        charts: &["per_s"],
        ..memory("short", FEW)
    },
    Workload {
        name: "memory-keep",
        title: "Requests over connections that stay, all of them asking, in memory",
        about: "64 bytes there and back.",
        axis: "connections",
        points: &[at("1", 1.0), at("1,000", 1e3), full("10,000", 1e4), long("100,000", 1e5, 1.0)],
        charts: &["per_s"],
        ..memory("keep", FEW)
    },
    Workload {
        name: "memory-some",
        title: "64 connections that ask among many that are idle, in memory",
        about: "64 bytes there and back.",
        axis: "established",
        points: &[
            at("1,000", 1e3),
            full("10,000", 1e4),
            long("100,000", 1e5, 1.0),
            long("1,000,000", 1e6, 6.0),
        ],
        charts: &["per_s"],
        contenders: &["millstream", "lwip", "gvisor"],
        ..memory("some", FEW)
    },
    Workload {
        name: "memory-bulk",
        title: "Bulk in memory, segments of 1,448 bytes",
        about: "Copies at both ends included; our buffers are of 256 KiB, those of the others of 64 KiB.",
        axis: "flows",
        points: &[at("1", 1.0)],
        charts: &["gbit"],
        ..memory("bulk", &[])
    },
    Workload {
        name: "memory-rest",
        title: "Memory of an idle connection's end",
        about: "Resident memory before and after; smoltcp's by the size of its socket and buffers.",
        axis: "connections",
        points: &[at("10,000", 1e4), long("1,000,000", 1e6, 6.0)],
        charts: &["bytes"],
        ..memory("rest", &[("lwip", 1e4), ("gvisor", 1e4)])
    },
    Workload {
        name: "idea-batch",
        title: "Packets at a time (mTCP's E5)",
        about: "1,024 short connections in flight; the link hands over so many packets a turn of the stack, and \
                takes so many a call, at most 64. A turn takes two batches of 64 at most, and four for 256.",
        axis: "packets",
        points: &[
            at("1", 1.0),
            full("2", 2.0),
            at("4", 4.0),
            full("8", 8.0),
            at("16", 16.0),
            full("32", 32.0),
            at("64", 64.0),
            full("128", 128.0),
            full("256", 256.0),
        ],
        charts: &["per_s"],
        ..idea(Measure::Idea("short", "1024", "batch"))
    },
    Workload {
        name: "idea-gro",
        title: "Segments received as one",
        about: "One bulk flow in segments of 1,448 bytes, which receive offload joins before the stack, or not.",
        axis: "merging",
        points: &[at("off", 0.0), at("on", 1.0)],
        charts: &["gbit"],
        ..idea(Measure::Idea("bulk", "1", "gro"))
    },
    Workload {
        name: "idea-super",
        title: "Super-segments",
        about: "One bulk flow over a link that cuts segments and sums bytes, or that does not.",
        axis: "offloads of the link",
        points: &[at("off", 0.0), at("on", 1.0)],
        charts: &["gbit"],
        ..idea(Measure::Idea("bulk", "1", "offloads"))
    },
    Workload {
        name: "idea-prefetch",
        title: "Prefetching",
        about: "100,000 connections that all ask; the cache is asked for what packets of a batch need, or not.",
        axis: "prefetching",
        points: &[long("off", 0.0, 1.0), long("on", 1.0, 1.0)],
        charts: &["per_s"],
        ..idea(Measure::Idea("keep", "100000", "prefetch"))
    },
    Workload {
        name: "idea-handshake-cache",
        title: "The handshake cache",
        about: "Short connections, one after the other, to 1,000 peers; each begins from a handshake \
                cache entry, which all peers of a kind share, or without one.",
        axis: "handshake-cache",
        points: &[at("off", 0.0), at("on", 1.0)],
        charts: &["per_s"],
        ..idea(Measure::Idea("again", "1000", "handshake-cache"))
    },
    Workload {
        name: "idea-pages",
        title: "Huge pages",
        about: "100,000 connections that all ask, with transparent huge pages and without any (PR_SET_THP_DISABLE).",
        axis: "huge pages",
        points: &[long("off", 0.0, 1.0), long("on", 1.0, 1.0)],
        charts: &["per_s"],
        ..idea(Measure::Other(|ground, who, point, seconds| {
            let wrapper = if point.value > 0.0 { None } else { Some("nothp") };
            ground.in_memory(who, wrapper, &["keep", "100000", &seconds.to_string()])
        }))
    },
];

impl Workload {
    /// Measures one contender at one point.
    pub(super) fn measure(
        &self,
        ground: &mut Ground,
        who: &Contender,
        point: &Point,
        seconds: f64,
    ) -> Result<Figures, String> {
        match self.measure {
            Measure::Served(load) => ground.served(who, self.place, &load(point.value), seconds),
            Measure::Path(rtt_ms) => path(ground.round, who.name, rtt_ms, point.value, seconds),
            Measure::Memory(load, most) => {
                if let Some((_, most)) =
                    most.iter().find(|(name, most)| *name == who.name && point.value > *most)
                {
                    let why = format!("more than {most} take it minutes to set up, or all its ports");
                    return Err(format!("{}{why}", super::run::LEFT_OUT));
                }
                ground.in_memory(who, None, &[load, &point.value.to_string(), &seconds.to_string()])
            }
            Measure::Idea(load, n, key) => {
                let option = format!("{key}={}", point.label);
                ground.in_memory(who, None, &[load, n, &seconds.to_string(), &option])
            }
            Measure::Other(measure) => measure(ground, who, point, seconds),
        }
    }
}

/// How long a flow over an emulated path lasts: long enough for slow start, and for losses to come. iperf3 counts whole
/// seconds.
pub(super) fn path_seconds(seconds: f64) -> f64 {
    (seconds * 4.0).ceil().max(3.0)
}

/// Goodput of one flow over an emulated path, which loses other packets in each round.
fn path(round: u32, who: &str, rtt_ms: u32, loss: f64, seconds: f64) -> Result<Figures, String> {
    // A queue of one bandwidth-delay product: 20 Mbit/s are 2,500 bytes a millisecond.
    let words = [
        ("rtt_ms", rtt_ms.to_string()),
        ("down_kbit", "20000".to_string()),
        ("queue", format!("strict {}", 2_500 * rtt_ms)),
        ("loss", loss.to_string()),
    ];
    let seconds = path_seconds(seconds) as u32;
    let mbit = crosscheck::really(&our_command()?, &words, round.into(), seconds, who == "millstream")?;
    Ok(Figures::from([("mbit".to_string(), mbit)]))
}

#[cfg(test)]
mod tests;
