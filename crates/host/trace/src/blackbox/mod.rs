//! Black box: the latest events of each connection, in a bounded ring per connection, beside the connections, and
//! only while it is switched on.
//!
//! The box is a probe of a core ([`tcp::Probe`]). A connection that is over keeps its ring until another needs the
//! place, the longest dead first; while every ring belongs to the living, new connections go unrecorded and are
//! counted.

mod files;
mod record;
mod ring;
mod show;
#[cfg(test)]
mod tests;

pub use files::Files;
pub use record::{Record, Segment, What};
pub use ring::Ring;

use self::ring::Passed;
use base::{FlowKey, Instant};
use std::collections::{HashMap, VecDeque};
use tcp::{Incident, Probe, Seen, State};
use wire::tcp::Flags;

/// How much is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Records per connection, 8 to 65,536.
    pub records: u32,
    /// Connections recorded at once, the dead included.
    pub connections: u32,
}

impl Default for Size {
    /// 128 records of 4,096 connections: 20 MB when all are taken.
    fn default() -> Self {
        Size { records: 128, connections: 4_096 }
    }
}

/// The black box of one core.
pub struct BlackBox {
    size: Size,
    rings: Vec<Ring>,
    /// The ring of each connection that lives, or was the last with its key.
    places: HashMap<FlowKey, u32>,
    /// The dead, in the order of their deaths.
    dead: VecDeque<u32>,
    untracked: u64,
    files: Option<Files>,
}

impl BlackBox {
    /// A box that takes memory as connections come.
    pub fn new(size: Size) -> BlackBox {
        let size = Size { records: size.records.clamp(8, 65_536), connections: size.connections.max(1) };
        BlackBox {
            size,
            rings: Vec::new(),
            places: HashMap::new(),
            dead: VecDeque::new(),
            untracked: 0,
            files: None,
        }
    }

    /// Connections that die by an error leave their records with `files`.
    #[must_use]
    pub fn on_error(mut self, files: Files) -> BlackBox {
        self.files = Some(files);
        self
    }

    /// Every ring there is, or those of one flow.
    pub fn rings(&self, of: Option<&FlowKey>) -> impl Iterator<Item = &Ring> {
        self.rings.iter().filter(move |ring| of.is_none_or(|key| ring.key == *key))
    }

    /// Where connections that die by an error leave their records, if anywhere.
    pub fn files(&self) -> Option<&Files> {
        self.files.as_ref()
    }

    /// Connections that began while every ring belonged to a living one.
    pub fn untracked(&self) -> u64 {
        self.untracked
    }

    /// Bytes held.
    pub fn footprint(&self) -> usize {
        let place = size_of::<(FlowKey, u32)>() + 1;
        self.rings.iter().map(Ring::footprint).sum::<usize>() + self.places.capacity() * place
    }

    /// The place of a connection's ring.
    fn place(&self, key: &FlowKey) -> Option<usize> {
        self.places.get(key).map(|&place| place as usize)
    }

    /// A ring for a connection that begins, or that was there before the box.
    fn begin(&mut self, now: Instant, key: &FlowKey) -> Option<usize> {
        let place = if (self.rings.len() as u64) < u64::from(self.size.connections) {
            self.rings.push(Ring::new(self.size.records as usize, *key, now));
            self.rings.len() - 1
        } else if let Some(place) = self.dead.pop_front() {
            let ring = &mut self.rings[place as usize];
            // The key may belong to a later connection by now.
            if self.places.get(&ring.key) == Some(&place) {
                self.places.remove(&ring.key);
            }
            ring.begin(*key, now);
            place as usize
        } else {
            self.untracked += 1;
            return None;
        };
        self.places.insert(*key, place as u32);
        Some(place)
    }

    /// A segment passed.
    fn pass(&mut self, key: &FlowKey, passed: &Passed<'_>) {
        let over = passed.vitals.state == State::Closed;
        // The last words of a connection belong to it; a later one with its key gets a ring of its own.
        let mine = self.place(key).filter(|&place| over || self.rings[place].closed.is_none());
        let place = match mine {
            None if over => return,
            None => self.begin(passed.now, key),
            place => place,
        };
        let Some(place) = place else { return };
        let ring = &mut self.rings[place];
        ring.segment(passed);
        if passed.outbound && over && passed.header.flags.has(Flags::RST) {
            ring.reset = true;
            self.keep(place);
        }
    }

    /// A connection died by an error: what is known of it goes to the files, unless it was a stranger that never
    /// proved where it is.
    fn keep(&mut self, place: usize) {
        if let Some(files) = self.files.as_mut().filter(|_| self.rings[place].proven) {
            files.keep(&self.rings[place]);
        }
    }
}

impl Probe for BlackBox {
    fn packet(&mut self, seen: &Seen<'_>) {
        let Seen { now, outbound, conn, payload } = seen;
        let (vitals, header, len) = (conn.vitals(), seen.header(), payload.len());
        self.pass(conn.key(), &Passed { now: *now, outbound: *outbound, vitals, header: &header, len });
    }

    fn state(&mut self, now: Instant, key: &FlowKey, from: State, to: State) {
        let Some(place) = self.place(key) else { return };
        let ring = &mut self.rings[place];
        ring.push(now, What::State(from, to));
        ring.proven |= to == State::Established;
        if to == State::Closed && ring.closed.replace(now).is_none() {
            let failed = ring.error.is_some();
            self.dead.push_back(place as u32);
            if failed {
                self.keep(place);
            }
        }
    }

    fn incident(&mut self, now: Instant, key: &FlowKey, incident: &Incident) {
        let Some(place) = self.place(key) else { return };
        let ring = &mut self.rings[place];
        ring.push(now, What::Incident(*incident));
        if let Incident::Failed(error) = incident {
            ring.error = Some(*error);
        }
    }
}
