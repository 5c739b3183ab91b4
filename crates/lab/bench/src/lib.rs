//! Workloads and peers, measured side by side in one run, alternating, with medians and ratios.
//!
//! Two kinds: *memory* benchmarks (client and server stack in one thread, joined in memory; a rate is both ends'
//! cost together) and *link* benchmarks (servers on one core behind a veth link, ordinary kernel clients on another).
#![forbid(unsafe_code)]

pub mod again;
pub mod bed;
pub mod beside_linux;
pub mod budget;
mod bulk;
pub mod compare;
mod cores;
pub mod count;
pub mod crosscheck;
pub mod demo;
pub mod emulator;
mod ends;
pub mod faltcon;
pub mod flow;
pub mod interop;
pub mod lanes;
pub mod link;
pub mod memory;
pub mod offload;
mod peers;
mod plan;
pub mod programs;
pub mod same;
pub mod scale;
pub mod smol;
pub mod walk;
pub mod wire;

pub use plan::{Plan, now};
use serde_json::Value;

/// A benchmark: its name, what it measures, and how to run it.
pub struct Bench {
    /// Name in `cargo xtask bench`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// It needs the programs of [`demo::missing`].
    pub needs_tools: bool,
    /// Runs it; figures as JSON, or what is missing to run it.
    pub run: fn(&Plan) -> Result<Value, String>,
}

/// Every benchmark there is.
pub const ALL: &[Bench] = &[
    Bench {
        name: "memory",
        help: "Stack alone in memory beside smoltcp: short connections and keep-alive.",
        needs_tools: false,
        run: memory::run,
    },
    Bench {
        name: "instructions",
        help: "Instructions per transaction in memory, counted by callgrind.",
        needs_tools: false,
        run: count::run,
    },
    Bench {
        name: "budgets",
        help: "Instructions of the hot paths beside budgets.toml; fails when one grew. --bless REASON writes them.",
        needs_tools: false,
        run: |_| budget::run(),
    },
    Bench {
        name: "trace-instructions",
        help: "Instructions for a packet of a bulk flow with SIFTR off and on, each end and the log's writer apart.",
        needs_tools: false,
        run: count::trace,
    },
    Bench {
        name: "idle-memory",
        help: "Bytes per idle established connection, by opening one million.",
        needs_tools: false,
        run: memory::idle,
    },
    Bench {
        name: "scale",
        help: "What a request costs among 100 to 10 million established connections, 64 and 100,000 of them busy.",
        needs_tools: false,
        run: scale::run,
    },
    Bench {
        name: "cores",
        help: "Short connections in memory on one core and on each more: what the second adds.",
        needs_tools: false,
        run: cores::run,
    },
    Bench {
        name: "offload",
        help: "What receiving a segment costs, merged before the stack and not: by time, and by callgrind.",
        needs_tools: false,
        run: offload::run,
    },
    Bench {
        name: "card",
        help: "What receiving costs the stack's thread with workers before it, on threads of their own, and without.",
        needs_tools: false,
        run: offload::card,
    },
    Bench {
        name: "lanes",
        help: "One flow each way over a link that neither cuts nor sums, on up to 12 cores.",
        needs_tools: false,
        run: lanes::run,
    },
    Bench {
        name: "again",
        help: "Connections to peers met before and to others, with the handshake cache and without.",
        needs_tools: false,
        run: faltcon::run,
    },
    Bench {
        name: "emu",
        help: "The network in virtual time: packets and whole-stack segments a second, P3's 300 s.",
        needs_tools: false,
        run: emulator::run,
    },
    Bench {
        name: "crosscheck",
        help: "CUBIC over one emulated path: the kernel's, ours, ours in virtual time. Wants --seconds 20.",
        needs_tools: false,
        run: crosscheck::run,
    },
    Bench {
        name: "link",
        help: "AF_XDP on veth: tuned kernel, ours, ideal responder; short and keep-alive.",
        needs_tools: true,
        run: link::run,
    },
    Bench {
        name: "demo",
        help: "Ordinary clients (curl, wrk) against nginx, a minimal kernel server and ours.",
        needs_tools: true,
        run: demo::run,
    },
    Bench {
        name: "bulk",
        help: "One bulk flow: tap with offloads and veth without, beside the kernel's.",
        needs_tools: true,
        run: link::bulk,
    },
];
