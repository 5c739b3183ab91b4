//! The one fixed sequence of a turn.
//!
//! ```text
//! changes of the net -> flush: what the application did -> receive -> timers -> flush: the rest
//!      ^                                                                             |
//!      +---- the application runs on this turn's notices, reads, writes, closes <----+
//! ```
//! A connection whose owner was told something this turn is not flushed at the end of the turn but at the
//! start of the next, which the caller makes as soon as the application ran: an answer written meanwhile
//! carries the acknowledgment, and a close its FIN. Until then [`Core::next_timeout`] says "now".

pub(crate) mod scratch;

use base::{Duration, Instant};
use pio::{Delays, IoError, NetEvent};
use tcp::Events;

use crate::core::Core;
use crate::panicked::Fuse;
use crate::tables::conns::SlotFlags;
use crate::tables::listeners::ListenerId;
use crate::transmit::Sent;
use crate::turn::scratch::Scratch;
use crate::tx::KICK_AT;

/// Timers that come up in one turn at most.
const TIMERS_MAX: usize = 1024;
/// So many timers before a connection's turn it is asked for.
const TIMERS_AHEAD: usize = 12;
/// Packets built in one flush at most; more is left to the next turn.
const FLUSH_MAX: usize = 8 * KICK_AT;
/// TIME-WAIT entries that end in one turn at most.
const TIME_WAITS_MAX: usize = 1024;
/// How often the kernel is asked for changes while no thread waits for one.
const NET_EVENTS_EVERY: Duration = Duration::from_millis(1);
/// How often dates are looked through for those that hold no more, at most: a busy core must not pay for each sleep.
const REVISE_EVERY: Duration = Duration::from_millis(1);
/// How long to wait before offering the port again what it would not take.
const RETRY: Duration = Duration::from_millis(1);

/// Something an owner should look at; at most one per owner and turn, published once per turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    /// The owner's handle.
    pub owner: u32,
    /// Edges: for a listener READABLE means a connection waits.
    pub events: Events,
}

/// Result of one turn.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Packets received.
    pub received: u32,
    /// Packets sent.
    pub sent: u32,
    /// Timers fired.
    pub timers: u32,
    /// Work remains (back-pressure, more packets), or another process has left a connection to this one: turn again at
    /// once, and let owners look first.
    pub more: bool,
}

impl Turn {
    /// Returns true if a call that found nothing before may find something now, or if the core wants another turn.
    pub fn has_news(&self) -> bool {
        self.more || self.received > 0 || self.timers > 0
    }
}

impl Core {
    /// One bounded round: transmit what the application asked for, receive, process, timers, transmit
    /// (control, ACKs, data), one kick for each batch.
    ///
    /// # Errors
    /// The port's error; timers and the rest of the turn happened nevertheless. [`IoError::Gone`] for ever
    /// after a panic in a turn: it has ended the core ([`Core::is_over`]).
    pub fn turn(&mut self, now: Instant) -> Result<Turn, IoError> {
        let fuse = Fuse(self);
        let turned = fuse.0.round(now);
        std::mem::forget(fuse);
        turned
    }

    fn round(&mut self, now: Instant) -> Result<Turn, IoError> {
        self.now = now;
        self.starved = false;
        self.stats.turns += 1;
        if usdt::watched() || self.tracer.is_some() {
            self.follow_tracers();
        }
        let mut turn = Turn::default();
        let Some(mut scratch) = self.scratch.take() else { return Err(IoError::Gone) };
        turn.more |= self.take_net_events(now, &mut scratch);
        self.flush_held(now, &mut turn);
        self.receive(now, &mut scratch.rx, &mut turn);
        if !self.port.looped.is_empty() {
            self.receive_looped(now, &mut scratch.rx, &mut turn);
        }
        turn.timers = self.run_timers(now, &mut scratch);
        if self.gives {
            self.give(now);
        }
        if self.shared.pool.out_of_order() > 0 && self.shared.pool.is_scarce() {
            self.reclaim(now);
        }
        self.transmit_all(now, false, &mut turn);
        self.scratch = Some(scratch);
        self.shared.pause_probes();
        if self.error.is_some() {
            return self.error.take().map_or(Ok(turn), Err);
        }
        Ok(turn)
    }

    /// Transmits what the application asked for since the last turn, as the next turn would first of all: for
    /// a caller that will do something else before it. How many packets left.
    ///
    /// # Errors
    /// The port's error.
    #[inline]
    pub fn flush(&mut self, now: Instant) -> Result<u32, IoError> {
        let mut turn = Turn::default();
        let fuse = Fuse(self);
        fuse.0.flush_held(now, &mut turn);
        std::mem::forget(fuse);
        self.shared.pause_probes();
        self.error.take().map_or(Ok(turn.sent), Err)
    }

    fn flush_held(&mut self, now: Instant, turn: &mut Turn) {
        let held = &mut self.held;
        self.dirty.append(&mut self.conns, held);
        self.transmit_all(now, true, turn);
    }

    /// Remembers the first thing that went wrong this turn.
    #[cold]
    pub(crate) fn fail(&mut self, error: IoError) {
        self.error.get_or_insert(error);
    }

    /// [`Core::next_timeout`] of a core that is about to sleep until then at `now`. Most dates on the wheel are those
    /// of segments that have been acknowledged since: they are taken back, for a sleep costs more than to ask.
    pub fn rest(&mut self, now: Instant) -> Option<Instant> {
        if self.wheel.next().is_some() && now >= self.revise_at {
            self.revise_at = now + REVISE_EVERY;
            let conns = &self.conns;
            self.wheel.revise(|index| conns.get(index).and_then(|(_, tcp)| tcp.poll_timeout()));
        }
        self.next_timeout()
    }

    /// When the next turn must happen at the latest; `now` or earlier if something waits to be sent.
    pub fn next_timeout(&self) -> Option<Instant> {
        let scratch = self.scratch.as_ref()?;
        let looped = self.port.looped.len();
        if self.port.blocked | self.starved {
            // What cannot be sent now must not keep the caller from sleeping. The loopback needs no port.
            return Some(if looped > 0 { self.now } else { self.now + RETRY });
        }
        if self.port.pending() + looped > 0 || !self.dirty.is_empty() || !self.held.is_empty() {
            return Some(self.now);
        }
        let dates = [
            self.wheel.next(),
            self.time_waits.next(),
            self.neighbours.next(),
            self.paths.next(),
            self.ports.next(),
            scratch.rx.gro.as_ref().and_then(|gro| gro.due()),
        ];
        dates.into_iter().fold(self.port.io.delays().and_then(Delays::due), Instant::earliest)
    }

    /// Moves this turn's notices to `into`.
    pub fn notices(&mut self, into: &mut Vec<Notice>) {
        for &id in &self.noticed_listeners {
            if let Some(listener) = self.listeners.get_mut(id) {
                listener.noticed = false;
                into.push(Notice { owner: listener.request.owner, events: Events::READABLE });
            }
        }
        self.noticed_listeners.clear();
        for &index in &self.noticed {
            let meta = &mut self.conns.slot_mut(index).meta;
            if meta.flags.has(SlotFlags::NOTICED) {
                meta.flags.clear(SlotFlags::NOTICED);
                into.push(Notice { owner: meta.owner, events: std::mem::take(&mut meta.events) });
            }
        }
        self.noticed.clear();
    }

    /// Takes what changed about a connection; its owner, if it has one, gets a notice.
    #[inline]
    pub(crate) fn take_events(&mut self, index: u32) {
        let events = self.conns.get_mut(index).map(|(_, tcp)| tcp.poll_event()).unwrap_or_default();
        if !events.is_empty() {
            self.tell(index, events);
        }
    }

    /// Something changed about a connection.
    pub(crate) fn tell(&mut self, index: u32, events: Events) {
        if events.any(Events::FAST_OPEN) {
            self.learn_fast_open(index);
        }
        let meta = &mut self.conns.slot_mut(index).meta;
        if meta.flags.has(SlotFlags::HALF_OPEN) && events.any(Events::CONNECTED) {
            self.queue_for_accept(index);
        } else if meta.flags.has(SlotFlags::UNPROVEN) && events.any(Events::CONNECTED) {
            self.leave_unproven(index);
            self.notice(index, events);
        } else {
            self.notice(index, events);
        }
    }

    /// Its owner, if it has one, gets a notice.
    #[inline(always)]
    pub(crate) fn notice(&mut self, index: u32, events: Events) {
        let meta = &mut self.conns.slot_mut(index).meta;
        if meta.flags.has(SlotFlags::OWNED) {
            meta.events = Events(meta.events.0 | events.0);
            if !meta.flags.has(SlotFlags::NOTICED) {
                meta.flags.set(SlotFlags::NOTICED | SlotFlags::HELD);
                self.noticed.push(index);
            }
        }
    }

    /// A connection may have something to send, in this turn or once its owner has had its say.
    #[inline]
    pub(crate) fn touch(&mut self, index: u32) {
        let flags = self.conns.slot(index).meta.flags;
        if !flags.has(SlotFlags::LISTED) {
            let list = if flags.has(SlotFlags::HELD) { &mut self.held } else { &mut self.dirty };
            list.push(&mut self.conns, index);
        }
    }

    /// Lets connections send, first come first; what they send is sorted into lists for each kick, control
    /// before ACKs before data. Unless `all`, those whose owners have something to look at wait for the next
    /// turn.
    #[inline]
    fn transmit_all(&mut self, now: Instant, all: bool, turn: &mut Turn) {
        if !self.dirty.is_empty() || self.port.pending() > 0 {
            self.transmit_dirty(now, all, turn);
        }
    }

    #[inline(never)]
    fn transmit_dirty(&mut self, now: Instant, all: bool, turn: &mut Turn) {
        if self.port.blocked {
            self.kick();
        }
        let before = self.port.progress();
        while !self.port.blocked {
            let Some(index) = self.dirty.pop(&mut self.conns) else { break };
            let flags = &mut self.conns.slot_mut(index).meta.flags;
            if !all && flags.has(SlotFlags::HELD) {
                self.held.push(&mut self.conns, index);
                continue;
            }
            flags.clear(SlotFlags::HELD);
            let sent = self.transmit(now, index);
            match sent {
                Sent::All | Sent::Parked => self.settle(now, index),
                Sent::Some => self.dirty.push(&mut self.conns, index),
                Sent::NoFrame => {
                    self.dirty.push(&mut self.conns, index);
                    self.note_blocked(now, index);
                    break;
                }
            }
            if self.port.is_full() {
                self.kick();
                if self.port.blocked && sent == Sent::Some {
                    self.note_blocked(now, index);
                }
            }
            if self.port.progress() - before >= FLUSH_MAX {
                turn.more = true;
                break;
            }
        }
        if self.port.pending() > 0 && !self.port.blocked {
            self.kick();
        }
        let sent = self.port.take_sent();
        self.stats.packets_out += u64::from(sent);
        turn.sent += sent;
    }

    /// The port holds a connection up. (Those behind it in the list wait as long; they are not counted.)
    #[cold]
    fn note_blocked(&mut self, now: Instant, index: u32) {
        if let Some((_, tcp)) = self.conns.get_mut(index) {
            tcp.on_blocked(&mut self.shared.cx(now));
        }
    }

    pub(crate) fn kick(&mut self) {
        if let Err(error) = self.port.kick(&mut self.stats) {
            self.fail(error);
        }
    }

    fn run_timers(&mut self, now: Instant, scratch: &mut Scratch) -> u32 {
        let mut fired = 0;
        if self.wheel.next().is_some_and(|at| at <= now) {
            self.wheel.expire(now, TIMERS_MAX, &mut scratch.due);
            for (nth, &index) in scratch.due.iter().enumerate() {
                if let Some(&soon) = scratch.due.get(nth + TIMERS_AHEAD) {
                    self.conns.prefetch(soon);
                }
                fired += u32::from(self.run_timer(now, index));
            }
            scratch.due.clear();
            self.stats.timers += u64::from(fired);
        }
        if self.time_waits.next().is_some_and(|at| at <= now) {
            self.end_time_waits(now);
        }
        if self.neighbours.next().is_some_and(|at| at <= now) {
            self.ask_again(now);
        }
        if self.paths.next().is_some_and(|at| at <= now) {
            self.paths.expire(now, &mut self.ip);
        }
        if self.ports.next().is_some_and(|at| at <= now) {
            self.ports.expire(self.port.io.as_mut(), now);
        }
        fired
    }

    /// The wheel's date was a lower bound: the connection says whether it meant it.
    fn run_timer(&mut self, now: Instant, index: u32) -> bool {
        let Some((meta, tcp)) = self.conns.get_mut(index) else { return false };
        match tcp.poll_timeout() {
            Some(at) if at <= now => {}
            Some(at) => {
                self.wheel.note(index, at);
                return false;
            }
            None => return false,
        }
        let half_open = meta.flags.has(SlotFlags::HALF_OPEN);
        let cx = &mut self.shared.cx(now);
        match half_open.then(|| self.listeners.get(ListenerId(meta.listener))) {
            // Its listener is gone.
            Some(None) => tcp.abort(cx),
            Some(Some(listener)) if tcp.is_deferred() => {
                tcp.on_deferred_timeout(cx, listener.request.options.defer_accept);
            }
            _ => tcp.on_timeout(cx),
        }
        self.take_events(index);
        self.touch(index);
        true
    }

    fn end_time_waits(&mut self, now: Instant) {
        for _ in 0..TIME_WAITS_MAX {
            match self.time_waits.oldest() {
                Some(entry) if self.time_waits.get(entry).until <= now => self.end_time_wait(now, entry),
                _ => break,
            }
        }
        self.time_waits.look_again();
    }

    /// Addresses, routes and neighbours as the kernel sees them. Returns true if a connection was taken over.
    fn take_net_events(&mut self, now: Instant, scratch: &mut Scratch) -> bool {
        if now < self.events_at && self.neighbours.next().is_none() {
            return false;
        }
        self.ask_kernel(now, &mut scratch.events)
    }

    /// Asks for the kernel's news, whenever it was last asked. Returns true if a connection was taken over.
    pub(crate) fn ask_kernel(&mut self, now: Instant, events: &mut Vec<NetEvent>) -> bool {
        self.events_at = now + NET_EVENTS_EVERY;
        if let Some(net) = self.port.io.net() {
            net.net_events(events);
            if !events.is_empty() {
                self.on_net_events(now, events);
            }
        }
        let taken = self.port.io.sharing().is_some() && self.take_over_all(now);
        if !self.kept_syns.is_empty() {
            self.look_at_kept(now);
        }
        taken
    }

    #[cold]
    fn on_net_events(&mut self, now: Instant, events: &mut Vec<NetEvent>) {
        for event in events.drain(..) {
            self.stats.net_events += 1;
            self.on_net_event(now, &event);
        }
    }
}
