//! MulWinTCP's model: the rate of a window that grows by N^2 segments a round trip and is halved by a loss,
//! where each 1/p-th packet is lost. Numbers in brackets are the paper's equations; where one is wrong as it is
//! printed, what follows from those before it is here.
//!
//! ```text
//!   W ┤      ┌────────┐     ┌───────      limited by W: T1 round trips of growth, T2 at the limit
//!     │    /          │    /              (9)  rate = (3/4 T1 + T2) W / (T1 + T2)
//! W/2 ┤  /            │  /                (10) T1 = W / (2 N^2)
//!     │  ├─ T1 ─┼─ T2 ┼ ...               (11) 1/p = (3/4 T1 + T2) W
//! ```
//!
//! Windows are in segments, rates in segments a round trip; [`bits_per_second`] makes the usual unit of them. N need
//! not be whole. The models are of one halving for each loss and of growth that never pauses; the stack's repair takes
//! a round trip, in which one sub-window of N does pause.

/// (17), greatest window where only losses limit it: W = N sqrt(8/(3p)).
pub fn peak(n: f64, p: f64) -> f64 {
    n * (8.0 / (3.0 * p)).sqrt()
}

/// (18), mean window where only losses limit it, N times Reno's: N sqrt(3/(2p)).
pub fn unlimited(n: f64, p: f64) -> f64 {
    n * (1.5 / p).sqrt()
}

/// (12), where something else, such as the peer's buffer, keeps the window at `window` or less:
/// 8 N^2 W/(8 N^2 + p W^2). As printed it has the round-trip time in the wrong place. `None` where losses keep the
/// window below that anyway (T2 would be negative), beyond [`peak`]; there it is equal to [`unlimited`].
pub fn limited(n: f64, window: f64, p: f64) -> Option<f64> {
    let fits = window > 0.0 && window <= peak(n, p);
    let square = 8.0 * n * n;
    fits.then(|| square * window / (square + p * window * window))
}

/// (13), the same where each of N sub-windows has `each` segments at most: 8 N w/(8 + p w^2), for w <= sqrt(8/(3p)).
pub fn limited_each(n: f64, each: f64, p: f64) -> Option<f64> {
    limited(n, n * each, p)
}

/// A rate in segments of `mss` bytes a round trip of `rtt` seconds, as bit/s.
pub fn bits_per_second(rate: f64, mss: f64, rtt: f64) -> f64 {
    rate * mss * 8.0 / rtt
}

/// Which of the paper's fits of what its locks leave of N cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locks {
    /// f1, of its local network: 2 ms, a loss in 100,000, where the processors were the limit.
    Lan,
    /// f2, of its wide one: 20 ms, a loss in 1,000, where losses were.
    Wan,
}

/// Sub-windows up to which the paper measured. Its fits go on falling and reach zero at 24 and 20.
const MEASURED: f64 = 16.0;

/// f(N) of (19) to (22): those are the models above times the part of N cores that the paper's spinlocks left. From its
/// fits a - b N^c; `None` beyond what was measured, from 1 to 16.
pub fn locks_leave(locks: Locks, n: f64) -> Option<f64> {
    let (a, b, c) = match locks {
        Locks::Lan => (1.074, 0.072_08, 0.844_8),
        Locks::Wan => (1.091, 0.096_04, 0.811_6),
    };
    (1.0..=MEASURED).contains(&n).then(|| a - b * n.powf(c))
}

#[cfg(test)]
mod tests;
