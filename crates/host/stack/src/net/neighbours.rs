//! Neighbours: link-layer addresses of those our packets go to next.
//!
//! On a port with its own addresses this is ARP (RFC 826, RFC 1122 section 2.3.2) and Neighbour Discovery
//! (RFC 4861, section 7): ask, repeat, give up, and verify again what was not heard of for a while. On a port
//! that shares the kernel's addresses the kernel does all that; here lies what it said. No packet waits here:
//! connections do, and build their segments when the answer is there.

use base::{Addr, Duration, Instant};
use std::collections::BTreeMap;

use crate::tables::conns::List;
use crate::tables::rate_limit::RateLimit;

/// Most neighbours known at once.
const NEIGHBOURS_MAX: usize = 4096;
/// Most entries that a packet has looked at: to make room in bulk, to make room for one, and to repeat questions.
pub(crate) const STEPS_MAX: u64 = 4 * NEIGHBOURS_MAX as u64;
/// Most of them that have not answered a question (RFC 6583, section 7): any host on the link can make such entries,
/// one for each address of an IPv6 /64. Those that packets alone speak of, and those that have told their link-layer
/// address by ARP or Neighbour Discovery: a flood of SYNs takes no place of a host that has asked for our address.
const UNPROVEN_MAX: [usize; 2] = [2048, 1024];
/// How often those that have not answered make room for others, at most: each time all ways must be looked up again.
const SWEEP_EVERY: Duration = Duration::from_millis(100);
/// Questions a second, and at once, for neighbours of one kind that have never answered (RFC 6583, section 7.1).
const QUESTIONS: (u32, u32) = (500, 500);
/// Questions before giving up, and the time between two (RFC 4861, section 10).
const TRIES: u8 = 3;
const RETRY: Duration = Duration::from_secs(1);
/// How long an answer is believed without being confirmed.
/// RFC 9293, MUST-20.
const REACHABLE: Duration = Duration::from_secs(30);
/// How long no peer is asked again after a failure.
const HOLD_DOWN: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nothing asked yet.
    Unknown,
    /// Asked `tries` times, next at `at`.
    Asking,
    /// Known; verified again when used after `at`.
    Known,
    /// Known for now, being verified.
    Verifying,
    /// Did not answer; not asked again before `at`.
    Failed,
}

/// One neighbour.
pub(crate) struct Neighbour {
    addr: Addr,
    mac: [u8; 6],
    state: State,
    tries: u8,
    /// It has answered a question, or the kernel vouches for it.
    proven: bool,
    /// It has told its link-layer address by itself.
    told: bool,
    /// It is a gateway: it keeps its place.
    router: bool,
    at: Instant,
    /// Connections that wait for the answer.
    pub(crate) waiting: List,
}

impl Neighbour {
    fn new(addr: Addr) -> Self {
        Neighbour {
            addr,
            mac: [0; 6],
            state: State::Unknown,
            tries: 0,
            proven: false,
            told: false,
            router: false,
            at: Instant::ZERO,
            waiting: List::new(),
        }
    }

    /// Its kind in [`UNPROVEN_MAX`], if any host on the link can have made it: then questions for it are limited, and
    /// it makes room for others.
    fn doubt(&self) -> Option<usize> {
        (!self.proven && !self.router).then_some(usize::from(self.told))
    }
}

/// May a packet go to this neighbour now?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ready {
    /// Yes, to [`Neighbours::mac`].
    Go,
    /// Not yet: wait in its list.
    Wait,
    /// It does not answer.
    Fail,
}

/// A question to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    /// Address that is resolved.
    pub(crate) addr: Addr,
    /// To this address only (verifying); to every host otherwise.
    pub(crate) unicast: Option<[u8; 6]>,
}

/// The neighbours of one port. An index is another neighbour's once [`Neighbours::take_voided`] has said so.
pub(crate) struct Neighbours {
    entries: Vec<Neighbour>,
    index: BTreeMap<Addr, u32>,
    /// Places of `entries` that nothing has.
    vacant: Vec<u32>,
    /// Entries that may have to make room, neither proven nor gateways, of each kind.
    unproven: [usize; 2],
    /// The kernel resolves and verifies.
    kernel: bool,
    /// The port needs no link-layer addresses: one entry stands for all.
    flat: bool,
    /// Nothing is due before this.
    next: Instant,
    hand: u32,
    /// When entries of each kind last made room in bulk.
    swept: [Option<Instant>; 2],
    /// Ways found before may lead to another neighbour's index.
    voided: bool,
    questions: [RateLimit; 2],
    /// Entries looked at so far, to make room, to ask again or to give up.
    steps: u64,
}

/// All places are taken, and none can be made free now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

impl Neighbours {
    pub(crate) fn new(kernel: bool) -> Self {
        Neighbours {
            entries: Vec::new(),
            index: BTreeMap::new(),
            vacant: Vec::new(),
            unproven: [0; 2],
            kernel,
            flat: false,
            next: Instant::FAR_FUTURE,
            hand: 0,
            swept: [None; 2],
            voided: false,
            questions: [(); 2].map(|()| RateLimit::new(QUESTIONS.0, QUESTIONS.1)),
            steps: 0,
        }
    }

    /// Those of a port without link-layer addresses.
    pub(crate) fn flat() -> Self {
        Neighbours { flat: true, ..Neighbours::new(false) }
    }

    /// Entries looked at so far, beyond those that an address or a connection leads to.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// How many are known or sought.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns true, once, if ways looked up before are void.
    pub(crate) fn take_voided(&mut self) -> bool {
        std::mem::take(&mut self.voided)
    }

    /// The index of `addr`, whose entry is made if need be. A `router` keeps its place.
    ///
    /// # Errors
    /// There is no place, nor can one be made free now. What has answered makes no room for what has not.
    pub(crate) fn find(&mut self, now: Instant, addr: Addr, router: bool) -> Result<u32, Full> {
        let addr = if self.flat { Addr::UNSPECIFIED_V6 } else { addr };
        if let Some(&at) = self.index.get(&addr) {
            if router {
                self.change(at, |entry| entry.router = true);
            }
            return Ok(at);
        }
        self.enter(now, Neighbour { router, ..Neighbour::new(addr) })
    }

    /// Changes what an entry's kind follows from.
    fn change(&mut self, at: u32, change: impl FnOnce(&mut Neighbour)) {
        let entry = &mut self.entries[at as usize];
        entry.doubt().into_iter().for_each(|kind| self.unproven[kind] -= 1);
        change(entry);
        entry.doubt().into_iter().for_each(|kind| self.unproven[kind] += 1);
    }

    fn enter(&mut self, now: Instant, entry: Neighbour) -> Result<u32, Full> {
        let at = self.place(now, entry.doubt()).ok_or(Full)?;
        entry.doubt().into_iter().for_each(|kind| self.unproven[kind] += 1);
        self.index.insert(entry.addr, at);
        self.entries[at as usize] = entry;
        Ok(at)
    }

    /// Is there room for another entry of this kind, or can it be made?
    fn has_room(&mut self, now: Instant, kind: usize) -> bool {
        if self.unproven[kind] >= UNPROVEN_MAX[kind] {
            self.sweep(now, kind);
        }
        self.unproven[kind] < UNPROVEN_MAX[kind]
    }

    /// A place for another entry, vacant or made so.
    fn place(&mut self, now: Instant, kind: Option<usize>) -> Option<u32> {
        if kind.is_some_and(|kind| !self.has_room(now, kind)) {
            return None;
        }
        if self.vacant.is_empty() && self.entries.len() < NEIGHBOURS_MAX {
            self.entries.push(Neighbour::new(Addr::UNSPECIFIED_V6));
            return Some(self.entries.len() as u32 - 1);
        }
        if self.vacant.is_empty() {
            (0..UNPROVEN_MAX.len()).for_each(|kind| self.sweep(now, kind));
        }
        self.vacant.pop().or_else(|| self.evict(now))
    }

    /// All of this kind for which no connection waits make room, at most every [`SWEEP_EVERY`].
    fn sweep(&mut self, now: Instant, kind: usize) {
        if self.swept[kind].is_some_and(|swept| now.since(swept) < SWEEP_EVERY) {
            return;
        }
        self.swept[kind] = Some(now);
        self.steps += self.entries.len() as u64;
        for at in 0..self.entries.len() as u32 {
            let entry = &self.entries[at as usize];
            let lives = self.index.get(&entry.addr) == Some(&at);
            if lives && entry.doubt() == Some(kind) && entry.waiting.is_empty() {
                self.remove(at);
                self.vacant.push(at);
            }
        }
    }

    /// Of proven neighbours only one makes room for another, rather one that was not heard of for a while; never a
    /// gateway.
    fn evict(&mut self, now: Instant) -> Option<u32> {
        let count = self.entries.len() as u32;
        let may_go = |entry: &Neighbour| entry.proven && !entry.router && entry.waiting.is_empty();
        let order = (1..=count).map(|step| (self.hand + step) % count);
        let mut candidates = order.filter(|&at| may_go(&self.entries[at as usize]));
        let first = candidates.clone().next()?;
        let at = candidates.find(|&at| self.entries[at as usize].at <= now).unwrap_or(first);
        self.hand = at;
        // One search for any, and one for the stalest: both may pass all.
        self.steps += 2 * u64::from(count);
        self.remove(at);
        Some(at)
    }

    /// An entry lives no more; what was found before leads to its place still.
    fn remove(&mut self, at: u32) {
        let entry = &mut self.entries[at as usize];
        entry.doubt().into_iter().for_each(|kind| self.unproven[kind] -= 1);
        self.index.remove(&entry.addr);
        *entry = Neighbour::new(Addr::UNSPECIFIED_V6);
        self.voided = true;
    }

    /// Is the address of the neighbour at `index` known, and needs no verification?
    #[inline]
    pub(crate) fn is_known(&self, now: Instant, index: u32) -> bool {
        let entry = &self.entries[index as usize];
        entry.state == State::Known && now < entry.at
    }

    /// The address of the neighbour at `index`; zeros before there is one.
    #[inline]
    pub(crate) fn mac(&self, index: u32) -> &[u8; 6] {
        &self.entries[index as usize].mac
    }

    /// May a packet go to the neighbour at `index`? Appends the question this makes necessary.
    pub(crate) fn ready(&mut self, now: Instant, index: u32, questions: &mut Vec<Question>) -> Ready {
        if self.is_known(now, index) {
            return Ready::Go;
        }
        let entry = &mut self.entries[index as usize];
        match entry.state {
            State::Verifying => return Ready::Go,
            State::Asking => return Ready::Wait,
            State::Failed if now < entry.at => return Ready::Fail,
            State::Known => entry.state = State::Verifying,
            State::Unknown | State::Failed => entry.state = State::Asking,
        }
        entry.tries = 1;
        entry.at = now + RETRY;
        self.next = self.next.min(entry.at);
        let verifying = entry.state == State::Verifying;
        if entry.doubt().is_none_or(|kind| self.questions[kind].take(now)) {
            questions.push(Question { addr: entry.addr, unicast: verifying.then_some(entry.mac) });
        }
        if verifying { Ready::Go } else { Ready::Wait }
    }

    /// The list of connections waiting for the neighbour at `index`.
    pub(crate) fn waiting(&mut self, index: u32) -> &mut List {
        &mut self.entries[index as usize].waiting
    }

    /// When [`Neighbours::expire`] has something to do.
    pub(crate) fn next(&self) -> Option<Instant> {
        (self.next != Instant::FAR_FUTURE).then_some(self.next)
    }

    /// Repeats questions and gives up: appends the questions, and those whose waiting connections must be
    /// told.
    pub(crate) fn expire(&mut self, now: Instant, questions: &mut Vec<Question>, failed: &mut Vec<u32>) {
        if now < self.next {
            return;
        }
        self.next = Instant::FAR_FUTURE;
        self.steps += self.entries.len() as u64;
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if !matches!(entry.state, State::Asking | State::Verifying) {
                continue;
            }
            if entry.at <= now && entry.tries >= TRIES {
                entry.state = State::Failed;
                entry.at = now + HOLD_DOWN;
                failed.push(index as u32);
                continue;
            }
            if entry.at <= now {
                entry.tries += 1;
                entry.at = now + RETRY;
                let unicast = (entry.state == State::Verifying).then_some(entry.mac);
                if entry.doubt().is_none_or(|kind| self.questions[kind].take(now)) {
                    questions.push(Question { addr: entry.addr, unicast });
                }
            }
            self.next = self.next.min(entry.at);
        }
    }

    /// Takes in that `addr` is at `mac`, and returns its index if connections wait for it. Makes an entry only if
    /// `make` (RFC 826: only when we are the target). Unless it `replaces`, another address that is known stays, and
    /// is verified when it is next used (RFC 4861, section 7.2.5).
    pub(crate) fn learn(
        &mut self,
        now: Instant,
        addr: Addr,
        mac: [u8; 6],
        make: bool,
        replaces: bool,
    ) -> Option<u32> {
        let at = match self.index.get(&addr) {
            Some(&at) => at,
            None if make => self.enter(now, Neighbour { told: true, ..Neighbour::new(addr) }).ok()?,
            None => return None,
        };
        let entry = &mut self.entries[at as usize];
        let known = matches!(entry.state, State::Known | State::Verifying);
        if known && !replaces && entry.mac != mac {
            if entry.state == State::Known {
                entry.at = entry.at.min(now);
            }
            return None;
        }
        let asked = matches!(entry.state, State::Asking | State::Verifying);
        entry.mac = mac;
        entry.state = State::Known;
        entry.at = if self.kernel { Instant::FAR_FUTURE } else { now + REACHABLE };
        let waited_for = !entry.waiting.is_empty();
        if asked || self.kernel {
            self.change(at, |entry| entry.proven = true);
        } else if self.entries[at as usize].doubt() == Some(0) && self.has_room(now, 1) {
            self.change(at, |entry| entry.told = true);
        }
        waited_for.then_some(at)
    }

    /// A packet of `addr` came from `mac`: better than nothing while nothing is known, and checked soon.
    pub(crate) fn hint(&mut self, now: Instant, index: u32, mac: [u8; 6]) {
        let entry = &mut self.entries[index as usize];
        if matches!(entry.state, State::Unknown | State::Failed) && mac[0] & 1 == 0 && mac != [0; 6] {
            entry.mac = mac;
            entry.state = State::Known;
            entry.at = now + RETRY;
        }
    }

    /// The kernel forgot `addr`.
    pub(crate) fn forget(&mut self, addr: Addr) {
        if let Some(&at) = self.index.get(&addr) {
            let entry = &mut self.entries[at as usize];
            if entry.waiting.is_empty() {
                entry.state = State::Unknown;
            }
        }
    }
}

#[cfg(test)]
mod tests;
