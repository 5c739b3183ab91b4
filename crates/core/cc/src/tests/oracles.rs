//! Goal: the policies' integers stay beside the real numbers of their papers, over random paths: windows of 10 to 1,500
//! segments, round trips of 10 to 200 ms with a queue that comes and goes, losses at any time. The oracles of CUBIC and
//! DCTCP stand beside them.

use alloc::string::String;
use alloc::vec::Vec;

use base::Rng;

use crate::tests::testing::{Lab, MSS};
use crate::{Controller, HTcp, NewReno, Signal, Vegas};

/// A policy in real numbers: segments and seconds.
trait Oracle {
    /// `segments` of a filled window are acknowledged.
    fn ack(&mut self, segments: f64, now: f64, rtt: f64);
    /// A loss, while `flight` segments are out; repaired at once.
    fn lose(&mut self, flight: f64, now: f64);
    /// The window.
    fn cwnd(&mut self) -> &mut f64;
}

/// Events of a random path, for the message of a failure.
struct Told<'a> {
    policy: &'a str,
    seed: u64,
    at: u64,
}

impl Told<'_> {
    /// Within `part` of it, or `steps` segments: byte counting steps where the real numbers glide.
    fn check(&self, got: f64, wanted: f64, part: f64, steps: f64) {
        let off = (got - wanted).abs();
        let Told { policy, seed, at } = self;
        assert!(off <= part * wanted || off <= steps, "{policy}, seed {seed}, {at} ms: {got} not {wanted}");
    }
}

/// Runs both along one random path for `rounds` round trips, in avoidance.
fn follow<C: Controller, O: Oracle>(policy: C, mut oracle: O, seed: u64, rounds: u32, part: f64, steps: f64) {
    let mut rng = Rng::new(seed);
    let start = 10 + rng.below(1490) as u32;
    let mut lab = Lab::new(policy, start, Some(start));
    let (base, queue) = (10 + rng.below(190), 1 + rng.below(100));
    let name: String = lab.policy.name().into();
    *oracle.cwnd() = lab.cwnd();
    for _ in 0..rounds {
        lab.rtt = base + rng.below(queue);
        lab.least = lab.least.min(lab.rtt);
        lab.round_with(|lab| {
            let (now, rtt) = lab.seconds();
            oracle.ack(2.0, now, rtt);
        });
        let told = Told { policy: &name, seed, at: lab.now };
        told.check(lab.cwnd(), *oracle.cwnd(), part, steps);
        if rng.below(40) == 0 {
            let flight = lab.policy.window().cwnd / MSS;
            lab.congest(Signal::Loss, flight);
            oracle.lose(f64::from(flight), lab.seconds().0);
            told.check(lab.ssthresh(), *oracle.cwnd(), part, steps);
            lab.recovered(flight);
            // Each step's error is its own, not the sum of all before.
            *oracle.cwnd() = lab.cwnd();
        }
    }
}

/// RFC 5681 and RFC 3465: a segment for each window acknowledged, half of it lost.
struct RenoOracle {
    cwnd: f64,
}

impl Oracle for RenoOracle {
    fn ack(&mut self, segments: f64, _now: f64, _rtt: f64) {
        self.cwnd += segments / self.cwnd;
    }

    fn lose(&mut self, flight: f64, _now: f64) {
        self.cwnd = (flight / 2.0).max(2.0);
    }

    fn cwnd(&mut self) -> &mut f64 {
        &mut self.cwnd
    }
}

#[test]
fn newreno_follows_real_numbers() {
    for seed in 0..60 {
        follow(NewReno::new(), RenoOracle { cwnd: 0.0 }, seed, 300, 0.01, 1.5);
    }
}

/// draft-leith-tcp-htcp with both of its options.
struct HTcpOracle {
    cwnd: f64,
    congestion: f64,
    seen: bool,
    beta: f64,
    rtts: Vec<f64>,
    max: f64,
    adaptive_backoff: bool,
    rtt_scaling: bool,
}

impl HTcpOracle {
    fn new(adaptive_backoff: bool, rtt_scaling: bool) -> Self {
        HTcpOracle {
            cwnd: 0.0,
            congestion: f64::NAN,
            seen: false,
            beta: 0.5,
            rtts: Vec::new(),
            max: 0.0,
            adaptive_backoff,
            rtt_scaling,
        }
    }

    fn min(&self) -> f64 {
        // Those before the eighth are not trusted.
        self.rtts.iter().skip(7).copied().fold(f64::INFINITY, f64::min)
    }
}

impl Oracle for HTcpOracle {
    fn ack(&mut self, segments: f64, now: f64, rtt: f64) {
        if self.congestion.is_nan() {
            self.congestion = now;
        }
        self.rtts.push(rtt);
        if self.rtts.len() >= 8 {
            self.max = self.max.max(rtt);
        }
        let x = now - self.congestion - 1.0;
        let mut alpha = 1.0;
        if x > 0.0 {
            alpha = 1.0 + 10.0 * x + (x / 2.0).powi(2);
            if self.adaptive_backoff {
                alpha *= 2.0 * (1.0 - self.beta);
            }
            if self.rtt_scaling {
                alpha *= (rtt / 0.1).clamp(0.1, 2.0);
            }
        }
        // Never more than slow start would give.
        self.cwnd += (alpha.max(1.0) * segments / self.cwnd).min(segments);
    }

    fn lose(&mut self, flight: f64, now: f64) {
        self.congestion = now;
        self.beta = 0.5;
        let min = self.min();
        if self.max > min {
            self.max = min + 0.95 * (self.max - min);
        }
        if self.adaptive_backoff && self.seen && self.rtts.len() >= 8 {
            self.beta = (min / self.max).clamp(0.5, 0.8);
        }
        self.seen = true;
        self.cwnd = (self.beta * flight).max(2.0);
    }

    fn cwnd(&mut self) -> &mut f64 {
        &mut self.cwnd
    }
}

#[test]
fn htcp_follows_real_numbers_with_each_of_its_options() {
    for seed in 0..60 {
        let (backoff, scaling) = (seed % 2 == 1, seed / 2 % 2 == 1);
        let mut policy = HTcp::new();
        policy.set_tunable("adaptive_backoff", backoff.into()).expect("its own");
        policy.set_tunable("rtt_scaling", scaling.into()).expect("its own");
        follow(policy, HTcpOracle::new(backoff, scaling), seed, 300, 0.03, 2.5);
    }
}

/// Brakmo and Peterson: what waits in the queue is the window less what the path holds. Below alpha (2) segments the
/// window grows by one, above beta (4) it shrinks by one; `None` where rounding decides.
fn vegas_step(window: f64, base: f64, rtt: f64) -> Option<f64> {
    let queued = window * (rtt - base) / rtt;
    let close = |threshold: f64| (queued - threshold).abs() < 0.01;
    match queued {
        _ if close(2.0) || close(4.0) => None,
        _ if queued > 4.0 => Some(-1.0),
        _ if queued < 2.0 => Some(1.0),
        _ => Some(0.0),
    }
}

#[test]
fn vegas_goes_where_real_numbers_say() {
    let mut moves = [0_u32; 3];
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let start = 10 + rng.below(90) as u32;
        let mut lab = Lab::new(Vegas::new(), start, Some(2));
        let base = 100 + rng.below(200);
        (lab.rtt, lab.least) = (base, base);
        // The round under way: its window, what of it is still to be acknowledged, its least round trip, its samples.
        let (mut window, mut left, mut least, mut samples) = (0.0, 0.0, f64::INFINITY, 0);
        for _ in 0..2000 {
            lab.now += 1;
            let before = lab.cwnd();
            lab.ack(2 * MSS);
            (least, samples) = (least.min(lab.rtt as f64), samples + 1);
            if 2.0 < left {
                left -= 2.0;
                assert_eq!(lab.cwnd(), before, "seed {seed}: nothing moves within a round");
                continue;
            }
            let wanted = if samples >= 3 { vegas_step(window, base as f64, least) } else { Some(0.0) };
            let got = lab.cwnd() - before;
            if let Some(wanted) = wanted {
                // Two segments stay, and in small windows Reno grows.
                assert!(got == wanted || before <= 6.0, "seed {seed}: {got} not {wanted} at {before}");
                moves[(wanted + 1.0) as usize] += 1;
            }
            (window, left, least, samples) = (lab.cwnd(), before - 2.0, f64::INFINITY, 0);
            // From nothing to some eight segments' worth of queue.
            lab.rtt = base + (rng.below(80) as f64 * base as f64 / (10.0 * window)) as u64;
        }
    }
    assert!(moves.iter().all(|count| *count > 500), "each way is taken: {moves:?}");
}
