//! A worker pool: threads that help another with its work, item by item, while it waits for them and works along.
//!
//! ```text
//!   owner                                        helpers
//!     job := what to do                            in one's own share, then in others': is there a run left?
//!     shares := end | next, one a lane  ────────>  pull it, do it
//!     pull runs and do them                        done += 1
//!     all done? then go on              <────────
//! ```
//! Runs of items are pulled, one atomic addition each. Each lane has a share of them that it begins with, the same
//! place in every job, so that it finds in its cache what it had before; a lane that has finished its own takes from
//! others'. So a thread that is late does less, and the owner does everything itself where nothing helps. No lock, no
//! queue, nothing left over: when [`WorkerPool::each`] returns, no helper touches the items or the work any more. So
//! both may be borrowed, and what became of an item does not depend on which thread did it.
//!
//! **Why a late helper does no harm.** A share holds its end beside the next run, so a thread that adds one to it
//! learns from one value whether there was a run to pull. Only then does it read the job; and as long as a pulled run
//! is not counted in `done`, the owner writes no other job.

use crate::doorbell::Sleeper;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Line, UnsafeCell};
use core::ops::Range;

/// Work on a run, by its number.
type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// A helper panicked at its work: what it had in hand is half done, and the worker pool works no more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost;

impl core::fmt::Display for Lost {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a helper thread panicked")
    }
}

impl core::error::Error for Lost {}

/// Where a job hangs out.
struct Board {
    /// Of each lane, the owner's first: one past its last run of the job, and in the lower half the next one to pull.
    shares: Box<[Line<AtomicU64>]>,
    /// Runs done, or given up.
    done: Line<AtomicU32>,
    /// A thread panicked.
    lost: AtomicBool,
    /// The helpers are to end.
    stop: AtomicBool,
    /// Helpers that sleep, or are about to.
    asleep: AtomicU32,
    job: UnsafeCell<Option<*const Work<'static>>>,
}

// SAFETY: `job` is written by the owner while no run is pulled and not done, and read by who has pulled one; the work
// behind it is `Sync`.
unsafe impl Sync for Board {}
// SAFETY: as above.
unsafe impl Send for Board {}

impl Board {
    fn new(lanes: usize) -> Board {
        Board {
            shares: (0..lanes).map(|_| Line(AtomicU64::new(0))).collect(),
            done: Line(AtomicU32::new(0)),
            lost: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            asleep: AtomicU32::new(0),
            job: UnsafeCell::new(None),
        }
    }

    fn left(share: u64) -> Option<usize> {
        let (end, next) = (share >> 32, share & u64::from(u32::MAX));
        (next < end).then_some(next as usize)
    }

    /// Is there a run to pull?
    fn has_work(&self) -> bool {
        self.shares.iter().any(|share| Board::left(share.0.load(Ordering::Relaxed)).is_some())
    }

    /// The next run, for the caller alone, of `lane`'s share or, if that is empty, of one behind it. It looks before it
    /// adds, or idle helpers would count for ever.
    fn pull(&self, lane: usize) -> Option<usize> {
        let (before, behind) = self.shares.split_at(lane);
        behind.iter().chain(before).find_map(|share| {
            Board::left(share.0.load(Ordering::Relaxed))?;
            // Acquire: the job was written before its runs were shown.
            Board::left(share.0.fetch_add(1, Ordering::AcqRel))
        })
    }

    /// Does runs until none is left; whether it did any.
    fn help(&self, lane: usize) -> bool {
        let mut helped = false;
        while let Some(run) = self.pull(lane) {
            let mut done = Done { board: self, whole: false };
            // SAFETY: this run is pulled and not done, so the owner has written the job and waits with the next; what
            // it points to lives until the owner's wait is over.
            let work = self.job.with(|job| unsafe { (*job).map(|work| &*work) });
            if let Some(work) = work {
                work(run);
            }
            done.whole = true;
            helped = true;
        }
        helped
    }

    /// Shows a job, works along and waits until all of it is done.
    fn share(&self, runs: u32, work: &Work<'_>, call: impl FnOnce()) -> Result<(), Lost> {
        if self.lost.load(Ordering::Acquire) {
            return Err(Lost);
        }
        // SAFETY: only the lifetime changes. Nothing reads this before the runs are shown, nor after `Wait` is dropped.
        let work = unsafe { core::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
        // SAFETY: all runs of the job before are done, so nothing reads.
        self.job.with_mut(|job| unsafe { *job = Some(work) });
        // Exchanges, though stores would do: the order of all writes of a word is then the order of exchanges, and no
        // late addition to the runs of the job before can be taken for one of these.
        self.done.0.swap(0, Ordering::Relaxed);
        let wait = Wait { board: self, runs };
        for (lane, share) in self.shares.iter().enumerate() {
            let Range { start, end } = share_of(lane, self.shares.len(), runs as usize);
            share.0.swap((end as u64) << 32 | start as u64, Ordering::AcqRel);
        }
        call();
        self.help(0);
        drop(wait);
        if self.lost.load(Ordering::Acquire) { Err(Lost) } else { Ok(()) }
    }
}

/// The runs that `lane` of `lanes` begins with.
fn share_of(lane: usize, lanes: usize, runs: usize) -> Range<usize> {
    lane * runs / lanes..(lane + 1) * runs / lanes
}

/// A run in hand: however its work ends, it is counted.
struct Done<'a> {
    board: &'a Board,
    whole: bool,
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        if !self.whole {
            self.board.lost.store(true, Ordering::Release);
        }
        self.board.done.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// A job that is shown: however the owner leaves, it first waits for those who have a run of it.
struct Wait<'a> {
    board: &'a Board,
    runs: u32,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        // Runs that nothing pulled are left only when the owner panics; nothing is to begin them then.
        while self.board.pull(0).is_some() {
            self.board.done.0.fetch_add(1, Ordering::AcqRel);
        }
        let mut rounds = 0;
        while self.board.done.0.load(Ordering::Acquire) != self.runs {
            pause(&mut rounds);
        }
    }
}

/// A moment's wait: first without, then with giving up the processor, on which the other may want to run.
fn pause(rounds: &mut u32) {
    *rounds += 1;
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    if rounds.is_multiple_of(1 << 12) || cfg!(miri) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// Rounds a helper looks for work before it sleeps: a fraction of a millisecond.
const SPIN: u32 = if cfg!(any(loom, miri)) { 1 } else { 1 << 13 };

/// Runs a helper's loop until the worker pool ends.
fn serve(board: &Board, lane: usize, sleeper: &mut Sleeper) {
    let mut idle = 0;
    while !board.stop.load(Ordering::Acquire) {
        if board.help(lane) {
            idle = 0;
        } else if idle < SPIN {
            pause(&mut idle);
        } else {
            board.asleep.fetch_add(1, Ordering::Relaxed);
            // An error of the bell makes it an owner without this helper, and no more.
            let woken = sleeper.sleep(None, || board.has_work() || board.stop.load(Ordering::Acquire));
            board.asleep.fetch_sub(1, Ordering::Relaxed);
            if woken.is_err() {
                return;
            }
            idle = 0;
        }
    }
}

#[cfg(not(loom))]
pub use threads::WorkerPool;

#[cfg(not(loom))]
mod threads {
    use super::*;
    use crate::doorbell::{Ringer, doorbell};
    use std::io;
    use std::sync::Arc;
    use std::thread::JoinHandle;

    /// An owner's helpers. They end when this is dropped.
    pub struct WorkerPool {
        board: Arc<Board>,
        helpers: Vec<(Ringer, JoinHandle<()>)>,
    }

    impl WorkerPool {
        /// Starts that many helpers, perhaps none; each calls `begin` with its number, from 0, on its thread first of
        /// all. They are called `name` and their number.
        ///
        /// # Errors
        /// A thread or a bell is not to be had.
        pub fn start(
            helpers: usize,
            name: &str,
            begin: impl Fn(usize) + Send + Clone + 'static,
        ) -> io::Result<WorkerPool> {
            let board = Arc::new(Board::new(1 + helpers));
            let mut worker_pool = WorkerPool { board, helpers: Vec::new() };
            for number in 0..helpers {
                let (ringer, mut sleeper) = doorbell()?;
                let (board, begin) = (worker_pool.board.clone(), begin.clone());
                let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
                let thread = thread.spawn(move || {
                    begin(number);
                    serve(&board, 1 + number, &mut sleeper);
                })?;
                worker_pool.helpers.push((ringer, thread));
            }
            Ok(worker_pool)
        }

        /// Returns the number of workers: the helpers and the owner.
        pub fn lanes(&self) -> usize {
            1 + self.helpers.len()
        }

        /// Items of a run: few enough that each lane gets some of a job, enough to stay in a cache.
        pub const RUN: core::ops::RangeInclusive<usize> = 4..=16;

        /// Items of a run of a job of `len`, where each is worth some tens of nanoseconds: twice as many runs as lanes,
        /// so that one that comes late finds some.
        pub fn run(&self, len: usize) -> usize {
            len.div_ceil(2 * self.lanes()).clamp(*Self::RUN.start(), *Self::RUN.end())
        }

        /// Of `len` items in runs of `run`, those that `lane` begins with; 0 is the owner. Others may help with them.
        pub fn share(&self, lane: usize, len: usize, run: usize) -> Range<usize> {
            let Range { start, end } = share_of(lane, self.lanes(), len.div_ceil(run));
            (start * run).min(len)..(end * run).min(len)
        }

        /// Has `work` done to all items, by runs of at most `run` that follow each other; the number of the run's first
        /// item comes with it. Returns when all is done. The order in which runs are done is not defined.
        ///
        /// # Errors
        /// A thread panicked, now or in an earlier job: some items are half done, or not at all.
        ///
        /// # Panics
        /// If `run` is 0, or where `work` does on this thread.
        pub fn each<T: Send>(
            &mut self,
            items: &mut [T],
            run: usize,
            work: &(impl Fn(usize, &mut [T]) + Sync),
        ) -> Result<(), Lost> {
            let (len, runs) = (items.len(), items.len().div_ceil(run));
            if self.helpers.is_empty() || runs < 2 {
                work(0, items);
                return if self.board.lost.load(Ordering::Acquire) { Err(Lost) } else { Ok(()) };
            }
            let first = Items(items.as_mut_ptr());
            let one = |number: usize| {
                let at = number * run;
                // SAFETY: runs do not overlap, each is pulled once, and `items` is borrowed until all are done.
                let part = unsafe { core::slice::from_raw_parts_mut(first.at(at), run.min(len - at)) };
                work(at, part);
            };
            let WorkerPool { board, helpers } = self;
            let call = || {
                // Who sleeps through a job was not needed for it, so nothing depends on what this sees.
                if board.asleep.load(Ordering::Relaxed) > 0 {
                    helpers.iter().for_each(|(ringer, _)| {
                        ringer.ring();
                    });
                }
            };
            let runs = u32::try_from(runs).unwrap_or(u32::MAX);
            board.share(runs, &one, call)
        }
    }

    /// The first of a job's items.
    struct Items<T>(*mut T);

    impl<T> Items<T> {
        /// The item so many places later.
        ///
        /// # Safety
        /// There is one.
        unsafe fn at(&self, ahead: usize) -> *mut T {
            // SAFETY: the caller says that this stays within the items.
            unsafe { self.0.add(ahead) }
        }
    }

    // SAFETY: a thread that gets at an item through this has it alone, and items may be sent.
    unsafe impl<T: Send> Sync for Items<T> {}

    impl Drop for WorkerPool {
        fn drop(&mut self) {
            self.board.stop.store(true, Ordering::Release);
            for (ringer, _) in &self.helpers {
                ringer.ring_anyway();
            }
            for (_, thread) in self.helpers.drain(..) {
                // One that panicked has said why on its way out, and each job since then.
                drop(thread.join());
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
