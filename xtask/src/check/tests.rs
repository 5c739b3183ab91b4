//! Goal: a changed file leads to its crate, to those that use it in order of distance, and to nothing else.
use super::*;

fn package(name: &str, dependencies: &[&str], for_tests: &[&str]) -> Package {
    let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect();
    Package {
        name: name.into(),
        version: "0.1.0".into(),
        license: None,
        source: None,
        manifest: format!("/tree/{name}/Cargo.toml"),
        dependencies: names(dependencies),
        test_dependencies: names(for_tests),
        roots: Vec::new(),
        has_tests: false,
    }
}

fn plan(paths: &[&str]) -> (String, String) {
    let packages = [
        package("top", &["middle", "serde"], &[]),
        package("tool", &["judge"], &[]),
        package("judge", &[], &["middle"]),
        package("middle", &["low"], &[]),
        package("low", &[], &["top"]),
        package("low/inner", &[], &[]),
    ];
    let paths: Vec<_> = paths.iter().map(|&path| path.to_owned()).collect();
    let plan = Plan::of(&packages, &paths, Path::new("/tree"));
    (listed(&plan.changed), listed(&plan.dependents))
}

#[test]
fn crates_that_use_what_changed_follow_by_distance() {
    let expect = |paths: &[&str], changed: &str, dependents: &str| {
        assert_eq!(plan(paths), (changed.into(), dependents.into()), "{paths:?}");
    };
    expect(&["low/src/lib.rs"], "low", "middle, top, judge");
    expect(&["middle/Cargo.toml", "middle/a/b.pkt"], "middle", "top, judge, low");
    expect(&["low/inner/src/lib.rs"], "low/inner", "none");
    expect(&["judge/src/lib.rs", "top/x"], "top, judge", "tool, low");
    expect(&["docs/TCP.md", "lower/x.rs"], "none", "none");
    expect(&["Cargo.lock", "low/x.rs"], "low", "top, tool, judge, middle, low/inner");
}
