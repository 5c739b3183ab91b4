//! Goal: the table is a drawing without circles, and an import against it is told.
use super::*;

fn package(name: &str, dependencies: &[&str]) -> Package {
    Package {
        name: name.into(),
        version: "0.1.0".into(),
        license: None,
        source: None,
        manifest: format!("{name}/Cargo.toml"),
        dependencies: dependencies.iter().map(|&dependency| dependency.into()).collect(),
        test_dependencies: Vec::new(),
        roots: Vec::new(),
        has_tests: false,
    }
}

#[test]
fn every_room_calls_only_rooms_drawn_above_it() {
    for (index, (name, allowed)) in ROOMS.iter().enumerate() {
        for dependency in *allowed {
            let place = ROOMS.iter().position(|(known, _)| known == dependency);
            assert!(place.is_some_and(|place| place < index), "{name} -> {dependency}");
        }
    }
    assert!(CORE.iter().all(|name| ROOMS.iter().any(|(known, _)| known == name)));
}

#[test]
fn imports_against_the_drawing_are_told() {
    let house = [
        package("millstream-base", &[]),
        package("millstream-cc", &["millstream-base", "serde"]),
        package("millstream-ring", &["millstream-stack", "libc"]),
        package("millstream-stack", &["millstream-ring"]),
        package("millstream-attic", &[]),
        package("xtask", &["serde_json"]),
    ];
    let found = complaints(&house);
    assert_eq!(
        found,
        [
            "millstream-cc/Cargo.toml: core/cc must not import `serde`",
            "millstream-ring/Cargo.toml: `ring` must not import `stack`",
            "millstream-attic/Cargo.toml: `attic` is not in the table of crates (xtask/src/tidy/imports.rs)",
        ]
    );
}
