//! Neighbours: link-layer addresses of those our packets go to next.
//!
//! On a port with its own addresses this is ARP (RFC 826, RFC 1122 section 2.3.2) and Neighbour Discovery
//! (RFC 4861, section 7): ask, repeat, give up, and verify again what was not heard of for a while. On a port
//! that shares the kernel's addresses the kernel does all that; here lies what it said. No packet waits here:
//! connections do, and build their segments when the answer is there.

use base::{Addr, Duration, Instant};
use std::collections::BTreeMap;

use crate::conns::List;

/// Most neighbours known at once.
const NEIGHBOURS_MAX: usize = 4096;
/// Questions before giving up, and the time between two (RFC 4861, section 10).
const TRIES: u8 = 3;
const RETRY: Duration = Duration::from_secs(1);
/// How long an answer is believed without being confirmed.
/// RFC 9293, MUST-20.
const REACHABLE: Duration = Duration::from_secs(30);
/// How long nobody is asked again after a failure.
const HOLD_DOWN: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Nobody asked yet.
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
    at: Instant,
    /// Connections that wait for the answer.
    pub(crate) waiting: List,
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
    /// Who is sought.
    pub(crate) addr: Addr,
    /// To this address only (verifying); to everybody otherwise.
    pub(crate) unicast: Option<[u8; 6]>,
}

/// The neighbours of one port. Indices stay valid until [`Neighbours::find`] says otherwise.
pub(crate) struct Neighbours {
    entries: Vec<Neighbour>,
    index: BTreeMap<Addr, u32>,
    /// The kernel resolves and verifies.
    kernel: bool,
    /// Nothing is due before this.
    next: Instant,
    hand: u32,
}

/// What [`Neighbours::find`] found.
pub(crate) enum Found {
    /// The neighbour's index.
    At(u32),
    /// Another neighbour lost its place to it: ways looked up before are void.
    Replaced(u32),
    /// All places are taken by neighbours being waited for.
    Full,
}

impl Neighbours {
    pub(crate) fn new(kernel: bool) -> Self {
        Neighbours { entries: Vec::new(), index: BTreeMap::new(), kernel, next: Instant::FAR_FUTURE, hand: 0 }
    }

    /// How many are known or sought.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry of `addr`, made if need be.
    pub(crate) fn find(&mut self, addr: Addr) -> Found {
        if let Some(&at) = self.index.get(&addr) {
            return Found::At(at);
        }
        let fresh = Neighbour {
            addr,
            mac: [0; 6],
            state: State::Unknown,
            tries: 0,
            at: Instant::ZERO,
            waiting: List::new(),
        };
        if self.entries.len() < NEIGHBOURS_MAX {
            self.entries.push(fresh);
            let at = self.entries.len() as u32 - 1;
            self.index.insert(addr, at);
            return Found::At(at);
        }
        for _ in 0..NEIGHBOURS_MAX {
            self.hand = (self.hand + 1) % NEIGHBOURS_MAX as u32;
            let entry = &mut self.entries[self.hand as usize];
            if entry.waiting.is_empty() {
                self.index.remove(&entry.addr);
                *entry = fresh;
                self.index.insert(addr, self.hand);
                return Found::Replaced(self.hand);
            }
        }
        Found::Full
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
        questions.push(Question { addr: entry.addr, unicast: verifying.then_some(entry.mac) });
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
                questions.push(Question { addr: entry.addr, unicast });
            }
            self.next = self.next.min(entry.at);
        }
    }

    /// Somebody said that `addr` is at `mac`. Makes an entry only if `make` (RFC 826: only when we are the
    /// target). Gives the index if connections wait for it.
    pub(crate) fn learn(&mut self, now: Instant, addr: Addr, mac: [u8; 6], make: bool) -> Option<u32> {
        let at = match self.index.get(&addr) {
            Some(&at) => at,
            None if make => match self.find(addr) {
                Found::At(at) | Found::Replaced(at) => at,
                Found::Full => return None,
            },
            None => return None,
        };
        let entry = &mut self.entries[at as usize];
        entry.mac = mac;
        entry.state = State::Known;
        entry.at = if self.kernel { Instant::FAR_FUTURE } else { now + REACHABLE };
        (!entry.waiting.is_empty()).then_some(at)
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
mod tests {
    //! Goal: ask, repeat, give up, hold down, verify; and the table stays bounded.
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

    fn addr(n: u16) -> Addr {
        let [a, b] = n.to_be_bytes();
        Addr::v4([10, 0, a, b])
    }

    fn at(found: Found) -> u32 {
        match found {
            Found::At(at) | Found::Replaced(at) => at,
            Found::Full => panic!("full"),
        }
    }

    #[test]
    fn asks_repeats_and_gives_up() {
        let (mut all, mut questions, mut failed) = (Neighbours::new(false), Vec::new(), Vec::new());
        let n = at(all.find(addr(1)));
        let mut now = Instant::from_secs(5);
        assert_eq!(all.ready(now, n, &mut questions), Ready::Wait);
        assert_eq!(all.ready(now, n, &mut questions), Ready::Wait);
        assert_eq!(questions, [Question { addr: addr(1), unicast: None }]);
        for asked in 2..=3 {
            now += RETRY;
            assert_eq!(all.next(), Some(now));
            all.expire(now, &mut questions, &mut failed);
            assert_eq!(questions.len(), asked);
        }
        now += RETRY;
        all.expire(now, &mut questions, &mut failed);
        assert_eq!((questions.len(), failed.as_slice()), (3, &[n][..]));
        assert_eq!(all.ready(now, n, &mut questions), Ready::Fail);
        assert_eq!(all.next(), None);
        now += HOLD_DOWN;
        assert_eq!(all.ready(now, n, &mut questions), Ready::Wait);
        all.learn(now, addr(1), MAC, false);
        assert_eq!((all.ready(now, n, &mut questions), *all.mac(n)), (Ready::Go, MAC));
    }

    #[test]
    fn verifies_what_grew_old() {
        let (mut all, mut questions, mut failed) = (Neighbours::new(false), Vec::new(), Vec::new());
        let mut now = Instant::from_secs(5);
        assert_eq!(all.learn(now, addr(1), MAC, false), None);
        assert_eq!(all.len(), 0, "gossip makes no entry");
        all.learn(now, addr(1), MAC, true);
        let n = at(all.find(addr(1)));
        now += REACHABLE;
        assert_eq!((all.ready(now, n, &mut questions), *all.mac(n)), (Ready::Go, MAC));
        assert_eq!(questions, [Question { addr: addr(1), unicast: Some(MAC) }]);
        for _ in 0..3 {
            now += RETRY;
            all.expire(now, &mut questions, &mut failed);
        }
        assert_eq!(failed, [n]);
        assert_eq!(all.ready(now, n, &mut questions), Ready::Fail);
    }

    #[test]
    fn what_the_kernel_said_does_not_age() {
        let (mut all, mut questions) = (Neighbours::new(true), Vec::new());
        all.learn(Instant::ZERO, addr(1), MAC, true);
        let n = at(all.find(addr(1)));
        assert_eq!(all.ready(Instant::from_secs(1 << 30), n, &mut questions), Ready::Go);
        assert_eq!(*all.mac(n), MAC);
        all.forget(addr(1));
        assert_eq!(all.ready(Instant::ZERO, n, &mut questions), Ready::Wait);
        assert_eq!(questions.len(), 1);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut all = Neighbours::new(false);
        for n in 0..NEIGHBOURS_MAX as u16 {
            assert!(matches!(all.find(addr(n)), Found::At(_)));
        }
        assert!(matches!(all.find(addr(60_000)), Found::Replaced(_)));
        assert_eq!((all.len(), all.index.len()), (NEIGHBOURS_MAX, NEIGHBOURS_MAX));
    }
}
