//! Goal: what the model says, for random loads, and the cases that people would ask for.
use super::*;
use base::Rng;

#[test]
fn is_fair_whatever_comes() {
    for seed in 0..if cfg!(miri) { 5 } else { 2_000 } {
        let mut rng = Rng::new(seed);
        let input: Vec<u8> = (0..1_000).map(|_| rng.next_u32() as u8).collect();
        crate::fuzz::arbiter(&input);
    }
}

/// The symptom of the published card: large transfers held a SYN up for a millisecond (D19).
#[test]
fn d19_a_syn_does_not_wait_behind_bulk() {
    let mut arbiter = Arbiter::new(13);
    let bulk = (1 << 12) - 1;
    for _ in 0..1_000 {
        let Some(Next::Data(queue)) = arbiter.poll(0, bulk) else { panic!("data waits") };
        arbiter.on_moved(queue, 65_536);
        assert_eq!(arbiter.poll(1 << 12, bulk), Some(Next::Control(12)));
    }
}

#[test]
fn bytes_count_and_not_packets() {
    let mut arbiter = Arbiter::new(2);
    let mut moved = [0; 2];
    for _ in 0..10_000 {
        let Some(Next::Data(queue)) = arbiter.poll(0, 0b11) else { panic!("data waits") };
        let bytes = [65_160, 66][queue];
        arbiter.on_moved(queue, bytes);
        moved[queue] += bytes;
    }
    assert!(moved[0].abs_diff(moved[1]) <= 65_160, "{moved:?}");
}

#[test]
fn who_wanted_nothing_is_owed_nothing() {
    let mut arbiter = Arbiter::new(2);
    for _ in 0..1_000 {
        assert_eq!(arbiter.poll(0, 0b01), Some(Next::Data(0)));
        arbiter.on_moved(0, 1_500);
    }
    let mut in_a_row = 0;
    while arbiter.poll(0, 0b11) == Some(Next::Data(1)) {
        arbiter.on_moved(1, 1_500);
        in_a_row += 1;
    }
    assert!(in_a_row <= 2, "{in_a_row}");
}

#[test]
fn a_flood_of_control_does_not_starve_data() {
    let mut arbiter = Arbiter::new(4);
    let data = (0..65 * 100).filter(|_| matches!(arbiter.poll(0b1111, 0b0100), Some(Next::Data(2)))).count();
    assert_eq!(data, 100);
}
