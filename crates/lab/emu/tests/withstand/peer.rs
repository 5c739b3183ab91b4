//! An application that sends and checks bytes whose value follows from their position, on any number of
//! connections, in pieces of random size.

use base::{Duration, Endpoint, Instant, Rng};
use emu::App;
use stack::{ConnId, Connect, Core, Listen, ListenerId, Notice, OpError};
use std::sync::Arc;
use tcp::{Events, Hints, ReadError, Shutdown, SocketOptions, WriteError};

/// Plan for a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Bytes to send.
    pub(crate) send: u64,
    /// Bytes that must come.
    pub(crate) expect: u64,
    /// Salt of the bytes sent; the other end's `expect_salt`.
    pub(crate) salt: u64,
    /// Salt of the bytes expected.
    pub(crate) expect_salt: u64,
    /// Chance, whenever there may be something to read, to look away for a while instead.
    pub(crate) lazy: f64,
    /// Share of writes that lend instead of having copied.
    pub(crate) lends: f64,
    /// Close only after the peer has (else as soon as everything is sent and read).
    pub(crate) close_last: bool,
    /// The socket's options.
    pub(crate) options: SocketOptions,
}

impl Plan {
    /// A plan and its mirror image for the other end: `up` bytes one way and `down` the other.
    pub(crate) fn both(up: u64, down: u64) -> (Plan, Plan) {
        let client = Plan {
            send: up,
            expect: down,
            salt: 1,
            expect_salt: 2,
            lazy: 0.0,
            lends: 0.0,
            close_last: false,
            options: SocketOptions::default(),
        };
        let server = Plan { send: down, expect: up, salt: 2, expect_salt: 1, ..client };
        (client, server)
    }
}

/// The bytes from position `at` of the stream with `salt`: each eight are one mixed word.
pub(crate) fn fill(salt: u64, at: u64, into: &mut [u8]) {
    let word = |index: u64| {
        let x = (index ^ salt << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()
    };
    let skip = (at % 8) as usize;
    let (head, rest) = into.split_at_mut(into.len().min((8 - skip) % 8));
    head.copy_from_slice(&word(at / 8)[skip..skip + head.len()]);
    for (nth, chunk) in rest.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&word(at.div_ceil(8) + nth as u64)[..chunk.len()]);
    }
}

/// How connections ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) opened: u64,
    pub(crate) accepted: u64,
    /// Everything sent, everything expected read, closed in order.
    pub(crate) complete: u64,
    /// Closed in order but with bytes missing.
    pub(crate) short: u64,
    pub(crate) refused: u64,
    pub(crate) reset: u64,
    pub(crate) timed_out: u64,
    /// The neighbour did not answer (the link itself is cut) or ICMP said so.
    pub(crate) unreachable: u64,
    pub(crate) other: u64,
    /// Bytes read and checked, bytes taken by write.
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// Times `write` had no memory.
    pub(crate) no_memory: u64,
}

impl Tally {
    pub(crate) fn ended(&self) -> u64 {
        let failed = self.refused + self.reset + self.lost_peer() + self.other;
        self.complete + self.short + failed
    }

    /// Those that gave up on a silent peer.
    pub(crate) fn lost_peer(&self) -> u64 {
        self.timed_out + self.unreachable
    }

    fn fail(&mut self, why: tcp::Error) {
        *match why {
            tcp::Error::Refused => &mut self.refused,
            tcp::Error::Reset | tcp::Error::BrokenPipe => &mut self.reset,
            tcp::Error::TimedOut => &mut self.timed_out,
            tcp::Error::HostUnreachable | tcp::Error::NetUnreachable => &mut self.unreachable,
            tcp::Error::Aborted | tcp::Error::NetDown => &mut self.other,
        } += 1;
    }
}

#[derive(Debug)]
struct Flow {
    id: ConnId,
    plan: Plan,
    sent: u64,
    received: u64,
    finished: bool,
    shut: bool,
    wake: Option<Instant>,
}

/// The application.
pub(crate) struct Peer {
    pub(crate) tally: Tally,
    listeners: Vec<(ListenerId, Plan)>,
    flows: Vec<Option<Flow>>,
    vacant: Vec<u32>,
    dozing: Vec<u32>,
    rng: Rng,
    ours: Vec<u8>,
    theirs: Vec<u8>,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.tally)?;
        for flow in self.flows.iter().flatten().take(4) {
            let Flow { sent, received, finished, shut, wake, .. } = flow;
            write!(f, "\n  sent {sent} received {received} finished {finished} shut {shut} wake {wake:?}")?;
        }
        Ok(())
    }
}

/// Owners from here on are listeners.
const LISTENERS: u32 = 1 << 31;
const PIECE: usize = 64 << 10;

impl Peer {
    pub(crate) fn new(seed: u64) -> Self {
        Peer {
            tally: Tally::default(),
            listeners: Vec::new(),
            flows: Vec::new(),
            vacant: Vec::new(),
            dozing: Vec::new(),
            rng: Rng::new(seed),
            ours: vec![0; PIECE],
            theirs: vec![0; PIECE],
        }
    }

    /// Has it no connection?
    pub(crate) fn is_idle(&self) -> bool {
        self.vacant.len() == self.flows.len()
    }

    /// Connections it has.
    pub(crate) fn open(&self) -> usize {
        self.flows.len() - self.vacant.len()
    }

    pub(crate) fn listen(&mut self, core: &mut Core, now: Instant, local: Endpoint, plan: Plan) {
        let listen = Listen {
            local,
            backlog: 1024,
            reuse_port: false,
            v6_only: false,
            options: plan.options,
            control: None,
            owner: LISTENERS + self.listeners.len() as u32,
            keys: None,
        };
        let (id, _) = core.listen(now, &listen).expect("a port to listen on");
        self.listeners.push((id, plan));
    }

    pub(crate) fn set_backlog(&mut self, core: &mut Core, backlog: u32) {
        core.set_backlog(self.listeners[0].0, backlog);
    }

    pub(crate) fn connect(
        &mut self,
        core: &mut Core,
        now: Instant,
        remote: Endpoint,
        plan: Plan,
    ) -> Result<ConnId, OpError> {
        let any = if remote.addr.is_v4() { base::Addr::UNSPECIFIED_V4 } else { base::Addr::UNSPECIFIED_V6 };
        self.connect_from(core, now, Endpoint::new(any, 0), remote, plan)
    }

    pub(crate) fn connect_from(
        &mut self,
        core: &mut Core,
        now: Instant,
        local: Endpoint,
        remote: Endpoint,
        plan: Plan,
    ) -> Result<ConnId, OpError> {
        let owner = self.vacant.last().copied().unwrap_or(self.flows.len() as u32);
        let connect = Connect {
            local,
            remote,
            reuse_addr: true,
            options: plan.options,
            control: None,
            owner,
            keys: None,
        };
        let id = core.connect(now, &connect)?;
        self.tally.opened += 1;
        let kept = self.keep(id, plan);
        assert_eq!(kept, owner);
        Ok(id)
    }

    /// Connects with the first bytes in the SYN, if it takes any; how many it took.
    pub(crate) fn connect_fast(
        &mut self,
        core: &mut Core,
        now: Instant,
        remote: Endpoint,
        plan: Plan,
    ) -> usize {
        let any = if remote.addr.is_v4() { base::Addr::UNSPECIFIED_V4 } else { base::Addr::UNSPECIFIED_V6 };
        let (local, options) = (Endpoint::new(any, 0), plan.options);
        let owner = self.vacant.last().copied().unwrap_or(self.flows.len() as u32);
        let connect = Connect { local, remote, reuse_addr: true, options, control: None, owner, keys: None };
        let mut first = vec![0; plan.send.min(PIECE as u64) as usize];
        fill(plan.salt, 0, &mut first);
        let (id, taken) = core.connect_fast(now, &connect, false, &first).expect("a port to spare");
        self.tally.opened += 1;
        self.tally.sent += taken as u64;
        let kept = self.keep(id, plan);
        assert_eq!(kept, owner);
        self.flows[owner as usize].as_mut().expect("it is kept").sent = taken as u64;
        taken
    }

    /// Stores a connection; its owner's number.
    fn keep(&mut self, id: ConnId, plan: Plan) -> u32 {
        let flow = Flow { id, plan, sent: 0, received: 0, finished: false, shut: false, wake: None };
        let owner = self.vacant.pop().unwrap_or_else(|| {
            self.flows.push(None);
            self.flows.len() as u32 - 1
        });
        self.flows[owner as usize] = Some(flow);
        owner
    }

    fn accept_all(&mut self, core: &mut Core, now: Instant, nth: usize) {
        let (listener, plan) = self.listeners[nth];
        loop {
            let owner = self.vacant.last().copied().unwrap_or(self.flows.len() as u32);
            let Some(id) = core.accept(listener, owner) else { return };
            self.tally.accepted += 1;
            let kept = self.keep(id, plan);
            assert_eq!(kept, owner);
            self.drive(core, now, owner);
        }
    }

    /// Reads and writes as long as the connection lets it.
    fn drive(&mut self, core: &mut Core, now: Instant, owner: u32) {
        let Some(mut flow) = self.flows.get_mut(owner as usize).and_then(Option::take) else { return };
        let failure = self.pump(core, now, &mut flow).err();
        if let Some(why) = failure {
            core.close(now, flow.id);
            self.tally.fail(why);
            self.vacant.push(owner);
        } else if flow.finished && flow.shut {
            core.close(now, flow.id);
            let whole = flow.sent == flow.plan.send && flow.received == flow.plan.expect;
            *if whole { &mut self.tally.complete } else { &mut self.tally.short } += 1;
            self.vacant.push(owner);
        } else {
            if flow.wake.is_some() && !self.dozing.contains(&owner) {
                self.dozing.push(owner);
            }
            self.flows[owner as usize] = Some(flow);
        }
    }

    fn pump(&mut self, core: &mut Core, now: Instant, flow: &mut Flow) -> Result<(), tcp::Error> {
        if flow.wake.is_some_and(|wake| wake > now) {
            self.send(core, now, flow)?;
            return Ok(());
        }
        flow.wake = None;
        if !flow.finished && flow.plan.lazy > 0.0 && self.rng.chance(flow.plan.lazy) {
            flow.wake = Some(now + Duration::from_millis(1 + self.rng.below(800)));
            return self.send(core, now, flow);
        }
        self.receive(core, now, flow)?;
        self.send(core, now, flow)
    }

    fn receive(&mut self, core: &mut Core, now: Instant, flow: &mut Flow) -> Result<(), tcp::Error> {
        while !flow.finished {
            let want = 1 + self.rng.below(PIECE as u64) as usize;
            match core.read(now, flow.id, &mut self.theirs[..want]) {
                Ok(len) => {
                    assert!(len > 0 && len <= want, "read gave {len} of {want}");
                    fill(flow.plan.expect_salt, flow.received, &mut self.ours[..len]);
                    let at = flow.received;
                    assert!(
                        self.ours[..len] == self.theirs[..len],
                        "wrong bytes in {len} from position {at}"
                    );
                    flow.received += len as u64;
                    self.tally.received += len as u64;
                    assert!(flow.received <= flow.plan.expect, "more bytes than were sent");
                }
                Err(ReadError::Empty | ReadError::NotConnected) => return Ok(()),
                Err(ReadError::Finished) => flow.finished = true,
                Err(ReadError::Failed(why)) => return Err(why),
            }
        }
        Ok(())
    }

    fn send(&mut self, core: &mut Core, now: Instant, flow: &mut Flow) -> Result<(), tcp::Error> {
        while flow.sent < flow.plan.send {
            let most = (flow.plan.send - flow.sent).min(PIECE as u64);
            let piece = &mut self.ours[..1 + self.rng.below(most) as usize];
            fill(flow.plan.salt, flow.sent, piece);
            let lends = flow.plan.lends > 0.0 && self.rng.chance(flow.plan.lends);
            let taken = if lends {
                core.lend(now, flow.id, &Arc::from(&*piece), 0..piece.len(), &Hints::default())
            } else {
                core.write(now, flow.id, piece)
            };
            match taken {
                Ok(len) => {
                    assert!(len > 0 && len <= piece.len(), "write took {len} of {}", piece.len());
                    flow.sent += len as u64;
                    self.tally.sent += len as u64;
                }
                Err(WriteError::NoMemory) => {
                    self.tally.no_memory += 1;
                    return Ok(());
                }
                Err(WriteError::Full | WriteError::NotConnected) => return Ok(()),
                Err(WriteError::Shutdown) => return Err(tcp::Error::Reset),
                Err(WriteError::Failed(why)) => return Err(why),
            }
        }
        if !flow.shut && (!flow.plan.close_last || flow.finished) {
            core.shutdown(now, flow.id, Shutdown::Write);
            flow.shut = true;
        }
        Ok(())
    }

    /// Wakes those who looked away; the date of the next.
    fn wake(&mut self, core: &mut Core, now: Instant) -> Option<Instant> {
        let mut next = None;
        for owner in std::mem::take(&mut self.dozing) {
            let Some(flow) = &self.flows[owner as usize] else { continue };
            if flow.wake.is_some_and(|wake| wake <= now) {
                self.drive(core, now, owner);
            } else {
                self.dozing.push(owner);
            }
        }
        for owner in &self.dozing {
            next = Instant::earliest(next, self.flows[*owner as usize].as_ref().and_then(|flow| flow.wake));
        }
        next
    }

    /// Closes everything at once with RST.
    pub(crate) fn abort_all(&mut self, core: &mut Core, now: Instant) {
        for owner in 0..self.flows.len() as u32 {
            if let Some(flow) = self.flows[owner as usize].take() {
                core.abort(now, flow.id);
                self.tally.other += 1;
                self.vacant.push(owner);
            }
        }
    }
}

impl App for Peer {
    fn step(&mut self, core: &mut Core, now: Instant, notices: &[Notice]) -> Option<Instant> {
        for notice in notices {
            if notice.owner >= LISTENERS {
                assert!(notice.events.any(Events::READABLE));
                self.accept_all(core, now, (notice.owner - LISTENERS) as usize);
            } else {
                let failed = notice.events.any(Events::ERROR);
                self.drive(core, now, notice.owner);
                if failed {
                    self.bury(core, now, notice.owner);
                }
            }
        }
        self.wake(core, now)
    }
}

impl Peer {
    /// A connection that failed while it was being opened has nothing to read or write that would say so.
    fn bury(&mut self, core: &mut Core, now: Instant, owner: u32) {
        let Some(flow) = &self.flows[owner as usize] else { return };
        let Some(why) = core.take_error(flow.id) else { return };
        core.close(now, flow.id);
        self.tally.fail(why);
        self.flows[owner as usize] = None;
        self.vacant.push(owner);
    }
}

#[test]
fn the_pattern_does_not_depend_on_how_it_is_cut() {
    let mut whole = [0; 200];
    fill(9, 3, &mut whole);
    for cut in 0..200 {
        let mut parts = [0; 200];
        let (a, b) = parts.split_at_mut(cut);
        fill(9, 3, a);
        fill(9, 3 + cut as u64, b);
        assert_eq!(parts, whole, "cut at {cut}");
    }
    let mut other = [0; 200];
    fill(8, 3, &mut other);
    assert_ne!(other, whole);
}
