//! Goal: who takes over is a thread that sleeps, and once.
use super::*;

#[test]
fn one_thread_that_sleeps_takes_over() {
    let mut waiting = Waiting::default();
    let bell = || ring::doorbell().expect("a descriptor").0;
    let rows = [None, Some(7), Some(8)].map(|object| waiting.add(object, bell()));
    waiting.excuse(rows[0]);
    waiting.wake_willing();
    let woken = |waiting: &Waiting| waiting.rows.iter().map(|row| row.woken).collect::<Vec<_>>();
    assert_eq!(woken(&waiting), [false, true, false], "who made way does not");
    waiting.wake_any();
    waiting.wake_any();
    assert_eq!(woken(&waiting), [true; 3], "each of the others once");
    assert!(waiting.remove(rows[1]) && waiting.has_excused());
}

#[test]
fn an_event_wakes_those_who_wait_for_it() {
    let mut waiting = Waiting::default();
    let bell = || ring::doorbell().expect("a descriptor").0;
    let rows = [None, Some(7), Some(8)].map(|object| waiting.add(object, bell()));
    waiting.wake(7);
    assert_eq!(waiting.take_rung(), Rung::Several);
    assert_eq!(rows.map(|row| waiting.remove(row)), [true, true, false]);
}
