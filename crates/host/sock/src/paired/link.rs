//! The two queues between one application and one stack thread.

use super::lease::Lease;
use super::message::{Command, Event};
use ring::spsc::{Consumer, Producer};
use ring::{Ringer, spsc};
use std::collections::VecDeque;

/// Messages that a queue holds.
const DEPTH: usize = 4_096;

/// The application's end.
pub(super) struct Link {
    commands: Producer<Command>,
    events: Consumer<Event>,
    alarm: Ringer,
    /// Names that the stack thread gave, to the application's records.
    pub(super) given: Vec<u32>,
    /// The stack thread is gone, and every thread was told.
    pub(super) dead: bool,
    /// Last, so that the thread ends after it heard that the queue was cut. `None` in a model without threads.
    pub(super) lease: Option<Lease>,
}

/// The stack thread's end.
pub(super) struct LinkEnd {
    pub(super) commands: Consumer<Command>,
    events: Producer<Event>,
    /// Events that must be told one by one, in order.
    out: VecDeque<Event>,
    /// Records with something to tell, each at most once.
    pub(super) pending: VecDeque<u32>,
    /// Events since it was rung last.
    told: u32,
    /// Connections that the stack thread keeps for this application.
    pub(super) streams: u32,
    /// The application is gone.
    pub(super) leaving: bool,
    /// Last, so that a thread that sleeps is woken after the queue was cut.
    bell: LastRing,
}

/// A link to the stack thread that `alarm` rings; `ringer` wakes the application.
pub(super) fn link(alarm: &Ringer, ringer: Ringer) -> (Link, LinkEnd) {
    let (commands, commands_out) = spsc::queue(DEPTH);
    let (events, events_out) = spsc::queue(DEPTH);
    let mine = Link {
        commands,
        events: events_out,
        alarm: alarm.clone(),
        given: Vec::new(),
        dead: false,
        lease: None,
    };
    let theirs = LinkEnd {
        commands: commands_out,
        events,
        out: VecDeque::new(),
        pending: VecDeque::new(),
        told: 0,
        streams: 0,
        leaving: false,
        bell: LastRing(ringer),
    };
    (mine, theirs)
}

impl Link {
    /// Tells the stack thread, and wakes it if it sleeps. A full queue is back-pressure: it is taken from once per
    /// turn, so that waiting is short. Nothing hears if the thread is gone.
    pub(super) fn tell(&mut self, mut command: Command) {
        let mut backoff = Backoff::default();
        while let Err(back) = self.commands.push(command) {
            if self.commands.is_abandoned() {
                return;
            }
            self.alarm.ring();
            self.wait(&mut backoff);
            command = back;
        }
        self.alarm.ring();
    }

    /// Waits for the stack thread a little, or does its work.
    pub(super) fn wait(&self, backoff: &mut Backoff) {
        if self.lease.as_ref().and_then(Lease::turn).is_none() {
            backoff.wait();
        }
    }

    pub(super) fn next(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Is there something to take?
    pub(super) fn has_events(&mut self) -> bool {
        !self.events.is_empty() || (self.is_cut() && !self.dead)
    }

    /// The stack thread is gone and everything it said was heard.
    pub(super) fn is_cut(&mut self) -> bool {
        self.events.is_finished()
    }
}

impl LinkEnd {
    /// Says something that must be heard, with this turn's events.
    pub(super) fn say(&mut self, event: Event) {
        self.out.push_back(event);
    }

    /// Sends what must be said one by one; true if all of it fitted, so that notices may follow.
    pub(super) fn flush_said(&mut self) -> bool {
        while let Some(event) = self.out.pop_front() {
            if !self.send(event) {
                return false;
            }
        }
        true
    }

    /// Sends one event; if the queue is full, it stays first in line, and false.
    fn send(&mut self, event: Event) -> bool {
        match self.events.push(event) {
            Ok(()) => {
                self.told += 1;
                true
            }
            Err(back) => {
                self.out.push_front(back);
                false
            }
        }
    }

    /// Sends a notice after everything said; false if it must wait.
    pub(super) fn notify(&mut self, event: Event) -> bool {
        self.events.push(event).inspect(|()| self.told += 1).is_ok()
    }

    /// Wakes the application, once per turn and only if it sleeps and was told something. Returns the number of events.
    pub(super) fn ring(&mut self) -> u32 {
        let told = std::mem::take(&mut self.told);
        if told > 0 {
            self.bell.0.ring();
        }
        told
    }

    /// Wakes the application.
    pub(super) fn ring_anyway(&self) {
        self.bell.0.ring_anyway();
    }

    /// Something was said by the application, or it has gone.
    pub(super) fn has_commands(&self) -> bool {
        self.commands.waiting() > 0 || (self.commands.is_orphaned() && !self.leaving)
    }

    /// Events wait for room in the queue.
    pub(super) fn is_behind(&self) -> bool {
        !self.out.is_empty() || !self.pending.is_empty()
    }

    /// The application is gone, and everything it said was heard.
    pub(super) fn is_abandoned(&mut self) -> bool {
        self.commands.is_finished()
    }
}

/// Rings when dropped.
struct LastRing(Ringer);

impl Drop for LastRing {
    fn drop(&mut self) {
        self.0.ring_anyway();
    }
}

/// Waiting for the other side, which is at work: look hard, then let others run, then sleep a little.
#[derive(Default)]
pub(super) struct Backoff(u32);

impl Backoff {
    pub(super) fn wait(&mut self) {
        self.0 += 1;
        match self.0 {
            0..200 => std::hint::spin_loop(),
            200..400 => std::thread::yield_now(),
            _ => std::thread::sleep(base::Duration::from_micros(20)),
        }
    }
}
