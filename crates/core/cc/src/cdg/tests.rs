//! Goal: the probability is the formula's, a growing delay is yielded to and a steady one is not, losses are
//! tolerated only where the queue drains, and delay that yielding does not change is ignored for a while.
use super::*;
use crate::Controller;
use crate::tests::testing::Lab;

extern crate std;

#[test]
fn the_exponential_agrees_with_real_numbers() {
    for x in (0..16_384u64).step_by(7) {
        let real = (-(x as f64) / 1024.0).exp() * 65_536.0;
        assert!((f64::from(exp_minus(x)) - real).abs() <= 8.0, "x = {x}: {} for {real}", exp_minus(x));
    }
    assert_eq!((exp_minus(0), exp_minus(1 << 20)), (1 << 16, 0));
}

#[test]
fn at_a_gradient_of_g_two_in_three_rounds_yield() {
    let mut law = Gradient { rng: Some(Rng::new(1)), ..Gradient::default() };
    let ack = Lab::new(Cdg::new(), 10, None).sample(1);
    let yielded = (0..100_000).filter(|_| law.decides(3000, &ack)).count() as f64 / 100_000.0;
    assert!((yielded - 0.632).abs() < 0.005, "{yielded}");
    assert!((0..1000).all(|_| !law.decides(0, &ack)));
}

/// Windows after each round, with `rtt(round)` milliseconds.
fn windows(lab: &mut Lab<Cdg>, rounds: u64, rtt: impl Fn(u64) -> u64) -> std::vec::Vec<f64> {
    (0..rounds)
        .map(|round| {
            lab.rtt = rtt(round);
            lab.round();
            lab.cwnd()
        })
        .collect()
}

#[test]
fn a_steady_delay_is_no_reason_to_yield() {
    let mut lab = Lab::new(Cdg::new(), 50, Some(50));
    let seen = windows(&mut lab, 40, |_| 100);
    assert!(seen.windows(2).all(|pair| pair[1] >= pair[0]), "{seen:?}");
    assert!(lab.cwnd() >= 85.0, "{seen:?}");
}

#[test]
fn growth_speeds_up_with_every_few_calm_rounds_and_starts_over_at_a_loss() {
    let gains = |policy: Cdg| {
        let mut lab = Lab::new(policy, 50, Some(50));
        let mut seen = std::vec![50.0];
        seen.extend(windows(&mut lab, 40, |_| 100));
        let gains: std::vec::Vec<_> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
        lab.congest(Signal::Loss, lab.cwnd() as u32);
        lab.recovered(lab.cwnd() as u32);
        let left = lab.cwnd();
        windows(&mut lab, 3, |_| 100);
        (gains[..5].iter().sum::<f64>(), gains[35..].iter().sum::<f64>(), lab.cwnd() - left)
    };
    let mut eager = Cdg::new();
    eager.set_tunable("alpha_inc", 10).unwrap();
    let (first, last, after) = gains(eager);
    assert!(first <= 5.0 && last > 15.0 && after <= 4.0, "{first} {last} {after}");
    let (first, last, after) = gains(Cdg::new());
    assert!(first <= 5.0 && last <= 5.0 && after <= 4.0, "{first} {last} {after}");
}

#[test]
fn the_average_is_over_as_many_rounds_as_was_said() {
    let mut trend = Trend::default();
    assert_eq!(trend.mean(8), 0, "nothing known");
    (1..=40).for_each(|step| trend.push(step));
    assert_eq!([0, 1, 2, 8, 32].map(|rounds| trend.mean(rounds)), [40, 40, 39, 36, 24]);
    let yields = |rounds| {
        let mut policy = Cdg::new();
        policy.set_tunable("smoothing_factor", rounds).unwrap();
        let mut lab = Lab::new(policy, 50, Some(50));
        windows(&mut lab, 30, |round| 200 - round);
        let before = lab.cwnd();
        windows(&mut lab, 1, |_| 195);
        lab.cwnd() < before
    };
    assert!(yields(0), "one step of 24 ms counts whole");
    assert!(!yields(32), "thirty rounds of less weigh more");
}

#[test]
fn a_growing_delay_is_yielded_to() {
    let mut lab = Lab::new(Cdg::new(), 50, Some(50));
    windows(&mut lab, 8, |_| 100);
    let before = lab.cwnd();
    let seen = windows(&mut lab, 6, |round| 120 + 20 * round);
    assert!(lab.cwnd() < 0.71 * before, "{before} then {seen:?}");
}

#[test]
fn delay_that_does_not_follow_is_ignored_for_a_while() {
    let mut lab = Lab::new(Cdg::new(), 500, Some(500));
    let seen = windows(&mut lab, 60, |round| 100 + 10 * round);
    let rises = seen.windows(2).filter(|pair| pair[1] > pair[0]).count();
    assert!(rises >= 20, "five backoffs, then five rounds of growth: {seen:?}");
}

#[test]
fn a_loss_takes_nothing_while_the_queue_drains_and_half_otherwise() {
    let mut lab = Lab::new(Cdg::new(), 100, Some(100));
    lab.policy.on_ack(&lab.sample(1));
    lab.congest(Signal::Loss, 100);
    assert_eq!(lab.cwnd(), 50.0, "nothing known of the queue");

    let mut lab = Lab::new(Cdg::new(), 100, Some(100));
    windows(&mut lab, 10, |round| 300 - 10 * round);
    assert_eq!(lab.policy.law().level, Level::Falling);
    let before = lab.cwnd();
    lab.congest(Signal::Loss, before as u32);
    assert!(lab.cwnd() >= before - 1.0, "{} of {before}", lab.cwnd());
}

#[test]
fn the_shadow_gives_back_what_delay_took_when_a_loss_comes() {
    let mut law = Gradient { shadow: 100_000, ..Gradient::default() };
    let lab = Lab::new(Cdg::new(), 60, Some(60));
    let mut reno = Reno::new();
    reno.begin(&crate::tests::testing::path(60, Some(60)));
    let info = SignalInfo {
        now: lab.sample(1).now,
        flight_size: 60_000,
        mss: 1000,
        metered: false,
        after_mark: false,
    };
    assert_eq!(law.keep(Signal::Loss, &info, &reno), (50_000, 60_000), "half of what NewReno would have");
    assert_eq!(law.shadow, 50_000);
}

#[test]
fn the_levels_follow_the_trends() {
    let path = [
        ((1, 1), Level::Rising),
        ((1, 0), Level::Full),
        ((0, 0), Level::Full),
        ((-1, -1), Level::Falling),
        ((0, -1), Level::Empty),
        ((0, 0), Level::Empty),
        ((1, 1), Level::Rising),
    ];
    let mut level = Level::Unknown;
    for ((min, max), wanted) in path {
        level = level.next(min, max);
        assert_eq!(level, wanted, "after {min}, {max}");
    }
}
