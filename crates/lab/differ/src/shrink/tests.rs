//! Goal: what is needed for the difference stays, what is not goes, and the number of tries is kept.
use super::steps;

#[test]
fn needed_steps_stay_and_others_go() {
    let all: Vec<u32> = (0..100).collect();
    let small = steps(&all, 10_000, |list| list.contains(&17) && list.contains(&80));
    assert_eq!(small, [17, 80]);
}

#[test]
fn a_step_that_needs_another_goes_after_it() {
    // 5 may only go once 9 is gone.
    let all: Vec<u32> = (0..10).collect();
    let small = steps(&all, 10_000, |list| list.contains(&2) && (list.contains(&5) || !list.contains(&9)));
    assert_eq!(small, [2]);
}

#[test]
fn tries_are_bounded() {
    let mut asked = 0;
    let all = [0_u8; 64];
    let small = steps(&all, 7, |_| {
        asked += 1;
        false
    });
    assert_eq!((small.len(), asked), (64, 7));
}
