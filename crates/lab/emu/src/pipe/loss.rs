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
mod tests;
