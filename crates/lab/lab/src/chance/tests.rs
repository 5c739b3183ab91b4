//! Goal: what is integrated is what the bare laws do, walked round trip by round trip in real numbers without a
//! network, at equal distances and by chance; and what is known of Reno.

use base::Rng;

const RTT: f64 = 0.1;

/// The window on average, segments, over many losses. `next` is the window a round trip on, given the seconds since
/// the last loss; `reduce` is told the window at a loss and says the one after it.
fn walk(
    p: f64,
    by_chance: bool,
    mut next: impl FnMut(f64, f64) -> f64,
    mut reduce: impl FnMut(f64) -> f64,
) -> f64 {
    let mut rng = Rng::new(1);
    let (mut window, mut sent, mut time) = (100.0f64, 0.0, 0.0);
    for nth in 0..21_000 {
        let uniform = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let until_loss = if by_chance { -uniform.ln() / p } else { 1.0 / p };
        let (mut left, mut since) = (until_loss, 0.0);
        while left > window {
            left -= window;
            since += RTT;
            window = next(since, window);
        }
        since += RTT * left / window;
        if nth > 1000 {
            (sent, time) = (sent + until_loss, time + since);
        }
        window = reduce(window).max(2.0);
    }
    sent / time * RTT
}

fn reno(p: f64, by_chance: bool) -> f64 {
    walk(p, by_chance, |_, window| window + 1.0, |window| window / 2.0)
}

/// draft-leith-tcp-htcp, halving.
fn htcp(p: f64, by_chance: bool) -> f64 {
    let alpha = |since: f64| {
        let x = (since - 1.0).max(0.0);
        1.0 + 10.0 * x + (x / 2.0).powi(2)
    };
    walk(p, by_chance, |since, window| window + alpha(since), |window| window / 2.0)
}

/// RFC 9438, with the window that is friendly to Reno and fast convergence.
fn cubic(p: f64, by_chance: bool) -> f64 {
    let state = std::cell::Cell::new((100.0, 70.0, 100.0, 70.0));
    let next = |since: f64, window: f64| {
        let (w_max, start, prior, friendly): (f64, f64, f64, f64) = state.get();
        let friendly = friendly + if friendly < prior { 9.0 / 17.0 } else { 1.0 };
        state.set((w_max, start, prior, friendly));
        let k = ((w_max - start).max(0.0) / 0.4).cbrt();
        let curve = 0.4 * (since - k).powi(3) + w_max;
        if friendly > curve { friendly.max(window) } else { curve.clamp(window, 1.5 * window) }
    };
    let reduce = |window: f64| {
        let w_max = if window < state.get().0 { 0.85 * window } else { window };
        let start = (0.7 * window).max(2.0);
        state.set((w_max.max(start), start, window, start));
        start
    };
    walk(p, by_chance, next, reduce)
}

#[test]
fn at_equal_distances_the_laws_are_the_formulas() {
    for p in [1e-3f64, 3e-4, 1e-4] {
        let mathis = (1.5 / p).sqrt();
        assert!((reno(p, false) / mathis - 1.0).abs() < 0.02);
        let rfc9438 = (1.0538 * (RTT / p).powf(0.75)).max(mathis);
        assert!((cubic(p, false) / rfc9438 - 1.0).abs() < 0.05, "{}", cubic(p, false) / rfc9438);
    }
}

#[test]
fn by_chance_they_are_what_is_integrated() {
    for p in [1e-3, 3e-4, 1e-4] {
        for (walked, integrated) in [
            (reno(p, true), super::newreno(p, RTT)),
            (cubic(p, true), super::cubic(p, RTT)),
            (htcp(p, true), super::htcp(p, RTT)),
        ] {
            assert!(
                (walked / integrated - 1.0).abs() < 0.025,
                "{p}: {walked} walked, {integrated} integrated"
            );
        }
    }
}

/// 1.309 / sqrt(p), from the paper's series.
#[test]
fn reno_is_what_was_published() {
    for (p, rtt) in [(1e-3f64, 0.1), (1e-5, 0.02)] {
        assert!((super::newreno(p, rtt) * p.sqrt() / 1.309 - 1.0).abs() < 0.01);
    }
}

/// Where CUBIC does not go by Reno's window its mean is a multiple of (rtt / p) ^ 0.75, 1.136 times the formula for
/// equal distances; H-TCP of short cycles is Reno.
#[test]
fn far_from_each_other_the_laws_have_their_powers() {
    let scaled = |p: f64, rtt: f64| super::cubic(p, rtt) / (rtt / p).powf(0.75);
    let (near, far) = (scaled(1e-6, 0.1), scaled(1e-7, 0.4));
    assert!((near / far - 1.0).abs() < 0.01 && (1.12..1.15).contains(&(near / 1.0538)), "{near} {far}");
    assert!((super::htcp(1e-2, 0.001) / super::newreno(1e-2, 0.001) - 1.0).abs() < 0.01);
}
