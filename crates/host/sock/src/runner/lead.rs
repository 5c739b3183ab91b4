//! The lead, that is, the right and duty to turn the core: a state machine.
//!
//! ```text
//!             claim                        sleep(until)
//!   Vacant ------------> Leading(seat) <----------------> Asleep(seat, until)
//!      ^                   |   ^    ^          wake           |   |
//!      |       leave       |   |    +-------------------------+   |
//!      +-------------------+   |      hurry: it has been rung     |
//!                              +----------------------------------+
//!                                claim by a higher rank: it is rung
//! ```
//! Each step is taken under the runner's lock, so a thread sees one state or the next. A leader that was replaced
//! finds out by its ticket, when it looks next: its steps then change nothing.

use base::{Duration, Instant};
use pio::EpollTimer;
use ring::Ringer;
use std::sync::Arc;

/// Kinds of leaders. Each takes the lead from those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rank {
    /// The watchdog's thread.
    Watchdog,
    /// An event loop of the application, which has other things to do.
    Loop,
    /// A thread that waits in a call.
    Thread,
    /// A thread that has no other business.
    Pinned,
}

/// Identity of a leader from one step to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ticket(u64);

/// How a leader that sleeps is told to look sooner.
#[derive(Clone, Debug)]
pub(super) enum Alarm {
    /// A thread: by its bell.
    Bell(Ringer),
    /// An event loop: by the descriptor that it sleeps on.
    Loop(Ringer, Arc<EpollTimer>),
}

impl Alarm {
    /// The next timeout is in `left`; false: the leader must be rung to hear of it.
    fn set(&self, left: Option<Duration>) -> bool {
        matches!(self, Alarm::Loop(_, beacon) if beacon.set(left).is_ok())
    }

    fn ring(&self) {
        let (Alarm::Bell(ringer) | Alarm::Loop(ringer, _)) = self;
        ringer.ring_anyway();
    }
}

#[derive(Clone, Copy, Debug)]
struct Seat {
    ticket: Ticket,
    rank: Rank,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Vacant,
    Leading(Seat),
    Asleep(Seat, Option<Instant>, Alarm),
}

/// The lead.
#[derive(Debug, Default)]
pub(super) struct Lead {
    state: State,
    tickets: u64,
}

impl Lead {
    fn seat(&self) -> Option<Seat> {
        match self.state {
            State::Vacant => None,
            State::Leading(seat) | State::Asleep(seat, ..) => Some(seat),
        }
    }

    /// The rank of the leader; `None` if there is none.
    pub(super) fn rank(&self) -> Option<Rank> {
        self.seat().map(|seat| seat.rank)
    }

    /// Does the holder of this ticket lead?
    pub(super) fn is_held_by(&self, ticket: Option<Ticket>) -> bool {
        ticket.is_some() && self.seat().map(|seat| seat.ticket) == ticket
    }

    /// How a leader that sleeps is told to look sooner; `None` if no leader sleeps.
    pub(super) fn sleeper(&self) -> Option<&Alarm> {
        match &self.state {
            State::Asleep(_, _, alarm) => Some(alarm),
            _ => None,
        }
    }

    /// Takes the lead unless what leads gives way to no such rank. A thread that slept as leader is rung, to see it.
    pub(super) fn claim(&mut self, rank: Rank) -> Option<Ticket> {
        if self.rank().is_some_and(|held| held >= rank) {
            return None;
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let before = std::mem::replace(&mut self.state, State::Leading(Seat { ticket, rank }));
        // An event loop sleeps on other things too: it need not know.
        if let State::Asleep(_, _, alarm @ Alarm::Bell(_)) = before {
            alarm.ring();
        }
        Some(ticket)
    }

    /// The holder sleeps until then.
    pub(super) fn sleep(&mut self, ticket: Ticket, until: Option<Instant>, alarm: Alarm) {
        if let State::Leading(seat) = self.state
            && seat.ticket == ticket
        {
            self.state = State::Asleep(seat, until, alarm);
        }
    }

    /// The holder is awake again; true if it still leads.
    pub(super) fn wake(&mut self, ticket: Option<Ticket>) -> bool {
        let leads = self.is_held_by(ticket);
        if leads && let State::Asleep(seat, ..) = self.state {
            self.state = State::Leading(seat);
        }
        leads
    }

    /// The holder leads no more; true if it did.
    pub(super) fn leave(&mut self, ticket: Option<Ticket>) -> bool {
        let led = self.is_held_by(ticket);
        if led {
            self.state = State::Vacant;
        }
        led
    }

    /// The next timeout is `next`: a leader that would sleep longer is told.
    pub(super) fn hurry(&mut self, next: Option<Instant>, now: Instant) {
        let State::Asleep(seat, until, alarm) = &mut self.state else { return };
        if Instant::earliest(next, *until) == *until {
            return;
        }
        if alarm.set(next.map(|at| at.since(now))) {
            *until = next;
        } else {
            alarm.ring();
            self.state = State::Leading(*seat);
        }
    }

    /// The core is over, and its descriptors wake no thread any more: a leader that sleeps looks at once.
    pub(super) fn end(&self) {
        if let Some(alarm) = self.sleeper()
            && !alarm.set(Some(Duration::ZERO))
        {
            alarm.ring();
        }
    }
}
