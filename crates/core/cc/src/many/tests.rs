//! Goal: the checkpoints of both laws, the mean windows that AIMD's formula gives them, and N = 1 is NewReno.
use super::*;
use crate::tests::testing::{Lab, MSS, path};
use crate::{Controller, NewReno};
use base::{Duration, Instant};

fn of<L: Law>(n: u8) -> Classical<L> {
    let mut policy = Classical::<L>::new();
    policy.set_tunable("n", n.into()).expect("1 to 16");
    policy
}

fn mulwin(n: u8, initial: u32, ssthresh: Option<u32>) -> Lab<MulWin> {
    Lab::new(of(n), initial, ssthresh)
}

#[test]
fn it_begins_with_a_segment_for_each_and_doubles() {
    for n in [1, 2, 8, 16] {
        let mut lab = mulwin(n, 1, None);
        assert_eq!(lab.cwnd(), f64::from(n), "where Reno would begin with one");
        // n chunks acknowledged are n chunks more, not n for each acknowledgment.
        (0..n).for_each(|_| lab.ack(MSS));
        assert_eq!(lab.cwnd(), f64::from(2 * n));
        assert_eq!(lab.policy.needs().pacing, n > 10, "a first burst beyond RFC 6928's is spread");
    }
    assert_eq!(mulwin(4, 10, None).cwnd(), 10.0, "the stack's first window, where that is more");
}

/// N^2 segments a round trip (the paper's equation 6): a window of 100, all acknowledged.
#[test]
fn avoidance_adds_n_squared_a_round_trip() {
    for (n, grown) in [(1, 1.0), (2, 4.0), (4, 16.0)] {
        let mut lab = mulwin(n, 100, Some(100));
        lab.round();
        // The window widens on the way, and a segment is a smaller part of it then: the sum of N^2 / cwnd.
        let exact = (100.0f64 * 100.0 + 2.0 * 100.0 * grown).sqrt() - 100.0;
        assert!((lab.cwnd() - 100.0 - exact).abs() <= 1.0, "n = {n}: {}", lab.cwnd());
    }
    let mut lab = mulwin(16, 100, Some(100));
    lab.ack(2 * MSS);
    assert_eq!(lab.cwnd(), 102.0, "never more than slow start would give");
}

#[test]
fn a_loss_halves_once_an_episode() {
    for n in [1, 4, 16] {
        let mut lab = mulwin(n, 100, Some(100));
        lab.congest(Signal::Loss, 100);
        assert_eq!((lab.cwnd(), lab.ssthresh()), (50.0, 50.0), "n = {n}");
        lab.recovered(50);
        assert_eq!(lab.cwnd(), 50.0, "n = {n}");
    }
}

/// One sub-window of N, one flow of N, holds while its loss is repaired: N (N - 1) and N - 1 segments in that round
/// trip, in which what was in flight arrives, told by SACK.
#[test]
fn the_others_go_on_while_one_repairs() {
    fn repaired<L: Law>(n: u8) -> f64 {
        let mut lab = Lab::new(of::<L>(n), 400, Some(400));
        lab.congest(Signal::Loss, 400);
        let left = lab.cwnd();
        let sample = AckSample { in_recovery: true, bytes: 0, sacked: MSS, ..lab.sample(0) };
        (0..400).for_each(|_| lab.policy.on_ack(&sample));
        lab.cwnd() - left
    }
    assert_eq!((repaired::<Squared>(1), repaired::<Several>(1)), (0.0, 0.0));
    for n in [2, 4, 8] {
        // The window widens on the way, as in avoidance.
        let (n, others) = (f64::from(n), f64::from(n) - 1.0);
        let squared = (200.0f64 * 200.0 + 2.0 * 200.0 * n * others).sqrt() - 200.0;
        assert!((repaired::<Squared>(n as u8) - squared).abs() <= 1.0, "n = {n}");
        let several = others * (1.0 + 1.0 / (2.0 * n));
        assert!((repaired::<Several>(n as u8) - several).abs() <= 1.5, "n = {n}");
    }
}

/// A timeout leaves N segments and a threshold of max(cwnd/2, 2N).
#[test]
fn a_timeout_leaves_a_segment_for_each() {
    for (n, cwnd, left, threshold) in
        [(1, 100, 1.0, 50.0), (8, 100, 8.0, 50.0), (16, 40, 16.0, 32.0), (16, 16, 16.0, 32.0)]
    {
        let mut lab = mulwin(n, cwnd, Some(16));
        lab.congest(Signal::Timeout { nth: 1 }, cwnd);
        assert_eq!((lab.cwnd(), lab.ssthresh()), (left, threshold), "n = {n}");
        lab.congest(Signal::Timeout { nth: 2 }, cwnd);
        assert_eq!((lab.cwnd(), lab.ssthresh()), (left, threshold), "n = {n}: backing off moves nothing");
    }
    let mut lab = mulwin(16, 100, Some(16));
    lab.congest(Signal::Loss, 2);
    lab.congest(Signal::Timeout { nth: 1 }, 2);
    assert_eq!(lab.cwnd(), 2.0, "a timeout never widens the window");
}

#[test]
fn idling_ends_with_a_segment_for_each() {
    let mut lab = mulwin(16, 100, Some(16));
    lab.policy.on_idle_restart(Instant::ZERO, Duration::from_secs(3), &path(10, None));
    assert_eq!(lab.cwnd(), 16.0);
}

#[test]
fn multcp_adds_n_and_gives_half_of_one_share() {
    for (n, kept) in [(1, 50.0), (2, 75.0), (4, 87.5), (16, 96.875)] {
        let mut lab = Lab::new(of::<Several>(n), 100, Some(100));
        lab.round();
        let exact = (100.0f64 * 100.0 + 2.0 * 100.0 * f64::from(n)).sqrt() - 100.0;
        assert!((lab.cwnd() - 100.0 - exact).abs() <= 1.0, "n = {n}: {}", lab.cwnd());
        let mut lab = Lab::new(of::<Several>(n), 100, Some(100));
        lab.congest(Signal::Loss, 100);
        assert_eq!((lab.cwnd(), lab.ssthresh()), (kept, kept), "n = {n}");
        lab.congest(Signal::Timeout { nth: 1 }, 80);
        assert_eq!(lab.cwnd(), 1.0, "a timeout concerns every flow");
    }
    let mut lab = Lab::new(of::<Several>(4), 100, Some(100));
    lab.congest(Signal::Timeout { nth: 1 }, 100);
    assert_eq!((lab.cwnd(), lab.ssthresh()), (1.0, 50.0));
}

/// The mean window where one packet of 1/p is lost, evenly, over many cycles; acknowledged one by one.
fn mean_window(mut lab: Lab<impl Controller>, p: f64) -> f64 {
    let (every, cycles) = ((1.0 / p) as u32, 400);
    let (mut time, mut packets) = (0.0, 0u64);
    for cycle in 0..cycles {
        for _ in 0..every {
            if cycle > 100 {
                (time, packets) = (time + 1.0 / lab.cwnd(), packets + 1);
            }
            lab.ack(MSS);
        }
        lab.lose();
    }
    packets as f64 / time
}

/// AIMD that grows by a and cuts by b: sqrt(a (2 - b) / (2 b p)).
fn aimd(a: f64, b: f64, p: f64) -> f64 {
    (a * (2.0 - b) / (2.0 * b * p)).sqrt()
}

/// N times Reno's, for MulWin: the paper's equation 18.
#[test]
fn the_mean_window_is_n_times_renos() {
    for p in [1e-3, 1e-4] {
        for n in [1, 2, 3, 4, 8, 12, 16] {
            let (mean, law) = (mean_window(mulwin(n, 40, Some(40)), p), f64::from(n) * aimd(1.0, 0.5, p));
            assert!((mean / law - 1.0).abs() < 0.02, "n = {n}, p = {p}: {mean} not {law}");
            let (a, b) = (f64::from(n), 1.0 / (2.0 * f64::from(n)));
            let (mean, law) = (mean_window(Lab::new(of::<Several>(n), 40, Some(40)), p), aimd(a, b, p));
            // A loss forgets what was acknowledged towards the next segment: half of one of the 22 that it takes.
            assert!((mean / law - 1.0).abs() < 0.045, "multcp, n = {n}, p = {p}: {mean} not {law}");
        }
    }
}

/// Whatever happens, in whatever order: with N = 1 each is NewReno after every step.
#[test]
fn one_is_newreno() {
    for seed in 0..500 {
        let mut rng = base::Rng::new(seed);
        let start = 1 + rng.below(60) as u32;
        let threshold = (seed % 2 == 0).then_some(start);
        let mut labs = (
            Lab::new(NewReno::new(), start, threshold),
            Lab::new(MulWin::new(), start, threshold),
            Lab::new(MulTcp::new(), start, threshold),
        );
        for step in 0..400 {
            let (op, size) = (rng.below(12), 1 + rng.below(3) as u32);
            step_of(&mut labs.0, op, size);
            step_of(&mut labs.1, op, size);
            step_of(&mut labs.2, op, size);
            let wanted = labs.0.policy.window();
            assert_eq!(labs.1.policy.window(), wanted, "mulwin, seed {seed}, step {step}");
            assert_eq!(labs.2.policy.window(), wanted, "multcp, seed {seed}, step {step}");
            assert_eq!(labs.1.policy.needs(), labs.0.policy.needs());
        }
    }
}

fn step_of(lab: &mut Lab<impl Controller>, op: u64, size: u32) {
    let flight = lab.policy.window().cwnd / MSS * size / 3;
    lab.now += 10;
    match op {
        0 => lab.congest(Signal::Loss, flight),
        1 => lab.congest(Signal::Timeout { nth: size }, flight),
        2 => lab.congest(Signal::Ecn, flight),
        3 => lab.recovered(flight),
        4 => lab.policy.on_spurious(Signal::Loss, Instant::from_millis(lab.now)),
        5 => lab.policy.on_idle_restart(Instant::ZERO, Duration::from_secs(3), &path(4, None)),
        6 => lab.policy.on_mss_change(500 * size),
        _ => lab.ack(size * MSS),
    }
}
