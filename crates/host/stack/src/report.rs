//! A core's report on itself: counters and memory.

use base::Instant;
use tcp::{Counters, Info};

use crate::core::Core;
use crate::stats::{PacketDrop, Stats};
use crate::tables::conns::ConnId;

/// A number that a core tells about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figure {
    /// Its name, in lower case with underscores.
    pub name: &'static str,
    /// Meaning.
    pub help: &'static str,
    /// The number.
    pub value: u64,
    /// It only grows; otherwise it is what there is now.
    pub counter: bool,
}

impl Core {
    /// TCP's counters.
    pub fn tcp_counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// The stack's own counters of what happened.
    pub fn counters(&self) -> &Stats {
        &self.stats
    }

    /// The stack's own counters: packets, drops by reason, table sizes, footprint.
    pub fn stats(&self) -> Vec<(&'static str, u64)> {
        self.figures().into_iter().map(|figure| (figure.name, figure.value)).collect()
    }

    /// Returns the figures with their meanings.
    pub fn figures(&self) -> Vec<Figure> {
        let counted = |name, help, value| Figure { name, help, value, counter: true };
        let held = |(name, help, value)| Figure { name, help, value, counter: false };
        let counters = Stats::ROWS.iter().zip(self.stats.values());
        let counters = counters.map(|(&(name, help), value)| counted(name, help, value));
        let drops = PacketDrop::ALL.iter().zip(self.drops.rows());
        let drops = drops.map(|(why, (name, value))| counted(name, why.help(), value));
        let looked = "Neighbours looked at to make room, to ask again or to give up.";
        let looked = counted("neighbour_steps", looked, self.neighbours.steps());
        let out = counted("bytes_out", "Bytes handed to the port, headers included.", self.port.bytes);
        let sizes = [
            ("connections", "Connections, TIME-WAIT not counted.", u64::from(self.conns.len())),
            ("time_wait", "TIME-WAIT entries.", u64::from(self.time_waits.len())),
            ("listeners", "Listeners.", self.listeners.len() as u64),
            ("neighbours", "Neighbours known or asked for.", self.neighbours.len() as u64),
            ("path_mtus", "Destinations whose path's MTU was learned.", self.paths.learned() as u64),
            (
                "hosts",
                "Peers of whom something is remembered for the next connections.",
                self.hosts.len() as u64,
            ),
            ("handshake_cache", "Entries of the handshake cache.", self.handshake_cache.len() as u64),
            ("flows", "Entries of the flow table.", u64::from(self.table.len())),
            ("ports_claimed", "Ports held at the link.", self.ports.claimed() as u64),
            ("chunks_used", "Chunks of 2 KiB that hold data.", u64::from(self.shared.pool.used())),
            ("chunks_most", "Chunks that there may be.", u64::from(self.shared.pool.limit())),
            (
                "orphans",
                "Connections that the application has closed while data is still to be sent.",
                u64::from(self.shared.pool.orphans()),
            ),
            ("out_of_order", "Bytes of data held that came too early.", self.shared.pool.out_of_order()),
        ];
        let footprint = self.footprint();
        let whole = footprint.iter().map(|(_, bytes)| bytes).sum();
        let whole = held(("footprint", "Bytes of memory held, all told.", whole));
        let parts = footprint.map(|(name, bytes)| held((name, "Bytes of memory held for this.", bytes)));
        let sizes = sizes.map(held);
        counters.chain(drops).chain([out, looked]).chain(sizes).chain(parts).chain([whole]).collect()
    }

    /// Is more than half of the memory for data in use? Then connections get no more of it than their share.
    pub fn is_memory_scarce(&self) -> bool {
        self.shared.pool.is_scarce()
    }

    /// Returns the counters of packets that arrived together; all zero where they are not merged.
    pub fn offload(&self) -> offload::GroCounters {
        let merged_runs = self.scratch.as_ref().and_then(|scratch| scratch.rx.merged_runs.as_ref());
        merged_runs.map(|merged_runs| merged_runs.counters().clone()).unwrap_or_default()
    }

    /// Returns the counters of packets that were held; all zero where none is.
    pub fn held(&self) -> offload::HoldCounters {
        let gro = self.scratch.as_ref().and_then(|scratch| scratch.rx.gro.as_ref());
        gro.map(|gro| gro.counters().clone()).unwrap_or_default()
    }

    /// Every decision of receive offload, with what each says.
    pub fn offload_figures(&self) -> Vec<Figure> {
        let (merged_runs, held) = (self.offload().values(), self.held().values());
        let rows = offload::GroCounters::ROWS.iter().zip(merged_runs);
        let rows = rows.chain(offload::HoldCounters::ROWS.iter().zip(held));
        rows.map(|(&(name, help), value)| Figure { name, help, value, counter: true }).collect()
    }

    /// Entries compared, moved or looked at so far in the lists that strangers can lengthen: `list_steps` of TCP's
    /// counters and `neighbour_steps`.
    pub fn steps(&self) -> u64 {
        self.shared.counters.list_steps + self.neighbours.steps()
    }

    /// Most [`Core::steps`] that one packet received or sent adds.
    pub fn steps_max(&self) -> u64 {
        self.shared.config.list_steps_max() + crate::net::neighbours::STEPS_MAX
    }

    /// Bytes held, by what for. What belongs to connections is shared by their number in
    /// [`Core::bytes_per_connection`].
    pub fn footprint(&self) -> [(&'static str, u64); 6] {
        [
            ("bytes_connections", self.conns.footprint() as u64),
            ("bytes_timers", self.wheel.footprint() as u64),
            ("bytes_flows", self.table.footprint() as u64),
            ("bytes_time_wait", self.time_waits.footprint() as u64),
            ("bytes_chunks", self.shared.pool.footprint() as u64),
            (
                "bytes_other",
                (self.ports.footprint()
                    + self.paths.footprint()
                    + self.hosts.footprint()
                    + self.handshake_cache.footprint()
                    + self.fast_open.footprint()) as u64,
            ),
        ]
    }

    /// Bytes that one connection takes all told while it holds no data: its place, its timer, and its share
    /// of the flow table.
    pub fn bytes_per_connection(&self) -> f64 {
        let all = self.conns.footprint() + self.wheel.footprint() + self.table.footprint();
        all as f64 / f64::from(self.conns.len().max(1))
    }

    /// Everything TCP_INFO shows, and more. The pace of those whose policy names none comes from the settings.
    ///
    /// # Panics
    /// If the id is dead.
    pub fn info(&self, now: Instant, id: ConnId) -> Info {
        let tcp = self.connection(id);
        Info { pacing: tcp.pacing_rate(&self.shared.config), ..tcp.info(now) }
    }

    /// Connections, TIME-WAIT not counted.
    pub fn connections(&self) -> usize {
        self.conns.len() as usize
    }

    /// Brings TCP's counters of the times that connections were limited up to date: what limits them now included.
    pub fn settle_limits(&mut self, now: Instant) {
        for tcp in self.conns.iter_mut() {
            tcp.settle_limit(&mut self.shared.cx(now));
        }
    }

    /// TCP's settings.
    pub fn config(&self) -> &tcp::Config {
        &self.shared.config
    }

    /// Replaces TCP's settings: what begins or is decided from now on follows them.
    pub fn set_config(&mut self, config: tcp::Config) {
        if self.shared.config != config {
            self.handshake_cache.clear();
        }
        self.shared.config = config;
    }
}
