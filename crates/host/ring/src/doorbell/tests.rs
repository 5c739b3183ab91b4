//! Goal: sleep ends for the right reason, and a million items pass with few rings and none slept over.
use super::*;
use crate::spsc;

#[test]
fn sleep_ends_for_the_right_reason() {
    let (ringer, mut sleeper) = doorbell().unwrap();
    let short = Some(Duration::from_millis(1));
    assert_eq!(sleeper.sleep(short, || true).unwrap(), Woken::Ready);
    assert_eq!(sleeper.sleep(short, || false).unwrap(), Woken::Timeout);
    assert!(!ringer.ring(), "no thread sleeps");
    assert_eq!(sleeper.sleep(short, || false).unwrap(), Woken::Timeout);
    // The item arrives after the announcement and before the look: both see it.
    let woken = sleeper.sleep(short, || {
        assert!(ringer.ring() && !ringer.ring());
        true
    });
    assert_eq!(woken.unwrap(), Woken::Ready);
    assert_eq!(sleeper.sleep(None, || false).unwrap(), Woken::Rung, "the ring is remembered");
    ringer.ring_anyway();
    assert_eq!(sleeper.sleep(None, || false).unwrap(), Woken::Rung);
    let other = sleeper.ringer();
    let thread = std::thread::spawn(move || while !other.ring() {});
    assert_eq!(sleeper.sleep(None, || false).unwrap(), Woken::Rung);
    thread.join().unwrap();
}

/// Lets the calling thread, and those that it starts, run on one CPU alone.
fn pin() {
    // SAFETY: a set of CPUs is plain numbers, and lives through the call.
    unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &raw const one), 0);
    }
}

/// Sleeps until `said` has come to `count`. Returns how many sleeps ended before.
fn sleep_until(said: &AtomicU32, count: u32, bell: &mut Sleeper) -> u32 {
    let mut in_vain = 0;
    while said.load(Ordering::SeqCst) < count {
        let fd = std::os::fd::AsRawFd::as_raw_fd(&bell.fd());
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, which lives through the call.
        assert!(unsafe { libc::poll(&raw mut poll, 1, 10_000) } > 0, "slept over {count}");
        bell.drain();
        in_vain += u32::from(said.load(Ordering::SeqCst) < count);
    }
    in_vain
}

/// Two threads on one CPU wake each other in turn: a ring ends one sleep, not those after it.
#[test]
fn who_is_woken_before_the_ringer_goes_on_sleeps_again() {
    let in_turn = || {
        pin();
        let ((question, mut asked), (answer, mut answered)) = (doorbell().unwrap(), doorbell().unwrap());
        let said = Arc::new(AtomicU32::new(0));
        let others = said.clone();
        let other = std::thread::spawn(move || {
            let one = |count| {
                let in_vain = sleep_until(&others, count, &mut asked);
                others.store(count + 1, Ordering::SeqCst);
                answer.ring_anyway();
                in_vain
            };
            (1..1_000).step_by(2).map(one).sum::<u32>()
        });
        let one = |count| {
            said.store(count, Ordering::SeqCst);
            question.ring_anyway();
            sleep_until(&said, count + 1, &mut answered)
        };
        (1..1_000).step_by(2).map(one).sum::<u32>() + other.join().unwrap()
    };
    let in_vain = std::thread::spawn(in_turn).join().unwrap();
    assert!(in_vain < 1_000, "{in_vain} sleeps ended for nothing");
}

#[test]
fn nothing_is_slept_over() {
    let (mut tx, mut rx) = spsc::queue(8);
    let (ringer, mut sleeper) = doorbell().unwrap();
    let total = 20_000u32;
    let sender = std::thread::spawn(move || {
        let mut next = 0;
        while next < total {
            match tx.push(next) {
                Ok(()) => next += 1,
                Err(_) => std::thread::yield_now(),
            }
            ringer.ring();
        }
    });
    let mut expected = 0;
    while expected < total {
        while let Some(item) = rx.pop() {
            assert_eq!(item, expected);
            expected += 1;
        }
        if expected < total {
            // A lost wake-up shows as a time-out: the sender has more to say, and rings for each item.
            let woken = sleeper.sleep(Some(Duration::from_secs(20)), || !rx.is_empty()).unwrap();
            assert_ne!(woken, Woken::Timeout, "after item {expected}");
        }
    }
    sender.join().unwrap();
}
