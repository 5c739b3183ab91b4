//! A test for every script under suites/ and every profile that it is meant for.
#![forbid(unsafe_code)]

use std::fmt::Write;
use std::path::Path;

const PROFILES: &[&str] = &["linux", "freebsd", "rfc", "default"];

fn main() {
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where")).join("suites");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut out = String::new();
    folder(&root, "", &mut out);
    let path = Path::new(&std::env::var("OUT_DIR").expect("cargo says where")).join("suites.rs");
    std::fs::write(path, out).expect("cargo's own folder");
}

/// A module for a folder, a test for a script and a profile.
fn folder(path: &Path, name: &str, out: &mut String) {
    let mut inside: Vec<_> = std::fs::read_dir(path)
        .expect("a folder of suites/")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    inside.sort();
    for path in inside {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().replace(['-', '.'], "_");
        let name = format!("{name}{}{stem}", if name.is_empty() { "" } else { "/" });
        if path.is_dir() {
            writeln!(out, "mod {stem} {{").expect("a string takes everything");
            folder(&path, &name, out);
            writeln!(out, "}}").expect("a string takes everything");
        } else if path.extension().is_some_and(|extension| extension == "pkt") {
            println!("cargo:rerun-if-changed={}", path.display());
            script(&path, &stem, out);
        }
    }
}

fn script(path: &Path, stem: &str, out: &mut String) {
    let source = std::fs::read_to_string(path).expect("a readable script");
    let line = source.lines().find_map(|line| line.strip_prefix("// profiles: "));
    let chosen: Vec<&str> = line.map_or(PROFILES.to_vec(), |line| line.split_whitespace().collect());
    // What ships is judged by every script, or the script says why its answer is another.
    let excused = source.lines().any(|line| line.starts_with("// not default: "));
    let named = chosen.contains(&"default");
    assert!(
        named != excused,
        "{}: either the profile default runs it, or a line `// not default: REASON` says why not",
        path.display()
    );
    for profile in chosen {
        let known = PROFILES.contains(&profile);
        assert!(known, "{}: there is no profile {profile}", path.display());
        writeln!(
            out,
            "#[test] fn {stem}_{profile}() {{ crate::drill({:?}, {profile:?}); }}",
            path.display().to_string()
        )
        .expect("a string takes everything");
    }
}
