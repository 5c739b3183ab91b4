//! Hints with which connections begin, and lessons of those that are over.

use base::{Addr, Instant};
use tcp::HostHint;

use crate::core::Core;
use crate::net::paths::Path;
use crate::tables::host_cache::{HostRow, NONE};

impl Core {
    /// Returns the remembered peers.
    pub fn hosts(&self, now: Instant) -> impl Iterator<Item = HostRow> {
        self.hosts.rows(&self.shared.config, now)
    }

    /// Forgets what is remembered of peers.
    pub fn forget_hosts(&mut self) {
        self.hosts.clear();
    }

    /// Returns the hint with which a connection begins.
    #[inline]
    pub(crate) fn host_hint(&self, now: Instant, remote: Addr, path: &Path) -> HostHint {
        let config = &self.shared.config;
        match path.host {
            NONE => HostHint::default(),
            _ if config.host_cache == 0 => HostHint::default(),
            place => self.hosts.hint(config, now, place, remote),
        }
    }

    /// A connection is over: what it learned of its peer.
    #[inline]
    pub(crate) fn learn_host(&mut self, now: Instant, index: u32) {
        let Some((_, tcp)) = self.conns.get(index) else { return };
        let remote = tcp.key().remote().addr;
        let known = self.paths.known(remote, self.ip.generation()).map_or(NONE, |path| path.host);
        if self.shared.config.host_cache > 0 && !self.hosts.is_fresh(now, known, remote) {
            self.remember(now, index, remote);
        }
    }

    #[inline(never)]
    fn remember(&mut self, now: Instant, index: u32, remote: Addr) {
        let Some(lesson) = self.conns.get(index).and_then(|(_, tcp)| tcp.lesson()) else { return };
        let place = self.hosts.learn(&self.shared.config, now, remote, &lesson);
        if let Some(path) = self.paths.known_mut(remote, self.ip.generation()) {
            path.host = place;
        }
    }
}
