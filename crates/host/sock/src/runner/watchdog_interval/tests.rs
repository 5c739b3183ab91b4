//! Goal: a program that is always there is hardly looked at, one that lets the core wait is looked after every few
//! milliseconds, one that sleeps for long not at all, and what was left alone is slept for.
use super::*;

/// Looks for `time`, with what they find; how many those were, until one is not followed by another.
fn looks(
    watchdog_interval: &mut WatchdogInterval,
    time: Duration,
    mut found: impl FnMut(Duration) -> (Found, u32),
) -> (u32, Next) {
    let (mut at, mut count) = (Duration::ZERO, 0);
    let mut next = Next::Look(watchdog_interval.pause());
    while let Next::Look(pause) = next
        && at < time
    {
        at += pause;
        count += 1;
        let (found, returns) = found(at);
        next = watchdog_interval.on_look(found, returns);
    }
    (count, next)
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn who_is_always_there_is_hardly_looked_at() {
    let mut watchdog_interval = WatchdogInterval::default();
    // A hundred requests a second: it sleeps nearly always, and comes back.
    let requests = |at: Duration| (Found::There, at.as_millis() as u32 / 10);
    let (first, _) = looks(&mut watchdog_interval, SECOND, requests);
    assert!(first < 70, "{first}");
    let (then, next) = looks(&mut watchdog_interval, SECOND, |at| requests(at + SECOND));
    assert!((25..27).contains(&then), "{then}");
    assert_eq!(next, Next::Look(LOOK[1]));
    // Under load it is met between two calls, too.
    let (then, _) = looks(&mut watchdog_interval, SECOND, |at| (Found::Away, at.as_micros() as u32));
    assert!((25..27).contains(&then), "{then}");
}

#[test]
fn who_is_relied_on_is_looked_after() {
    let mut watchdog_interval = WatchdogInterval::default();
    let requests = |at: Duration| (Found::Away, at.as_micros() as u32);
    looks(&mut watchdog_interval, SECOND, requests);
    watchdog_interval.rely(true);
    let (count, _) = looks(&mut watchdog_interval, SECOND, requests);
    assert_eq!(count, 250);
    watchdog_interval.rely(false);
    assert_eq!(watchdog_interval.pause(), LOOK[1]);
}

#[test]
fn who_lets_the_core_wait_is_looked_after() {
    let mut watchdog_interval = WatchdogInterval::default();
    looks(&mut watchdog_interval, SECOND, |at| (Found::Away, at.as_micros() as u32));
    assert_eq!(watchdog_interval.on_look(Found::Late(true), 1), Next::Look(LOOK[0]));
    let (count, _) = looks(&mut watchdog_interval, SECOND, |at| match at.as_millis() % 20 {
        0..10 => (Found::Late(true), 0),
        _ => (Found::Away, 0),
    });
    assert!(count >= 240, "{count}");
    // It takes a while to be trusted again.
    let (count, _) =
        looks(&mut watchdog_interval, Duration::from_millis(64), |at| (Found::Away, at.as_micros() as u32));
    assert_eq!(count, 16);
}

#[test]
fn who_sleeps_for_long_is_left_alone() {
    let mut watchdog_interval = WatchdogInterval::default();
    let (count, next) = looks(&mut watchdog_interval, SECOND, |_| (Found::There, 7));
    assert_eq!(next, Next::Park);
    assert!(count <= 26, "{count}");
    // After a return it begins anew.
    let (again, next) = looks(&mut watchdog_interval, SECOND, |_| (Found::There, 8));
    assert_eq!(next, Next::Park);
    assert!((2..=count).contains(&again), "{again}");
}

#[test]
fn what_is_left_alone_is_slept_for() {
    let mut watchdog_interval = WatchdogInterval::default();
    let (_, next) = looks(&mut watchdog_interval, SECOND, |_| (Found::Late(true), 3));
    assert_eq!(next, Next::Look(LOOK[0]), "as long as there is something to do it looks");
    let (count, next) = looks(&mut watchdog_interval, SECOND, |_| (Found::Late(false), 3));
    assert_eq!((count, next), (NOTHING, Next::Lead));
    let (count, next) = looks(&mut watchdog_interval, SECOND, |_| (Found::Late(false), 3));
    assert_eq!((count, next), (1, Next::Lead), "until something happens");
}
