//! The network of a run, and its hosts.

use base::Instant;
use emu::{Card, CoreHost, Host, HostId, Network, PipeId};
use stack::Core;
use trace::Switch;

use crate::apps::{Metronome, Receiver, Sender};
use crate::spec::{Point, Task};

/// A network with its hosts, before its first step.
pub(crate) struct World {
    pub(crate) net: Network<Node>,
    pub(crate) senders: Vec<HostId>,
    pub(crate) receivers: Vec<HostId>,
    /// Where packets can be watched, of each pair of them.
    pub(crate) taps: Vec<[Switch; 2]>,
    /// Role of each pair of them: the number of its `[[flow]]`, the first hop and the last.
    pub(crate) roles: Vec<Role>,
    /// The cards before receivers.
    pub(crate) cards: Vec<HostId>,
    /// The lines to the receivers.
    pub(crate) down: Vec<PipeId>,
    /// Which of them is narrowest.
    pub(crate) bottleneck: usize,
}

impl World {
    /// The narrowest line to the receivers.
    pub(crate) fn bottleneck(&self) -> PipeId {
        self.down[self.bottleneck]
    }

    /// The hosts with a stack, senders before receivers, and what each one's files are called in this run.
    pub(crate) fn named_hosts(&self, task: &Task) -> Vec<(HostId, String)> {
        let run = format!("{}seed-{}", words(&task.point), task.seed);
        let side = |side: &'static str, hosts: &[HostId]| {
            let named = |(nth, host): (usize, &HostId)| (*host, format!("{run}-{side}-{}", nth + 1));
            hosts.iter().enumerate().map(named).collect::<Vec<_>>()
        };
        [side("sender", &self.senders), side("receiver", &self.receivers)].concat()
    }

    /// The stack of a host, if it has one.
    pub(crate) fn core(&mut self, host: HostId) -> Option<&mut Core> {
        match self.net.host_mut(host) {
            Node::Sender(host) => Some(&mut host.core),
            Node::Receiver(host) => Some(&mut host.core),
            Node::Metronome(_) | Node::Card(_) => None,
        }
    }
}

/// Which flows a sender and its receiver have, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    pub(crate) group: usize,
    pub(crate) first: usize,
    pub(crate) last: usize,
    pub(crate) reverse: bool,
}

/// A host of the laboratory.
pub(crate) enum Node {
    Sender(Box<CoreHost<Sender>>),
    Receiver(Box<CoreHost<Receiver>>),
    Metronome(Box<Metronome>),
    Card(Box<Card>),
}

impl Host for Node {
    fn step(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Node::Sender(host) => host.step(now),
            Node::Receiver(host) => host.step(now),
            Node::Metronome(host) => host.step(now),
            Node::Card(host) => host.step(now),
        }
    }
}

/// Returns the varied values as a part of a file's name.
fn words(point: &Point) -> String {
    let words: String = point.iter().map(|(place, value)| format!("{place}-{value}-")).collect();
    words.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect()
}
