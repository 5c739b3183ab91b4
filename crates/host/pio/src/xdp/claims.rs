//! Local ports, taken from the kernel and given back.
//!
//! **A listener's port is ours alone.** A kernel socket is bound to it and never listens: whoever asks the
//! kernel for the port gets EADDRINUSE, and so do we if somebody was first. The socket dies with the process.
//!
//! **A port that connections leave from is shared.** A client may use 28,000 of them, and a descriptor and 4
//! KiB of kernel memory for each is too much. So the XDP program asks, packet by packet, whether the kernel
//! has a socket for the flow, and such flows are the kernel's. All we owe the kernel then is not to take a
//! port on which one of its own sockets sits today: a bind that is undone at once tells (four system calls,
//! once per port and program). The mark stays set when the connection ends. It costs the kernel nothing, and
//! taking the port again is one load.
//!
//! What is left is the chance that the kernel picks, for a connection of its own to the very same remote
//! port, a local port that a connection of ours uses; it is nil if the two draw from different ranges.
//!
//! **A listener that closes leaves connections behind.** The port is the kernel's again at once, and open to
//! be listened on, while what lives on of ours keeps coming here (`LINGER`).

use super::bpf::LocalKey;
use super::bpf::program::{ANY4, ANY6, EXACT, LINGER, SHARED};
use super::bpf::sys as bpf;
use crate::port::{ClaimError, PortClaim};
use crate::sys::{self, SockAddr, check};
use base::Addr;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// One mark per port, in memory that the XDP program reads.
pub(super) struct Marks {
    cells: *const AtomicU64,
}

/// How many there are: one for each port, in network order.
pub(super) const PORTS: usize = 1 << 16;

// SAFETY: a mapping of atomics that lives until drop.
unsafe impl Send for Marks {}
// SAFETY: as for `Send`.
unsafe impl Sync for Marks {}

impl Marks {
    /// Maps the array that `map` is.
    pub(super) fn map(map: &OwnedFd) -> io::Result<Marks> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PORTS * size_of::<AtomicU64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Marks { cells: base.cast() })
    }

    fn cell(&self, port: u16) -> &AtomicU64 {
        // SAFETY: the mapping has a cell for each of the 65,536 values.
        unsafe { &*self.cells.add(usize::from(port.to_be())) }
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        // SAFETY: address and length came from mmap, and no reference outlives `self`.
        unsafe { libc::munmap(self.cells.cast_mut().cast(), PORTS * size_of::<AtomicU64>()) };
    }
}

/// A port that listeners of ours have.
struct Listening {
    /// Bound and never listening: keeps the kernel and other programs off.
    reservation: OwnedFd,
    /// Listeners that share it.
    count: u32,
    reuse_port: bool,
}

/// What one program has taken on one interface; shared by its ports.
pub(super) struct Claims {
    ifindex: u32,
    marks: Marks,
    local: OwnedFd,
    listening: Mutex<HashMap<(Addr, u16), Listening>>,
}

/// Which bits of a port's mark a claim sets.
fn bits(addr: Addr) -> u64 {
    match (addr.is_unspecified(), addr.is_v4()) {
        (false, _) => EXACT,
        (true, true) => ANY4,
        (true, false) => ANY6,
    }
}

/// Can a packet belong to both?
fn overlap(a: Addr, b: Addr) -> bool {
    a == b || a.is_v4() == b.is_v4() && (a.is_unspecified() || b.is_unspecified())
}

fn refusal(error: io::Error) -> ClaimError {
    match error.raw_os_error() {
        Some(libc::EADDRINUSE) => ClaimError::InUse,
        Some(libc::EACCES | libc::EPERM) => ClaimError::Denied,
        _ => ClaimError::Os(error),
    }
}

impl Claims {
    /// `local` is the map of addresses and exact claims that the XDP program reads beside `marks`.
    pub(super) fn new(ifindex: u32, marks: Marks, local: OwnedFd) -> Claims {
        Claims { ifindex, marks, local, listening: Mutex::default() }
    }

    /// The interface has this address: packets to it may be ours.
    pub(super) fn add_address(&self, addr: Addr) -> io::Result<()> {
        bpf::update(&self.local, &LocalKey::addr(addr), &0_u32)
    }

    /// The interface lost this address.
    pub(super) fn remove_address(&self, addr: Addr) -> io::Result<()> {
        bpf::delete(&self.local, &LocalKey::addr(addr))
    }

    /// Takes a port. An unspecified address stands for every address of its own family.
    pub(super) fn claim(&self, claim: &PortClaim) -> Result<(), ClaimError> {
        match (claim.port, claim.ephemeral) {
            (0, _) => Err(ClaimError::Os(io::ErrorKind::InvalidInput.into())),
            (_, true) => self.share(claim),
            (_, false) => self.listen(claim),
        }
    }

    /// Gives a port back.
    pub(super) fn release(&self, claim: &PortClaim) {
        if claim.ephemeral {
            return;
        }
        let mut listening = self.lock();
        let key = (claim.addr, claim.port);
        let Some(entry) = listening.get_mut(&key) else { return };
        entry.count -= 1;
        if entry.count > 0 {
            return;
        }
        let given_back = listening.remove(&key);
        let cell = self.marks.cell(claim.port);
        let still = listening.keys().filter(|k| k.1 == claim.port).fold(0, |all, k| all | bits(k.0));
        cell.fetch_or(LINGER, Ordering::Relaxed);
        cell.fetch_and(!bits(claim.addr) | still, Ordering::Relaxed);
        if bits(claim.addr) == EXACT {
            // It can only fail for an entry that is not there, which is what we want.
            let _ = bpf::delete(&self.local, &LocalKey::exact(claim.addr, claim.port));
        }
        // Only now may others have it.
        drop(given_back);
    }

    /// A port for a connection that leaves from here.
    fn share(&self, claim: &PortClaim) -> Result<(), ClaimError> {
        let cell = self.marks.cell(claim.port);
        if cell.load(Ordering::Relaxed) & SHARED != 0 {
            return Ok(());
        }
        let listening = self.lock();
        if !listening.keys().any(|k| k.1 == claim.port && overlap(k.0, claim.addr)) {
            drop(self.bind(claim, false).map_err(refusal)?);
        }
        cell.fetch_or(SHARED, Ordering::Relaxed);
        Ok(())
    }

    /// A port for a listener.
    fn listen(&self, claim: &PortClaim) -> Result<(), ClaimError> {
        let mut listening = self.lock();
        let mut friends = Vec::new();
        for (key, entry) in listening.iter().filter(|(k, _)| k.1 == claim.port && overlap(k.0, claim.addr)) {
            if !(entry.reuse_port && claim.reuse_port) {
                return Err(ClaimError::InUse);
            }
            if key.0 != claim.addr {
                friends.push(entry.reservation.as_raw_fd());
            }
        }
        if let Some(entry) = listening.get_mut(&(claim.addr, claim.port)) {
            entry.count += 1;
            return Ok(());
        }
        let reservation = self.reserve(claim, &friends).map_err(refusal)?;
        if bits(claim.addr) == EXACT {
            let key = LocalKey::exact(claim.addr, claim.port);
            bpf::update(&self.local, &key, &0_u32).map_err(ClaimError::Os)?;
        }
        self.marks.cell(claim.port).fetch_or(bits(claim.addr), Ordering::Relaxed);
        let entry = Listening { reservation, count: 1, reuse_port: claim.reuse_port };
        listening.insert((claim.addr, claim.port), entry);
        Ok(())
    }

    /// A kernel socket that keeps the port from everybody else. `friends` are reservations of ours for the
    /// same port that the new one may overlap.
    fn reserve(&self, claim: &PortClaim, friends: &[RawFd]) -> io::Result<OwnedFd> {
        match self.bind(claim, false) {
            Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => {}
            done => return done,
        }
        // Connections of a server that ran on the kernel may stand in TIME-WAIT. As with any server that
        // starts anew, SO_REUSEADDR gets past them, and past nothing that listens. Once bound it is taken
        // back, because nobody shall get past us in the same way.
        for &friend in friends {
            set_reuse(friend, true)?;
        }
        let reservation = self.bind(claim, true);
        for &friend in friends {
            set_reuse(friend, false)?;
        }
        let reservation = reservation?;
        set_reuse(reservation.as_raw_fd(), false)?;
        Ok(reservation)
    }

    /// Only on our interface: the same port on another one is not ours to take.
    fn bind(&self, claim: &PortClaim, reuse: bool) -> io::Result<OwnedFd> {
        let addr = SockAddr::new(claim.addr, claim.port, self.ifindex);
        let socket = sys::socket(addr.family(), libc::SOCK_STREAM, 0)?;
        let fd = socket.as_raw_fd();
        sys::bind_to_interface(fd, self.ifindex)?;
        if addr.family() == libc::AF_INET6 {
            sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1_i32)?;
        }
        set_reuse(fd, reuse)?;
        let (raw, len) = addr.raw();
        // SAFETY: `raw` points to a socket address of `len` octets.
        check(unsafe { libc::bind(fd, raw, len) })?;
        Ok(socket)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(Addr, u16), Listening>> {
        // A panic elsewhere leaves whole entries behind.
        self.listening.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn set_reuse(fd: RawFd, on: bool) -> io::Result<()> {
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &i32::from(on))
}
