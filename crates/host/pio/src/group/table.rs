//! Table that the members of a group share: the members, the owner of each bucket, the flows of each member.
//!
//! ```text
//!   words 0..64        magic, share, place, secrets, generation; bits of the members present, serving, stalled; turn,
//!                      bits of those whose flows are not here, of places taken, of servants, of those that ask, of
//!                      those with a listener
//!        64..128       ready: the generation of the deal that a member's filter obeys
//!       128..384       owner of each bucket: the member that answers new and unknown flows
//!       384..640       heir of each bucket: the member it was dealt to; they differ until it is handed over
//!       640..896       holders of each bucket: a bit for each member that may have flows in it
//!       896..960       process of each member
//!       960..1024      places of connections that are handed over (`handovers`)
//!      1024..2048      beat of each member, on a cache line of its own: how often it has looked after the group
//!      2048..2304      when each bucket came to its owner; 0 for one of a member that was killed
//!   20 KiB + 2 MiB n   flows of member n (`flows`); behind all of them the connections that are handed over
//! ```
//! A bucket's owner alone hands it over, between two packets of its own: so no moment exists at which two members take
//! the same SYN. An owner that is dead or stalled is not asked. A member that deals, joins, leaves or buries holds the
//! group's lock; the words are atomics, and readers need no lock.
//!
//! A *stalled* member is there and has flows, but does not run (SIGSTOP, a frozen cgroup): it gets no share until it
//! runs again and says so.

use super::flows::{self, Flows};
use super::handovers::{self, Handovers};
use crate::peer_hash::PeerHash;
use crate::ports::Place;
use crate::sys;
use base::{FlowKey, SipKey};
use ring::shared::{SharedMemory, WORD};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

/// Parts into which flows to a shared port are divided, by a keyed hash of the peer's address and port.
pub(crate) const BUCKETS: usize = 256;
/// Most processes of one group: a bit each in a word.
pub(crate) const MEMBERS: usize = 64;

const _: () = assert!(MEMBERS == u64::BITS as usize && BUCKETS.is_power_of_two());

/// Bytes before the flows.
pub(super) const HEADER: usize = 20 << 10;
/// Where the number of the lock lies in the file.
pub(super) const TURN_AT: u64 = (TURN * WORD) as u64;
/// Bytes of the whole.
pub(super) const LEN: usize = HANDOVERS_AT + handovers::LEN;
/// Where the connections lie that are handed over.
pub(super) const HANDOVERS_AT: usize = HEADER + MEMBERS * flows::LEN;

const MAGIC: usize = 0;
const SHARE: usize = 1;
const PLACE: usize = 2;
const SECRET: usize = 5;
const GENERATION: usize = 7;
const PRESENT: usize = 8;
const SERVING: usize = 9;
const STALLED: usize = 10;
/// Says which byte of the file is the group's lock; outlives the group's members.
const TURN: usize = 11;
const UNTOLD: usize = 12;
/// Places of connections that are handed over which are taken, a bit each.
const HANDED: usize = 13;
/// Members that have a share where no others want one, and those of them that ask for a connection.
const LOW: usize = 14;
const ASKING: usize = 15;
/// Members that have a listener, though it may want no connections.
const LISTENING: usize = 16;
const READY: usize = 64;
const OWNER: usize = 128;
const HEIR: usize = 384;
const HOLDERS: usize = 640;
const PROCESS: usize = 896;
const PLACES: usize = 960;
const BEAT: usize = 1024;
/// Words from one beat to the next: members raise theirs all the time.
const BEAT_LINE: usize = 16;
const MOVED: usize = BEAT + MEMBERS * BEAT_LINE;
const USED: usize = MOVED + BUCKETS;

const _: () =
    assert!(USED * WORD <= HEADER && PROCESS + MEMBERS <= PLACES && PLACES + handovers::COUNT <= BEAT);

/// Says what the memory is, and which version of its layout.
const FORMAT: u64 = 0x6d73_6772_6f75_7008;
/// Nothing.
const NONE: u64 = u64::MAX;
/// How long copies of segments may come late that the owner before has answered, or that belonged to connections which
/// ended with it.
const LATE_MAX_NANOS: u64 = 3_000_000_000;

fn words_of(place: &Place) -> [u64; 3] {
    let [high, low] = place.addr.halves();
    [u64::from(place.port) << 1 | u64::from(place.dual), high, low]
}

/// A set of buckets.
pub(crate) type Buckets = [u32; BUCKETS / 32];

/// The upper bits of a peer's hash are its bucket.
pub(crate) const SHIFT: u32 = u32::BITS - BUCKETS.trailing_zeros();

/// Where the flows of a member lie.
pub(super) fn flows_at(member: usize) -> usize {
    HEADER + member * flows::LEN
}

/// The memory of a group. A member is a number below [`MEMBERS`].
pub(super) struct Table {
    /// [`HEADER`] bytes.
    memory: SharedMemory,
    /// Flows of each member that were needed here so far: most groups have few members, and address space may be
    /// limited.
    flows: [OnceLock<SharedMemory>; MEMBERS],
    handovers: OnceLock<SharedMemory>,
    /// File that the memory lies in; `None` for memory of this process alone.
    file: Option<Arc<File>>,
    /// Follows from the group's secret, which is there once it was begun or joined.
    hash: OnceLock<PeerHash>,
}

fn bit(member: usize) -> u64 {
    1 << member
}

/// The members in a mask.
pub(super) fn each(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(next)
    })
}

impl Table {
    /// Of a file of [`LEN`] bytes.
    pub(super) fn of_file(file: &Arc<File>) -> io::Result<Table> {
        let memory = SharedMemory::of_file(file.as_fd(), 0, HEADER)?;
        Ok(Table { file: Some(file.clone()), ..Table::of(memory) })
    }

    /// Of this process alone.
    pub(super) fn private() -> Table {
        Table::of(SharedMemory::private(HEADER))
    }

    fn of(memory: SharedMemory) -> Table {
        let flows = [const { OnceLock::new() }; MEMBERS];
        Table { memory, flows, handovers: OnceLock::new(), file: None, hash: OnceLock::new() }
    }

    /// Maps the flows of a member.
    fn map(&self, member: usize) -> io::Result<Flows<'_>> {
        let flows = match (self.flows[member].get(), &self.file) {
            (Some(known), _) => known,
            (None, Some(file)) => {
                let mapped = SharedMemory::of_file(file.as_fd(), flows_at(member), flows::LEN)?;
                self.flows[member].get_or_init(|| mapped)
            }
            (None, None) => self.flows[member].get_or_init(|| SharedMemory::private(flows::LEN)),
        };
        Ok(Flows(flows.words(0, flows::LEN)))
    }

    /// Maps the connections that are handed over.
    fn handovers(&self) -> io::Result<Handovers<'_>> {
        let memory = match (self.handovers.get(), &self.file) {
            (Some(known), _) => known,
            (None, Some(file)) => {
                let mapped = SharedMemory::of_file(file.as_fd(), HANDOVERS_AT, handovers::LEN)?;
                self.handovers.get_or_init(|| mapped)
            }
            (None, None) => self.handovers.get_or_init(|| SharedMemory::private(handovers::LEN)),
        };
        Ok(Handovers {
            taken: self.word(HANDED),
            places: self.memory.words(PLACES * WORD, handovers::COUNT * WORD),
            memory: memory.words(0, handovers::LEN),
        })
    }

    /// Leaves a connection to the heir of its bucket if that wants connections, or to a member that asks; false if
    /// there is none but the member itself, or no room. What another member has already is left to it.
    pub(super) fn hand_over(&self, member: usize, key: &FlowKey, state: &[u8]) -> bool {
        let (at, print) = (self.bucket(key), self.print(key));
        // A connection of the member's own may still be named by the one that it came from.
        let is_own = self.map(member).is_ok_and(|flows| flows.may_have(at, print, true));
        if !is_own && self.is_elsewhere(member, key) {
            return true;
        }
        match self.heir(at) {
            Some(heir) if heir != member && self.serves(heir) => self.put_over(key, None, state),
            _ => self.take_asking(member).is_some_and(|asking| self.put_over(key, Some(asking), state)),
        }
    }

    /// Leaves a connection to the heir of its bucket, or to a member that has asked.
    pub(super) fn put_over(&self, key: &FlowKey, to: Option<usize>, state: &[u8]) -> bool {
        let Ok(handovers) = self.handovers() else { return false };
        let done = handovers.put(self.bucket(key), self.print(key), to, state);
        // One that has gone since it asked may have been buried before this was there.
        if let Some(gone) = to.filter(|to| self.present() & bit(*to) == 0) {
            handovers.give_back(gone);
        }
        done
    }

    /// Returns true if the flow is another member's, or is being left to one.
    pub(super) fn is_elsewhere(&self, member: usize, key: &FlowKey) -> bool {
        let (at, print) = (self.bucket(key), self.print(key));
        let has = |other| self.map(other).is_ok_and(|flows| flows.may_have(at, print, true));
        self.get(HANDED) != 0 && self.handovers().is_ok_and(|handovers| handovers.has_flow(at, print))
            || each(self.get(HOLDERS + at) & self.present() & !bit(member)).any(has)
    }

    /// Returns a member that asks for a connection, which has asked no more by then.
    fn take_asking(&self, member: usize) -> Option<usize> {
        let asking = self.get(ASKING) & self.present() & !self.get(STALLED) & !bit(member);
        each(asking).find(|other| self.change(ASKING, *other, false) & bit(*other) != 0)
    }

    /// Fills `state` with that of a connection whose bucket's heir the member is, if it wants connections or no other
    /// ever will; what it was given before is its own.
    pub(super) fn take_over(&self, member: usize, state: &mut Vec<u8>) -> bool {
        let its = |at| self.heir(at) == Some(member) && (self.serves(member) || !self.has_listener());
        self.get(HANDED) != 0 && self.handovers().is_ok_and(|all| all.take(member, its, state))
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.memory.words(at * WORD, WORD)[0]
    }

    fn get(&self, at: usize) -> u64 {
        self.word(at).load(SeqCst)
    }

    fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, SeqCst);
    }

    /// Begins anew: a group of `place`, of processes that say `share`, without members.
    pub(super) fn reset(&self, share: u64, place: &Place, secret: [u64; 2]) {
        (0..USED).filter(|at| *at != TURN).for_each(|at| self.set(at, 0));
        (OWNER..HOLDERS).for_each(|at| self.set(at, NONE));
        for (at, word) in words_of(place).into_iter().enumerate() {
            self.set(PLACE + at, word);
        }
        self.set(SECRET, secret[0]);
        self.set(SECRET + 1, secret[1]);
        self.set(SHARE, share);
        self.set(MAGIC, FORMAT);
    }

    /// Is it a group, in this version's layout?
    pub(super) fn is_valid(&self) -> bool {
        self.get(MAGIC) == FORMAT
    }

    /// Looks like the memory of another version.
    #[cfg(test)]
    pub(super) fn spoil(&self) {
        self.set(MAGIC, FORMAT - 1);
    }

    /// Is it a group of `place`, of processes that say `share`?
    pub(super) fn is_of(&self, share: u64, place: &Place) -> bool {
        let found: [u64; 3] = std::array::from_fn(|at| self.get(PLACE + at));
        self.get(SHARE) == share && found == words_of(place)
    }

    /// Returns the present members, a bit each.
    pub(super) fn present(&self) -> u64 {
        self.get(PRESENT)
    }

    /// Changes with every deal.
    pub(super) fn generation(&self) -> u64 {
        self.get(GENERATION)
    }

    fn secret(&self) -> [u64; 2] {
        [self.get(SECRET), self.get(SECRET + 1)]
    }

    /// Returns the fingerprint of a flow in [`Flows`].
    fn print(&self, key: &FlowKey) -> u64 {
        let [k0, k1] = self.secret();
        SipKey::new(k0, k1).flow(key).max(1)
    }

    /// The group's own hash of peers. The filters of packet sockets compute the same. (After [`Table::reset`] or
    /// [`Table::is_of`].)
    pub(super) fn hash(&self) -> &PeerHash {
        self.hash.get_or_init(|| PeerHash::new(self.secret()))
    }

    /// The bucket of a flow.
    pub(super) fn bucket(&self, key: &FlowKey) -> usize {
        (self.hash().of(key.remote()) >> SHIFT) as usize
    }

    /// The numbers that nothing has.
    pub(super) fn vacancies(&self) -> impl Iterator<Item = usize> {
        each(!self.present())
    }

    /// The process that a member said it is.
    pub(super) fn process(&self, member: usize) -> u64 {
        self.get(PROCESS + member)
    }

    /// A program comes, that wants no connections yet. (Under the lock.)
    ///
    /// # Errors
    /// There is no address space for its flows.
    pub(super) fn join(&self, member: usize, process: u64) -> io::Result<()> {
        self.map(member)?.clear();
        self.set(READY + member, 0);
        self.set(PROCESS + member, process);
        for list in [STALLED, LOW, ASKING, LISTENING] {
            self.word(list).fetch_and(!bit(member), SeqCst);
        }
        self.word(PRESENT).fetch_or(bit(member), SeqCst);
        Ok(())
    }

    /// Says whether the member has flows that are not in the table.
    pub(super) fn hide(&self, member: usize, hides: bool) {
        let untold = self.word(UNTOLD);
        if hides {
            untold.fetch_or(bit(member), SeqCst);
        } else if untold.load(SeqCst) & bit(member) != 0 {
            untold.fetch_and(!bit(member), SeqCst);
        }
    }

    /// A program goes, or is dead: nothing is left. (Under the lock.)
    pub(super) fn leave(&self, member: usize) {
        // What ends in order wants no more connections before.
        let killed = self.word(SERVING).fetch_and(!bit(member), SeqCst) & bit(member);
        for list in [PRESENT, STALLED, LISTENING] {
            self.word(list).fetch_and(!bit(member), SeqCst);
        }
        self.hide(member, false);
        self.ask(member, false);
        for at in 0..BUCKETS {
            self.word(HOLDERS + at).fetch_and(!bit(member), SeqCst);
        }
        if self.get(HANDED) != 0
            && let Ok(handovers) = self.handovers()
        {
            handovers.give_back(member);
        }
        self.deal_of(killed);
    }

    /// A program wants connections, or no more. (Under the lock.)
    pub(super) fn serve(&self, member: usize, wanted: bool) {
        let serving = self.word(SERVING);
        if wanted {
            self.word(LISTENING).fetch_or(bit(member), SeqCst);
            serving.fetch_or(bit(member), SeqCst);
        } else {
            serving.fetch_and(!bit(member), SeqCst);
        }
        self.deal();
    }

    /// A program has no listener any more. (Under the lock.)
    pub(super) fn cease(&self, member: usize) {
        self.word(LISTENING).fetch_and(!bit(member), SeqCst);
        self.serve(member, false);
    }

    /// Does the member want connections?
    fn serves(&self, member: usize) -> bool {
        self.get(SERVING) & bit(member) != 0
    }

    /// Returns true if some member has a listener: one that wants connections may come.
    pub(super) fn has_listener(&self) -> bool {
        self.get(LISTENING) != 0
    }

    /// Has the member a share only where no other wants one?
    pub(super) fn is_low(&self, member: usize) -> bool {
        self.get(LOW) & bit(member) != 0
    }

    /// A member is to have a share only where no other wants one, or as others have. (Under the lock.)
    pub(super) fn lower(&self, member: usize, low: bool) {
        self.change(LOW, member, low);
        self.deal();
    }

    /// A member asks for a connection, or asks no more. Is that new?
    pub(super) fn ask(&self, member: usize, asks: bool) -> bool {
        let before = self.change(ASKING, member, asks);
        asks && before & bit(member) == 0
    }

    fn change(&self, list: usize, member: usize, is_in: bool) -> u64 {
        match is_in {
            true => self.word(list).fetch_or(bit(member), SeqCst),
            false => self.word(list).fetch_and(!bit(member), SeqCst),
        }
    }

    /// Members that do not run get no share, unless no other member wants connections. (Under the lock.)
    pub(super) fn stall(&self, members: u64) {
        let members = members & self.present();
        if self.get(SERVING) & !self.get(STALLED) & !members != 0 {
            self.word(STALLED).fetch_or(members, SeqCst);
            self.deal();
        }
    }

    /// A member runs again. (Under the lock.)
    pub(super) fn resume(&self, member: usize) {
        self.word(STALLED).fetch_and(!bit(member), SeqCst);
        self.deal();
    }

    /// Is the member called stalled?
    pub(super) fn is_stalled(&self, member: usize) -> bool {
        self.get(STALLED) & bit(member) != 0
    }

    /// Returns the members that have a share, or are to have one.
    pub(super) fn sharing(&self) -> u64 {
        let all = self.get(SERVING) & !self.get(STALLED);
        let first = all & !self.get(LOW);
        if first == 0 { all } else { first }
    }

    /// Returns the member that keeps what asks for a connection while no member wants any: one with a listener, for it
    /// may want them again, or another process that inherits the listener.
    fn keeper(&self) -> u64 {
        let running = self.present() & !self.get(STALLED);
        let sets = [running & self.get(LISTENING), running, self.present()];
        let may_be = sets.into_iter().find(|set| *set != 0).unwrap_or(0);
        // It stays the same one as long as it can.
        let known = self.heir(0).filter(|heir| may_be & bit(*heir) != 0);
        known.map_or(may_be & may_be.wrapping_neg(), bit)
    }

    /// A member has looked after the group.
    pub(super) fn beat(&self, member: usize) {
        // Two cores of the member that count as one have looked all the same.
        let beat = self.word(BEAT + member * BEAT_LINE);
        beat.store(beat.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Returns a number that changes while the member runs.
    pub(super) fn beats(&self, member: usize) -> u64 {
        self.word(BEAT + member * BEAT_LINE).load(Relaxed)
    }

    /// Returns the number of the lock that is the group's now.
    pub(super) fn turn(&self) -> u64 {
        self.get(TURN)
    }

    /// The holder of lock `turn` does not run: the next one is the group's.
    pub(super) fn pass_over(&self, turn: u64) {
        // Another member may have been faster.
        let _ = self.word(TURN).compare_exchange(turn, turn + 1, SeqCst, SeqCst);
    }

    /// Deals the buckets to the members that want connections, or all to the one that keeps what asks for them: shares
    /// differ by one at most, and no bucket moves that need not.
    fn deal(&self) {
        self.deal_of(0);
    }

    /// As [`Table::deal`], after these members were killed.
    fn deal_of(&self, killed: u64) {
        let serving = if self.sharing() == 0 { self.keeper() } else { self.sharing() };
        let serves = |member: u64| member < MEMBERS as u64 && serving & 1 << member != 0;
        let mut heirs: [u64; BUCKETS] = std::array::from_fn(|at| self.get(HEIR + at));
        heirs.iter_mut().filter(|heir| !serves(**heir)).for_each(|heir| *heir = NONE);
        let mut shares: Vec<(usize, usize)> =
            each(serving).map(|m| (m, heirs.iter().filter(|heir| **heir == m as u64).count())).collect();
        // Who has most gives least.
        shares.sort_by_key(|&(member, has)| (usize::MAX - has, member));
        let mut due = [0; MEMBERS];
        for (rank, &(member, _)) in shares.iter().enumerate() {
            let larger = rank < BUCKETS % shares.len();
            due[member] = BUCKETS / shares.len() + usize::from(larger);
        }
        for heir in heirs.iter_mut().filter(|heir| **heir != NONE) {
            match &mut due[*heir as usize] {
                0 => *heir = NONE,
                left => *left -= 1,
            }
        }
        let mut takers = each(serving).flat_map(|member| std::iter::repeat_n(member as u64, due[member]));
        heirs.iter_mut().filter(|heir| **heir == NONE).for_each(|heir| *heir = takers.next().unwrap_or(NONE));
        let running = self.present() & !self.get(STALLED);
        for (at, heir) in heirs.into_iter().enumerate() {
            self.set(HEIR + at, heir);
            let owner = self.get(OWNER + at);
            if owner >= MEMBERS as u64 || running & 1 << owner == 0 {
                let at_once = owner < MEMBERS as u64 && killed & 1 << owner != 0;
                self.set(MOVED + at, if at_once { 0 } else { sys::monotonic().as_nanos() });
                // A process that was stopped here and runs again changes nothing that has changed meanwhile.
                let _ = self.word(OWNER + at).compare_exchange(owner, heir, SeqCst, SeqCst);
            }
        }
        self.word(GENERATION).fetch_add(1, SeqCst);
    }

    /// Is every bucket a member's and to stay so, with no flows of others in it, and no other that may ask for one?
    pub(super) fn is_sole(&self, member: usize) -> bool {
        let others = self.present() & !bit(member);
        let asks = self.get(LOW) & others != 0;
        !asks
            && (0..BUCKETS).all(|at| {
                [OWNER, HEIR].iter().all(|list| self.get(list + at) == member as u64)
                    && self.get(HOLDERS + at) & others == 0
            })
    }

    /// The buckets whose segments a member must see: those it has, is to have, or may hold flows in.
    pub(super) fn view(&self, member: usize) -> Buckets {
        let mut view = Buckets::default();
        for at in 0..BUCKETS {
            let named = [OWNER, HEIR].iter().any(|list| self.get(list + at) == member as u64);
            if named || self.get(HOLDERS + at) & bit(member) != 0 {
                view[at / 32] |= 1 << (at % 32);
            }
        }
        view
    }

    /// A member sees what it must since the deal of `generation`. Is a program waiting to hand something over to it?
    pub(super) fn ready(&self, member: usize, generation: u64) -> bool {
        self.set(READY + member, generation);
        (0..BUCKETS).any(|at| {
            self.get(HEIR + at) == member as u64 && ![member as u64, NONE].contains(&self.get(OWNER + at))
        })
    }

    /// Has the bucket of a flow come to its owner so lately that a segment may be a copy which the owner before has
    /// answered?
    pub(super) fn has_moved_lately(&self, key: &FlowKey) -> bool {
        let moved = self.get(MOVED + self.bucket(key));
        moved != 0 && sys::monotonic().as_nanos().wrapping_sub(moved) < LATE_MAX_NANOS
    }

    /// Looks as if every bucket had come to its owner long ago.
    #[cfg(test)]
    pub(super) fn age(&self) {
        (MOVED..USED).for_each(|at| self.set(at, 1));
    }

    /// Is the bucket of a flow to be the member's, and another's still?
    pub(super) fn is_coming(&self, member: usize, key: &FlowKey) -> bool {
        let at = self.bucket(key);
        self.heir(at) == Some(member) && ![member as u64, NONE].contains(&self.get(OWNER + at))
    }

    /// Is the bucket of a flow to be that of another member, which wants connections?
    pub(super) fn is_going(&self, member: usize, key: &FlowKey) -> bool {
        self.heir(self.bucket(key)).is_some_and(|heir| heir != member && self.serves(heir))
    }

    /// Does the member own buckets that are to be others'?
    pub(super) fn owes(&self, member: usize) -> bool {
        let is_going = |at: usize| self.heir(at).is_some_and(|heir| heir != member);
        (0..BUCKETS).any(|at| self.owner(at) == Some(member) && is_going(at))
    }

    /// Returns the last deal, and the members whose filters obey it, a bit each.
    pub(super) fn ready_members(&self) -> (u64, u64) {
        let generation = self.generation();
        let obeys = |other: &usize| self.get(READY + other) >= generation;
        (generation, each(self.present()).filter(obeys).fold(0, |all, other| all | bit(other)))
    }

    /// A member that has told of all its flows hands over what was dealt to others, as far as they are `ready`. Was
    /// something handed over, and is something left?
    pub(super) fn settle(&self, member: usize, ready: u64) -> (bool, bool) {
        let (mut moved, mut left) = (false, false);
        for at in 0..BUCKETS {
            let (owner, generation, heir) = (self.word(OWNER + at), self.generation(), self.get(HEIR + at));
            if owner.load(SeqCst) != member as u64 || heir == member as u64 {
                continue;
            }
            let is_ready = |heir: usize| ready & bit(heir) != 0 && self.get(READY + heir) >= generation;
            if heir >= MEMBERS as u64 || is_ready(heir as usize) {
                self.set(MOVED + at, sys::monotonic().as_nanos());
                // Taken over meanwhile, it is not this member's to hand over.
                moved |= owner.compare_exchange(member as u64, heir, SeqCst, SeqCst).is_ok();
            } else {
                left = true;
            }
        }
        (moved, left)
    }

    /// Is a segment of no flow of the member's its to answer? `opens`: it asks for a connection.
    pub(super) fn answers(&self, member: usize, key: &FlowKey, opens: bool) -> bool {
        let at = self.bucket(key);
        let owner = self.get(OWNER + at);
        // While no member wants connections, a program must still tell those who talk to the dead.
        let eldest = || self.present().trailing_zeros() as usize == member;
        if owner != member as u64 && (owner != NONE || opens || !eldest()) {
            return false;
        }
        // A member that was stopped while it was alone: any flow may be its.
        if !opens && self.get(UNTOLD) & self.present() & !bit(member) != 0 {
            return false;
        }
        // A connection that is on its way to another stack is in none. Its SYN came to the bucket's heir too, which may
        // look at it only now.
        let on_its_way = |all: Handovers<'_>| {
            if opens { all.has_flow(at, self.print(key)) } else { all.has(at) }
        };
        if self.get(HANDED) != 0 && self.handovers().map_or(true, on_its_way) {
            return false;
        }
        let others = self.get(HOLDERS + at) & self.present() & !bit(member);
        others == 0 || {
            let print = self.print(key);
            // Of flows that cannot be looked up nothing is known: silence is right whichever member has them.
            let lacks = |other| self.map(other).is_ok_and(|flows| !flows.may_have(at, print, opens));
            each(others).all(lacks)
        }
    }

    /// A flow of a member's began, or ended.
    pub(super) fn on_flow(&self, member: usize, key: &FlowKey, lives: bool) {
        let at = self.bucket(key);
        // Mapped since the member joined.
        let Ok(flows) = self.map(member) else { return };
        if !lives {
            return flows.remove(at, self.print(key));
        }
        flows.insert(at, self.print(key));
        let holders = self.word(HOLDERS + at);
        if holders.load(SeqCst) & bit(member) == 0 {
            holders.fetch_or(bit(member), SeqCst);
        }
    }

    #[cfg(test)]
    pub(super) fn has(&self, member: usize, key: &FlowKey) -> bool {
        self.map(member).is_ok_and(|flows| flows.may_have(self.bucket(key), self.print(key), true))
    }

    /// A member stops being called a holder where it has no flow.
    pub(super) fn tidy(&self, member: usize) {
        let Ok(flows) = self.map(member) else { return };
        for at in 0..BUCKETS {
            let holders = self.word(HOLDERS + at);
            let counted = || flows.count(at) > 0;
            if holders.load(SeqCst) & bit(member) != 0 && !counted() {
                holders.fetch_and(!bit(member), SeqCst);
                // Another thread of the member may have begun one meanwhile, and not seen the bit go.
                if counted() {
                    holders.fetch_or(bit(member), SeqCst);
                }
            }
        }
    }

    /// The owner of a bucket, if there is one.
    pub(super) fn owner(&self, at: usize) -> Option<usize> {
        usize::try_from(self.get(OWNER + at)).ok().filter(|member| *member < MEMBERS)
    }

    /// Returns the member to which the bucket was assigned, if there is one.
    pub(super) fn heir(&self, at: usize) -> Option<usize> {
        usize::try_from(self.get(HEIR + at)).ok().filter(|member| *member < MEMBERS)
    }
}
