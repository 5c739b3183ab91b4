//! Processes that share a listening port, each with a stack and a socket of its own: a *group*.
//!
//! ```text
//!   segment to the shared port -> bucket of the peer's address and port, by a hash with a key of the group's own
//!      flow known here ............................. its connection, whichever member has the bucket
//!      flow unknown, bucket ours, flow unclaimed .... ours: a SYN begins a connection, others earn a RST;
//!                                                     none for three seconds after the bucket came here
//!      flow unknown otherwise ...................... silence: it is another member's
//! ```
//! While a bucket moves, both members get its SYNs. The heir keeps them and asks again when it has the bucket: then it
//! is known which of them the owner has answered. An owner that listens no more leaves the SYN to the heir, as it
//! leaves connections (`handovers`).
//!
//! The group is memory that all members map (`table`): buckets with owners, and the flows of each member. It lies in a
//! file of a directory that is the user's own (`shared`), named after network, interface and port; a new member finds
//! it there. So workers after a fork, servers that consent by SO_REUSEPORT and the successors of both meet in the same
//! way, and no process is needed that stays.
//!
//! **Life and death.** A member holds a lock on its byte of the file, which the kernel takes back when it dies. The
//! others hear of that, and of deals, by inotify: the dead's file is closed, a deal writes to it. Beside that they
//! look twice a second, lest a descriptor that a child has inherited hide a death. A member that is stopped lives and
//! answers no other: `stalled` says how the others notice, and its buckets are dealt to those that run. Its connections
//! stay its own. When it runs again it leaves the SYNs that lie in its queue to the owners of their buckets.
//!
//! **No member listens**, for the next process has not begun or asks for nothing yet: then one keeps all buckets, and
//! its stack the SYNs, until another one serves. They are refused when no member has a listener, not even a parked one.
//!
//! **Alone** a member tells nothing and asks no other member; when a second one comes, its stack is asked for the
//! flows that it has ([`NetEvent::Shared`](crate::NetEvent)), and only then does it hand buckets over. Where it is
//! stopped it cannot: the others answer no segment that may be of such a flow.

mod file;
mod flows;
pub(crate) mod fuzz;
mod handovers;
mod stalled;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use file::Watcher;
pub(crate) use table::{Buckets, SHIFT};

use crate::peer_hash::PeerHash;
use crate::port::{Answerer, ClaimError, Role};
use crate::ports::Place;
use crate::sys;
use base::{Duration, FlowKey, Instant};
pub(crate) use file::sweep;
use file::{Find, GroupFile, Held};
use stalled::Question;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use table::Table;

/// How often a member looks whether the others live, whatever it heard.
pub(crate) const LOOK: Duration = Duration::from_millis(250);
/// A lock that was refused longer ago than this was free meanwhile.
const REFUSED_MAX: Duration = Duration::from_secs(3);

/// This process in a group.
pub(crate) struct Member {
    place: Place,
    file: GroupFile,
    table: Table,
    number: usize,
    /// Of the process that joined: a child that inherits this is not a member.
    pid: u32,
    /// Cores that have the port, and those of them that have told their flows.
    cores: AtomicU32,
    told: AtomicU32,
    /// Listeners, and those of them that want connections.
    listening: AtomicU32,
    serving: AtomicU32,
    /// There are, or were, others.
    many: AtomicBool,
    /// Nothing is handed over for now.
    keeps: AtomicBool,
    /// The others took this one for one that does not run until a moment ago.
    recovers: AtomicBool,
    upkeep: Mutex<Upkeep>,
}

struct Upkeep {
    /// The deal that our filter obeys.
    seen: u64,
    /// When this one looked last: the deal, and the members whose filters obeyed it.
    ready: (u64, u64),
    /// The next look at the others.
    look_at: Instant,
    question: Question,
    /// Since when another process has held the lock that this one wants.
    refused: Option<Instant>,
    /// The lock, until [`Member::settle_in`].
    entering: Option<Held>,
}

impl Member {
    /// Joins the group of `place` on interface `ifindex`, among processes that say `share`, or begins it; the second is
    /// false where others are there, or have ended without leaving: the kernel may still have their sockets. Nothing
    /// else comes or goes until [`Member::settle_in`].
    pub(crate) fn join(ifindex: u32, place: Place, share: u64) -> Result<(Member, bool), ClaimError> {
        let Find { file, table, lock } = GroupFile::open(ifindex, &place).map_err(ClaimError::Os)?;
        // A child that another thread forks meanwhile inherits the lock: given back by hand, not by closing.
        let (number, alone, left) = enter(&file, &table, &place, share).or_else(|refused| {
            file.unlock(lock).map_err(ClaimError::Os)?;
            Err(refused)
        })?;
        let upkeep = Mutex::new(Upkeep {
            seen: 0,
            ready: (0, 0),
            look_at: sys::monotonic() + LOOK,
            question: Question::new(),
            refused: None,
            entering: Some(lock),
        });
        let member = Member {
            place,
            file,
            table,
            number,
            pid: std::process::id(),
            cores: AtomicU32::new(0),
            told: AtomicU32::new(0),
            listening: AtomicU32::new(0),
            serving: AtomicU32::new(0),
            many: AtomicBool::new(!alone),
            keeps: AtomicBool::new(false),
            recovers: AtomicBool::new(false),
            upkeep,
        };
        // Of two that come at once with overlapping places, one at least sees the other. Dropped, the member leaves.
        match member.file.others_overlap(ifindex, &place) {
            Ok(false) => Ok((member, alone && left)),
            Ok(true) => Err(ClaimError::InUse),
            Err(error) => Err(ClaimError::Os(error)),
        }
    }

    /// The kernel has granted the port: others may come.
    pub(crate) fn settle_in(&self) -> Result<(), ClaimError> {
        if let Some(lock) = self.lock().entering.take() {
            self.file.unlock(lock).map_err(ClaimError::Os)?;
        }
        self.file.notify();
        Ok(())
    }

    /// Returns the port and address that the group shares.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The file's path, for a watch on it.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.file.path()
    }

    /// A core of this process has the port too, or no more. `told`: it had told its flows.
    pub(crate) fn core(&self, has: bool, told: bool) {
        if has {
            self.cores.fetch_add(1, Ordering::SeqCst);
        } else {
            self.told.fetch_sub(u32::from(told), Ordering::SeqCst);
            self.cores.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// A core has told its flows.
    pub(crate) fn on_told(&self) {
        self.told.fetch_add(1, Ordering::SeqCst);
    }

    /// Are there others, so that flows must be told?
    pub(crate) fn is_many(&self) -> bool {
        self.many.load(Ordering::Relaxed)
    }

    /// A listener wants connections, or one less does.
    pub(crate) fn serve(&self, wanted: bool) -> io::Result<()> {
        let change = if wanted { 1 } else { u32::MAX };
        let before = self.serving.fetch_add(change, Ordering::SeqCst);
        if before == u32::from(!wanted) {
            // The file's lock is between processes, this one between our threads.
            let _ours = self.lock();
            let lock = self.file.lock(&self.table)?;
            self.change(lock, |table| table.serve(self.number, wanted))?;
        }
        Ok(())
    }

    /// A listener begins, or ends. One that may want connections is behind every listener.
    pub(crate) fn listen(&self, begins: bool) -> io::Result<()> {
        let change = if begins { 1 } else { u32::MAX };
        if self.listening.fetch_add(change, Ordering::SeqCst) == 1 && !begins {
            let _ours = self.lock();
            let lock = self.file.lock(&self.table)?;
            self.change(lock, |table| table.cease(self.number))?;
        }
        Ok(())
    }

    /// The member has this role from now on.
    pub(crate) fn set_role(&self, role: Role) -> io::Result<()> {
        let low = matches!(role, Role::Servant | Role::Asking);
        if low != self.table.is_low(self.number) {
            let _ours = self.lock();
            let lock = self.file.lock(&self.table)?;
            self.change(lock, |table| table.lower(self.number, low))?;
        }
        if self.table.ask(self.number, role == Role::Asking) {
            self.file.notify();
        }
        Ok(())
    }

    /// Changes the group under the lock, and gives the lock back. `change` may come twice.
    fn change(&self, mut lock: Held, change: impl Fn(&Table)) -> io::Result<()> {
        loop {
            change(&self.table);
            let counted = lock.counts(&self.table);
            self.file.unlock(lock)?;
            if counted {
                break;
            }
            // This process was stopped, and others went on: what it has done is mixed with what they have.
            lock = self.file.lock(&self.table)?;
        }
        self.file.notify();
        Ok(())
    }

    /// Changes the group if the lock is free; if not, the next look tries again.
    fn change_soon(&self, upkeep: &mut Upkeep, change: impl Fn(&Table)) -> io::Result<()> {
        let now = sys::monotonic();
        let since = upkeep.refused.filter(|at| now.since(*at) < REFUSED_MAX).unwrap_or(now);
        upkeep.refused = Some(since);
        if let Some(lock) = self.file.try_lock(&self.table, since)? {
            upkeep.refused = None;
            self.change(lock, change)?;
        }
        Ok(())
    }

    /// Returns the process that answers a segment of no flow here.
    pub(crate) fn answerer(&self, key: &FlowKey, opens: bool) -> Answerer {
        // A member that was stopped while others came has not looked yet.
        let alone = !self.is_many() && self.table.present() == 1 << self.number;
        // Asked first: once the bucket is here, the owner before has told all flows that it has answered.
        let soon = opens && !alone && self.table.is_coming(self.number, key);
        if !alone && !self.table.answers(self.number, key, opens) {
            // A SYN may have come here before the bucket's owner saw such.
            let recovers = opens && self.recovers.load(Ordering::Relaxed);
            return match (soon || recovers) && !self.table.is_elsewhere(self.number, key) {
                true if soon => Answerer::OursSoon,
                true => Answerer::Next,
                false => Answerer::Another,
            };
        }
        if !opens && !alone && self.table.has_moved_lately(key) {
            return Answerer::OursLately;
        }
        if !opens || self.serving.load(Ordering::Relaxed) > 0 {
            return Answerer::Ours;
        }
        // It wants no connections, and owns the bucket.
        match self.table.is_going(self.number, key) {
            true => Answerer::Next,
            false if self.table.has_listener() => Answerer::NoneYet,
            false => Answerer::None,
        }
    }

    /// Does the member own what others are to have?
    pub(crate) fn owes(&self) -> bool {
        self.is_many() && self.table.owes(self.number)
    }

    #[cfg(test)]
    pub(crate) fn answers(&self, key: &FlowKey, opens: bool) -> bool {
        matches!(self.answerer(key, opens), Answerer::Ours | Answerer::OursLately)
    }

    /// A flow began or ended.
    pub(crate) fn on_flow(&self, key: &FlowKey, lives: bool) {
        self.table.on_flow(self.number, key, lives);
    }

    /// Leaves a connection that nothing has accepted, `state`, to the member that gets new ones in its place, or to one
    /// that asks. False if there is none, or no room.
    pub(crate) fn hand_over(&self, key: &FlowKey, state: &[u8]) -> bool {
        let done = self.is_many() && self.file.allocate_handovers().is_ok();
        let done = done && self.table.hand_over(self.number, key, state);
        if done {
            self.file.notify();
        }
        done
    }

    /// Fills `state` with that of a connection that another member has left to this one; false if there is none. By the
    /// next call its flow has been told.
    pub(crate) fn take_over(&self, state: &mut Vec<u8>) -> bool {
        // Before all flows are told, another member would refuse what belongs to one that was taken.
        self.has_told() && self.table.take_over(self.number, state)
    }

    /// Changes with every deal.
    pub(crate) fn deal(&self) -> u64 {
        self.table.generation()
    }

    /// Is everything ours, new connections and old ones?
    pub(crate) fn is_sole(&self) -> bool {
        self.table.is_sole(self.number)
    }

    /// Segments come here that the filter does not know of: nothing is handed over until that ends.
    pub(crate) fn keep_all(&self, keeps: bool) {
        self.keeps.store(keeps, Ordering::SeqCst);
    }

    /// The hash that tells the bucket of a flow.
    pub(crate) fn hash(&self) -> &PeerHash {
        self.table.hash()
    }

    /// The buckets whose segments must come here, and the deal that says so.
    pub(crate) fn view(&self) -> (Buckets, u64) {
        let generation = self.table.generation();
        // Of flows that were not told the buckets are unknown, and those of a connection that was asked for are any.
        // The members to which those of a stalled one went see them only when they have looked.
        let recovers = self.recovers.load(Ordering::Relaxed);
        let all = !self.is_many() || !self.has_told() || self.table.is_low(self.number) || recovers;
        (if all { [u32::MAX; _] } else { self.table.view(self.number) }, generation)
    }

    /// Is every flow here in the table?
    fn has_told(&self) -> bool {
        self.told.load(Ordering::SeqCst) >= self.cores.load(Ordering::SeqCst)
    }

    /// The filter lets through what [`Member::view`] said.
    pub(crate) fn obeys(&self, generation: u64) {
        self.lock().seen = generation;
        if self.table.ready(self.number, generation) {
            self.file.notify();
        }
    }

    /// Looks after the group, from time to time and whenever its file has news: removes dead members, hands over
    /// buckets assigned to others. Returns true if the filter may have to change.
    pub(crate) fn look(&self, news: bool) -> io::Result<bool> {
        let now = sys::monotonic();
        self.table.beat(self.number);
        let mut upkeep = self.lock();
        let due = now >= upkeep.look_at;
        if due {
            upkeep.look_at = now + LOOK;
            self.recovers.store(false, Ordering::Relaxed);
        }
        if due || news {
            self.bury(&mut upkeep)?;
        }
        self.find_stalled(now, due, news, &mut upkeep)?;
        if !self.is_many() && self.table.present().count_ones() > 1 {
            self.many.store(true, Ordering::SeqCst);
        }
        if due {
            self.table.tidy(self.number);
        }
        if self.is_many() && self.has_told() {
            self.table.hide(self.number, false);
        }
        if (self.has_told() || !self.is_many()) && !self.keeps.load(Ordering::SeqCst) {
            // What came before the heirs' filters let it through came here alone: it is read before the next look.
            let (deal, ready) = self.table.ready_members();
            let before = if upkeep.ready.0 == deal { upkeep.ready.1 } else { 0 };
            let (moved, left) = self.table.settle(self.number, before & ready);
            upkeep.ready = (deal, ready);
            if moved || left && ready != before {
                self.file.notify();
            }
        }
        Ok(due || self.table.generation() != upkeep.seen)
    }

    /// Returns when the next look is due, if other members are there.
    pub(crate) fn look_at(&self) -> Option<Instant> {
        let upkeep = self.lock();
        let next = Instant::earliest(Some(upkeep.look_at), upkeep.question.due());
        next.filter(|_| self.is_many())
    }

    /// Removes those that are dead.
    fn bury(&self, upkeep: &mut Upkeep) -> io::Result<()> {
        let dead = |table: &Table| {
            let others = table.present() & !(1 << self.number);
            (0..table::MEMBERS).find(|other| others >> other & 1 == 1 && !lives(&self.file, table, *other))
        };
        if dead(&self.table).is_none() {
            return Ok(());
        }
        self.change_soon(upkeep, |table| {
            while let Some(other) = dead(table) {
                table.leave(other);
            }
        })
    }

    /// Takes part again after having been stopped; deals the buckets of members that do not run to others.
    fn find_stalled(&self, now: Instant, due: bool, news: bool, upkeep: &mut Upkeep) -> io::Result<()> {
        if self.table.is_stalled(self.number) {
            self.recovers.store(true, Ordering::Relaxed);
            self.change_soon(upkeep, |table| table.resume(self.number))?;
        }
        let others = self.table.sharing() & !(1 << self.number);
        if upkeep.question.silent(now, &self.table, others) != 0 {
            let question = upkeep.question.clone();
            self.change_soon(upkeep, |table| table.stall(question.still(table, others)))?;
        }
        if news {
            upkeep.question.on_news(now);
        }
        if due && upkeep.question.ask(now, &self.table, others) {
            self.file.notify();
        }
        Ok(())
    }

    /// Ends as a process that is killed does.
    #[cfg(test)]
    fn die(mut self) {
        self.pid = 0;
    }

    fn lock(&self) -> MutexGuard<'_, Upkeep> {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a number in the group that the file holds, or begins it anew if it has no members; and was it empty before,
/// and had all members left it in order? The file is locked.
fn enter(
    file: &GroupFile,
    table: &Table,
    place: &Place,
    share: u64,
) -> Result<(usize, bool, bool), ClaimError> {
    let here = |member: usize| table.present() >> member & 1 == 1 && lives(file, table, member);
    // One whose memory is laid out otherwise belongs to another version of this library.
    if !table.is_valid() && file.has_members() {
        return Err(ClaimError::InUse);
    }
    let alone = !table.is_valid() || !(0..table::MEMBERS).any(here);
    let left = !table.is_valid() || table.present() == 0;
    if alone {
        table.reset(share, place, sys::random_words().map_err(ClaimError::Os)?);
    } else if !table.is_of(share, place) {
        return Err(ClaimError::InUse);
    }
    let mut refused = io::Error::from_raw_os_error(libc::ENOSPC);
    for number in table.vacancies() {
        match file.take(number) {
            Ok(()) => {
                table.join(number, file::this_process()).map_err(ClaimError::Os)?;
                // Alone it tells nothing.
                table.hide(number, alone);
                return Ok((number, alone, left));
            }
            // A child of one that is gone may still have its byte.
            Err(error) => refused = error,
        }
    }
    Err(ClaimError::Os(refused))
}

/// Does a member live? Its byte is locked as long as it does, or a child that has inherited its descriptors.
fn lives(file: &GroupFile, table: &Table, member: usize) -> bool {
    file.lives(member) && file::may_live(table.process(member))
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        let mut entering = self.lock().entering.take();
        // Without the lock it is as dead as a process that was killed, which the others bury.
        while let Ok(lock) = entering.take().map_or_else(|| self.file.lock(&self.table), Ok) {
            self.table.leave(self.number);
            let counted = lock.counts(&self.table);
            if counted && self.table.present() == 0 {
                self.file.remove();
            }
            if counted {
                return self.file.give_up(self.number, lock);
            }
            // This process was stopped, and others went on: what it has done is mixed with what they have.
            if self.file.unlock(lock).is_err() {
                return;
            }
        }
    }
}
