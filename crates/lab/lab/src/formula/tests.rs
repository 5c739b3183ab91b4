//! Goal: formulas mean what they mean on paper, and what is none is refused with the reason.
use super::*;

fn value(text: &str) -> Result<f64, String> {
    let place = |name: &str| [("path.loss", 1e-4), ("flow.0.x", 3.0)].into_iter().find(|row| row.0 == name);
    evaluate(text, &|name| place(name).map(|row| row.1)).map_err(|error| error.0)
}

#[test]
fn arithmetic() {
    for (text, is) in [
        ("1 + 2 * 3 - 4 / 2", 5.0),
        ("(1 + 2) * 3", 9.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("-2 ^ 2", -4.0),
        ("2 ^ -1", 0.5),
        ("sqrt(16) + cbrt(27)", 7.0),
        ("max(flow.0.x, min(9, 4))", 4.0),
        ("2 - 1 - 1", 0.0),
    ] {
        assert!((value(text).unwrap() - is).abs() < 1e-12, "{text}");
    }
}

#[test]
fn the_published_tables() {
    // Mathis: 1460 bytes, 100 ms, p = 1e-4.
    assert!((value("1460 * 8 / 100 / 1000 * sqrt(3 / (2 * path.loss))").unwrap() - 14.305).abs() < 1e-3);
    // CUBIC at 100 ms.
    assert!((value("(1.2333333333 * (0.1 / path.loss) ^ 3) ^ 0.25").unwrap() - 187.4).abs() < 0.1);
}

#[test]
fn what_is_no_formula_is_refused() {
    for (text, says) in [
        ("1 +", "want a number, a name or `(` before `the end`"),
        ("(1", "want `)`"),
        ("1 2", "want an operator before `2`"),
        ("path.lost", "no number at `path.lost`"),
        ("sin(1)", "no function `sin` of 1"),
        ("cubic_chance(0, 1)", "want 1e-9 to 0.1"),
        ("sqrt(1, 2)", "no function `sqrt` of 2"),
        ("1.2.3", "no number: `1.2.3`"),
        ("1 / 0", "is inf"),
        ("%", "before `%`"),
    ] {
        let error = value(text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
    assert!(value(&"(".repeat(10_000)).unwrap_err().contains("less depth"));
    assert!(value(&"-".repeat(10_000)).unwrap_err().contains("less depth"));
}

/// While cycles are shorter than a second H-TCP is Reno; longer ones carry more.
#[test]
fn htcp_begins_as_reno_and_leaves_it() {
    let reno = |p: f64| (1.5 / p).sqrt();
    assert!((htcp_evenly(1e-2, 0.01) / reno(1e-2) - 1.0).abs() < 1e-6);
    assert!((htcp_evenly(1e-3, 0.1) / reno(1e-3)) > 1.2);
    // A cycle by small steps.
    let (p, rtt) = (1e-5, 0.1);
    let mean = htcp_evenly(p, rtt);
    let cycle = rtt / (p * mean);
    let (mut w, mut t, mut sent) = (0.0, 0.0, 0.0);
    let steps = 1_000_000;
    for _ in 0..steps {
        let x: f64 = (t - 1.0f64).max(0.0);
        let alpha = 1.0 + 10.0 * x + (x / 2.0) * (x / 2.0);
        sent += w / rtt * cycle / f64::from(steps);
        w += alpha / rtt * cycle / f64::from(steps);
        t += cycle / f64::from(steps);
    }
    // `w` is the growth, which is also where the cycle began.
    assert!((sent + w * cycle / rtt) * p - 1.0 < 1e-3, "{}", (sent + w * cycle / rtt) * p);
}
