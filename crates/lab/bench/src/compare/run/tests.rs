//! Goal: a full run is what people have time for, and words choose what they should.
use super::*;

fn chosen(only: &[&str], quick: bool) -> Chosen {
    Chosen {
        only: only.iter().map(|only| (*only).into()).collect(),
        quick,
        rounds: None,
        seconds: None,
        out: "unused".into(),
        again: false,
        within: None,
        stop: Arc::default(),
    }
}

#[test]
fn a_full_run_takes_half_an_hour_and_a_quick_one_four_minutes() {
    let minutes =
        |quick| chosen(&[], quick).steps().unwrap().iter().map(|step| step.takes).sum::<f64>() / 60.0;
    assert!((20.0..35.0).contains(&minutes(false)), "{}", minutes(false));
    assert!(minutes(true) < 6.0, "{}", minutes(true));
    let longest = chosen(&[], false).steps().unwrap().iter().map(|step| step.takes).fold(0.0, f64::max);
    assert!(longest < 90.0, "{longest}: a piece is a minute and a half");
}

#[test]
fn words_choose_by_beginnings() {
    let names = |only: &[&str]| -> Result<Vec<_>, String> {
        let mut names: Vec<_> = chosen(only, false).steps()?.iter().map(|step| step.workload.name).collect();
        names.dedup();
        Ok(names)
    };
    assert_eq!(names(&["memory-s", "rpc"]).unwrap(), ["rpc", "memory-short", "memory-some"]);
    assert!(names(&["nothing"]).is_err_and(|e| e.contains("ping-pong")));
}

#[test]
fn time_left_follows_what_was_done() {
    let steps = chosen(&["memory-keep"], false).steps().unwrap();
    let mut progress = Progress::new(&steps).unwrap();
    let before = progress.left();
    progress.done = progress.total;
    assert_eq!(progress.left(), "0 s");
    assert_ne!(before, "0 s");
    assert!(progress.expects(1e6) > 1e5, "what takes long is expected to");
}
