//! Goal: long courses keep their extremes; theory is drawn where it has a value.
use super::*;
use crate::tests::testing::{SMALL, small};

#[test]
fn theory_is_drawn_where_it_has_a_value() {
    let plots = "[[plot]]\ntitle = 'g'\nshow = 'measure goodput_mbit'\nx = 'path.rtt_ms'\n\
                     beside = { model = '1 / (path.rtt_ms - 10)', other = 'path.rtt_ms ^ 2' }\n";
    let experiment = small(&format!("{SMALL}{plots}"));
    let run = |task: &crate::Task| crate::run(task).unwrap();
    let outcomes: Vec<Outcome> = experiment.tasks(Some(1)).unwrap().iter().map(run).collect();
    let chapter = Chapter {
        experiment: &experiment,
        outcomes: &outcomes,
        store: None,
        failures: Vec::new(),
        verdicts: &[],
        file: "small",
    };
    let drawing = chapter.draw(&experiment.spec().plots[0]);
    let lines: Vec<_> = drawing.lines.iter().map(|line| (line.name.as_str(), &line.points)).collect();
    assert_eq!((lines.len(), lines[0].1.len()), (3, 2));
    assert_eq!(lines[1], ("model", &vec![vec![20.0, 0.1]]));
    assert_eq!(lines[2], ("other", &vec![vec![10.0, 100.0], vec![20.0, 400.0]]));
    let nowhere = plots.replace("path.rtt_ms - 10", "path.rtt_ms * 0");
    let error = crate::Experiment::parse("small", &format!("{SMALL}{nowhere}")).unwrap_err();
    assert!(error.to_string().contains("`model`"), "{error}");
}

#[test]
fn long_courses_keep_their_extremes() {
    let mut course: Series = (0..100_000).map(|nth| (f64::from(nth), 0.0)).collect();
    (course[5_000].1, course[77_777].1) = (9.0, -9.0);
    let thin = thinned(&course);
    assert!(thin.len() <= POINTS_MAX && thin.contains(&(5_000.0, 9.0)) && thin.contains(&(77_777.0, -9.0)));
    assert!(thin.windows(2).all(|pair| pair[0].0 <= pair[1].0));
}
