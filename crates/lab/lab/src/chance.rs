//! The window on average where packets are lost by chance: what published formulas, which are of losses at equal
//! distances, do not say.
//!
//! Each packet is lost with probability p, whatever happened before. Then a law is a Markov chain from loss to loss.
//! Let w be the window at a loss; the law says how the window W(t) grows from what the loss leaves, and t seconds
//! later N(t), the integral of W / rtt, packets have been sent. The next loss has not come by then with probability
//! S(t) = exp(-p N(t)), so
//!
//! ```text
//! P(next loss in dt at t) = S(t) p W(t) / rtt dt          which gives the chain's step from w to W(t)
//! E[time to it | w]       = integral of S(t) dt
//! ```
//!
//! The chain's steady state q follows from iterating its step. From loss to loss 1/p packets are sent on average,
//! whatever the law, so by the renewal-reward theorem the window is on average
//!
//! ```text
//! rtt / (p * sum over w of q(w) E[time | w])
//! ```
//!
//! For Reno this is 1.309 / sqrt(p), 1.07 times what losses at equal distances give (Ott, Kemperman, Mathis: The
//! stationary behavior of ideal TCP congestion avoidance, 1996). CUBIC's and H-TCP's growth quickens with the time
//! since the last loss, so long distances give more than short ones take.

/// Points of the window's logarithmic scale.
const POINTS: usize = 240;
/// Losses expected in a step of the integration; and at its end, beyond which next to nothing is left.
const STEP: f64 = 0.02;
const END: f64 = 16.0;
/// Steps of the chain, at most. It forgets within a few.
const ROUNDS: usize = 500;
/// Least window, segments.
const LEAST: f64 = 2.0;

/// From a loss on.
struct Epoch<F> {
    /// The window so many seconds after it, segments.
    window: F,
    /// A loss at less than this is one that comes early, of which CUBIC takes note (fast convergence).
    peak: f64,
}

/// NewReno (RFC 5681): a segment a round trip, and half of it.
pub(crate) fn newreno(p: f64, rtt: f64) -> f64 {
    mean(p, rtt, (1.5 / p).sqrt(), |w, _| {
        let start = (w / 2.0).max(LEAST);
        Epoch { window: move |t: f64| start + t / rtt, peak: 0.0 }
    })
}

/// H-TCP (draft-leith-tcp-htcp), halving.
pub(crate) fn htcp(p: f64, rtt: f64) -> f64 {
    mean(p, rtt, htcp_evenly(p, rtt), |w, _| {
        let start = (w / 2.0).max(LEAST);
        Epoch { window: move |t: f64| start + htcp_grown(t, rtt), peak: 0.0 }
    })
}

/// CUBIC (RFC 9438) with its Reno-friendly window (section 4.3) and fast convergence (section 4.7).
pub(crate) fn cubic(p: f64, rtt: f64) -> f64 {
    const BETA: f64 = 0.7;
    const C: f64 = 0.4;
    const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
    let even = (1.0538 * (rtt / p).powf(0.75)).max((1.5 / p).sqrt());
    mean(p, rtt, even, |w, early| {
        let start = (BETA * w).max(LEAST);
        let peak = (if early { (1.0 + BETA) / 2.0 * w } else { w }).max(start);
        let k = ((peak - start) / C).cbrt();
        // As fast as Reno once the window is what it was.
        let back = (w - start).max(0.0) * rtt / ALPHA;
        let window = move |t: f64| {
            let friendly = start + (ALPHA * t.min(back) + (t - back).max(0.0)) / rtt;
            friendly.max(C * (t - k).powi(3) + peak)
        };
        Epoch { window, peak }
    })
}

/// H-TCP's window on average, segments, where one packet of 1/`p` is lost, evenly, `rtt` seconds go round without a
/// queue, and each loss halves: a cycle of T seconds that begins at W/2 ends at W by the growth of
/// draft-leith-tcp-htcp, and carries 1/p packets.
pub(crate) fn htcp_evenly(p: f64, rtt: f64) -> f64 {
    // What was sent meanwhile of what the window has grown by so many seconds after a loss.
    let sent_of_growth = |t: f64| {
        let (flat, x) = (t.min(1.0), (t - 1.0).max(0.0));
        (flat * flat / 2.0 + x + x * x / 2.0 + 5.0 * x.powi(3) / 3.0 + x.powi(4) / 48.0) / (rtt * rtt)
    };
    // A cycle grows by half its greatest window, so it begins at what it grows by.
    let packets = |t: f64| htcp_grown(t, rtt) * t / rtt + sent_of_growth(t);
    let (mut short, mut long) = (0.0, 1e6);
    for _ in 0..200 {
        let t = (short + long) / 2.0;
        if packets(t) < 1.0 / p { short = t } else { long = t }
    }
    rtt / (p * long)
}

/// Returns the growth of H-TCP's window `t` seconds after a loss, in segments.
fn htcp_grown(t: f64, rtt: f64) -> f64 {
    let x = (t - 1.0).max(0.0);
    (t.min(1.0) + x + 5.0 * x * x + x * x * x / 12.0) / rtt
}

/// The mean of a law whose epochs begin with a loss at a window, which came early or not. `about` is its size.
fn mean<F: Fn(f64) -> f64>(p: f64, rtt: f64, about: f64, law: impl Fn(f64, bool) -> Epoch<F>) -> f64 {
    let (low, high) = ((LEAST / 2.0).ln(), (about * 50.0).max(100.0).ln());
    let pitch = (high - low) / (POINTS - 1) as f64;
    // A state is a point of the scale and whether the loss came early.
    let mut steps = vec![[0.0; 2 * POINTS]; 2 * POINTS];
    let mut times = [0.0; 2 * POINTS];
    for (state, (row, time)) in steps.iter_mut().zip(&mut times).enumerate() {
        let Epoch { window, peak } = law((low + pitch * (state / 2) as f64).exp(), state % 2 == 1);
        let (mut t, mut expected, mut survives) = (0.0, 0.0, 1.0);
        while expected < END {
            // The window in the middle of a step as long as the window at its beginning makes it.
            let dt = STEP * rtt / (p * window(t));
            let middle = window(t + dt / 2.0);
            let losses = p * middle / rtt * dt;
            let lost = survives * -(-losses).exp_m1();
            let place = ((middle.ln() - low) / pitch).clamp(0.0, (POINTS - 2) as f64 + 0.999);
            let (point, part) = (place as usize, place.fract());
            let early = usize::from(middle < peak);
            row[2 * point + early] += lost * (1.0 - part);
            row[2 * (point + 1) + early] += lost * part;
            *time += lost * dt / losses;
            (t, expected, survives) = (t + dt, expected + losses, survives - lost);
        }
    }
    let mut steady = [1.0 / (2 * POINTS) as f64; 2 * POINTS];
    for _ in 0..ROUNDS {
        let mut next = [0.0; 2 * POINTS];
        for (share, row) in steady.iter().zip(&steps) {
            next.iter_mut().zip(row).for_each(|(to, step)| *to += share * step);
        }
        // What survives the end of the integration is shared out.
        let whole: f64 = next.iter().sum();
        next.iter_mut().for_each(|share| *share /= whole);
        let moved: f64 = next.iter().zip(&steady).map(|(new, old)| (new - old).abs()).sum();
        steady = next;
        if moved < 1e-9 {
            break;
        }
    }
    let time: f64 = steady.iter().zip(&times).map(|(share, time)| share * time).sum();
    rtt / (p * time)
}

#[cfg(test)]
mod tests;
