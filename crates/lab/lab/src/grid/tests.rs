//! Goal: what is typed is what is varied; checks and plots follow; what decides a run has one name.
use super::*;

use crate::tests::testing::{SMALL, small as parse};

/// Varied values, checks and plots.
const REST: &str = r#"
        "flow.cc" = ["newreno", "cubic"]
        [[check]]
        measure = "failed"
        range = { min = 0, max = 0 }
        only = { "flow.cc" = "cubic" }
        [[check]]
        measure = "failed"
        range = { min = 0, max = 0 }
        [[plot]]
        title = "Goodput"
        show = "measure goodput_mbit"
        x = "flow.cc"
    "#;

fn file() -> String {
    SMALL.replace("\"path.rtt_ms\" = [10, 20]", REST)
}

fn small() -> Experiment {
    parse(&file())
}

fn vary(text: &str) -> Vary {
    text.parse().unwrap()
}

#[test]
fn values_are_toml_or_text() {
    let seen = vary("path.queue=strict 100, 5 ,0.5,true,\"1,2\",1-5");
    let expected: Vec<Value> =
        vec!["strict 100".into(), 5.into(), 0.5.into(), true.into(), "1,2".into(), "1-5".into()];
    assert_eq!((seen.place.as_str(), seen.values), ("path.queue", expected));
    for wrong in ["path.queue", "=1", "a=1,,2", "a="] {
        assert!(wrong.parse::<Vary>().is_err(), "{wrong}");
    }
}

#[test]
fn a_point_is_typed_as_it_is_read() {
    let seen = point("path.discard=\"1,5-10\", path.rtt_ms=10,stack.sack=true").unwrap();
    assert_eq!(seen["path.discard"], "1,5-10");
    assert_eq!(point(&typed(&seen)).unwrap(), seen);
    assert!(point("a=1,a=2").is_err() && point("a").is_err() && point("").unwrap().is_empty());
}

#[test]
fn values_from_outside_replace_and_add() {
    let (wider, left_out) = small().with(&[vary("path.rtt_ms=10,20")]).unwrap();
    assert_eq!((wider.points().len(), left_out), (4, 0));
    assert_eq!((wider.spec().checks.len(), wider.spec().plots.len()), (2, 1 + DRAWN.len()));
    let (other, left_out) = small().with(&[vary("flow.cc=htcp")]).unwrap();
    assert_eq!((other.points().len(), left_out), (1, 1), "the check of cubic");
    assert_eq!((other.spec().checks.len(), other.spec().plots.len()), (1, 1));
    let SpecError(text) = small().with(&[vary("flow.cc=magic")]).unwrap_err();
    assert!(text.contains("no congestion control `magic`"), "{text}");
    let many = Vary { place: "path.loss".into(), values: vec![0.5.into(); POINTS_MAX] };
    assert!(small().with(&[many]).is_err());
}

#[test]
fn one_point_runs_as_it_does_among_others() {
    let tasks = small().tasks(Some(1)).unwrap();
    let alone = small().only(&tasks[1].point).unwrap().tasks(Some(1)).unwrap();
    assert_eq!(alone.len(), 1);
    assert_eq!(crate::run(&alone[0]).unwrap(), crate::run(&tasks[1]).unwrap());
    assert!(small().only(&Point::new()).is_err());
}

#[test]
fn the_basis_is_what_decides_a_run() {
    let basis = small().basis();
    assert_eq!(small().with(&[vary("path.rtt_ms=10,20")]).unwrap().0.basis(), basis);
    assert_eq!(small().only(&point("flow.cc=cubic").unwrap()).unwrap().basis(), basis);
    let changed = parse(&file().replace("slots 10", "slots 11"));
    assert_ne!(changed.basis(), basis);
}
