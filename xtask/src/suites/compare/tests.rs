//! Goal: a difference is wrong unless it is listed, and a listed one is wrong unless it is there.
use super::*;

fn side(results: &[(&str, Result)], end: &str) -> Side {
    let results = results.iter().map(|(test, result)| (test.to_string(), *result)).collect();
    Side { results, end: end.into(), ends_on_stack: Some(4), took: Duration::from_secs(1) }
}

#[test]
fn differences_are_found() {
    let kernel = [("a", Result::Passed), ("b", Result::Passed), ("c", Result::Failed)];
    let stack = [("a", Result::Passed), ("b", Result::Failed), ("d", Result::Passed)];
    let of = |kernel: &[_], stack: &[_], end: &str| {
        Comparison::of("suite/part".into(), side(kernel, "exit status 0"), side(stack, end))
    };
    let found = of(&kernel, &stack, "exit status 1");
    let names: Vec<_> = found.differences.iter().map(|found| found.test.as_str()).collect();
    assert_eq!(names, ["b", "c", "d"]);
    assert_eq!((found.tests, found.passed_kernel, found.passed_stack), (4, 2, 2));
    assert_eq!(found.wrong_by(&[]).len(), 3);
    let known = |test| Known { row: "suite/part", test, cause: "no urgent data", always: true };
    assert_eq!(found.wrong_by(&[known("b"), known("c"), known("d")]), [""; 0]);
    let wrong = found.wrong_by(&[known("a"), known("b"), known("c"), known("d")]);
    assert_eq!(wrong, ["suite/part: a: listed, and no longer different"]);
    let at_times = Known { always: false, ..known("a") };
    assert_eq!(found.wrong_by(&[at_times, known("b"), known("c"), known("d")]), [""; 0]);
    assert_eq!(found.wrong_by(&[Known { row: "other/part", ..known("b") }]).len(), 3);
    assert_eq!(of(&kernel, &kernel, "exit status 0").wrong_by(&[]), [""; 0]);
    let crashed = "suite/part: its end: exit status 0 on the kernel, signal 11 on the stack";
    assert_eq!(of(&kernel, &kernel, "signal 11").wrong_by(&[]), [crashed]);
    assert_eq!(of(&[], &[], "exit status 0").wrong_by(&[]), ["suite/part: no test ran"]);
}
