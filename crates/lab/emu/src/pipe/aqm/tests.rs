//! Goal: each policy does what its paper says: RED by the average, CoDel by the time waited, a step at its mark.
use super::*;

const ONE: Duration = Duration::from_millis(1);

#[test]
fn a_step_marks_above_it() {
    let (mut state, mut rng) = (State::default(), Rng::new(1));
    let mut see = |bytes| Aqm::Step(3000).on_arrival(&mut state, Instant::ZERO, bytes, ONE, &mut rng);
    assert_eq!((see(3000), see(3001)), (Verdict::Pass, Verdict::Hint));
}

#[test]
fn powers_are_products() {
    for exponent in [0, 1, 2, 3, 10, 1_000] {
        let product: f64 = (0..exponent).map(|_| 0.998).product();
        assert!((power(0.998, exponent) - product).abs() < 1e-12);
    }
    assert_eq!(power(0.998, u64::MAX), 0.0);
}

fn red() -> Red {
    Red { min: 5_000, max: 15_000, most: 0.1, weight: 0.002, gentle: true, ecn: false }
}

/// The part of packets that is dropped when the queue stays at `bytes`.
fn dropped(red: Red, bytes: u64) -> f64 {
    let (mut state, mut rng) = (State { average: bytes as f64, ..State::default() }, Rng::new(1));
    let mut see = || Aqm::Red(red).on_arrival(&mut state, Instant::ZERO, bytes, ONE, &mut rng);
    (0..100_000).filter(|_| see() != Verdict::Pass).count() as f64 / 1e5
}

#[test]
fn red_drops_by_the_average() {
    assert_eq!(dropped(red(), 4_999), 0.0);
    // Spread evenly over 1 to 1/p packets, the mean distance is half of that: twice the probability.
    assert!((dropped(red(), 10_000) - 0.1).abs() < 0.01, "{}", dropped(red(), 10_000));
    assert!((dropped(red(), 22_500) - 2.0 * 0.55).abs() < 0.3, "{}", dropped(red(), 22_500));
    assert_eq!(dropped(red(), 30_000), 1.0);
    assert_eq!(dropped(Red { gentle: false, ..red() }, 15_000), 1.0);
}

#[test]
fn red_forgives_a_burst_and_forgets_while_idle() {
    let (mut state, mut rng) = (State::default(), Rng::new(1));
    let mut see = |at, bytes| {
        let verdict = Aqm::Red(red()).on_arrival(&mut state, at, bytes, ONE, &mut rng);
        (verdict, state.average)
    };
    for i in 0..50 {
        assert_eq!(see(Instant::ZERO, i * 1000).0, Verdict::Pass, "a short burst");
    }
    for _ in 0..10_000 {
        see(Instant::ZERO, 20_000);
    }
    see(Instant::from_secs(1), 0);
    assert!(see(Instant::from_secs(3), 0).1 < 500.0, "two seconds of nothing");
}

#[test]
fn red_marks_below_its_maximum_and_drops_above() {
    let red = Red { ecn: true, ..red() };
    for (average, wanted) in [(14_999.0, Verdict::Mark), (30_000.0, Verdict::Drop)] {
        let (mut state, mut rng) = (State { average, ..State::default() }, Rng::new(1));
        let mut see = || Aqm::Red(red).on_arrival(&mut state, Instant::ZERO, average as u64, ONE, &mut rng);
        let verdict = (0..1000).map(|_| see()).find(|verdict| *verdict != Verdict::Pass);
        assert_eq!(verdict, Some(wanted));
    }
}

/// Dates in milliseconds at which CoDel acts on packets, one each millisecond, that have waited `waited(ms)`.
fn acts(millis: u64, waited: impl Fn(u64) -> u64) -> Vec<u64> {
    let mut state = State::default();
    let codel = Aqm::CoDel(CoDel::default());
    let mut see =
        |ms| codel.on_head(&mut state, Instant::from_millis(ms), Duration::from_millis(waited(ms)), ONE);
    (0..millis).filter(|ms| see(*ms) == Verdict::Drop).collect()
}

#[test]
fn codel_waits_an_interval_then_drops_ever_faster() {
    // interval / sqrt(n) after each other: 100, 70.7, 57.7, 50, 44.7 ms.
    assert_eq!(acts(440, |_| 20), [100, 200, 271, 329, 379, 424]);
}

#[test]
fn codel_leaves_good_queues_alone() {
    assert_eq!(acts(1000, |_| 4), [] as [u64; 0]);
    assert_eq!(acts(1000, |ms| if ms % 90 == 0 { 0 } else { 50 }), [] as [u64; 0], "a burst that drains");
}

#[test]
fn codel_goes_on_where_it_ended() {
    // Late for 600 ms, good for 100, late again: the second episode begins faster than the first.
    let seen = acts(1000, |ms| if (600..700).contains(&ms) { 1 } else { 30 });
    let second: Vec<u64> = seen.into_iter().filter(|ms| *ms >= 700).collect();
    assert_eq!(second[0], 800);
    assert!(second[1] - second[0] < 60, "{second:?}");
}
