//! Goal: the equations are what they are derived from, what the bare law does when it is walked without a network, and
//! what the paper's tables say; and the stack's law with N = 1 puts NewReno's bytes on the wire.
use super::*;
use base::Rng;

const RATES: [f64; 2] = [1e-3, 1e-4];

fn close(got: f64, wanted: f64, within: f64) -> bool {
    (got / wanted - 1.0).abs() <= within
}

/// (9) with T1 and T2 from (10) and (11).
fn derived(n: f64, window: f64, p: f64) -> (f64, f64) {
    let growth = window / (2.0 * n * n);
    let level = 1.0 / (p * window) - 0.75 * growth;
    (level, (0.75 * growth + level) * window / (growth + level))
}

#[test]
fn twelve_follows_from_nine_ten_and_eleven() {
    for n in [1.0, 2.0, 5.0, 16.0] {
        for p in [1e-3, 1e-4, 1e-5] {
            for part in [0.1, 0.5, 0.9, 1.0] {
                let window = part * peak(n, p);
                let (level, rate) = derived(n, window, p);
                assert!(level >= -1e-9, "there is room at the limit");
                assert!(close(limited(n, window, p).unwrap(), rate, 1e-12), "{n} {window} {p}");
                assert_eq!(limited(n, window, p), limited_each(n, window / n, p));
            }
            assert!(derived(n, 1.01 * peak(n, p), p).0 < 0.0);
            assert_eq!(limited(n, 1.01 * peak(n, p), p), None);
            assert_eq!(limited(n, 0.0, p), None);
        }
    }
}

/// Where losses begin to be the limit the models agree, and up to there more window is more rate.
#[test]
fn the_model_is_continuous_and_rises() {
    for n in [1.0, 3.0, 16.0] {
        for p in RATES {
            let whole = peak(n, p);
            assert!(close(limited(n, whole * (1.0 - 1e-15), p).unwrap(), unlimited(n, p), 1e-12));
            assert!(close(0.75 * whole, unlimited(n, p), 1e-12), "a sawtooth is three quarters of its peak");
            let rates: Vec<f64> =
                (1..=99).map(|part| limited(n, whole * f64::from(part) / 100.0, p).unwrap()).collect();
            assert!(rates.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}

/// The bare law in real numbers, chunk by chunk: `credit` segments of growth a round trip, no more than `most`
/// segments, each 1/p-th chunk lost. The mean window.
fn walk(credit: f64, most: f64, p: f64) -> f64 {
    let (mut window, mut time, mut sent) = (10.0f64, 0.0, 0u64);
    for cycle in 0..220 {
        for _ in 0..(1.0 / p) as u32 {
            if cycle >= 20 {
                (time, sent) = (time + 1.0 / window, sent + 1);
            }
            window = (window + credit / window).min(most);
        }
        window /= 2.0;
    }
    sent as f64 / time
}

#[test]
fn the_bare_law_is_eighteen_and_thirteen() {
    for p in RATES {
        for n in [1.0, 2.0, 3.0, 4.0, 8.0, 12.0, 16.0] {
            let walked = walk(n * n, f64::INFINITY, p);
            assert!(close(walked, unlimited(n, p), 0.005), "n = {n}, p = {p}: {walked}");
            // The paper's pseudo-code credits a row of N chunks once: the growth is N, and that is no N-fold rate.
            let by_row = walk(n, f64::INFINITY, p);
            assert!(close(by_row, n.sqrt() * unlimited(1.0, p), 0.005), "n = {n}, p = {p}: {by_row}");
        }
    }
    for p in [1e-4, 1e-5] {
        for each in [50.0, 100.0, 160.0] {
            for n in [1.0, 4.0, 16.0] {
                let (walked, model) = (walk(n * n, n * each, p), limited_each(n, each, p).unwrap());
                assert!(close(walked, model, 0.005), "n = {n}, w = {each}, p = {p}: {walked} not {model}");
            }
        }
    }
}

/// Its local network with 171 segments a core, its wide one without a limit.
#[test]
fn the_papers_points() {
    let lan = bits_per_second(limited_each(1.0, 171.0, 1e-5).unwrap(), 1460.0, 0.002);
    assert!(close(lan, 0.964e9, 0.001), "{lan}");
    let wan = bits_per_second(unlimited(1.0, 1e-3), 1460.0, 0.02);
    assert!(close(wan, 22.62e6, 0.001), "{wan}");
    assert!(close(bits_per_second(unlimited(1.0, 1e-5), 1460.0, 0.002), 2.262e9, 0.001));
}

#[test]
fn the_locks_leave_what_the_paper_fitted() {
    let lan = [
        1.0019, 0.9445, 0.8917, 0.8415, 0.7933, 0.7465, 0.7010, 0.6564, 0.6127, 0.5698, 0.5275, 0.4858,
        0.4447, 0.4040, 0.3638, 0.3240,
    ];
    let wan = [
        0.9950, 0.9224, 0.8568, 0.7951, 0.7364, 0.6799, 0.6251, 0.5717, 0.5196, 0.4686, 0.4186, 0.3694,
        0.3209, 0.2732, 0.2261, 0.1796,
    ];
    for (locks, table, best, speed_up) in [(Locks::Lan, lan, 11.9, 5.83), (Locks::Wan, wan, 9.6, 4.69)] {
        for (nth, left) in table.into_iter().enumerate() {
            let seen = locks_leave(locks, nth as f64 + 1.0).unwrap();
            assert!((seen - left).abs() < 6e-5, "{locks:?}, N = {}: {seen}", nth + 1);
        }
        // More cores than that were slower.
        let speed = |n: f64| n * locks_leave(locks, n).unwrap();
        let tenths: Vec<f64> = (10..=160).map(|tenth| f64::from(tenth) / 10.0).collect();
        let top = tenths.into_iter().max_by(|a, b| speed(*a).total_cmp(&speed(*b))).unwrap();
        assert!((top - best).abs() < 0.051 && (speed(top) - speed_up).abs() < 0.01, "{locks:?}: {top}");
        assert_eq!(locks_leave(locks, 16.01), None, "what was not measured is not said");
        assert_eq!(locks_leave(locks, 0.5), None);
    }
}

/// Losses by chance that meet within a round trip are one halving: of 16 sub-windows and one in 1,000 many do. Each by
/// itself would leave 1.08 times what losses at equal distances do, whatever N.
#[test]
fn losses_by_chance_that_meet_are_one() {
    let by_chance = |n: f64, p: f64, each: bool| {
        let mut rng = Rng::new(1);
        let (mut window, mut time, mut blind) = (peak(n, p) / 2.0, 0.0, 0.0);
        let chunks = 2_000_000;
        for chunk in 0..chunks {
            time += 1.0 / window;
            window += n * n / window;
            if rng.chance(p) && (each || f64::from(chunk) >= blind) {
                window = (window / 2.0).max(2.0);
                blind = f64::from(chunk) + window;
            }
        }
        f64::from(chunks) / time / unlimited(n, p)
    };
    for (n, p, seen) in [(1.0, 1e-3, 1.09), (4.0, 1e-3, 1.12), (8.0, 1e-3, 1.16), (16.0, 1e-3, 1.25)] {
        let (each, one) = (by_chance(n, p, true), by_chance(n, p, false));
        assert!((each - 1.08).abs() < 0.03 && (one - seen).abs() < 0.03, "n = {n}, p = {p}: {each}, {one}");
    }
}

/// How two flows share a queue that overflows when both windows are more than `room`, round trip by round trip: who is
/// hit says `hit`, told how much is too much and which part the first has.
fn shares([grown, kept]: [f64; 2], room: f64, mut hit: impl FnMut(f64, f64) -> [bool; 2]) -> f64 {
    let (mut windows, mut sums) = ([room / 2.0, room / 2.0], [0.0, 0.0]);
    for round in 0..100_000 {
        windows = [windows[0] + grown, windows[1] + 1.0];
        let whole = windows[0] + windows[1];
        if whole > room {
            let hits = hit(whole - room, windows[0] / whole);
            for ((window, hit), kept) in windows.iter_mut().zip(hits).zip([kept, 0.5]) {
                *window = if hit { (*window * kept).max(1.0) } else { *window };
            }
        }
        if round > 1000 {
            sums = [sums[0] + windows[0], sums[1] + windows[1]];
        }
    }
    sums[0] / sums[1]
}

/// Beside one Reno flow: what each has where losses come by themselves is N; where a queue drops the packets that are
/// too many, each of one end by its share, 2, 8 and more than 25; and N^2 where it drops of both. So has MulTCP, whose
/// lesser growth meets a lesser cut.
#[test]
fn at_a_queue_it_takes_more_than_n_times_a_share() {
    for (n, least, most) in [(2.0, 2.0, 2.4), (4.0, 6.5, 9.5), (8.0, 25.0, 45.0)] {
        for law in [[n * n, 0.5], [n, 1.0 - 0.5 / n]] {
            // Of the windows when they are hit; a lesser cut leaves more on average.
            let (both, on_average) = (shares(law, 4000.0, |_, _| [true, true]), (1.0 + law[1]) / 1.5);
            assert!(close(both, n * n * on_average, 0.05), "{law:?}: {both} where both are hit");
        }
        let mut rng = Rng::new(1);
        let by_share = shares([n * n, 0.5], 1000.0, |excess, part| {
            let mut hits = [false; 2];
            (0..=excess as u32).for_each(|_| hits[usize::from(!rng.chance(part))] = true);
            hits
        });
        assert!(
            (least..most).contains(&by_share),
            "n = {n}: {by_share} where each packet is hit by its share"
        );
        assert!(close(walk(n * n, f64::INFINITY, 1e-4) / walk(1.0, f64::INFINITY, 1e-4), n, 0.01));
    }
}

/// Every packet of a run with its date and place, and the courses of windows.
fn on_the_wire(cc: &str, ills: &str, seed: u64) -> (Vec<u8>, crate::Outcome) {
    let text = format!(
        "title = 't'\nseconds = 8\ncc_allow_unfair = true\n[path]\nrtt_ms = 30\ndown_kbit = 8000\n\
         queue = 'strict 30000'\n{ills}\n[[flow]]\ncc = '{cc}'\nspread = 0.2\n[[flow]]\ncc = 'cubic'\nspread = 0.2\n"
    );
    let mut task = crate::tests::testing::small(&text).tasks(None).unwrap().swap_remove(0);
    task.seed = seed;
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let sink = seen.clone();
    let watch = move |sight: &emu::Sight<'_>| {
        let mut seen = sink.borrow_mut();
        seen.extend_from_slice(&sight.at.as_nanos().to_be_bytes());
        seen.extend_from_slice(format!("{:?} {:?}", sight.pipe, sight.fate).as_bytes());
        seen.extend_from_slice(sight.packet);
    };
    let outcome = crate::run::run_watched(&task, watch).unwrap();
    (seen.take(), outcome)
}

/// With N = 1, as both laws begin, every packet of a run is NewReno's, its date too, and so is every sample of the
/// window: over a queue, by chance, in bursts that end in timeouts, with marks.
#[test]
fn one_is_newreno_to_the_last_byte() {
    for (seed, ills) in [
        "",
        "loss = 0.01",
        "bursts = '0.05 20'",
        "aqm = 'red-ecn 5000 15000 0.1'\nreorder = 0.01\nreorder_ms = 9",
    ]
    .into_iter()
    .enumerate()
    {
        let wanted = on_the_wire("newreno", ills, seed as u64);
        assert!(wanted.0.len() > 1_000_000 && wanted.1.measures["retransmits"] > 1.0, "{ills}");
        for cc in ["mulwin", "multcp"] {
            let (packets, outcome) = on_the_wire(cc, ills, seed as u64);
            assert!(packets == wanted.0, "{cc}, {ills}: other bytes");
            assert_eq!(outcome.digest(), wanted.1.digest(), "{cc}, {ills}");
        }
    }
    let (others, _) = on_the_wire("vegas", "", 0);
    assert!(others != on_the_wire("newreno", "", 0).0, "the comparison can fail");
}
