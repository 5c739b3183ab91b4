//! Owners of local ports: the core that claimed a port for itself alone gets the packets to it.

use crate::port::PortClaim;
use crate::ports::Place;
use base::Endpoint;
use ring::Line;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The claims of a port are of several cores, at different addresses: the table of claims tells them apart.
const SEVERAL: u16 = u16::MAX;

/// Cores and their exclusive claims, by port.
type Held = BTreeMap<u16, Vec<(u16, PortClaim)>>;

/// Exclusive claims of all cores of a link. A packet costs one load.
pub(super) struct Owners {
    /// For each port 0, the number of its core plus 1, or [`SEVERAL`].
    cells: Box<[AtomicU16]>,
    /// Cells that are not 0.
    marked: AtomicUsize,
    /// Locked for each new connection, where every core reads the fields above for each packet.
    claims: Line<Mutex<Held>>,
}

const _: () = assert!(offset_of!(Owners, claims) / 128 != offset_of!(Owners, cells) / 128);
const _: () = assert!(offset_of!(Owners, claims) / 128 != offset_of!(Owners, marked) / 128);

impl Default for Owners {
    fn default() -> Self {
        Owners {
            cells: (0..1 << 16).map(|_| AtomicU16::new(0)).collect(),
            marked: AtomicUsize::new(0),
            claims: Line::default(),
        }
    }
}

/// Listeners that share a port get what arrives at their queue.
fn is_exclusive(claim: &PortClaim) -> bool {
    claim.ephemeral || !claim.reuse_port
}

impl Owners {
    /// `core` has taken a port.
    pub(super) fn claim(&self, core: u16, claim: &PortClaim) {
        if is_exclusive(claim) {
            let mut claims = self.lock();
            let of_port = claims.entry(claim.port).or_default();
            of_port.push((core, *claim));
            self.mark(claim.port, of_port);
        }
    }

    /// `core` gives a port back.
    pub(super) fn release(&self, core: u16, claim: &PortClaim) {
        let mut claims = self.lock();
        let Some(of_port) = claims.get_mut(&claim.port) else { return };
        if let Some(at) = of_port.iter().position(|held| *held == (core, *claim)) {
            of_port.swap_remove(at);
        }
        self.mark(claim.port, of_port);
        if of_port.is_empty() {
            claims.remove(&claim.port);
        }
    }

    fn mark(&self, port: u16, claims: &[(u16, PortClaim)]) {
        let mark = match claims {
            [] => 0,
            [(core, _), rest @ ..] if rest.iter().all(|(other, _)| other == core) => core + 1,
            _ => SEVERAL,
        };
        let before = self.cells[usize::from(port)].swap(mark, Ordering::Relaxed);
        match (before, mark) {
            (0, 1..) => drop(self.marked.fetch_add(1, Ordering::Relaxed)),
            (1.., 0) => drop(self.marked.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    /// Has any port an owner?
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.marked.load(Ordering::Relaxed) > 0
    }

    /// Returns the core that owns a local endpoint, if one does.
    #[inline]
    pub(super) fn of(&self, local: Endpoint) -> Option<u16> {
        match self.cells[usize::from(local.port)].load(Ordering::Relaxed) {
            0 => None,
            SEVERAL => self.look(local),
            core => Some(core - 1),
        }
    }

    /// Of claims for one address, its family and everything, the narrowest counts.
    #[cold]
    fn look(&self, local: Endpoint) -> Option<u16> {
        let claims = self.lock();
        let of_port = claims.get(&local.port)?.iter();
        let ranked = of_port.map(|(core, claim)| (Place::of(claim).rank(local.addr), *core));
        ranked.filter(|(rank, _)| *rank > 0).max_by_key(|(rank, _)| *rank).map(|(_, core)| core)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // A panic elsewhere leaves whole entries behind.
        self.claims.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
