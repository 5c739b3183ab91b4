//! What a core tells about itself: counters and memory.

use base::Instant;
use tcp::{Counters, Info};

use crate::conns::ConnId;
use crate::core::Core;
use crate::stats::Stats;

impl Core {
    /// TCP's counters.
    pub fn tcp_counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// The stack's own counters: packets, drops by reason, table sizes, footprint.
    pub fn stats(&self) -> Vec<(&'static str, u64)> {
        let counters = Stats::ROWS.iter().map(|&(name, _)| name).zip(self.stats.values());
        let sizes = [
            ("bytes_out", self.port.octets),
            ("connections", u64::from(self.conns.len())),
            ("time_wait", u64::from(self.waits.len())),
            ("listeners", self.listeners.len() as u64),
            ("neighbours", self.hops.len() as u64),
            ("path_mtus", self.paths.learned() as u64),
            ("hosts", self.hosts.len() as u64),
            ("flows", u64::from(self.table.len())),
            ("ports_claimed", self.ports.claimed() as u64),
            ("chunks_used", u64::from(self.shared.pool.used())),
            ("out_of_order", self.shared.pool.out_of_order()),
        ];
        let footprint = self.footprint();
        let whole = ("footprint", footprint.iter().map(|(_, octets)| octets).sum());
        counters.chain(self.drops.rows()).chain(sizes).chain(footprint).chain([whole]).collect()
    }

    /// Octets held, by what for. What belongs to connections is shared by their number in
    /// [`Core::octets_per_connection`].
    pub fn footprint(&self) -> [(&'static str, u64); 6] {
        [
            ("bytes_connections", self.conns.footprint() as u64),
            ("bytes_timers", self.wheel.footprint() as u64),
            ("bytes_flows", self.table.footprint() as u64),
            ("bytes_time_wait", self.waits.footprint() as u64),
            ("bytes_chunks", self.shared.pool.footprint() as u64),
            (
                "bytes_other",
                (self.ports.footprint()
                    + self.paths.footprint()
                    + self.hosts.footprint()
                    + self.fast_open.footprint()) as u64,
            ),
        ]
    }

    /// Octets that one connection takes all told while it holds no data: its place, its timer, and its share
    /// of the flow table.
    pub fn octets_per_connection(&self) -> f64 {
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

    /// TCP's settings.
    pub fn config(&self) -> &tcp::Config {
        &self.shared.config
    }

    /// Replaces TCP's settings: what begins or is decided from now on follows them.
    pub fn set_config(&mut self, config: tcp::Config) {
        self.shared.config = config;
    }
}
