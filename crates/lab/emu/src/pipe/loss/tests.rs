//! Goal: the long run's loss and the length of bursts are what the formulas say.
use super::*;

#[test]
fn loss_and_bursts_follow_the_formulas() {
    let mut rng = Rng::new(1);
    for (loss, burst) in [(0.01, 1.0), (0.01, 5.0), (0.1, 3.0), (0.3, 10.0)] {
        let model = GilbertElliott::bursts(loss, burst);
        assert!((model.mean() - loss).abs() < 1e-9);
        let mut bad = false;
        let fates: Vec<bool> = (0..1_000_000).map(|_| model.loses(&mut bad, &mut rng)).collect();
        let lost = fates.iter().filter(|lost| **lost).count() as f64;
        let bursts = fates.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        assert!((lost / 1e6 - loss).abs() < 0.1 * loss, "{loss}, {burst}: lost {lost}");
        assert!((lost / bursts - burst).abs() < 0.1 * burst, "{loss}, {burst}: {lost} in {bursts}");
    }
}

#[test]
fn both_states_may_lose() {
    let model = GilbertElliott { to_bad: 0.1, to_good: 0.3, loss_bad: 0.5, loss_good: 0.02 };
    let (mut rng, mut bad) = (Rng::new(2), false);
    let lost = (0..1_000_000).filter(|_| model.loses(&mut bad, &mut rng)).count() as f64 / 1e6;
    assert!((lost - model.mean()).abs() < 0.003, "{lost} for {}", model.mean());
    assert_eq!(GilbertElliott { to_bad: 0.0, to_good: 0.0, ..model }.mean(), 0.02);
}
