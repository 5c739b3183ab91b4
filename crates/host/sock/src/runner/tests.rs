//! Goal: however the threads of a program are scheduled, none that waits is forgotten: each connection's bytes arrive
//! at the thread that reads them, whichever thread leads, and whichever sends. A wait ends as its sleep did.
//!
//! The threads are real, but one runs at a time: a thread that falls asleep says who is next, as a seed decides, in
//! virtual time, and while no thread leads the thread of ours looks now and then. When all sleep, nothing is rung and
//! no date comes, a thread was forgotten.

mod model;

use super::*;
use crate::engine::Limits;
use crate::{Clock, Family, RecvFlags, SendFlags, Sockets};
use base::{Addr, Endpoint, Rng};
use pio::{PairConfig, pair};
use stack::{Core, CoreConfig, OwnAddr};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, OnceLock, Weak};

const PEER: Endpoint = Endpoint::new(Addr::v4([10, 0, 0, 2]), 7);
/// Time between two looks of the thread of ours.
const LOOK: Duration = Duration::from_millis(4);
/// Virtual time that no schedule needs.
const FOR_EVER: Duration = Duration::from_secs(600);

#[derive(Clone, Default)]
struct VirtualClock(Arc<AtomicU64>);

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        Instant::from_secs(1) + Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

impl VirtualClock {
    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }
}

fn engine(port: pio::Pair, last: u8, clock: &VirtualClock) -> Engine {
    let addresses = vec![OwnAddr { addr: Addr::v4([10, 0, 0, last]), prefix: 24 }];
    let core = Core::new(CoreConfig { seed: 9, addresses, ..CoreConfig::default() }, Box::new(port));
    Engine::new(core, Box::new(clock.clone()), Limits { spin: Duration::ZERO, ..Limits::default() })
}

/// The other end: it gives back what it gets, as slowly as the seed likes.
struct Peer {
    engine: Engine,
    listener: Fd,
    /// Connections, and what each has to give back.
    echoes: Vec<(Fd, Vec<u8>)>,
}

impl Peer {
    fn new(mut engine: Engine) -> Peer {
        let listener = engine.socket(Family::V4).unwrap();
        engine.bind(listener, PEER).unwrap();
        engine.listen(listener, 64).unwrap();
        Peer { engine, listener, echoes: Vec::new() }
    }

    fn step(&mut self, rng: &mut Rng) {
        self.engine.turn().unwrap();
        while let Ok((fd, _)) = self.engine.accept(self.listener) {
            self.echoes.push((fd, Vec::new()));
        }
        for (fd, bytes) in &mut self.echoes {
            let mut room = [0; 4_096];
            if bytes.len() < 16_384
                && let Ok(got) = self.engine.read(*fd, &mut room)
            {
                bytes.extend(&room[..got]);
            }
            if !bytes.is_empty() && rng.chance(0.7) {
                let sent = self.engine.write(*fd, bytes).unwrap_or(0);
                bytes.drain(..sent);
            }
        }
        self.engine.turn().unwrap();
    }
}

#[derive(Clone, PartialEq, Eq)]
enum Status {
    Runs,
    /// Until it is rung, or a date.
    Sleeps(Vec<RawFd>, Option<Instant>),
    Over,
}

struct State {
    threads: Vec<Status>,
    current: usize,
    peer: Peer,
    rng: Rng,
    /// Why the run cannot go on.
    failed: Option<String>,
}

/// Scheduler of the threads.
struct Schedule {
    state: Mutex<State>,
    turns: Condvar,
    clock: VirtualClock,
    begun: Instant,
    sockets: OnceLock<Weak<Runner>>,
}

thread_local! {
    static ME: Cell<usize> = const { Cell::new(0) };
}

/// Has the bell with this descriptor been rung? (proc(5): its counter.)
pub(super) fn is_rung(bell: &RawFd) -> bool {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{bell}")).expect("the bell is open");
    let count = info.lines().find_map(|line| line.strip_prefix("eventfd-count:")).expect("a bell's counter");
    count.trim() != "0"
}

impl Schedule {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread goes on when it is its turn.
    fn wait_for_turn(&self, mut state: MutexGuard<'_, State>) {
        let me = ME.get();
        while state.current != me && state.failed.is_none() {
            state = self.turns.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let failed = state.failed.clone();
        drop(state);
        if let Some(why) = failed {
            panic!("{why}");
        }
    }

    /// Does the watchdog's look while all sleep: without a leader it turns the core. Returns the time of the next
    /// look.
    fn look(&self) -> Option<Instant> {
        let sockets = self.sockets.get()?.upgrade()?;
        let mut shared = sockets.shared();
        if shared.lead.rank().is_some() {
            return None;
        }
        shared.machine.turn().expect("the port is there");
        Some(self.clock.now() + LOOK)
    }

    /// Says who is next; the calling thread is no candidate unless it can run.
    fn pass_on(&self, state: &mut State) {
        loop {
            let State { peer, rng, .. } = state;
            peer.step(rng);
            let now = self.clock.now();
            let can_run = |status: &Status| match status {
                Status::Runs => true,
                Status::Sleeps(bells, until) => {
                    until.is_some_and(|at| at <= now) || bells.iter().any(is_rung)
                }
                Status::Over => false,
            };
            let able: Vec<usize> =
                (0..state.threads.len()).filter(|&thread| can_run(&state.threads[thread])).collect();
            if !able.is_empty() {
                state.current = able[state.rng.below(able.len() as u64) as usize];
                state.threads[state.current] = Status::Runs;
                break;
            }
            if state.threads.iter().all(|status| *status == Status::Over) {
                break;
            }
            let dates = state.threads.iter().filter_map(|status| match *status {
                Status::Sleeps(_, until) => until,
                _ => None,
            });
            let next = Instant::earliest(dates.min(), state.peer.engine.core().next_timeout());
            let next = Instant::earliest(next, self.look());
            match next {
                Some(at) if now.since(self.begun) < FOR_EVER => {
                    self.clock.advance(at.since(now).max(Duration::from_micros(1)));
                }
                _ => {
                    state.failed = Some("a thread waits, and nothing will ever ring it".into());
                    break;
                }
            }
        }
        self.turns.notify_all();
    }

    fn sleep(&self, bells: &[RawFd], timeout: Option<Duration>) {
        let mut state = self.lock();
        let until = timeout.map(|timeout| self.clock.now() + timeout);
        state.threads[ME.get()] = Status::Sleeps(bells.to_vec(), until);
        self.pass_on(&mut state);
        self.wait_for_turn(state);
    }

    fn end(&self) {
        let mut state = self.lock();
        state.threads[ME.get()] = Status::Over;
        if state.failed.is_none() {
            self.pass_on(&mut state);
        }
    }
}

/// A program of threads that a schedule runs.
struct Program(Arc<Schedule>);

impl Park for Program {
    fn sleep(&self, fds: &[RawFd], timeout: Option<Duration>, _: bool) -> Woken {
        self.0.sleep(fds, timeout);
        Woken::Stack
    }

    fn bell(&self) -> Option<Sleeper> {
        bell().ok()
    }

    fn keep(&self, _: Sleeper) {}
}

/// The thread of ours knows only the real time: a schedule looks in its place.
fn runner(engine: Engine, park: impl Park + 'static) -> Runner {
    let runner = Runner::new(engine, Box::new(park));
    runner.begin_watchdog(&std::thread::current());
    runner
}

/// Returns a byte of a connection's stream.
fn byte(connection: usize, at: usize) -> u8 {
    (at.wrapping_mul(31) ^ connection.wrapping_mul(101)) as u8
}

/// One thread's part: it sends on one connection and reads another.
fn take_part(sockets: &Runner, sends: (usize, Fd), reads: (usize, Fd), len: usize, rng: &mut Rng) {
    let (mut sent, mut got) = (0, 0);
    while sent < len || got < len {
        if sent < len && (got == len || rng.chance(0.5)) {
            let many = (1 + rng.below(9_000) as usize).min(len - sent);
            let bytes: Vec<u8> = (sent..sent + many).map(|at| byte(sends.0, at)).collect();
            // Who waits here for room waits for the peer, which waits for nothing.
            sent += sockets.send(sends.1, &bytes, SendFlags::default()).unwrap();
            continue;
        }
        let mut room = vec![0; 1 + rng.below(6_000) as usize];
        // Its own bytes may be what others wait for, so it waits only if it has none left.
        let waits = sent == len;
        if waits && rng.chance(0.2) {
            let mut row =
                [crate::PollFd { fd: reads.1, interest: crate::Ready::IN, ready: crate::Ready::NONE }];
            assert_eq!(sockets.poll(&mut row, None), Ok(1));
        }
        let most = room.len().min(len - got);
        let flags = RecvFlags { dont_wait: !waits, ..RecvFlags::default() };
        match sockets.recv(reads.1, &mut room[..most], flags) {
            Ok(many) => {
                assert!(many > 0, "an end that nothing made");
                (0..many).for_each(|at| assert_eq!(room[at], byte(reads.0, got + at)));
                got += many;
            }
            Err(Errno::EAGAIN) => assert!(flags.dont_wait),
            Err(errno) => panic!("recv: {errno:?}"),
        }
    }
}

/// A run of several threads: each sends on a connection of its own and reads its neighbour's.
fn run(seed: u64, threads: usize, len: usize) {
    let clock = VirtualClock::default();
    let (a, b) = pair(&PairConfig::default()).unwrap();
    let peer = Peer::new(engine(b, 2, &clock));
    let state = State { threads: vec![Status::Runs], current: 0, peer, rng: Rng::new(seed), failed: None };
    let (state, begun) = (Mutex::new(state), clock.now());
    let (turns, sockets) = (Condvar::new(), OnceLock::new());
    let schedule = Arc::new(Schedule { state, turns, clock: clock.clone(), begun, sockets });
    let sockets = Arc::new(runner(engine(a, 1, &clock), Program(schedule.clone())));
    schedule.sockets.set(Arc::downgrade(&sockets)).expect("it was empty");
    let fds: Vec<Fd> = (0..threads).map(|_| sockets.socket(Family::V4).unwrap()).collect();
    ME.set(0);
    fds.iter().for_each(|fd| sockets.connect(*fd, PEER).unwrap());
    schedule.lock().threads = vec![Status::Runs; threads];
    std::thread::scope(|scope| {
        for me in 0..threads {
            let (schedule, sockets, fds) = (&schedule, &sockets, &fds);
            scope.spawn(move || {
                ME.set(me);
                let _ends = Ends(schedule);
                schedule.wait_for_turn(schedule.lock());
                let (other, mut rng) = ((me + 1) % threads, Rng::new(seed ^ (me as u64 + 1)));
                take_part(sockets, (me, fds[me]), (other, fds[other]), len, &mut rng);
            });
        }
    });
    let failed = schedule.lock().failed.clone();
    assert!(failed.is_none(), "seed {seed}: {failed:?}");
}

/// Whatever ends a thread, the others hear of it.
struct Ends<'s>(&'s Schedule);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().failed.get_or_insert_with(|| "another thread has failed".into());
            self.0.turns.notify_all();
        } else {
            self.0.end();
        }
    }
}

#[test]
fn nobody_who_waits_is_forgotten() {
    for seed in 0..200 {
        run(seed, 2 + seed as usize % 4, 20_000);
    }
}

/// A thread whose sleeps are what a test says.
struct Alone(VirtualClock);

impl Park for Alone {
    fn sleep(&self, _: &[RawFd], timeout: Option<Duration>, restarts: bool) -> Woken {
        self.0.advance(timeout.unwrap_or(Duration::from_millis(1)));
        if restarts { Woken::Restart } else { Woken::Signal }
    }

    fn bell(&self) -> Option<Sleeper> {
        bell().ok()
    }

    fn keep(&self, _: Sleeper) {}
}

/// A program of one thread, connected to a peer.
fn alone() -> (Runner, Fd, Peer, VirtualClock) {
    let clock = VirtualClock::default();
    let (a, b) = pair(&PairConfig::default()).unwrap();
    let mut peer = Peer::new(engine(b, 2, &clock));
    let sockets = runner(engine(a, 1, &clock), Alone(clock.clone()));
    let fd = sockets.socket(Family::V4).unwrap();
    sockets.set_nonblocking(fd, true).unwrap();
    assert_eq!(sockets.connect(fd, PEER), Err(Errno::EINPROGRESS));
    for _ in 0..9 {
        sockets.turn().unwrap();
        peer.step(&mut Rng::new(1));
    }
    assert_eq!(sockets.connect(fd, PEER), Ok(()));
    sockets.set_nonblocking(fd, false).unwrap();
    (sockets, fd, peer, clock)
}

#[test]
fn a_call_that_is_made_anew_waits_no_more_if_its_socket_does_not_block() {
    for (at, last) in [(1, 2), (3, 3)] {
        let (sockets, fd, _peer, _) = alone();
        let mut tries = 0;
        let ended = sockets.wait_for(Some(fd), None, |engine| {
            tries += 1;
            if tries == at {
                engine.object_mut(fd)?.nonblocking = true;
            }
            Err::<(), _>(Errno::EAGAIN)
        });
        assert_eq!((ended, tries), (Err(Errno::EAGAIN), last));
    }
}

#[test]
fn a_wait_ends_as_its_sleep_did() {
    let (sockets, fd, _peer, _) = alone();
    let nothing = |_: &mut Engine| Err::<(), _>(Errno::EAGAIN);
    for (woken, ended) in [(Woken::Beside, Ended::Beside), (Woken::Signal, Ended::Signal)] {
        let wait = sockets.wait_beside(Some(fd), None, &mut |_, _| woken, &mut { nothing });
        assert_eq!(wait, Err(ended));
    }
    let soon = Some(Duration::from_millis(50));
    let mut sleep = |fds: &[RawFd], left| sockets.park.sleep(fds, left, true);
    assert_eq!(sockets.wait_beside(Some(fd), soon, &mut sleep, &mut { nothing }), Err(Ended::Time));
    let refused = |_: &mut Engine| Err::<(), _>(Errno::EBADF);
    assert_eq!(
        sockets.wait_beside(None, None, &mut sleep, &mut { refused }),
        Err(Ended::Failed(Errno::EBADF))
    );
    assert_eq!(sockets.shared().lead.rank(), None, "who waits no more leads no more");
}

/// A program that has as many descriptors as it may.
struct Full(VirtualClock);

impl Park for Full {
    fn sleep(&self, fds: &[RawFd], timeout: Option<Duration>, _: bool) -> Woken {
        assert!(fds.is_empty(), "there is nothing to wait on");
        self.0.advance(timeout.expect("it looks again"));
        Woken::Stack
    }

    fn bell(&self) -> Option<Sleeper> {
        None
    }

    fn keep(&self, _: Sleeper) {}
}

#[test]
fn a_call_waits_where_no_descriptor_is_left() {
    let (mut sockets, fd, mut peer, clock) = alone();
    sockets.park = Box::new(Full(clock.clone()));
    let begin = clock.now();
    let nothing = |_: &mut Engine| Err::<(), _>(Errno::EAGAIN);
    let soon = Some(Duration::from_millis(50));
    let mut sleep = |fds: &[RawFd], left| sockets.park.sleep(fds, left, true);
    assert_eq!(sockets.wait_beside(Some(fd), soon, &mut sleep, &mut { nothing }), Err(Ended::Time));
    assert!(clock.now() - begin >= Duration::from_millis(50));
    // And what it waits for ends the wait.
    let mut looks = 0;
    let mut rng = Rng::new(1);
    let mut sleep = |fds: &[RawFd], left| {
        looks += 1;
        peer.step(&mut rng);
        sockets.park.sleep(fds, left, true)
    };
    let mut asked = 0;
    let mut third = |_: &mut Engine| {
        asked += 1;
        if asked > 3 { Ok(asked) } else { Err(Errno::EAGAIN) }
    };
    assert_eq!(sockets.wait_beside(Some(fd), None, &mut sleep, &mut third), Ok(4));
    assert!(looks > 0);
}

#[test]
fn a_signal_ends_a_call_that_has_a_time_out() {
    let (sockets, fd, mut peer, _) = alone();
    sockets.setsockopt(fd, 1, 20, &[0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    // SO_RCVTIMEO is set, so nothing restarts.
    assert_eq!(sockets.recv(fd, &mut [0; 8], RecvFlags::default()), Err(Errno::EINTR));
    peer.step(&mut Rng::new(1));
}

#[test]
fn the_second_follows_and_a_call_turns_the_core_for_a_leader_that_sleeps() {
    let (sockets, fd, mut peer, _) = alone();
    let (mut rounds, mut rng) = (0, Rng::new(2));
    let mut attempt = |engine: &mut Engine| match engine.readable(fd)? {
        0 => Err(Errno::EAGAIN),
        bytes => Ok(bytes),
    };
    let got = sockets.wait_beside(
        Some(fd),
        None,
        &mut |_, _| {
            rounds += 1;
            assert!(sockets.shared().lead.sleeper().is_some());
            // Another thread sends, which leaves at once, and waits, which does not take the lead.
            assert_eq!(sockets.send(fd, b"letter", SendFlags::default()), Ok(6));
            let second = sockets.wait_beside(
                Some(fd),
                None,
                &mut |fds, left| {
                    assert_eq!((fds.len(), left), (1, None), "its bell, and nothing of the port");
                    assert_eq!(sockets.shared().lead.rank(), Some(Rank::Thread), "the first leads");
                    Woken::Signal
                },
                &mut |_| Err::<(), _>(Errno::EAGAIN),
            );
            assert_eq!(second, Err(Ended::Signal));
            (0..9).for_each(|_| peer.step(&mut rng));
            Woken::Stack
        },
        &mut attempt,
    );
    assert_eq!((got, rounds), (Ok(6), 1));
    assert_eq!(sockets.shared().lead.rank(), None);
}

#[test]
fn who_stands_takes_the_lead_from_who_sleeps_and_keeps_it() {
    let (sockets, fd, mut peer, _) = alone();
    let nothing = |_: &mut Engine| Err::<(), _>(Errno::EAGAIN);
    let lead = || {
        let shared = sockets.shared();
        (shared.lead.rank(), shared.lead.sleeper().is_some())
    };
    let mut pinned = sockets.pin(false);
    // Another thread leads and sleeps: it is rung.
    let first = sockets.wait_beside(
        Some(fd),
        None,
        &mut |fds, _| {
            let wait = pinned.wait(
                None,
                None,
                &mut |_, left| {
                    assert!(left.is_some(), "it leads, so it looks at the port again");
                    Woken::Beside
                },
                &mut { nothing },
            );
            assert_eq!(wait, Err(Ended::Beside));
            assert!(is_rung(&fds[0]));
            Woken::Signal
        },
        &mut { nothing },
    );
    assert_eq!(first, Err(Ended::Signal));
    assert_eq!(lead(), (Some(Rank::Pinned), false));
    // A thread that waits meanwhile follows, and does not take the lead with it when it goes.
    let second = sockets.wait_beside(
        Some(fd),
        None,
        &mut |fds, left| {
            assert_eq!((fds.len(), left), (1, None), "its bell, and nothing of the port");
            Woken::Signal
        },
        &mut { nothing },
    );
    assert_eq!(second, Err(Ended::Signal));
    assert_eq!(lead(), (Some(Rank::Pinned), false));
    drop(pinned);
    assert_eq!(lead(), (None, false));
    peer.step(&mut Rng::new(3));
}

#[test]
fn who_wakes_the_same_other_each_time_makes_way_for_it() {
    let (sockets, fd, mut peer, _) = alone();
    let (bell, mut rng, mut buf) = (bell().unwrap(), Rng::new(4), [0; 64]);
    let (mut rounds, mut row, mut made_way) = (0, None, None);
    let acceptor = sockets.socket(Family::V4).unwrap();
    let wait = sockets.wait_beside(
        Some(acceptor),
        None,
        &mut |fds, _| {
            rounds += 1;
            let mut shared = sockets.shared();
            let Shared { machine: engine, lead } = &mut *shared;
            if made_way.is_some() {
                assert!(lead.sleeper().is_some(), "it was woken while no thread led");
                return Woken::Signal;
            }
            if lead.sleeper().is_none() {
                made_way = Some(rounds);
                assert_eq!((lead.rank(), fds.len()), (None, 1), "its bell, and nothing of the port");
                engine.waiting.wake_willing();
                assert!(!is_rung(&fds[0]), "who made way does not take over from who works");
                engine.waiting.wake_any();
                assert!(is_rung(&fds[0]));
                return Woken::Stack;
            }
            // The other thread reads, asks again, and waits.
            if let Some(row) = row.take() {
                assert!(engine.waiting.remove(row), "the leader has woken it");
                assert_eq!(engine.read(fd, &mut buf), Ok(6));
            }
            assert_eq!(engine.write(fd, b"letter"), Ok(6));
            engine.turn().unwrap();
            let object = engine.index(fd).unwrap();
            row = Some(engine.waiting.add(Some(object), bell.ringer()));
            (0..9).for_each(|_| peer.step(&mut rng));
            Woken::Stack
        },
        &mut |_| Err::<(), _>(Errno::EAGAIN),
    );
    assert_eq!((wait, made_way), (Err(Ended::Signal), Some(5)));
}
