//! Loss that comes in bursts.

use base::Rng;

/// The model of Gilbert and Elliott: a path that is good or bad, changes its mind with some probability at each
/// packet, and loses with another in either state. Probabilities are 0.0 to 1.0.
///
/// ```text
///            to_bad
///   good  ----------->  bad           loses on average
///   loses              loses          (to_good * loss_good + to_bad * loss_bad) / (to_good + to_bad)
///   loss_good         loss_bad        in bursts of 1 / to_good packets
///         <-----------
///            to_good
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GilbertElliott {
    /// Chance that a good path turns bad, per packet.
    pub to_bad: f64,
    /// Chance that a bad path turns good, per packet.
    pub to_good: f64,
    /// Chance to lose a packet while bad.
    pub loss_bad: f64,
    /// Chance to lose a packet while good.
    pub loss_good: f64,
}

impl GilbertElliott {
    /// Bursts of `mean_burst` lost packets (1 or more), `loss` of all packets lost (less than 1).
    pub fn bursts(loss: f64, mean_burst: f64) -> Self {
        let to_good = 1.0 / mean_burst.max(1.0);
        GilbertElliott { to_bad: to_good * loss / (1.0 - loss), to_good, loss_bad: 1.0, loss_good: 0.0 }
    }

    /// The part of all packets that is lost in the long run.
    pub fn mean(&self) -> f64 {
        let (bad, good) = (self.to_bad, self.to_good);
        if bad + good == 0.0 {
            self.loss_good
        } else {
            (good * self.loss_good + bad * self.loss_bad) / (good + bad)
        }
    }

    /// Is this packet lost? `bad` is the path's state.
    pub(crate) fn loses(&self, bad: &mut bool, rng: &mut Rng) -> bool {
        let turns = if *bad { self.to_good } else { self.to_bad };
        *bad ^= chance(rng, turns);
        chance(rng, if *bad { self.loss_bad } else { self.loss_good })
    }
}

/// Draws nothing for a chance of zero: an ill that is off costs nothing and moves no other choice.
pub(super) fn chance(rng: &mut Rng, p: f64) -> bool {
    p > 0.0 && rng.chance(p)
}

#[cfg(test)]
mod tests {
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
}
