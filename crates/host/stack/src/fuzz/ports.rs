//! The ports of a core against a plain list of their holders, and a kernel that keeps books.

use base::{Addr, Duration, Endpoint, FlowKey, Input, Instant, SipKey};
use pio::{Caps, ClaimError, Claims, IoError, Medium, PacketIo, PortClaim, RxBatch, TxBatch};
use ring::Frame;
use std::os::fd::RawFd;

use crate::error::OpError;
use crate::tables::ports::{Binding, Ports};

/// The ephemeral range: few, so that they run out.
const RANGE: (u16, u16) = (700, 719);
const CORES: u16 = 2;
/// The first port that a call binds, and how many there are.
const FIRST: u16 = RANGE.0 - 3;
const PORTS: usize = (RANGE.1 - FIRST + 1) as usize;

/// Model of a port.
#[derive(Clone, Copy, Default)]
struct Known {
    bound: bool,
    users: u32,
    granted: bool,
    /// The kernel lent it, and not as an ephemeral port.
    kept: bool,
}

fn place(port: u16) -> usize {
    usize::from(port - FIRST)
}

/// Grants claims as the kernel does, and notes which.
pub(crate) struct Kernel {
    caps: Caps,
    pub(crate) granted: Vec<PortClaim>,
    /// The next refusals, for reasons of its own.
    moods: Vec<ClaimError>,
    /// A claim was refused since this was last cleared.
    refused: bool,
}

impl Kernel {
    /// A kernel that has granted nothing, and refuses nothing without need.
    pub(crate) fn new() -> Self {
        Kernel { caps: caps(), granted: Vec::new(), moods: Vec::new(), refused: false }
    }
}

impl Claims for Kernel {
    fn claim(&mut self, claim: &PortClaim) -> Result<(), ClaimError> {
        assert_ne!(claim.port, 0);
        assert!(!self.granted.contains(claim), "{claim:?} is ours already");
        let binding = |claim: &PortClaim| Binding {
            local: Endpoint::new(claim.addr, claim.port),
            reuse_addr: false,
            reuse_port: claim.reuse_port,
            v6_only: claim.v6_only,
            listening: true,
        };
        let taken = self.granted.iter().any(|other| {
            !claim.ephemeral && !other.ephemeral && in_the_way(&binding(claim), &binding(other))
        });
        let refusal = if taken { Some(ClaimError::InUse) } else { self.moods.pop() };
        match refusal {
            Some(why) => {
                self.refused = true;
                Err(why)
            }
            None => {
                self.granted.push(*claim);
                Ok(())
            }
        }
    }

    fn release(&mut self, claim: &PortClaim) {
        let at = self.granted.iter().position(|other| other == claim);
        self.granted.swap_remove(at.unwrap_or_else(|| panic!("{claim:?} was not ours")));
    }
}

impl PacketIo for Kernel {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn take(&mut self) -> Option<Frame> {
        None
    }

    fn retire(&mut self, _: Frame) {}

    fn rx(&mut self, _: &mut RxBatch) -> Result<usize, IoError> {
        Ok(0)
    }

    fn tx(&mut self, _: &mut TxBatch) -> Result<usize, IoError> {
        Ok(0)
    }

    fn arm(&mut self, _: &mut Vec<RawFd>) -> Result<bool, IoError> {
        Ok(true)
    }

    fn claims(&mut self) -> Option<&mut dyn Claims> {
        Some(self)
    }
}

/// Do the two bindings stand for a common address of one port, without consent to share it? As Linux says it:
/// SO_REUSEPORT on both, or SO_REUSEADDR on both while nothing listens.
fn in_the_way(a: &Binding, b: &Binding) -> bool {
    let families = |b: &Binding| {
        let v4 = b.local.addr.is_v4();
        (v4 || b.local.addr.is_unspecified() && !b.v6_only, !v4)
    };
    let ((a4, a6), (b4, b6)) = (families(a), families(b));
    let any = a.local.addr.is_unspecified() || b.local.addr.is_unspecified();
    let meet = a.local.addr == b.local.addr || any && (a4 && b4 || a6 && b6);
    let both_ports = a.reuse_port && b.reuse_port;
    let both_addrs = a.reuse_addr && b.reuse_addr && !(a.listening || b.listening);
    a.local.port == b.local.port && meet && !both_ports && !both_addrs
}

/// A connection or what is left of one.
struct Held {
    key: FlowKey,
    /// It has a reservation of its own.
    bound: bool,
}

struct Model {
    ports: Ports,
    kernel: Kernel,
    lends: bool,
    now: Instant,
    bindings: Vec<Binding>,
    held: Vec<Held>,
}

/// Model of the port table: binds conflict exactly when Linux says so, a connect gets a port that nothing has,
/// nothing is claimed twice or given back that is in use, and what nothing uses any more goes back.
pub fn ports(data: &[u8]) {
    let mut input = Input::new(data);
    let lends = input.u8() & 1 == 0;
    let core = (input.u16() % CORES, CORES);
    let key = SipKey::new(input.u32().into(), 7);
    let mut model = Model {
        ports: Ports::new(RANGE, core, lends, key, input.u32().into()),
        kernel: Kernel::new(),
        lends,
        now: Instant::from_secs(1),
        bindings: Vec::new(),
        held: Vec::new(),
    };
    while !input.is_empty() {
        model.kernel.refused = false;
        match input.u8() % 11 {
            0 | 1 => model.bind(&mut input, core.0),
            2 => model.listen(&mut input),
            3 => model.unbind(&mut input),
            4 | 5 => model.connect(&mut input, core.0),
            6 => model.connect_from_binding(&mut input),
            7 => model.accept(&mut input),
            8 => model.close(&mut input),
            9 => model.pass(Duration::from_secs(u64::from(input.u8()) % 40)),
            _ => model.annoy(&mut input),
        }
        model.compare();
    }
    model.end(input.u8() & 1 == 0);
}

fn caps() -> Caps {
    Caps { shares_kernel_addresses: true, queues: CORES, ..Caps::plain("model", 1500, Medium::Ip, [0; 6]) }
}

fn addr(input: &mut Input<'_>) -> Addr {
    match input.u8() % 4 {
        0 => Addr::UNSPECIFIED_V4,
        1 => Addr::UNSPECIFIED_V6,
        2 => Addr::v4([10, 0, 0, 1]),
        _ => Addr::v6([0xfd; 16]),
    }
}

fn is_ephemeral(port: u16, core: u16) -> bool {
    (RANGE.0..=RANGE.1).contains(&port) && (port - RANGE.0) % CORES == core
}

impl Model {
    fn users(&self, port: u16) -> usize {
        self.held.iter().filter(|held| held.key.local().port == port).count()
    }

    fn may_bind(&self, request: &Binding) -> bool {
        let port = request.local.port;
        let mut others = self.bindings.iter().filter(|other| other.local.port == port).peekable();
        let stranded =
            others.peek().is_none() && self.users(port) > 0 && !request.reuse_addr && !request.reuse_port;
        !stranded && !others.any(|other| in_the_way(request, other))
    }

    fn bind(&mut self, input: &mut Input<'_>, core: u16) {
        let flags = input.u8();
        // Some ports of the range, some below it, or any.
        let port = if flags & 16 == 0 { 697 + input.u16() % 8 } else { 0 };
        let mut request = Binding {
            local: Endpoint::new(addr(input), port),
            reuse_addr: flags & 1 != 0,
            reuse_port: flags & 2 != 0,
            v6_only: flags & 4 != 0,
            listening: false,
        };
        let before = self.kernel.granted.len();
        match self.ports.bind(&mut self.kernel, request) {
            Ok(local) => {
                assert!(local == request.local || port == 0 && local.addr == request.local.addr);
                request.local = local;
                assert!(self.may_bind(&request), "{request:?} is in the way of another");
                assert!(port != 0 || is_ephemeral(local.port, core) && self.users(local.port) == 0);
                self.bindings.push(request);
            }
            Err(why) => {
                assert_eq!(self.kernel.granted.len(), before, "a bind that failed keeps nothing");
                assert!(self.kernel.refused || why == OpError::AddrInUse);
                let free = |port| {
                    self.may_bind(&Binding { local: Endpoint::new(request.local.addr, port), ..request })
                };
                let none = match port {
                    0 => !(RANGE.0..=RANGE.1)
                        .any(|port| is_ephemeral(port, core) && self.users(port) == 0 && free(port)),
                    port => !free(port),
                };
                assert!(self.kernel.refused || none, "{request:?} was refused without need");
            }
        }
    }

    fn pick(&self, input: &mut Input<'_>) -> Option<usize> {
        (!self.bindings.is_empty()).then(|| input.u8() as usize % self.bindings.len())
    }

    /// The binding that the table means by this name: the first of its kind.
    fn meant(&self, local: Endpoint, listening: bool) -> Option<usize> {
        self.bindings.iter().position(|b| b.local == local && b.listening == listening)
    }

    fn listen(&mut self, input: &mut Input<'_>) {
        let Some(local) = self.pick(input).map(|at| self.bindings[at].local) else { return };
        let reservation = self.meant(local, false);
        assert!(reservation.is_none() || self.ports.reservation(local).is_some());
        let Some(at) = reservation else {
            assert_eq!(self.ports.listen(local, true, true), Err(OpError::Invalid));
            return;
        };
        let request = Binding { listening: true, ..self.bindings[at] };
        let mut others = self.bindings.iter().enumerate().filter(|&(other, _)| other != at);
        let free = !others.any(|(_, other)| in_the_way(&request, other));
        let done = self.ports.listen(local, request.reuse_port, request.v6_only);
        assert_eq!(done, if free { Ok(()) } else { Err(OpError::AddrInUse) });
        if free {
            self.bindings[at] = request;
        }
    }

    fn unbind(&mut self, input: &mut Input<'_>) {
        let Some(Binding { local, listening, .. }) = self.pick(input).map(|at| self.bindings[at]) else {
            return;
        };
        self.give_back(local, listening);
    }

    fn give_back(&mut self, local: Endpoint, listening: bool) {
        let at = self.meant(local, listening).expect("it is in the list");
        self.bindings.remove(at);
        self.ports.unbind(&mut self.kernel, self.now, local, listening);
    }

    fn remote(input: &mut Input<'_>) -> u16 {
        4000 + u16::from(input.u8() % 3)
    }

    fn connect(&mut self, input: &mut Input<'_>, core: u16) {
        let v4 = input.u8() & 1 == 0;
        let (local, peer) = if v4 {
            (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]))
        } else {
            (Addr::v6([0xfd; 16]), Addr::v6([0xfe; 16]))
        };
        let remote = Endpoint::new(peer, Model::remote(input));
        let held = &self.held;
        let is_free = |key: &FlowKey| held.iter().all(|held| held.key != *key);
        match self.ports.choose(&mut self.kernel, local, remote, false, is_free) {
            Ok(key) => {
                assert_eq!((key.local().addr, key.remote()), (local, remote));
                let port = key.local().port;
                assert!(is_ephemeral(port, core) && is_free(&key));
                assert!(self.bindings.iter().all(|b| b.local.port != port), "port {port} is in use");
                let lent = |claim: &PortClaim| {
                    claim.ephemeral && claim.port == port && claim.addr.is_v4() == local.is_v4()
                };
                assert!(!self.lends || self.kernel.granted.iter().any(lent), "port {port} is the kernel's");
                self.ports.hold(&mut self.kernel, &key);
                self.held.push(Held { key, bound: false });
            }
            Err(why) => {
                assert!(self.kernel.refused || why == OpError::AddrNotAvailable);
                let free = |port: u16| {
                    is_ephemeral(port, core)
                        && is_free(&FlowKey::new(Endpoint::new(local, port), remote))
                        && self.bindings.iter().all(|b| b.local.port != port)
                };
                let any = (RANGE.0..=RANGE.1).find(|&port| free(port));
                assert!(self.kernel.refused || any.is_none(), "{any:?} was free");
            }
        }
    }

    /// A connection that uses its reservation.
    fn connect_from_binding(&mut self, input: &mut Input<'_>) {
        let Some(Binding { local, listening: false, .. }) = self.pick(input).map(|at| self.bindings[at])
        else {
            return;
        };
        assert!(self.ports.reservation(local).is_some());
        self.begin(local, Model::remote(input), true);
    }

    /// A connection to a listener.
    fn accept(&mut self, input: &mut Input<'_>) {
        let Some(Binding { local, listening: true, .. }) = self.pick(input).map(|at| self.bindings[at])
        else {
            return;
        };
        self.begin(local, Model::remote(input), false);
    }

    fn begin(&mut self, local: Endpoint, remote: u16, bound: bool) {
        let key = FlowKey::new(local, Endpoint::new(local.addr, remote));
        let taken =
            self.held.iter().any(|held| held.key == key || bound && held.bound && held.key.local() == local);
        if !taken {
            self.ports.hold(&mut self.kernel, &key);
            self.held.push(Held { key, bound });
        }
    }

    /// A connection is over: with its reservation, or, in TIME-WAIT, after it.
    fn close(&mut self, input: &mut Input<'_>) {
        if self.held.is_empty() {
            return;
        }
        let at = input.u8() as usize % self.held.len();
        let local = self.held[at].key.local();
        if self.held[at].bound && input.u8() & 1 == 0 {
            self.held[at].bound = false;
            return self.give_back_of(local);
        }
        let held = self.held.swap_remove(at);
        self.ports.let_go(&mut self.kernel, self.now, &held.key);
        if held.bound {
            self.give_back_of(local);
        }
    }

    /// The reservation of a connection, unless its owner gave it back before.
    fn give_back_of(&mut self, local: Endpoint) {
        if self.meant(local, false).is_some() {
            self.give_back(local, false);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        for _ in 0..100 {
            if self.ports.next().is_none_or(|at| at > self.now) {
                return;
            }
            self.ports.expire(&mut self.kernel, self.now);
        }
        panic!("the table asks to be looked at for ever");
    }

    /// The kernel refuses the next claims.
    fn annoy(&mut self, input: &mut Input<'_>) {
        let mood = input.u8();
        self.kernel.moods = (0..mood % 4)
            .map(|step| match (mood >> 2).wrapping_add(step) % 3 {
                0 => ClaimError::InUse,
                1 => ClaimError::Denied,
                _ => ClaimError::Os(std::io::ErrorKind::OutOfMemory.into()),
            })
            .collect();
    }

    fn compare(&self) {
        // One walk over each list, whatever the ports: the lists are longer than the range.
        let mut known = [Known::default(); PORTS];
        self.bindings.iter().for_each(|binding| known[place(binding.local.port)].bound = true);
        self.held.iter().for_each(|held| known[place(held.key.local().port)].users += 1);
        let granted = &self.kernel.granted;
        for claim in granted {
            let known = &mut known[place(claim.port)];
            (known.granted, known.kept) = (true, known.kept || !claim.ephemeral);
        }
        for (port, Known { bound, users, granted, kept }) in (FIRST..).zip(known) {
            assert_eq!(self.ports.is_ours(port), !self.lends || granted, "port {port}");
            assert!(granted || !self.lends || !bound && users == 0);
            assert!(bound || users > 0 || !self.lends || !kept, "port {port} is kept");
        }
        let mut ports: Vec<_> =
            granted.iter().map(|claim| if claim.ephemeral { claim.port } else { 0 }).collect();
        ports.sort_unstable();
        let bound = ports.iter().filter(|&&port| port == 0).count();
        ports.dedup();
        let lent = ports.iter().filter(|&&port| port != 0).count();
        assert_eq!(self.ports.claimed(), lent + bound);
    }

    /// Everything ends, one by one or at once: nothing stays with us.
    fn end(mut self, at_once: bool) {
        if at_once {
            self.ports.release_all(&mut self.kernel);
        } else {
            while let Some(held) = self.held.pop() {
                self.ports.let_go(&mut self.kernel, self.now, &held.key);
            }
            while let Some(&Binding { local, listening, .. }) = self.bindings.first() {
                self.give_back(local, listening);
            }
            while let Some(at) = self.ports.next() {
                self.now = at;
                self.ports.expire(&mut self.kernel, at);
            }
        }
        assert!(!self.lends || self.kernel.granted.is_empty(), "{:?} is kept", self.kernel.granted);
    }
}
