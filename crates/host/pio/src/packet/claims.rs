//! Local ports, taken from the kernel and given back, for a socket that only gets copies.
//!
//! A packet socket sees what the kernel sees; it takes nothing away. So for every port of ours the kernel
//! must be kept silent, or it would answer our peers with resets. A kernel socket per claim does that: bound
//! to the port (so nothing else gets it, and we do not if another program was first), listening (so that every
//! segment to the port finds it), and with a filter that drops all it finds, before TCP looks at it. No tool,
//! no rule in the machine's firewall, no privilege beyond the port's own; and it ends with the process,
//! however that ends.
//!
//! Ports that connections leave from are claimed in the same way, a descriptor each.
//!
//! Where processes share a port ([`crate::group`]), each has such a socket, with SO_REUSEPORT: the kernel then asks one
//! of them, and all of them are silent. The first binds without, so that nothing on the kernel is there before us.
//!
//! An interface that was deleted and is back is another one to the kernel: [`SilencedPorts::move_to`] takes the ports
//! there.

use super::filter::{self, Shared, Spread};
use crate::extensions;
use crate::group::{Member, Watcher};
use crate::peer_hash::PeerHash;
use crate::port::{ClaimError, PortClaim};
use crate::ports::outgoing;
use crate::ports::{ANY4, ANY6, Binding, EXACT, Place, refusal, sharing_ends};
use crate::sys::{self, check};
use base::{Addr, Instant};
use ring::Line;
use std::collections::BTreeMap;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

const PORTS: usize = 1 << 16;
/// The filter takes ports of outgoing connections in blocks, so that it changes seldom.
const BLOCK: u16 = 1024;

/// Claims of one process on one interface, for all queues of a port.
pub(super) struct SilencedPorts {
    /// Changed under the lock of the table.
    ifindex: AtomicU32,
    /// The network namespace of the interface.
    network: u64,
    marks: Box<[AtomicU8]>,
    /// Locked for each new connection, where every core reads the fields above for each packet.
    table: Line<Mutex<Table>>,
    /// The number that processes say which share ports with us, and what tells of them; 0 for none.
    share: u64,
    watcher: Option<Watcher>,
}

// Shared by the cores of an interface: what each reads for a packet lies apart from what some write.
const _: () = assert!(offset_of!(SilencedPorts, table) / 128 != offset_of!(SilencedPorts, marks) / 128);
const _: () = assert!(offset_of!(SilencedPorts, table) / 128 != offset_of!(SilencedPorts, share) / 128);

struct Table {
    claims: BTreeMap<Key, Claim>,
    /// How many outgoing claims lie in each block of ports.
    blocks: [u32; PORTS / BLOCK as usize],
    /// The packet sockets, to give them filters.
    sockets: Vec<Weak<OwnedFd>>,
    /// The intervals their filters let through, but of shared ports only some buckets.
    filtered: filter::Intervals,
    shared: Vec<Shared>,
    spread: Spread,
    /// When the watcher's timer wakes the sleepers.
    look_at: Option<Instant>,
    /// Why the ports could not be taken on an interface that is back: they are the kernel's.
    refusal: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    place: Place,
    ephemeral: bool,
}

struct Claim {
    /// `None` where that of another claim covers this one too.
    silencer: Option<OwnedFd>,
    count: u32,
    reuse_port: bool,
    /// Of the group of processes that share it.
    member: Option<Arc<Member>>,
}

/// How a silencer stands to those of other processes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Consent {
    /// There shall be no others.
    Never,
    /// There are none, and may be some later.
    Later,
    /// There are some.
    Now,
}

impl Key {
    fn of(claim: &PortClaim) -> Key {
        Key { place: Place::of(claim), ephemeral: claim.ephemeral }
    }

    /// Everything of one port.
    fn all_of(port: u16) -> std::ops::RangeInclusive<Key> {
        let first = Place { port, addr: Addr::UNSPECIFIED_V6, dual: false };
        let last = Place { port, addr: Addr::v6([0xff; 16]), dual: true };
        Key { place: first, ephemeral: false }..=Key { place: last, ephemeral: true }
    }

    fn block(&self) -> usize {
        usize::from(self.place.port / BLOCK)
    }
}

impl SilencedPorts {
    /// Nothing yet, for `queues` queues on interface `ifindex`; listeners with SO_REUSEPORT will share their ports with
    /// processes that say `share` too, unless that is 0.
    pub(super) fn new(ifindex: u32, queues: u16, share: u64) -> io::Result<SilencedPorts> {
        let spread = Spread { queues, ephemeral: None, hash: PeerHash::new(sys::random_words()?) };
        let table = Table {
            claims: BTreeMap::new(),
            blocks: [0; _],
            sockets: Vec::new(),
            filtered: Vec::new(),
            shared: Vec::new(),
            spread,
            look_at: None,
            refusal: None,
        };
        let marks = (0..PORTS).map(|_| AtomicU8::new(0)).collect();
        let watcher = (share != 0).then(Watcher::new).transpose()?;
        let (ifindex, network) = (AtomicU32::new(ifindex), sys::network()?);
        Ok(SilencedPorts { ifindex, network, marks, table: Line(Mutex::new(table)), share, watcher })
    }

    /// Returns the descriptors that become readable when a group has news or is to be looked at.
    pub(super) fn news_fds(&self) -> Option<[RawFd; 2]> {
        self.watcher.as_ref().map(Watcher::fds)
    }

    /// A packet socket joins, on no interface yet: it gets its filter.
    pub(super) fn join(&self, socket: Weak<OwnedFd>) -> io::Result<()> {
        let mut table = self.lock();
        if let Some(fd) = socket.upgrade() {
            attach(fd.as_raw_fd(), &filter::ports(&table.filtered, &table.shared))?;
        }
        table.sockets.push(socket);
        Ok(())
    }

    /// A packet socket that gets everything, whatever is claimed.
    pub(super) fn take_all(fd: RawFd) -> io::Result<()> {
        attach(fd, &filter::everything())
    }

    /// Tells the kernel how to choose among the queues of the group of `fd`, so far.
    pub(super) fn spread(&self, fd: RawFd) -> io::Result<()> {
        let table = self.lock();
        set_spread(fd, &table.spread)
    }

    /// Forgets the packet sockets: others join in their place.
    pub(super) fn forget_sockets(&self) {
        self.lock().sockets.clear();
    }

    /// Take a port, on behalf of `queue`; the group that shares it, if one does.
    pub(super) fn claim(&self, claim: &PortClaim, queue: u16) -> Result<Option<Arc<Member>>, ClaimError> {
        if claim.port == 0 {
            return Err(ClaimError::Os(io::ErrorKind::InvalidInput.into()));
        }
        let mut table = self.lock();
        let table = &mut *table;
        let key = Key::of(claim);
        let mut of_port = table.claims.range(Key::all_of(claim.port));
        // Connections leave from a port whichever other of ours has it; listeners share only by consent.
        if of_port.any(|(other, entry)| {
            let listeners = !claim.ephemeral && !other.ephemeral;
            listeners && other.place.overlaps(&key.place) && !(entry.reuse_port && claim.reuse_port)
        }) {
            return Err(ClaimError::InUse);
        }
        if let Some(entry) = table.claims.get_mut(&key) {
            entry.count += 1;
            return Ok(entry.member.clone());
        }
        let shares = self.share != 0 && claim.reuse_port && !claim.ephemeral;
        let group = shares.then(|| Member::join(self.ifindex(), key.place, self.share)).transpose()?;
        let consent = match group {
            None => Consent::Never,
            Some((_, true)) => Consent::Later,
            Some((_, false)) => Consent::Now,
        };
        let silencer = if table.is_covered(&key) {
            None
        } else {
            Some(self.silence(&key, consent, false).map_err(refusal)?)
        };
        // Only now that the kernel keeps it for us: see there.
        if outgoing::is_taken(self.ifindex(), claim.port).map_err(ClaimError::Os)? {
            return Err(ClaimError::InUse);
        }
        let member = group.map(|(member, _)| Arc::new(member));
        if let (Some(member), Some(watcher)) = (&member, &self.watcher) {
            member.settle_in()?;
            watcher.watch(member.path()).map_err(ClaimError::Os)?;
        }
        let entry = Claim { silencer, count: 1, reuse_port: claim.reuse_port, member: member.clone() };
        table.claims.insert(key, entry);
        self.marks[usize::from(claim.port)].fetch_or(key.place.bits() as u8, Ordering::Relaxed);
        if claim.ephemeral {
            table.leave_from(claim.port, queue);
            table.blocks[key.block()] += 1;
        }
        table.refilter(&key).map_err(ClaimError::Os)?;
        Ok(member)
    }

    /// Give a port back.
    pub(super) fn release(&self, claim: &PortClaim) {
        let mut table = self.lock();
        let table = &mut *table;
        let key = Key::of(claim);
        let Some(entry) = table.claims.get_mut(&key) else { return };
        entry.count -= 1;
        if entry.count > 0 {
            return;
        }
        table.claims.remove(&key);
        if key.ephemeral {
            table.blocks[key.block()] -= 1;
        }
        let left: Vec<Key> = table.claims.range(Key::all_of(key.place.port)).map(|(key, _)| *key).collect();
        for other in &left {
            if !table.is_covered(other) {
                // Should another program be faster, connections of ours that live on lose to a kernel that
                // knows nothing of them, as if the port had never been claimed.
                let member = table.claims.get(other).and_then(|entry| entry.member.as_ref());
                let consent = if member.is_some() { Consent::Now } else { Consent::Never };
                let silencer = self.silence(other, consent, false).ok();
                table.claims.entry(*other).and_modify(|entry| entry.silencer = silencer);
            }
        }
        let mark = left.iter().fold(0, |all, key| all | key.place.bits()) as u8;
        self.marks[usize::from(key.place.port)].store(mark, Ordering::Relaxed);
        // A filter that is too wide costs copies, no more.
        let _ = table.refilter(&key);
    }

    fn ifindex(&self) -> u32 {
        self.ifindex.load(Ordering::Relaxed)
    }

    /// Returns an error if the calling thread is not in the network namespace of the interface.
    pub(super) fn is_at_home(&self) -> Result<(), String> {
        sys::is_in_network(self.network)
    }

    /// Takes all ports on interface `ifindex`, which has the name of the one that is gone. On an error, the same for
    /// every queue, all ports are the kernel's.
    pub(super) fn move_to(&self, ifindex: u32) -> Result<(), String> {
        let mut table = self.lock();
        if table.refusal.is_none() && self.ifindex() != ifindex {
            self.ifindex.store(ifindex, Ordering::Relaxed);
            table.refusal = self.silence_all(&mut table).err();
            if table.refusal.is_some() {
                table.claims.values_mut().for_each(|entry| entry.silencer = None);
            }
        }
        table.refusal.clone().map_or(Ok(()), Err)
    }

    /// Gives each claim that has a silencer another, on the interface as it is now.
    fn silence_all(&self, table: &mut Table) -> Result<(), String> {
        self.is_at_home()?;
        if let Some(member) = table.members().next() {
            let port = member.place().port;
            return Err(sharing_ends(port));
        }
        for (key, entry) in table.claims.iter_mut().filter(|(_, entry)| entry.silencer.is_some()) {
            let failed = |error: io::Error| format!("port {}: {error}", key.place.port);
            // The old one is dropped only then, so that the port is never free.
            entry.silencer = Some(self.silence(key, Consent::Never, true).map_err(failed)?);
            if outgoing::is_taken(self.ifindex(), key.place.port).map_err(failed)? {
                return Err(format!("port {} is in use by another program", key.place.port));
            }
        }
        Ok(())
    }

    /// A kernel socket that has the port and keeps silent; the address may be `absent` for now.
    fn silence(&self, key: &Key, consent: Consent, absent: bool) -> io::Result<OwnedFd> {
        let first = Binding { reuse: false, consent: consent == Consent::Now, absent };
        let silencer = match self.listen(key, first) {
            // Connections of a server that ran on the kernel may stand in TIME-WAIT: as any server that
            // starts anew.
            Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) && !key.ephemeral => {
                self.listen(key, Binding { reuse: true, ..first })
            }
            done => done,
        }?;
        if consent == Consent::Later {
            sys::set_option(silencer.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, &1_i32)?;
        }
        Ok(silencer)
    }

    fn listen(&self, key: &Key, how: Binding) -> io::Result<OwnedFd> {
        let socket = key.place.bind(self.ifindex(), how)?;
        let fd = socket.as_raw_fd();
        attach(fd, &filter::ports(&[], &[]))?;
        // SAFETY: takes two numbers.
        check(unsafe { libc::listen(fd, 0) })?;
        Ok(socket)
    }

    /// Looks after the groups that we are in: the dead are buried, and the filters follow the deal.
    pub(super) fn look(&self) -> io::Result<()> {
        let Some(watcher) = &self.watcher else { return Ok(()) };
        let news = watcher.take();
        let mut table = self.lock();
        let mut stale = false;
        for member in table.members() {
            stale |= member.look(news)?;
        }
        let next = table.members().filter_map(|member| member.look_at()).min();
        if next != table.look_at {
            watcher.wake_at(next)?;
            table.look_at = next;
        }
        if stale { table.obey() } else { Ok(()) }
    }

    /// Is this frame about a port of ours? Reads no more than it must.
    #[inline]
    pub(super) fn wants(&self, frame: &[u8]) -> bool {
        let half = |at: usize| frame.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b));
        let v4 = match half(12) {
            Some(0x0800) => true,
            Some(0x86dd) => false,
            _ => return false,
        };
        let upper = if v4 {
            frame.get(23).map(|&protocol| (protocol, 14 + 4 * usize::from(frame[14] & 15)))
        } else {
            frame.get(20).and_then(|&kind| extensions::upper(frame, kind, 54))
        };
        let Some((protocol, upper)) = upper else { return false };
        match protocol {
            6 => half(upper + 2).is_some_and(|port| self.is_ours(port, v4, frame)),
            // An error quotes a packet of ours, whose source port is ours; who it was sent to does not
            // matter.
            1 if v4 => half(upper + 28).is_some_and(|port| self.mark(port) != 0),
            58 if !v4 => half(upper + 48).is_some_and(|port| self.mark(port) != 0),
            _ => false,
        }
    }

    fn mark(&self, port: u16) -> u64 {
        self.marks[usize::from(port)].load(Ordering::Relaxed).into()
    }

    fn is_ours(&self, port: u16, v4: bool, frame: &[u8]) -> bool {
        let mark = self.mark(port);
        if mark & if v4 { ANY4 } else { ANY6 } != 0 {
            return true;
        }
        mark & EXACT != 0 && destination(frame, v4).is_some_and(|addr| self.has_exactly(port, addr))
    }

    #[cold]
    fn has_exactly(&self, port: u16, addr: Addr) -> bool {
        self.lock().claims.range(Key::all_of(port)).any(|(key, _)| key.place.addr == addr)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic elsewhere leaves whole entries behind.
        self.table.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The destination address of an IP packet in a frame.
fn destination(frame: &[u8], v4: bool) -> Option<Addr> {
    if v4 {
        frame.get(30..)?.first_chunk().map(|b| Addr::v4(*b))
    } else {
        frame.get(38..)?.first_chunk().map(|b| Addr::v6(*b))
    }
}

impl Table {
    /// Connections of `queue` leave from `port`: stacks divide such ports among cores by remainder.
    fn leave_from(&mut self, port: u16, queue: u16) {
        let queues = self.spread.queues;
        let (low, high) = self.spread.ephemeral.unwrap_or_else(|| {
            // Queue 0 has the ports at distances that `queues` divides, so the interval starts with one of
            // its.
            let start = port.saturating_sub(queue);
            (start, start)
        });
        let wider = if port < low { low - (low - port).next_multiple_of(queues).min(low) } else { low };
        let ephemeral = Some((wider, high.max(port | (BLOCK - 1))));
        if ephemeral == self.spread.ephemeral {
            return;
        }
        self.spread.ephemeral = ephemeral;
        if queues > 1
            && let Some(fd) = self.sockets.iter().find_map(Weak::upgrade)
        {
            // If the kernel refuses, connections of other queues than 0 get no answers and time out; it took
            // the like before.
            let _ = set_spread(fd.as_raw_fd(), &self.spread);
        }
    }

    /// Is some silencer enough for `key`?
    fn is_covered(&self, key: &Key) -> bool {
        self.claims
            .range(Key::all_of(key.place.port))
            .any(|(other, entry)| entry.silencer.is_some() && other.place.covers(&key.place))
    }

    fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.claims.values().filter_map(|entry| entry.member.as_ref())
    }

    /// Brings the filters up to date after a deal, and says so.
    fn obey(&mut self) -> io::Result<()> {
        let deals: Vec<_> = self.members().map(|member| (member.clone(), member.view().1)).collect();
        // What is seen is read after the deal, so it is of this deal or a later one.
        self.filter(self.filtered.clone())?;
        deals.iter().for_each(|(member, generation)| member.obeys(*generation));
        Ok(())
    }

    /// Ports of which others have some buckets, and nothing here has more than listeners in the group.
    fn shared(&self) -> Vec<Shared> {
        let (mut shared, mut whole) = (Vec::new(), Vec::new());
        for (key, entry) in &self.claims {
            let view = entry.member.as_ref().map(|member| (member.hash().clone(), member.view().0));
            match view.filter(|(_, buckets)| *buckets != [u32::MAX; _]) {
                Some((hash, buckets)) => shared.push(Shared { port: key.place.port, hash, buckets }),
                None => whole.push(key.place.port),
            }
        }
        shared.retain(|shared| !whole.contains(&shared.port));
        // All groups of a port, or none of them.
        if let Some(cut) = shared.get(filter::SHARED_MAX).map(|first| first.port) {
            let from = shared.iter().take_while(|shared| shared.port != cut).count();
            shared.truncate(from);
        }
        shared
    }

    /// Bring the filters of all sockets up to date after a claim for `key` came or went.
    fn refilter(&mut self, key: &Key) -> io::Result<()> {
        let block = (key.place.port & !(BLOCK - 1), key.place.port | (BLOCK - 1));
        let within = |(low, high): &(u16, u16)| *low <= block.0 && block.1 <= *high;
        let known = self.shared.iter().all(|shared| shared.port != key.place.port);
        if key.ephemeral && known && self.blocks[key.block()] > 0 && self.filtered.iter().any(within) {
            return Ok(());
        }
        let blocks = (0..=u16::MAX / BLOCK).zip(&self.blocks).filter(|(_, count)| **count > 0);
        let ports = |block: u16| block * BLOCK..=block * BLOCK + (BLOCK - 1);
        let mut wanted: Vec<u16> = blocks.flat_map(|(block, _)| ports(block)).collect();
        wanted.extend(self.claims.keys().filter(|key| !key.ephemeral).map(|key| key.place.port));
        wanted.sort_unstable();
        self.filter(filter::intervals(wanted.into_iter()))
    }

    /// Gives all sockets the filter for the ports in `wanted`.
    fn filter(&mut self, wanted: filter::Intervals) -> io::Result<()> {
        let shared = self.shared();
        if wanted == self.filtered && shared == self.shared {
            return Ok(());
        }
        let program = filter::ports(&wanted, &shared);
        self.sockets.retain(|socket| socket.strong_count() > 0);
        for socket in self.sockets.iter().filter_map(Weak::upgrade) {
            attach(socket.as_raw_fd(), &program)?;
        }
        (self.filtered, self.shared) = (wanted, shared);
        Ok(())
    }
}

/// Give a socket a filter in place of the one it has.
fn attach(fd: RawFd, program: &[libc::sock_filter]) -> io::Result<()> {
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program_of(program))
}

/// Tell the kernel how to choose among the queues of `fd`'s group.
fn set_spread(fd: RawFd, spread: &Spread) -> io::Result<()> {
    let program = filter::spread(spread);
    sys::set_option(fd, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, &program_of(&program))
}

/// Returns the kernel's view of a program; valid while `program` is.
fn program_of(program: &[libc::sock_filter]) -> libc::sock_fprog {
    libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() }
}
