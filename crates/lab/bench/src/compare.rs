//! Workloads on every contender, side by side: kernel, Millstream and its peers in one run, taking turns, and a page
//! that shows what came out.
//!
//! One table, [`WORKLOADS`], has a row for each workload; the command line, the page and the list in
//! docs/PERFORMANCE.md come from it.

pub(crate) mod contender;
pub mod contest;
pub(crate) mod few;
mod figure;
pub(crate) mod ground;
mod kept;
mod listing;
mod machine;
mod page;
mod run;
mod workloads;

pub use contender::CONTENDERS;
pub use listing::listing;
pub use page::{ranges, report};
pub use run::{Chosen, run};
pub use workloads::WORKLOADS;

use contender::Contender;
use ground::{Ground, Load};
use std::collections::BTreeMap;

/// Figures of one measurement, by their names in `figure.rs`.
pub type Figures = BTreeMap<String, f64>;

/// Group of workloads on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Ordinary kernel clients over a virtual cable.
    Link,
    /// How long one waits.
    Latency,
    /// Paths that delay and lose.
    Paths,
    /// Client and server in one thread.
    Memory,
    /// With and without one idea.
    Ideas,
}

impl Group {
    /// Every group, in the page's order.
    pub const ALL: [Group; 5] = [Group::Link, Group::Latency, Group::Paths, Group::Memory, Group::Ideas];

    /// The heading, and what holds for all of it.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Group::Link => (
                "Over a link",
                "A server on one core behind a veth cable with MTU 1500, an ordinary epoll client on the kernel on \
                 another. Answers are HTTP; every server has one core. veth runs the receiver's softirq on the \
                 sender's core, so a server's CPU holds part of its client's.",
            ),
            Group::Latency => (
                "Latency",
                "The same link. `blocking` sleeps whenever nothing is there, `spinning` looks for packets for 200 us \
                 before it sleeps, and Millstream as it comes for 40 us at most, where looking \
                 finds them.",
            ),
            Group::Paths => (
                "Paths that delay and lose",
                "One CUBIC flow at 20 Mbit/s through `millstream pipe`, sent by the kernel or by our stack, received \
                 by the kernel. The first second is left out.",
            ),
            Group::Memory => (
                "Stack to stack in memory",
                "Client and server stack in one process on one core, joined in memory; checksums in software; a rate \
                 is both ends' cost together.",
            ),
            Group::Ideas => (
                "What each idea is worth",
                "Our stack with and without one of its ideas, stack to stack in memory. Direct and paired mode, \
                 spinning and sleeping stand beside each other above.",
            ),
        }
    }
}

/// Where a workload is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// veth; segmentation offload at the ends or not.
    Veth {
        /// Super-segments may pass.
        offloads: bool,
    },
    /// Two kernels with an emulated path between them.
    Pipe,
    /// One process.
    Memory,
}

/// A value of what a workload varies.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// As people write it.
    pub label: &'static str,
    /// As the load is told.
    pub value: f64,
    /// It is part of a quick run.
    pub quick: bool,
    /// Seconds that a measurement here takes longer than elsewhere.
    pub longer: f64,
}

/// How one measurement is made.
#[derive(Clone, Copy)]
enum Measure {
    /// Over a link, with the load that a point's value means.
    Served(fn(f64) -> Load),
    /// One flow over a path with this round trip, milliseconds; the points are its loss.
    Path(u32),
    /// In memory with this load; some take part up to a number.
    Memory(&'static str, &'static [(&'static str, f64)]),
    /// In memory with this load and number; the points are values of an option.
    Idea(&'static str, &'static str, &'static str),
    /// In its own way.
    Other(fn(&mut Ground, &Contender, &Point, f64) -> Result<Figures, String>),
}

/// A workload: one row of the table.
pub struct Workload {
    /// Name on the command line.
    pub name: &'static str,
    /// The heading of its chart.
    pub title: &'static str,
    /// Measure and method.
    pub about: &'static str,
    /// Where it stands.
    pub group: Group,
    /// Where it is measured.
    pub place: Where,
    /// Quantity of its points.
    pub axis: &'static str,
    /// Those values.
    pub points: &'static [Point],
    /// Names of figures that are drawn; the first decides which contender is ahead.
    pub charts: &'static [&'static str],
    /// Names of those that take part.
    pub contenders: &'static [&'static str],
    /// How.
    measure: Measure,
}

/// The workload of that name.
pub fn find(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}
