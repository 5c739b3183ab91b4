//! Local ports: the holder of each, which the kernel lent us, and which one a connect gets.

use base::{Addr, Duration, Endpoint, FlowKey, Instant, SipKey};
use pio::{ClaimError, PacketIo, PortClaim, Role};
use std::collections::{BTreeMap, VecDeque};

use crate::error::OpError;
use crate::tables::flow_cache::FlowCache;

const PAGE_BITS: u32 = 8;
const PAGE: usize = 1 << PAGE_BITS;

/// How long an ephemeral port stays ours after its last connection: the next connect takes it without asking
/// the kernel again.
const LINGER: Duration = Duration::from_secs(30);
/// Ephemeral ports given back in one turn.
const RELEASE_LOT: usize = 16;
/// Counters of RFC 6056, section 3.3.4. With few of them an observer finds addresses of its own that share one with
/// another destination (CVE-2022-1012, CVE-2022-32296). Pages of the table that no destination uses take no memory.
const COUNTERS: usize = 1 << 16;
/// The counter of a destination moves by 1 to this many ports more than were looked at.
const STEP_MAX: u32 = 8;
/// With so many ports lent, other destinations take them again rather than new ones: on some links each is a
/// descriptor.
const LENT_ENOUGH: usize = 512;
/// Ports lent for a destination that are looked at before the whole range is.
const LENT_TRIES: usize = 32;

#[derive(Clone, Copy, Default)]
struct Port {
    /// Connections and TIME-WAIT entries with this local port.
    users: u32,
    /// Reservations.
    bound: u16,
    /// Claimed as an ephemeral port, for IPv4 and IPv6.
    claimed: [bool; 2],
    /// The destination that it was claimed for, if it is claimed.
    lent_for: u32,
    /// Waits in `lingering`.
    lingers: bool,
    /// Other processes have it too, and the port must hear of its flows.
    shared: bool,
}

/// Hold of one bind, listener or bound connection on a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Binding {
    /// Where.
    pub(crate) local: Endpoint,
    /// SO_REUSEADDR.
    pub(crate) reuse_addr: bool,
    /// SO_REUSEPORT.
    pub(crate) reuse_port: bool,
    /// An unspecified IPv6 address does not stand for IPv4 too.
    pub(crate) v6_only: bool,
    /// A listener holds it.
    pub(crate) listening: bool,
}

impl Binding {
    /// Do the two stand for a common address?
    fn overlaps(&self, other: &Binding) -> bool {
        self.covers(other.local.addr) || other.covers(self.local.addr)
    }

    /// Does it stand for this address?
    pub(crate) fn covers(&self, addr: Addr) -> bool {
        let own = self.local.addr;
        own == addr || own.is_unspecified() && (own.is_v4() == addr.is_v4() || !own.is_v4() && !self.v6_only)
    }

    fn conflicts(&self, other: &Binding) -> bool {
        let shared_port = self.reuse_port && other.reuse_port;
        let shared_addr = self.reuse_addr && other.reuse_addr && !self.listening && !other.listening;
        self.overlaps(other) && !shared_port && !shared_addr
    }

    /// Returns the claim, which is the same while the socket lives: at one address a listener is of one family,
    /// whatever its bind asked for.
    fn claim(&self) -> PortClaim {
        let Endpoint { addr, port } = self.local;
        let v6_only = self.v6_only && addr.is_unspecified();
        PortClaim { addr, port, reuse_port: self.reuse_port, ephemeral: false, v6_only }
    }
}

struct Claimed {
    claim: PortClaim,
    holders: u32,
}

/// The ports of one core.
pub(crate) struct Ports {
    pages: Vec<Option<Box<[Port; PAGE]>>>,
    bindings: BTreeMap<u16, Vec<Binding>>,
    /// Claims made for bindings; one lives on while connections of its port do.
    claims: BTreeMap<u16, Vec<Claimed>>,
    /// Ephemeral ports claimed from the kernel, by the destination that they were claimed for: only that one gets
    /// them again before others, so what one destination sees says nothing about the port to another.
    lent: BTreeMap<u32, Vec<u16>>,
    lent_count: usize,
    lingering: VecDeque<(u16, Instant)>,
    first: u16,
    count: u16,
    stride: u16,
    key: SipKey,
    counters: Vec<u16>,
    /// The hashes of destinations chosen for lately, without the port: mostly the next one is among them.
    hashes: FlowCache<u64>,
    /// Keyed hashes of it are where binds to port 0 begin to look.
    draws: [u64; 2],
    kernel: bool,
}

impl Ports {
    /// Ephemeral ports are those of `range` (inclusive) whose distance from its start is `core.0` modulo
    /// `core.1`, so that cores never choose the same. `kernel`: claims are told to the link and are kept, for they may
    /// cost system calls.
    pub(crate) fn new(range: (u16, u16), core: (u16, u16), kernel: bool, key: SipKey, seed: u64) -> Self {
        let stride = core.1.max(1);
        let first = range.0.max(1).saturating_add(core.0 % stride);
        let count = if range.1 >= first { (range.1 - first) / stride + 1 } else { 0 };
        Ports {
            pages: (0..PAGE).map(|_| None).collect(),
            bindings: BTreeMap::new(),
            claims: BTreeMap::new(),
            lent: BTreeMap::new(),
            lent_count: 0,
            lingering: VecDeque::new(),
            first,
            count,
            stride,
            key,
            counters: vec![0; COUNTERS],
            hashes: FlowCache::new(),
            draws: [seed, 0],
            kernel,
        }
    }

    /// Bytes of tables.
    pub(crate) fn footprint(&self) -> usize {
        self.pages.iter().flatten().count() * size_of::<[Port; PAGE]>() + self.lent_count * 2 + COUNTERS * 2
    }

    /// Ports claimed from the kernel.
    pub(crate) fn claimed(&self) -> usize {
        self.lent_count + self.claims.values().map(Vec::len).sum::<usize>()
    }

    /// Is a segment to this port ours to answer? On a port with its own address everything is.
    pub(crate) fn is_ours(&self, port: u16) -> bool {
        !self.kernel || self.claims.contains_key(&port) || self.port(port).claimed.contains(&true)
    }

    /// A connection or TIME-WAIT entry, `key`, begins to use its local port.
    #[inline]
    pub(crate) fn hold(&mut self, io: &mut dyn PacketIo, key: &FlowKey) {
        let entry = self.port_mut(key.local().port);
        entry.users += 1;
        if entry.shared {
            io.sharing().into_iter().for_each(|sharing| sharing.on_flow(key, true));
        }
    }

    /// It no longer does.
    #[inline]
    pub(crate) fn let_go(&mut self, io: &mut dyn PacketIo, now: Instant, key: &FlowKey) {
        let port = key.local().port;
        let entry = self.port_mut(port);
        entry.users -= 1;
        if entry.shared {
            io.sharing().into_iter().for_each(|sharing| sharing.on_flow(key, false));
        }
        if entry.users == 0 && entry.bound == 0 {
            self.idle(io, now, port);
        }
    }

    /// Do connections or TIME-WAIT entries use `port`?
    pub(crate) fn has_users(&self, port: u16) -> bool {
        self.port(port).users > 0
    }

    /// Other processes have `port` too: from now on the flows that begin and end there are told. False if they are
    /// already.
    pub(crate) fn share(&mut self, port: u16) -> bool {
        !std::mem::replace(&mut self.port_mut(port).shared, true)
    }

    /// A listener that holds `local` wants new connections, or no more.
    pub(crate) fn serve(&self, io: &mut dyn PacketIo, local: Endpoint, wanted: bool) {
        if let Some(at) = self.find(local, true).filter(|_| !local.addr.is_loopback())
            && let Some(sharing) = io.sharing()
        {
            sharing.serve(&self.bindings[&local.port][at].claim(), wanted);
        }
    }

    /// A listener that holds `local` has begun, or ends.
    pub(crate) fn note_listener(&self, io: &mut dyn PacketIo, local: Endpoint, begins: bool) {
        if let Some(at) = self.find(local, true).filter(|_| !local.addr.is_loopback())
            && let Some(sharing) = io.sharing()
        {
            sharing.listen(&self.bindings[&local.port][at].claim(), begins);
        }
    }

    /// A listener that holds `local` has this role from now on.
    pub(crate) fn set_role(&self, io: &mut dyn PacketIo, local: Endpoint, role: Role) {
        if let Some(at) = self.find(local, true).filter(|_| !local.addr.is_loopback())
            && let Some(sharing) = io.sharing()
        {
            sharing.set_role(&self.bindings[&local.port][at].claim(), role);
        }
    }

    /// Nothing uses `port` any more.
    fn idle(&mut self, io: &mut dyn PacketIo, now: Instant, port: u16) {
        if !self.kernel {
            return;
        }
        for claimed in self.claims.remove(&port).into_iter().flatten() {
            release(io, &claimed.claim);
        }
        let entry = self.port_mut(port);
        entry.shared = false;
        if entry.claimed.contains(&true) && !entry.lingers {
            entry.lingers = true;
            self.lingering.push_back((port, now + LINGER));
        }
    }

    /// When a claim may be due to go back.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.lingering.front().map(|&(_, at)| at)
    }

    /// Gives back claims that nothing used for a while.
    pub(crate) fn expire(&mut self, io: &mut dyn PacketIo, now: Instant) {
        for _ in 0..RELEASE_LOT {
            let Some(&(port, at)) = self.lingering.front() else { return };
            if at > now {
                return;
            }
            self.lingering.pop_front();
            let entry = self.port_mut(port);
            entry.lingers = false;
            if entry.users > 0 || entry.bound > 0 {
                continue;
            }
            let (claimed, lent_for) = (std::mem::take(&mut entry.claimed), entry.lent_for);
            for v4 in [true, false].into_iter().filter(|&v4| claimed[usize::from(v4)]) {
                release(io, &ephemeral(port, v4));
            }
            self.forget_lent(lent_for, port);
        }
    }

    /// Gives everything back.
    pub(crate) fn release_all(&mut self, io: &mut dyn PacketIo) {
        for claimed in std::mem::take(&mut self.claims).into_values().flatten() {
            release(io, &claimed.claim);
        }
        self.lent_count = 0;
        for port in std::mem::take(&mut self.lent).into_values().flatten() {
            let claimed = self.port(port).claimed;
            for v4 in [true, false].into_iter().filter(|&v4| claimed[usize::from(v4)]) {
                release(io, &ephemeral(port, v4));
            }
        }
    }

    /// Reserves a local endpoint; port 0 chooses one that nothing uses.
    pub(crate) fn bind(&mut self, io: &mut dyn PacketIo, mut binding: Binding) -> Result<Endpoint, OpError> {
        if binding.local.port != 0 {
            self.bind_exactly(io, binding)?;
            return Ok(binding.local);
        }
        self.draws[1] += 1;
        let start = self.key.strong(&self.draws) as u32;
        for step in 0..self.count {
            binding.local.port = self.nth(start, step);
            if self.port(binding.local.port).users > 0 {
                continue;
            }
            match self.bind_exactly(io, binding) {
                Ok(()) => return Ok(binding.local),
                Err(OpError::AddrInUse) => {}
                Err(other) => return Err(other),
            }
        }
        Err(OpError::AddrInUse)
    }

    fn bind_exactly(&mut self, io: &mut dyn PacketIo, binding: Binding) -> Result<(), OpError> {
        let port = binding.local.port;
        let others = self.bindings.get(&port).map_or(&[][..], Vec::as_slice);
        let used = self.port(port).users > 0 && !binding.reuse_addr && !binding.reuse_port;
        if used && others.is_empty() || others.iter().any(|other| binding.conflicts(other)) {
            return Err(OpError::AddrInUse);
        }
        self.claim(io, binding.claim())?;
        self.bindings.entry(port).or_default().push(binding);
        self.port_mut(port).bound += 1;
        Ok(())
    }

    fn claim(&mut self, io: &mut dyn PacketIo, claim: PortClaim) -> Result<(), OpError> {
        if !self.kernel || claim.addr.is_loopback() {
            return Ok(());
        }
        let claims = self.claims.entry(claim.port).or_default();
        if let Some(claimed) = claims.iter_mut().find(|claimed| claimed.claim == claim) {
            claimed.holders += 1;
            return Ok(());
        }
        match io.claims().map_or(Ok(()), |io| io.claim(&claim)) {
            Ok(()) => {
                claims.push(Claimed { claim, holders: 1 });
                Ok(())
            }
            Err(error) => {
                if claims.is_empty() {
                    self.claims.remove(&claim.port);
                }
                Err(refusal(error))
            }
        }
    }

    /// The reservation, by a bind that nothing listens on, that a connection or listener at `local` may use:
    /// for this address, or for any of its family, or for any at all.
    pub(crate) fn reservation(&self, local: Endpoint) -> Option<Endpoint> {
        let any = if local.addr.is_v4() { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 };
        [local.addr, any, Addr::UNSPECIFIED_V6]
            .into_iter()
            .map(|addr| Endpoint::new(addr, local.port))
            .find(|&reserved| self.find(reserved, false).is_some())
    }

    /// Of several that share an endpoint by consent, the first that was made.
    fn find(&self, local: Endpoint, listening: bool) -> Option<usize> {
        let bindings = self.bindings.get(&local.port)?;
        bindings.iter().position(|b| b.local == local && b.listening == listening)
    }

    /// Turns a reservation into a listener's.
    pub(crate) fn listen(&mut self, local: Endpoint, reuse_port: bool, v6_only: bool) -> Result<(), OpError> {
        let at = self.find(local, false).ok_or(OpError::Invalid)?;
        let bindings = self.bindings.entry(local.port).or_default();
        let request = Binding {
            listening: true,
            v6_only,
            reuse_port: reuse_port && bindings[at].reuse_port,
            ..bindings[at]
        };
        if bindings.iter().enumerate().any(|(i, other)| i != at && request.conflicts(other)) {
            return Err(OpError::AddrInUse);
        }
        bindings[at] = request;
        Ok(())
    }

    /// Gives a reservation back: a bind's, or a listener's.
    pub(crate) fn unbind(&mut self, io: &mut dyn PacketIo, now: Instant, local: Endpoint, listening: bool) {
        let Some(at) = self.find(local, listening) else { return };
        let bindings = self.bindings.entry(local.port).or_default();
        let binding = bindings.remove(at);
        if bindings.is_empty() {
            self.bindings.remove(&local.port);
        }
        let entry = self.port_mut(local.port);
        entry.bound -= 1;
        let users = entry.users;
        if users == 0 && entry.bound == 0 {
            self.forget(binding);
            self.idle(io, now, local.port);
        } else {
            self.unclaim(io, binding, users > 0);
        }
    }

    /// The holder count of a claim that goes back with its port.
    fn forget(&mut self, binding: Binding) {
        if let Some(claims) = self.claims.get_mut(&binding.local.port) {
            claims.iter_mut().filter(|c| c.claim == binding.claim()).for_each(|c| c.holders -= 1);
        }
    }

    /// One holder less; the claim itself stays while connections of the port may need it.
    fn unclaim(&mut self, io: &mut dyn PacketIo, binding: Binding, needed: bool) {
        self.forget(binding);
        let Some(claims) = self.claims.get_mut(&binding.local.port) else { return };
        if !needed && let Some(at) = claims.iter().position(|c| c.holders == 0) {
            release(io, &claims.swap_remove(at).claim);
        }
    }

    /// Chooses a local port for a connection to `remote` from `local`, such that `is_free(key)`. RFC 6056's algorithm
    /// 4 with a large table and steps that vary: a keyed start for each destination, so that what one destination
    /// sees says nothing about the next port to another, and a counter, so that a port comes back as late as
    /// possible. Where the kernel lends ports, those lent for this destination come first: they cost no system call.
    /// Where the link can tell, ports come first whose answers it brings to this core. Looped connections need no port
    /// of the kernel's, and their answers no link.
    /// RFC 6056, 3.1-1, 3.1-2, 3.1-3, 3.2-1, 3.3-1, 3.3-2, 3.3-3 and 3.4-1.
    pub(crate) fn choose(
        &mut self,
        io: &mut dyn PacketIo,
        local: Addr,
        remote: Endpoint,
        looped: bool,
        mut is_free: impl FnMut(&FlowKey) -> bool,
    ) -> Result<FlowKey, OpError> {
        let pair = FlowKey::new(Endpoint::new(local, 0), remote);
        let hash = self.hashes.of(&pair, || self.key.strong_flow(&pair));
        let (counter, destination) = (hash as usize % COUNTERS, (hash >> 32) as u32);
        let start = destination.wrapping_add(u32::from(self.counters[counter]));
        let family = usize::from(local.is_v4());
        let key_of = |port| FlowKey::new(Endpoint::new(local, port), remote);
        let mut io = io.claims();
        let lent = self.lent.get(&destination).map_or(&[][..], Vec::as_slice);
        for step in 0..lent.len().min(LENT_TRIES) {
            let (port, entry) = self.nth_lent(lent, start, step);
            let key = key_of(port);
            let answers = looped || io.as_ref().is_none_or(|io| io.answers_here(&key));
            if entry.claimed[family] && entry.bound == 0 && answers && is_free(&key) {
                self.advance(counter, step as u32, hash);
                return Ok(key);
            }
        }
        // With many lent, first only those.
        let mut claims = self.lent_count < LENT_ENOUGH;
        // And first those whose answers the link brings to this core.
        let (mut predicts, mut passed_by) = (!looped, false);
        let mut refused = None;
        loop {
            for step in 0..self.count {
                let port = self.nth(start, step);
                let entry = *self.port(port);
                let lacks = self.kernel && !looped && !entry.claimed[family];
                if entry.bound > 0 || lacks && !claims {
                    continue;
                }
                let key = key_of(port);
                if predicts && io.as_ref().is_some_and(|io| !io.answers_here(&key)) {
                    passed_by = true;
                    continue;
                }
                if !is_free(&key) {
                    continue;
                }
                if lacks {
                    let claim = ephemeral(port, local.is_v4());
                    if let Err(error) = io.as_mut().map_or(Ok(()), |io| io.claim(&claim)) {
                        refused = Some(refusal(error)).filter(|&e| e != OpError::AddrInUse);
                        // What one port is refused for the next one would be, too.
                        claims = refused.is_none();
                        continue;
                    }
                    self.lend(port, family, destination);
                }
                self.advance(counter, u32::from(step), hash);
                return Ok(key);
            }
            match refused {
                Some(error) => return Err(error),
                None if !claims => claims = true,
                None if predicts && passed_by => predicts = false,
                None => return Err(OpError::AddrNotAvailable),
            }
        }
    }

    fn nth_lent(&self, lent: &[u16], start: u32, step: usize) -> (u16, Port) {
        let port = lent[(start as usize + step) % lent.len()];
        (port, *self.port(port))
    }

    /// Moves a destination's counter past what was looked at, and a little further: by how much, its secret says.
    fn advance(&mut self, counter: usize, looked_at: u32, secret: u64) {
        let value = &mut self.counters[counter];
        let further = secret.rotate_left(u32::from(*value)) as u32 % STEP_MAX;
        *value = value.wrapping_add((looked_at + 1 + further) as u16);
    }

    fn lend(&mut self, port: u16, family: usize, destination: u32) {
        if !self.port(port).claimed.contains(&true) {
            self.port_mut(port).lent_for = destination;
            self.lent.entry(destination).or_default().push(port);
            self.lent_count += 1;
        }
        self.port_mut(port).claimed[family] = true;
    }

    fn forget_lent(&mut self, destination: u32, port: u16) {
        if let Some(lent) = self.lent.get_mut(&destination) {
            let before = lent.len();
            lent.retain(|&other| other != port);
            self.lent_count -= before - lent.len();
            if lent.is_empty() {
                self.lent.remove(&destination);
            }
        }
    }

    fn nth(&self, start: u32, step: u16) -> u16 {
        let index = (start.wrapping_add(u32::from(step))) % u32::from(self.count.max(1));
        self.first + index as u16 * self.stride
    }

    fn port(&self, port: u16) -> &Port {
        const UNUSED: Port =
            Port { users: 0, bound: 0, claimed: [false; 2], lent_for: 0, lingers: false, shared: false };
        match &self.pages[usize::from(port) >> PAGE_BITS] {
            Some(page) => &page[usize::from(port) % PAGE],
            None => &UNUSED,
        }
    }

    fn port_mut(&mut self, port: u16) -> &mut Port {
        let page = self.pages[usize::from(port) >> PAGE_BITS]
            .get_or_insert_with(|| Box::new([Port::default(); PAGE]));
        &mut page[usize::from(port) % PAGE]
    }
}

fn ephemeral(port: u16, v4: bool) -> PortClaim {
    let addr = if v4 { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 };
    PortClaim { addr, port, reuse_port: false, ephemeral: true, v6_only: true }
}

/// Gives a port back to the kernel.
fn release(io: &mut dyn PacketIo, claim: &PortClaim) {
    if let Some(io) = io.claims() {
        io.release(claim);
    }
}

fn refusal(error: ClaimError) -> OpError {
    match error {
        ClaimError::Denied => OpError::Denied,
        error if error.lacks_descriptors() => OpError::NoDescriptors,
        ClaimError::Os(_) => OpError::NoBuffers,
        _ => OpError::AddrInUse,
    }
}

#[cfg(test)]
mod tests;
