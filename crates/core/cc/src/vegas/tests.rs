//! Goal: the queue settles between alpha and beta segments, slow start ends at gamma, losses still halve.
use super::*;
use crate::tests::testing::Lab;
use crate::{Controller, Signal};

/// Rounds over a path of 100 ms that carries one segment a millisecond: each queued one adds a millisecond.
fn on_a_path(lab: &mut Lab<Vegas>, rounds: u32) -> std::vec::Vec<f64> {
    let mut windows = std::vec::Vec::new();
    lab.least = 100;
    for _ in 0..rounds {
        lab.rtt = 100 + (lab.cwnd() as u64).saturating_sub(100);
        lab.round();
        windows.push(lab.cwnd());
    }
    windows
}

extern crate std;

#[test]
fn the_window_settles_where_a_few_segments_queue() {
    for start in [50, 100, 104, 130, 200] {
        let mut lab = Lab::new(Vegas::new(), start, Some(2));
        let windows = on_a_path(&mut lab, 200);
        for cwnd in &windows[150..] {
            assert!((101.0..=105.0).contains(cwnd), "from {start}: {windows:?}");
        }
    }
}

#[test]
fn slow_start_ends_when_the_queue_shows() {
    let mut policy = Vegas::new();
    policy.set_tunable("hystart", 0).unwrap();
    let mut lab = Lab::new(policy, 10, None);
    let windows = on_a_path(&mut lab, 8);
    assert!(lab.ssthresh() < 200.0, "{windows:?}");
    assert!(windows.iter().all(|cwnd| *cwnd <= 320.0), "{windows:?}");
    let windows = on_a_path(&mut lab, 100);
    assert!(lab.cwnd() <= 105.0, "{windows:?}");
}

#[test]
fn a_loss_halves() {
    let mut lab = Lab::new(Vegas::new(), 100, Some(2));
    lab.congest(Signal::Loss, 100);
    assert_eq!((lab.cwnd(), lab.ssthresh()), (50.0, 50.0));
}

#[test]
fn a_tiny_window_grows_as_reno_does() {
    let mut lab = Lab::new(Vegas::new(), 2, Some(2));
    (0..5).for_each(|_| lab.round());
    assert!(lab.cwnd() >= 4.0, "{}", lab.cwnd());
}
