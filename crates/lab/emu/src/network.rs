//! Hosts, ports, pipes and switches, and the one loop that moves time.
//!
//! Time jumps from event to event. All packets that arrive at one instant are delivered before the hosts they
//! are for take their step, so a host sees a burst as a burst. Hosts step in the order in which they became
//! ready.

use crate::clock::Clock;
use crate::medium::{Meta, Packet, Shared, packet_of};
use crate::pipe::{DropReason, Pipe, PipeConfig};
use crate::port::{PortConfig, SimPort};
use crate::switch::Switch;
use base::{Instant, Rng};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Buffers kept for packets to come: where pipes make two of one, more come back than were taken.
const SPARES_MAX: usize = 1 << 15;

/// A host of a network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HostId(pub u32);
/// A port of a network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PortId(pub u32);
/// One direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PipeId(pub u32);
/// A switch of a network.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SwitchId(pub u32);

/// Something that lives at the ends of pipes and does a bounded bit of work when its time comes.
pub trait Host {
    /// Packets have arrived or the date of the last step has come: receive, work, send. The date of the next
    /// step if nothing arrives before; `now` or earlier to be stepped again at once.
    fn step(&mut self, now: Instant) -> Option<Instant>;
}

impl<H: Host + ?Sized> Host for Box<H> {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        (**self).step(now)
    }
}

/// Steps a host may take at one instant before it counts as running in circles.
const STEPS_AT_ONCE_MAX: u32 = 1_000_000;

/// Event of a packet at a pipe, for observers ([`Network::watch`]).
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// When.
    pub at: Instant,
    /// Where.
    pub pipe: PipeId,
    /// It entered (`Ok`) or was dropped.
    pub fate: Result<(), DropReason>,
    /// The packet as it came to the pipe.
    pub packet: &'a [u8],
}

type Watcher = Box<dyn FnMut(&Sight<'_>)>;

struct HostSlot<H> {
    host: H,
    ports: Vec<PortId>,
    /// When it wants to be stepped.
    wake_at: Option<Instant>,
    /// The date of its event in the queue, no later than the request.
    event: Option<Instant>,
    ready: bool,
    last_step: Instant,
    steps_at_once: u32,
}

struct PortSlot {
    host: Option<HostId>,
    out: Option<PipeId>,
    rx_ring: usize,
    missed: u64,
}

struct PipeSlot {
    pipe: Pipe,
    to: End,
    /// The date of its event in the queue, no later than its next packet.
    event: Option<Instant>,
}

#[derive(Clone, Copy)]
enum End {
    Port(PortId),
    Switch(SwitchId, usize),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Host(u32),
    Pipe(u32),
}

/// A date in the queue: time, then the order in which dates were made.
type Event = Reverse<(Instant, u64, Source)>;

/// A network in virtual time, with hosts of one kind (`Box<dyn Host>` for several).
pub struct Network<H> {
    now: Instant,
    seed: Rng,
    next_event: u64,
    events: BinaryHeap<Event>,
    ready: VecDeque<HostId>,
    hosts: Vec<HostSlot<H>>,
    ports: Vec<PortSlot>,
    pipes: Vec<PipeSlot>,
    switches: Vec<Switch>,
    medium: Shared,
    spare: Vec<Packet>,
    sent: Vec<Packet>,
    routes: Vec<PipeId>,
    watcher: Option<Watcher>,
    clock: Clock,
}

impl<H: Host> Network<H> {
    /// An empty network at time zero; every random choice in it follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Network {
            now: Instant::ZERO,
            seed: Rng::new(seed),
            next_event: 0,
            events: BinaryHeap::new(),
            ready: VecDeque::new(),
            hosts: Vec::new(),
            ports: Vec::new(),
            pipes: Vec::new(),
            switches: Vec::new(),
            medium: Shared::default(),
            spare: Vec::new(),
            sent: Vec::new(),
            routes: Vec::new(),
            watcher: None,
            clock: Clock::default(),
        }
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the clock, for calls in the middle of a host's step.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// A new port, for a host to own.
    ///
    /// # Panics
    /// If the machine has no memory for its frames.
    pub fn port(&mut self, config: &PortConfig) -> SimPort {
        let id = PortId(self.ports.len() as u32);
        self.medium.lock().ports.push(Default::default());
        self.ports.push(PortSlot { host: None, out: None, rx_ring: config.rx_ring, missed: 0 });
        SimPort::new(id, config, self.medium.clone()).expect("memory for the port's frames")
    }

    /// A new host that owns `ports`. Its first step comes at once.
    pub fn add_host(&mut self, host: H, ports: &[PortId]) -> HostId {
        let id = HostId(self.hosts.len() as u32);
        for port in ports {
            self.ports[port.0 as usize].host = Some(id);
        }
        self.hosts.push(HostSlot {
            host,
            ports: ports.to_vec(),
            wake_at: None,
            event: None,
            ready: false,
            last_step: Instant::ZERO,
            steps_at_once: 0,
        });
        self.make_ready(id);
        id
    }

    /// A new switch without ports.
    pub fn add_switch(&mut self) -> SwitchId {
        self.switches.push(Switch::default());
        SwitchId(self.switches.len() as u32 - 1)
    }

    /// Joins two ports: the pipe from `a` to `b`, and back.
    pub fn link(&mut self, a: PortId, b: PortId, there: &PipeConfig, back: &PipeConfig) -> (PipeId, PipeId) {
        let there = self.pipe_to(End::Port(b), there);
        let back = self.pipe_to(End::Port(a), back);
        self.ports[a.0 as usize].out = Some(there);
        self.ports[b.0 as usize].out = Some(back);
        (there, back)
    }

    /// Joins a port to a switch: the pipe towards the switch, and back.
    pub fn plug(
        &mut self,
        a: PortId,
        switch: SwitchId,
        up: &PipeConfig,
        down: &PipeConfig,
    ) -> (PipeId, PipeId) {
        let back = self.pipe_to(End::Port(a), down);
        let nth = self.switches[switch.0 as usize].add(back);
        let there = self.pipe_to(End::Switch(switch, nth), up);
        self.ports[a.0 as usize].out = Some(there);
        (there, back)
    }

    /// Joins two switches: the pipe from `a` to `b`, and back. Switches and trunks must not make a circle.
    pub fn trunk(
        &mut self,
        a: SwitchId,
        b: SwitchId,
        there: &PipeConfig,
        back: &PipeConfig,
    ) -> (PipeId, PipeId) {
        let (at_a, at_b) = (self.switches[a.0 as usize].ports(), self.switches[b.0 as usize].ports());
        let there = self.pipe_to(End::Switch(b, at_b), there);
        let back = self.pipe_to(End::Switch(a, at_a), back);
        self.switches[a.0 as usize].add(there);
        self.switches[b.0 as usize].add(back);
        (there, back)
    }

    fn pipe_to(&mut self, to: End, config: &PipeConfig) -> PipeId {
        let number = self.pipes.len() as u32;
        let pipe = Pipe::new(config.clone(), self.seed.next_u64()).numbered(number);
        self.pipes.push(PipeSlot { pipe, to, event: None });
        PipeId(self.pipes.len() as u32 - 1)
    }

    /// A host, to ask.
    pub fn host(&self, id: HostId) -> &H {
        &self.hosts[id.0 as usize].host
    }

    /// A host, to give it work: it is stepped as soon as time runs again.
    pub fn host_mut(&mut self, id: HostId) -> &mut H {
        self.make_ready(id);
        &mut self.hosts[id.0 as usize].host
    }

    /// A pipe, to ask.
    pub fn pipe(&self, id: PipeId) -> &Pipe {
        &self.pipes[id.0 as usize].pipe
    }

    /// A pipe, to change.
    pub fn pipe_mut(&mut self, id: PipeId) -> &mut Pipe {
        &mut self.pipes[id.0 as usize].pipe
    }

    /// Packets that a port missed because its host did not receive them in time.
    pub fn missed(&self, port: PortId) -> u64 {
        self.ports[port.0 as usize].missed
    }

    /// Calls `watcher` for every packet that comes to a pipe from now on.
    pub fn watch(&mut self, watcher: impl FnMut(&Sight<'_>) + 'static) {
        self.watcher = Some(Box::new(watcher));
    }

    /// Puts a packet into a pipe, as if from the port before it.
    pub fn inject(&mut self, pipe: PipeId, bytes: &[u8]) {
        let packet = packet_of(&mut self.spare, bytes, Meta::default());
        self.enter(pipe, packet);
    }

    /// Moves time to `deadline`, through all that happens until then and at that very instant.
    pub fn run_until(&mut self, deadline: Instant) {
        self.run(deadline, |_| false);
    }

    /// Moves time until `done` or to `deadline`; was it done? Asked after each step of a host.
    pub fn run(&mut self, deadline: Instant, mut done: impl FnMut(&Self) -> bool) -> bool {
        loop {
            if let Some(Reverse((at, _, source))) = self.next_due(deadline) {
                self.now = at;
                match source {
                    Source::Pipe(pipe) => self.deliver(PipeId(pipe), at),
                    Source::Host(host) => self.alarm(HostId(host), at),
                }
            } else if let Some(host) = self.ready.pop_front() {
                self.step(host);
                if done(self) {
                    return true;
                }
            } else if let Some(Reverse((at, ..))) = self.events.peek().filter(|next| next.0.0 <= deadline) {
                self.now = *at;
            } else {
                self.now = self.now.max(deadline);
                return done(self);
            }
        }
    }

    /// The next event, if it is due at this very instant: those come before the steps of hosts.
    fn next_due(&mut self, deadline: Instant) -> Option<Event> {
        let now = self.now.min(deadline);
        let due = self.events.peek().is_some_and(|Reverse((at, ..))| *at <= now);
        if due {
            self.events.pop().map(|Reverse((at, seq, source))| Reverse((at.max(now), seq, source)))
        } else {
            None
        }
    }

    fn schedule(&mut self, at: Instant, source: Source) {
        self.events.push(Reverse((at, self.next_event, source)));
        self.next_event += 1;
    }

    fn make_ready(&mut self, id: HostId) {
        let slot = &mut self.hosts[id.0 as usize];
        if !slot.ready {
            slot.ready = true;
            self.ready.push_back(id);
        }
    }

    /// A host's date has come, or an earlier one that it has since put off.
    fn alarm(&mut self, id: HostId, at: Instant) {
        let slot = &mut self.hosts[id.0 as usize];
        if slot.event.is_none_or(|event| event > at) {
            return;
        }
        slot.event = None;
        match slot.wake_at {
            Some(wake_at) if wake_at <= at => self.make_ready(id),
            Some(wake_at) => self.arm_host(id, wake_at),
            None => {}
        }
    }

    fn arm_host(&mut self, id: HostId, wake_at: Instant) {
        let slot = &mut self.hosts[id.0 as usize];
        slot.wake_at = Some(wake_at);
        if slot.event.is_none_or(|event| wake_at < event) {
            slot.event = Some(wake_at);
            self.schedule(wake_at, Source::Host(id.0));
        }
    }

    /// Steps a host and takes what it sent.
    fn step(&mut self, id: HostId) {
        let now = self.now;
        let slot = &mut self.hosts[id.0 as usize];
        slot.ready = false;
        slot.steps_at_once = if slot.last_step == now { slot.steps_at_once + 1 } else { 0 };
        slot.last_step = now;
        assert!(slot.steps_at_once < STEPS_AT_ONCE_MAX, "host {} runs in circles at {now}", id.0);
        slot.wake_at = None;
        self.clock.set(now);
        match slot.host.step(now) {
            Some(wake_at) if wake_at <= now => self.make_ready(id),
            Some(wake_at) => self.arm_host(id, wake_at),
            None => {}
        }
        for nth in 0..self.hosts[id.0 as usize].ports.len() {
            let port = self.hosts[id.0 as usize].ports[nth];
            self.collect(port);
        }
    }

    fn collect(&mut self, port: PortId) {
        let mut sent = std::mem::take(&mut self.sent);
        {
            let mut medium = self.medium.lock();
            medium.spare.append(&mut self.spare);
            medium.spare.truncate(SPARES_MAX);
            std::mem::swap(&mut medium.ports[port.0 as usize].outbox, &mut sent);
        }
        let out = self.ports[port.0 as usize].out;
        for packet in sent.drain(..) {
            match out {
                Some(pipe) => self.enter(pipe, packet),
                None => self.spare.push(packet),
            }
        }
        self.sent = sent;
    }

    fn enter(&mut self, id: PipeId, packet: Packet) {
        // The packet is gone once it has entered, so who watches gets a copy.
        let copy = self.watcher.is_some().then(|| self.copy_of(&packet));
        // The pipe counts what it drops.
        let fate = self.pipes[id.0 as usize].pipe.enter(self.now, packet, &mut self.spare);
        if let (Some(watcher), Some(copy)) = (&mut self.watcher, copy) {
            watcher(&Sight { at: self.now, pipe: id, fate, packet: &copy.bytes });
            self.spare.push(copy);
        }
        self.arm_pipe(id);
    }

    /// Copies a packet into a spare buffer: spare ones are with the ports, where packets end.
    fn copy_of(&mut self, packet: &Packet) -> Packet {
        if self.spare.is_empty() {
            self.spare.extend(self.medium.lock().spare.pop());
        }
        packet_of(&mut self.spare, &packet.bytes, packet.meta)
    }

    fn arm_pipe(&mut self, id: PipeId) {
        let slot = &mut self.pipes[id.0 as usize];
        let Some(due) = slot.pipe.due() else { return };
        if slot.event.is_none_or(|event| due < event) {
            slot.event = Some(due);
            self.schedule(due, Source::Pipe(id.0));
        }
    }

    /// Takes what comes out of a pipe at `at`.
    fn deliver(&mut self, id: PipeId, at: Instant) {
        let slot = &mut self.pipes[id.0 as usize];
        // A date that was overtaken by an earlier one has nothing left to do.
        if slot.event.is_none_or(|event| event > at) {
            return;
        }
        slot.event = None;
        match slot.to {
            End::Port(port) => self.deliver_to_port(id, port, at),
            End::Switch(switch, nth) => self.deliver_to_switch(id, switch, nth, at),
        }
        self.arm_pipe(id);
    }

    fn deliver_to_port(&mut self, id: PipeId, port: PortId, at: Instant) {
        let pipe = &mut self.pipes[id.0 as usize].pipe;
        let slot = &mut self.ports[port.0 as usize];
        {
            let mut medium = self.medium.lock();
            let inbox = &mut medium.ports[port.0 as usize].inbox;
            while let Some(packet) = pipe.leave(at) {
                if inbox.len() < slot.rx_ring {
                    inbox.push_back(packet);
                } else {
                    slot.missed += 1;
                    self.spare.push(packet);
                }
            }
        }
        if let Some(host) = slot.host {
            self.make_ready(host);
        }
    }

    fn deliver_to_switch(&mut self, id: PipeId, switch: SwitchId, nth: usize, at: Instant) {
        let mut routes = std::mem::take(&mut self.routes);
        while let Some(packet) = self.pipes[id.0 as usize].pipe.leave(at) {
            routes.clear();
            self.switches[switch.0 as usize].forward(nth, &packet.bytes, &mut routes);
            match routes.split_last() {
                // The last one gets the packet itself, and mostly there is no other.
                Some((last, others)) => {
                    for out in others {
                        let copy = self.copy_of(&packet);
                        self.enter(*out, copy);
                    }
                    self.enter(*last, packet);
                }
                None => self.spare.push(packet),
            }
        }
        self.routes = routes;
    }
}

#[cfg(test)]
mod tests;
