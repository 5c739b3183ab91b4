//! Local ports, taken from the kernel and given back.
//!
//! **A listener's port is ours alone.** A kernel socket is bound to it and never listens: a program that asks the
//! kernel for the port gets EADDRINUSE, and so do we if another program was first. The socket dies with the process.
//!
//! **A port that connections leave from is shared.** A client may use 28,000 of them, and a descriptor and 4
//! KiB of kernel memory for each is too much. So the XDP program asks, packet by packet, whether the kernel
//! has a socket for the flow, and such flows are the kernel's. All we owe the kernel then is not to take a
//! port on which one of its own sockets sits today: a bind that is undone at once tells (four system calls,
//! and no descriptor stays). The stack keeps such a port for a while after its last connection, so that using
//! it again costs nothing.
//!
//! Other processes of ours see in a [file](crate::ports::outgoing) which those are, and keep off them.
//!
//! An interface that was deleted and is back is another one to the kernel: [`SteeredPorts::inherit`] takes the ports
//! there.
//!
//! A risk remains: the kernel may pick, for a connection of its own to the very same remote
//! port, a local port that a connection of ours uses; it is nil if the two draw from different ranges.

use super::bpf::LocalKey;
use super::bpf::program::{LEASE_SHIFT, LEASE_UNIT, MARKS, SHARED4, SHARED6};
use super::bpf::sys as bpf;
use crate::port::{ClaimError, PortClaim};
use crate::ports::outgoing::OutgoingPorts;
use crate::ports::{Binding, EXACT, Place, refusal, sharing_ends};
use crate::sys;
use base::{Addr, Instant};
use ring::shared::{SharedMemory, WORD};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One mark per port, in memory that the XDP program reads.
pub(super) struct PortBitmap(SharedMemory);

/// How many there are: one for each port, in network order.
pub(super) const PORTS: usize = 1 << 16;

impl PortBitmap {
    /// Maps the array that `map` is.
    pub(super) fn map(map: &OwnedFd) -> io::Result<PortBitmap> {
        SharedMemory::of_file(map.as_fd(), 0, PORTS * WORD).map(PortBitmap)
    }

    fn cell(&self, port: u16) -> &AtomicU64 {
        &self.0.words(0, PORTS * WORD)[usize::from(port.to_be())]
    }
}

/// A port that listeners of ours have.
struct Listening {
    /// Bound and never listening: keeps the kernel and other programs off. None where another program sees to that.
    reservation: Option<OwnedFd>,
    /// Listeners that share it.
    count: u32,
    reuse_port: bool,
}

/// The bit of an outgoing port's mark.
fn shared_bit(claim: &PortClaim) -> u64 {
    if claim.addr.is_v4() { SHARED4 } else { SHARED6 }
}

#[derive(Default)]
struct Table {
    listening: HashMap<Place, Listening>,
    /// Claims of outgoing ports, by port and bit.
    shared: HashMap<(u16, u64), u32>,
    /// Addresses of the interface.
    addresses: BTreeSet<Addr>,
    /// Those it lost: when it is deleted it loses all first, and its successor will have them.
    former: BTreeSet<Addr>,
    /// For other processes to see.
    outgoing: Option<OutgoingPorts>,
}

impl Table {
    /// Do connections leave from `port`?
    fn leaves(&self, port: u16) -> bool {
        [SHARED4, SHARED6].into_iter().any(|bit| self.shared.contains_key(&(port, bit)))
    }

    fn note(&mut self, port: u16, ours: bool) -> io::Result<()> {
        self.outgoing.as_mut().map_or(Ok(()), |outgoing| outgoing.note(port, ours))
    }
}

/// Most addresses remembered that the interface lost.
const FORMER_MAX: usize = 256;

/// Claims of one program on one interface; shared by its ports.
pub(super) struct SteeredPorts {
    ifindex: u32,
    marks: PortBitmap,
    local: OwnedFd,
    table: Mutex<Table>,
}

impl SteeredPorts {
    /// `local` is the map of addresses and exact claims that the XDP program reads beside `marks`.
    pub(super) fn new(ifindex: u32, marks: PortBitmap, local: OwnedFd) -> SteeredPorts {
        SteeredPorts { ifindex, marks, local, table: Mutex::default() }
    }

    /// We own the program that reads the claims, and say in `outgoing` where connections leave from.
    pub(super) fn keep(&self, outgoing: OutgoingPorts) {
        self.lock().outgoing = Some(outgoing);
    }

    /// The interface has this address: packets to it may be ours.
    pub(super) fn add_address(&self, addr: Addr) -> io::Result<()> {
        {
            let mut table = self.lock();
            table.addresses.insert(addr);
            table.former.remove(&addr);
        }
        bpf::update(&self.local, &LocalKey::addr(addr), &0_u32)
    }

    /// The interface lost this address.
    pub(super) fn remove_address(&self, addr: Addr) -> io::Result<()> {
        {
            let mut table = self.lock();
            if table.addresses.remove(&addr) && table.former.len() < FORMER_MAX {
                table.former.insert(addr);
            }
        }
        bpf::delete(&self.local, &LocalKey::addr(addr))
    }

    /// Ends the notes for other processes: the program that reads the claims is on no interface.
    pub(super) fn forget_outgoing(&self) {
        self.lock().outgoing = None;
    }

    /// Gives all ports back to the kernel.
    pub(super) fn give_up(&self) {
        let mut table = self.lock();
        table.outgoing = None;
        table.listening.values_mut().for_each(|entry| entry.reservation = None);
    }

    /// Takes all ports of `old`, which were claimed on an interface that is gone, on this one, which has none yet.
    ///
    /// Ports that connections leave from are not tried: the program leaves flows of kernel sockets to the kernel.
    ///
    /// # Errors
    /// Says which port cannot be had and why. The link ends then.
    pub(super) fn inherit(&self, old: &SteeredPorts) -> Result<(), String> {
        let mut from = old.lock();
        if let Some((place, _)) = from.listening.iter().find(|(_, entry)| entry.reservation.is_none()) {
            return Err(sharing_ends(place.port));
        }
        let mut table = self.lock();
        let (now, former) = (std::mem::take(&mut from.addresses), std::mem::take(&mut from.former));
        for addr in now.into_iter().chain(former) {
            table.addresses.insert(addr);
            // Failure means that the map is full: such an address stays with the kernel.
            drop(bpf::update(&self.local, &LocalKey::addr(addr), &0_u32));
        }
        for (place, entry) in &mut from.listening {
            let failed = |error: io::Error| format!("port {}: {error}", place.port);
            let reservation = match entry.reservation.take_if(|_| old.ifindex == self.ifindex) {
                Some(same) => same,
                None => self.reserve(place, &friends(&table, place), true).map_err(failed)?,
            };
            let Listening { count, reuse_port, .. } = *entry;
            let entry = Listening { reservation: Some(reservation), count, reuse_port };
            self.enter(&mut table, *place, entry).map_err(failed)?;
        }
        for (&(port, bit), &count) in &from.shared {
            table.note(port, true).map_err(|error| format!("port {port}: {error}"))?;
            table.shared.insert((port, bit), count);
            self.marks.cell(port).fetch_or(bit, Ordering::Relaxed);
        }
        // Those of the old interface are not free before these are taken.
        from.listening.clear();
        from.shared.clear();
        Ok(())
    }

    /// Takes a port.
    pub(super) fn claim(&self, claim: &PortClaim) -> Result<(), ClaimError> {
        match (claim.port, claim.ephemeral) {
            (0, _) => Err(ClaimError::Os(io::ErrorKind::InvalidInput.into())),
            (_, true) => self.share(claim),
            (_, false) => self.listen(claim),
        }
    }

    /// Gives a port back.
    pub(super) fn release(&self, claim: &PortClaim) {
        let mut table = self.lock();
        if claim.ephemeral {
            self.unshare(&mut table, claim)
        } else {
            self.close(&mut table, &Place::of(claim))
        }
    }

    /// A port for a connection that leaves from here.
    fn share(&self, claim: &PortClaim) -> Result<(), ClaimError> {
        let mut table = self.lock();
        let bit = shared_bit(claim);
        let key = (claim.port, bit);
        let place = Place { dual: false, ..Place::of(claim) };
        let fresh = !table.leaves(claim.port);
        if fresh {
            table.note(claim.port, true).map_err(ClaimError::Os)?;
        }
        // Where a listener of ours has the port, it is reserved already.
        if !table.shared.contains_key(&key) && !table.listening.keys().any(|other| other.overlaps(&place)) {
            let free = place.bind(self.ifindex, Binding::default()).map(drop);
            if fresh && free.is_err() {
                table.note(claim.port, false).map_err(ClaimError::Os)?;
            }
            free.map_err(refusal)?;
        }
        *table.shared.entry(key).or_default() += 1;
        self.marks.cell(claim.port).fetch_or(bit, Ordering::Relaxed);
        Ok(())
    }

    fn unshare(&self, table: &mut Table, claim: &PortClaim) {
        let bit = shared_bit(claim);
        let Some(count) = table.shared.get_mut(&(claim.port, bit)) else { return };
        *count -= 1;
        if *count == 0 {
            table.shared.remove(&(claim.port, bit));
            self.marks.cell(claim.port).fetch_and(!bit, Ordering::Relaxed);
            if !table.leaves(claim.port) {
                // What stays noted is no other's, no more.
                let _ = table.note(claim.port, false);
            }
        }
    }

    /// A port for a listener.
    fn listen(&self, claim: &PortClaim) -> Result<(), ClaimError> {
        let mut table = self.lock();
        let place = Place::of(claim);
        let mut overlapping = table.listening.iter().filter(|(other, _)| other.overlaps(&place));
        if overlapping.any(|(_, entry)| !(entry.reuse_port && claim.reuse_port)) {
            return Err(ClaimError::InUse);
        }
        if let Some(entry) = table.listening.get_mut(&place) {
            entry.count += 1;
            return Ok(());
        }
        let reservation = self.reserve(&place, &friends(&table, &place), false).map_err(refusal)?;
        let entry = Listening { reservation: Some(reservation), count: 1, reuse_port: claim.reuse_port };
        self.enter(&mut table, place, entry).map_err(ClaimError::Os)
    }

    /// The program takes what comes for `place`.
    fn enter(&self, table: &mut Table, place: Place, entry: Listening) -> io::Result<()> {
        if place.bits() == EXACT {
            bpf::update(&self.local, &LocalKey::exact(place.addr, place.port), &0_u32)?;
        }
        self.marks.cell(place.port).fetch_or(place.bits(), Ordering::Relaxed);
        table.listening.insert(place, entry);
        Ok(())
    }

    fn close(&self, table: &mut Table, place: &Place) {
        let Some(entry) = table.listening.get_mut(place) else { return };
        entry.count -= 1;
        if entry.count > 0 {
            return;
        }
        let given_back = table.listening.remove(place);
        let left = table.listening.keys().filter(|other| other.port == place.port);
        let still = left.fold(0, |all, other| all | other.bits());
        // Those that are left renew their lease.
        self.marks.cell(place.port).fetch_and((!place.bits() | still) & MARKS, Ordering::Relaxed);
        if place.bits() == EXACT {
            // It can only fail for an entry that is not there, which is what we want.
            let _ = bpf::delete(&self.local, &LocalKey::exact(place.addr, place.port));
        }
        // Only now may others have it.
        drop(given_back);
    }

    /// Has the program take a listening port that another socket of this process holds in the kernel, or leave it.
    pub(super) fn steer(&self, claim: &PortClaim, wanted: bool) -> io::Result<()> {
        let mut table = self.lock();
        let place = Place::of(claim);
        if !wanted {
            self.close(&mut table, &place);
            return Ok(());
        }
        self.enter(&mut table, place, Listening { reservation: None, count: 1, reuse_port: true })
    }

    /// Extends the lease of a port that other processes share, at all places where this one listens there: from `until`
    /// on the kernel gets what comes, unless the lease is extended again. A port that is not shared has none.
    pub(super) fn lease(&self, port: u16, until: Instant) {
        let table = self.lock();
        let whole =
            table.listening.iter().any(|(place, entry)| place.port == port && entry.reservation.is_some());
        let lease = if whole { 0 } else { until.as_nanos() >> LEASE_UNIT << LEASE_SHIFT };
        let cell = self.marks.cell(port);
        cell.store(cell.load(Ordering::Relaxed) & MARKS | lease, Ordering::Relaxed);
    }

    /// A kernel socket that keeps the port from every other program. `friends` are reservations of ours for the
    /// same port that the new one may overlap; the address may be `absent` for now.
    fn reserve(&self, place: &Place, friends: &[RawFd], absent: bool) -> io::Result<OwnedFd> {
        let binding = Binding { absent, ..Binding::default() };
        match place.bind(self.ifindex, binding) {
            Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => {}
            done => return done,
        }
        // Connections of a server that ran on the kernel may stand in TIME-WAIT. As with any server that
        // starts anew, SO_REUSEADDR gets past them, and past nothing that listens. Once bound it is taken
        // back, because nothing else shall get past us in the same way.
        for &friend in friends {
            set_reuse(friend, true)?;
        }
        let reservation = place.bind(self.ifindex, Binding { reuse: true, ..binding });
        for &friend in friends {
            set_reuse(friend, false)?;
        }
        let reservation = reservation?;
        set_reuse(reservation.as_raw_fd(), false)?;
        Ok(reservation)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic elsewhere leaves whole entries behind.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reservations of ours that one for `place` may overlap.
fn friends(table: &Table, place: &Place) -> Vec<RawFd> {
    let overlapping = table.listening.iter().filter(|(other, _)| other.overlaps(place));
    overlapping.filter_map(|(_, entry)| entry.reservation.as_ref()).map(AsRawFd::as_raw_fd).collect()
}

fn set_reuse(fd: RawFd, on: bool) -> io::Result<()> {
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &i32::from(on))
}
