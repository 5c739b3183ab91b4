//! The buckets of a group against plain lists: the members, those that serve, and the owner of each flow.

use super::table::{BUCKETS, Buckets, MEMBERS, Table};
use crate::ports::Place;
use base::{Addr, Endpoint, FlowKey, Input};
use std::collections::{BTreeMap, BTreeSet};

const PORT: u16 = 80;
/// Peers that there are: few enough that one comes again while its flow lives, and buckets hold several.
const PEERS: u16 = 2000;

/// Model of a member.
#[derive(Default)]
struct Known {
    serving: bool,
    /// It has a listener, though perhaps one that wants no connections.
    listening: bool,
    /// The others believe that it does not run; it may be wrong.
    stalled: bool,
    /// Buckets that its filter lets through.
    filter: Buckets,
    /// Its flows, by their peers.
    flows: BTreeSet<u16>,
}

thread_local! {
    /// One memory for all inputs of a thread: mapping it anew costs more than an input does.
    static TABLE: Table = Table::private();
}

impl Known {
    /// Is it to have buckets?
    fn shares(&self) -> bool {
        self.serving && !self.stalled
    }
}

struct Model<'a> {
    table: &'a Table,
    members: BTreeMap<usize, Known>,
}

/// Joins, deaths, deals, hand-overs and segments as `data` says.
pub(crate) fn table(data: &[u8]) {
    TABLE.with(|table| live(table, data));
}

fn live(table: &Table, data: &[u8]) {
    let place = Place { addr: Addr::UNSPECIFIED_V4, port: PORT, dual: false };
    table.reset(7, &place, [1, 2]);
    assert!(table.is_valid() && table.is_of(7, &place) && !table.is_of(8, &place));
    let mut model = Model { table, members: BTreeMap::new() };
    let input = &mut Input::new(data);
    while !input.is_empty() {
        model.step(input);
    }
    model.settle();
    model.check();
}

/// The flow with a peer.
fn key(peer: u16) -> FlowKey {
    let end = |host: u8, port| Endpoint::new(Addr::v4([10, 0, 0, host]), port);
    FlowKey::new(end(1, PORT), end(2 + (peer % 7) as u8, 1024 + peer))
}

fn has(buckets: &Buckets, at: usize) -> bool {
    buckets[at / 32] >> (at % 32) & 1 == 1
}

impl Model<'_> {
    fn step(&mut self, input: &mut Input<'_>) {
        let kind = input.u8() % 19;
        match kind {
            18 => self.cease(input),
            16 => self.stall(input),
            17 => self.resume(input),
            0 => self.join(),
            1 => self.leave(input),
            2 | 3 => self.serve(input),
            4 => self.settle(),
            5 => self.obey(input),
            6 => {
                if let Some(member) = self.pick(input) {
                    self.table.settle(member, u64::MAX);
                }
            }
            7 => {
                if let Some(member) = self.pick(input) {
                    self.table.tidy(member);
                }
            }
            8..=12 => self.opens(input),
            13 => self.ends(input),
            _ => self.stray(input),
        }
    }

    fn pick(&self, input: &mut Input<'_>) -> Option<usize> {
        let nth = usize::from(input.u8()) % self.members.len().max(1);
        self.members.keys().nth(nth).copied()
    }

    fn heirs(&self) -> Vec<Option<usize>> {
        (0..BUCKETS).map(|at| self.table.heir(at)).collect()
    }

    fn servers(&self) -> usize {
        self.members.values().filter(|known| known.shares()).count()
    }

    fn join(&mut self) {
        let Some(member) = self.table.vacancies().next() else {
            return assert_eq!(self.members.len(), MEMBERS);
        };
        self.table.join(member, 0).expect("memory of its own");
        assert!(self.members.insert(member, Known::default()).is_none());
        assert_eq!(self.table.present().count_ones() as usize, self.members.len());
    }

    /// Dead or alive, it is the same to the others.
    fn leave(&mut self, input: &mut Input<'_>) {
        let Some(member) = self.pick(input) else { return };
        let before = self.heirs();
        self.table.leave(member);
        if self.members.remove(&member).is_none() {
            return;
        }
        self.moved(&before, Some(member));
    }

    fn serve(&mut self, input: &mut Input<'_>) {
        let Some(member) = self.pick(input) else { return };
        let Some(known) = self.members.get_mut(&member) else { return };
        known.serving = !known.serving;
        known.listening |= known.serving;
        let (serving, before) = (known.serving, self.heirs());
        self.table.serve(member, serving);
        self.moved(&before, Some(member));
    }

    /// A member has no listener any more.
    fn cease(&mut self, input: &mut Input<'_>) {
        let Some(member) = self.pick(input) else { return };
        let before = self.heirs();
        self.table.cease(member);
        let Some(known) = self.members.get_mut(&member) else { return };
        (known.serving, known.listening) = (false, false);
        self.moved(&before, Some(member));
    }

    /// A member is taken for one that does not run, unless it is the last that shares.
    fn stall(&mut self, input: &mut Input<'_>) {
        let Some(member) = self.pick(input) else { return };
        let (before, rest) = (self.heirs(), self.table.sharing() & !(1 << member));
        self.table.stall(1 << member);
        assert_eq!(self.table.is_stalled(member), rest != 0 || self.members[&member].stalled);
        if let Some(known) = self.members.get_mut(&member).filter(|_| rest != 0) {
            known.stalled = true;
            assert!((0..BUCKETS).all(|at| self.table.owner(at) != Some(member)));
            self.moved(&before, Some(member));
        } else {
            assert_eq!(before, self.heirs());
        }
    }

    fn resume(&mut self, input: &mut Input<'_>) {
        let Some(member) = self.pick(input) else { return };
        let before = self.heirs();
        self.table.resume(member);
        let Some(known) = self.members.get_mut(&member) else { return };
        known.stalled = false;
        self.moved(&before, Some(member));
    }

    /// Only buckets of `who` moved, to or from it; shares are even.
    fn moved(&self, before: &[Option<usize>], who: Option<usize>) {
        let now = self.heirs();
        let moved = before.iter().zip(&now).filter(|(before, now)| before != now);
        let is_its = |(before, now): (&Option<usize>, &Option<usize>)| *before == who || *now == who;
        // The first deal finds buckets that are no member's; one that keeps all may have stalled before others came.
        let may = |moved| is_its(moved) || moved.0.is_none() || self.servers() == 0;
        assert!(moved.clone().all(may), "{before:?} {now:?}");
        let share = |member: usize| now.iter().filter(|heir| **heir == Some(member)).count();
        let shares: Vec<_> = self
            .members
            .iter()
            .filter(|(_, known)| known.shares())
            .map(|(member, _)| share(*member))
            .collect();
        let (least, most) = (shares.iter().min(), shares.iter().max());
        assert!(least.zip(most).is_none_or(|(least, most)| most - least <= 1), "{shares:?}");
        if shares.is_empty() {
            self.is_kept(&now);
        } else {
            assert_eq!(shares.iter().sum::<usize>(), BUCKETS);
        }
    }

    /// While no member wants connections one keeps what asks for them: one with a listener if there is one that runs.
    fn is_kept(&self, heirs: &[Option<usize>]) {
        let keeper = heirs[0];
        assert!(heirs.iter().all(|heir| *heir == keeper), "{heirs:?}");
        let may = |known: &Known| known.listening && !known.stalled;
        let keeper = keeper.map(|member| &self.members[&member]);
        assert!(keeper.is_some() || self.members.is_empty());
        assert!(keeper.is_none_or(may) || !self.members.values().any(may));
    }

    /// A member's filter follows the deal.
    fn obey(&mut self, input: &mut Input<'_>) {
        if let Some(member) = self.pick(input) {
            self.obey_one(member);
        }
    }

    fn obey_one(&mut self, member: usize) {
        let generation = self.table.generation();
        let Some(known) = self.members.get_mut(&member) else { return };
        known.filter = self.table.view(member);
        assert!(
            known.flows.iter().all(|flow| has(&known.filter, self.table.bucket(&key(*flow)))),
            "a flow would starve"
        );
        self.table.ready(member, generation);
    }

    /// Every member has done what it must: every bucket is with its heir.
    fn settle(&mut self) {
        let members: Vec<_> = self.members.keys().copied().collect();
        members.iter().for_each(|member| self.obey_one(*member));
        for member in members {
            assert!(!self.table.settle(member, u64::MAX).1, "{member} could not hand over");
        }
        for at in 0..BUCKETS {
            assert_eq!(self.table.owner(at), self.table.heir(at));
        }
    }

    /// Returns the member that answers a segment of an unknown flow.
    fn answer(&self, peer: u16, opens: bool) -> Option<usize> {
        let key = key(peer);
        let sees =
            |known: &Known| has(&known.filter, self.table.bucket(&key)) && !known.flows.contains(&peer);
        let mut who = self
            .members
            .iter()
            .filter(|(member, known)| sees(known) && self.table.answers(**member, &key, opens));
        let first = who.next().map(|(member, _)| *member);
        assert!(who.next().is_none(), "two answer {key:?}");
        assert!(first.is_none() || !self.lives(peer), "{key:?} is another's");
        first
    }

    fn lives(&self, peer: u16) -> bool {
        self.members.values().any(|known| known.flows.contains(&peer))
    }

    /// A client asks for a connection.
    fn opens(&mut self, input: &mut Input<'_>) {
        let peer = input.u16() % PEERS;
        if let Some(member) = self.answer(peer, true) {
            self.table.on_flow(member, &key(peer), true);
            let fresh = self.members.get_mut(&member).map(|known| known.flows.insert(peer));
            assert_eq!(fresh, Some(true));
        }
    }

    fn ends(&mut self, input: &mut Input<'_>) {
        let Some(member) = self.pick(input) else { return };
        let Some(known) = self.members.get_mut(&member) else { return };
        if let Some(peer) = known.flows.pop_first() {
            self.table.on_flow(member, &key(peer), false);
        }
    }

    /// A segment of a connection that perhaps no member has.
    fn stray(&mut self, input: &mut Input<'_>) {
        self.answer(input.u16() % PEERS, false);
    }

    /// Once settled, every peer that asks is answered by one member, or kept by one, and a question to a dead member is
    /// refused.
    fn check(&self) {
        for (member, known) in self.members.iter().filter(|(member, _)| self.table.is_sole(**member)) {
            let elsewhere =
                self.members.iter().any(|(other, known)| other != member && !known.flows.is_empty());
            assert!((known.shares() && self.servers() == 1 || self.servers() == 0) && !elsewhere);
        }
        let dealt = self.table.heir(0).is_some();
        assert!(dealt || self.servers() == 0);
        for peer in 0..PEERS {
            let free = !self.lives(peer);
            assert_eq!(self.answer(peer, true).is_some(), free && dealt);
            if dealt {
                assert_eq!(self.answer(peer, false).is_some(), free);
            }
        }
    }
}
