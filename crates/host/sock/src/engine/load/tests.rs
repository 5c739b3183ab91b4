//! Goal: sleep counts while it lasts, and once.
use super::*;

#[test]
fn sleep_counts_once() {
    let (mut load, ms) = (Load::default(), Instant::from_millis);
    load.on_wake(ms(1));
    assert_eq!(load.slept(ms(5)), Duration::ZERO);
    load.on_sleep(ms(5));
    load.on_sleep(ms(7));
    assert_eq!((load.slept(ms(9)), load.is_asleep()), (Duration::from_millis(4), true));
    load.on_wake(ms(10));
    load.on_wake(ms(12));
    load.on_spin(Duration::from_millis(3));
    assert_eq!((load.slept(ms(20)), load.spun()), (Duration::from_millis(5), Duration::from_millis(3)));
}
