//! Goal: however the steps of threads that wait follow each other, none is forgotten: while a packet lies in the port
//! or an event waits for its thread, a thread is awake, has been rung, or sleeps on the port. The one exception is a
//! thread that made way, after which the watchdog looks: where there is none, no leader makes way.
//!
//! Each step is one that the runner takes under its lock, on the real lead and the real list of waiting threads. All
//! states that any order of steps reaches are visited.

use super::super::Waiter;
use super::super::lead::{Alarm, Lead, Rank};
use crate::engine::waiting::Waiting;
use ring::Sleeper;
use std::collections::{HashSet, VecDeque};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// Does something else.
    Away,
    /// In its call, awake.
    Awake,
    /// Asleep, as leader or not.
    Asleep,
}

struct Actor {
    waiter: Waiter,
    at: At,
    bell: Sleeper,
    row: u64,
    /// The event that it waits for has happened.
    event: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The thread takes its next step.
    Go(usize),
    /// A packet arrives for the thread.
    Packet(usize),
}

struct World {
    lead: Lead,
    waiting: Waiting,
    actors: Vec<Actor>,
    /// There is a watchdog.
    watched: bool,
    /// For whom there is a packet in the port.
    packet: Option<usize>,
    /// Packets that still come.
    packets: u8,
}

fn waiter(rank: Rank, watched: bool) -> Waiter {
    Waiter { watched: watched && rank == Rank::Thread, ..Waiter::new(rank, false) }
}

fn is_rung(actor: &Actor) -> bool {
    super::is_rung(&std::os::fd::AsRawFd::as_raw_fd(&actor.bell.fd()))
}

impl World {
    fn new(ranks: &[Rank], watched: bool, packets: u8) -> World {
        let actors = ranks.iter().map(|&rank| Actor {
            waiter: waiter(rank, watched),
            at: At::Away,
            bell: super::super::bell().expect("a descriptor"),
            row: 0,
            event: false,
        });
        let actors = actors.collect();
        World { lead: Lead::default(), waiting: Waiting::default(), actors, watched, packet: None, packets }
    }

    fn leads(&self, who: usize) -> bool {
        self.lead.is_held_by(self.actors[who].waiter.ticket)
    }

    /// Turns the core: what lies in the port reaches the thread that it is for.
    fn turn(&mut self) -> bool {
        let Some(whose) = self.packet.take() else { return false };
        self.actors[whose].event = true;
        self.waiting.wake(whose as u32);
        true
    }

    /// Behind its attempt a thread turns the core in the place of a leader that sleeps; true if that brought anything:
    /// it attempts again, for it is not among those that are woken.
    fn turn_for_leader(&mut self, who: usize) -> bool {
        !self.leads(who) && self.lead.sleeper().is_some() && self.turn()
    }

    fn can(&self, step: Step) -> bool {
        match step {
            Step::Packet(_) => self.packets > 0 && self.packet.is_none(),
            Step::Go(who) => match self.actors[who].at {
                At::Away | At::Awake => true,
                At::Asleep => {
                    let at_port = self.leads(who) && self.lead.sleeper().is_some() && self.packet.is_some();
                    at_port || is_rung(&self.actors[who])
                }
            },
        }
    }

    fn take(&mut self, step: Step) {
        let who = match step {
            Step::Packet(whose) => {
                (self.packet, self.packets) = (Some(whose), self.packets - 1);
                return;
            }
            Step::Go(who) => who,
        };
        let actor = &mut self.actors[who];
        match actor.at {
            // A thread that waits in a call, or does again.
            At::Away => {
                actor.at = At::Awake;
                if actor.waiter.rank != Rank::Pinned {
                    actor.waiter = waiter(actor.waiter.rank, self.watched);
                }
            }
            At::Awake if std::mem::take(&mut actor.event) => {
                // Found: it returns; one that leads for good hands on what it found.
                actor.at = At::Away;
                self.turn_for_leader(who);
                if self.actors[who].waiter.rank != Rank::Pinned
                    && self.lead.leave(self.actors[who].waiter.ticket)
                {
                    self.waiting.wake_willing();
                }
            }
            At::Awake => {
                if self.turn_for_leader(who) {
                    return;
                }
                let actor = &mut self.actors[who];
                if actor.waiter.claim(&mut self.lead, &mut self.waiting) && self.turn() {
                    return;
                }
                let actor = &mut self.actors[who];
                actor.at = At::Asleep;
                actor.row = self.waiting.add(Some(who as u32), actor.bell.ringer());
                if actor.waiter.excused {
                    self.waiting.excuse(actor.row);
                }
                if let Some(ticket) = actor.waiter.ticket {
                    self.lead.sleep(ticket, None, Alarm::Bell(actor.bell.ringer()));
                }
            }
            At::Asleep => {
                actor.bell.drain();
                actor.at = At::Awake;
                if self.waiting.remove(actor.row) {
                    actor.waiter.excused = false;
                }
                self.lead.wake(actor.waiter.ticket);
            }
        }
    }

    /// The marks of a state: where each thread is and which leads, not how often that changed.
    fn key(&self) -> String {
        let actors = self.actors.iter().enumerate().map(|(who, actor)| {
            let Waiter { excused, handoff, .. } = &actor.waiter;
            format!("{:?}{}{}{excused}{}{handoff:?};", actor.at, self.leads(who), actor.event, is_rung(actor))
        });
        let actors: String = actors.collect();
        let (rank, asleep) = (self.lead.rank(), self.lead.sleeper().is_some());
        format!("{actors}{rank:?}{asleep}{:?}{}{:?}", self.packet, self.packets, self.waiting.state())
    }

    fn check(&self, path: &[Step]) {
        // Who does something else may do so for ever, but for who leads for good.
        let is_here = |actor: &Actor| actor.at != At::Away || actor.waiter.rank == Rank::Pinned;
        let anyone = (0..self.actors.len()).any(|who| is_here(&self.actors[who]) && self.can(Step::Go(who)));
        let waits = |who: usize| self.actors[who].at == At::Asleep;
        let pending = (0..self.actors.len())
            .any(|who| waits(who) && (self.packet == Some(who) || self.actors[who].event));
        let excused = self.watched && self.actors.iter().any(|actor| actor.waiter.excused);
        assert!(anyone || !pending || excused, "forgotten after {path:?}");
        if self.lead.sleeper().is_some() {
            let leader = (0..self.actors.len()).find(|&who| self.leads(who)).expect("it is one of them");
            assert!(
                self.actors[leader].at == At::Asleep,
                "who is said to sleep on the port is awake after {path:?}"
            );
        }
    }
}

/// Visits every state that is reached from the first; how many there are.
fn visit(ranks: &[Rank], watched: bool, packets: u8) -> usize {
    let steps: Vec<Step> = (0..ranks.len()).flat_map(|who| [Step::Go(who), Step::Packet(who)]).collect();
    let (mut seen, mut next) = (HashSet::new(), VecDeque::from([Vec::new()]));
    while let Some(path) = next.pop_front() {
        for &step in &steps {
            let mut world = World::new(ranks, watched, packets);
            path.iter().for_each(|&step| world.take(step));
            if world.can(step) {
                world.take(step);
                let path: Vec<Step> = path.iter().copied().chain([step]).collect();
                world.check(&path);
                if seen.insert(world.key()) {
                    next.push_back(path);
                }
            }
        }
    }
    seen.len()
}

#[test]
fn two_threads() {
    let states = visit(&[Rank::Thread, Rank::Thread], true, 3);
    assert!(states > 100, "{states} states are not all");
}

/// More packets than make a leader make way: each for one thread alone, which leaves after it.
#[test]
fn two_threads_without_a_watchdog() {
    let states = visit(&[Rank::Thread, Rank::Thread], false, 6);
    assert!(states > 100, "{states} states are not all");
}

#[test]
fn a_thread_that_leads_for_good_and_one_that_comes() {
    let states = visit(&[Rank::Pinned, Rank::Thread], true, 3);
    assert!(states > 100, "{states} states are not all");
}

#[test]
fn three_threads() {
    let states = visit(&[Rank::Thread, Rank::Thread, Rank::Thread], true, 2);
    assert!(states > 100, "{states} states are not all");
}
