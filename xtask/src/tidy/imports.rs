//! Allowed imports: down, or sideways to the right, as docs/ARCHITECTURE.md draws it.

use crate::metadata::Package;

/// A crate and the crates that it may call directly. A new package takes a row here and in docs/ARCHITECTURE.md.
const ROOMS: &[(&str, &[&str])] = &[
    // core: pure, and nothing from outside the workspace.
    ("base", &[]),
    ("wire", &["base"]),
    ("cc", &["base"]),
    ("offload", &["base", "wire"]),
    ("tcp", &["base", "wire", "cc"]),
    // host
    ("policy", &["base", "cc"]),
    ("sign", &["tcp"]),
    ("ring", &["base"]),
    ("pio", &["base", "wire", "offload", "ring"]),
    ("usdt", &[]),
    ("trace", &["base", "wire", "cc", "tcp", "ring", "pio", "usdt"]),
    ("stack", &["base", "wire", "cc", "tcp", "offload", "ring", "pio", "usdt", "trace"]),
    ("sock", &["base", "wire", "cc", "tcp", "offload", "policy", "sign", "ring", "pio", "trace", "stack"]),
    // lab
    ("emu", &["base", "wire", "cc", "offload", "tcp", "ring", "pio", "trace", "stack", "sock"]),
    ("drill", &["base", "wire", "cc", "tcp", "ring", "pio", "trace", "stack", "sock", "emu"]),
    (
        "lab",
        &["base", "wire", "cc", "offload", "tcp", "policy", "ring", "pio", "trace", "stack", "sock", "emu"],
    ),
    ("bench", &["base", "wire", "cc", "tcp", "ring", "pio", "trace", "stack", "sock", "emu", "lab"]),
    (
        "differ",
        &["base", "wire", "cc", "tcp", "ring", "pio", "trace", "stack", "sock", "emu", "drill", "bench"],
    ),
    ("fuzz", &["base", "wire", "cc", "tcp", "offload", "ring", "pio", "stack", "drill"]),
    // apps
    // `bench` makes the bed of its tests.
    ("capi", &["base", "policy", "sock", "bench"]),
    // The C API answers as Linux does, on connections that programs do not know to be ours.
    ("preload", &["base", "sock", "capi"]),
    ("python", &["base", "sock"]),
    ("quic", &["base", "wire", "cc", "pio", "emu"]),
    ("drill-plugin", &["base", "stack", "sock", "drill", "capi"]),
    (
        "millstream",
        &[
            "base", "wire", "cc", "tcp", "pio", "usdt", "trace", "stack", "sock", "emu", "drill", "lab",
            "bench", "preload",
        ],
    ),
];

const CORE: &[&str] = &["base", "wire", "cc", "offload", "tcp"];

/// The tool itself stands outside the house.
const OUTSIDE: &str = "xtask";

/// Name of a package in the table.
pub(super) fn room(package: &str) -> &str {
    package.strip_prefix("millstream-").unwrap_or(package)
}

/// Every import that goes up, and every core room that leans on the outside world.
pub(super) fn complaints(packages: &[Package]) -> Vec<String> {
    let inside = |name: &str| packages.iter().any(|package| package.name == name);
    let mut found = Vec::new();
    for package in packages.iter().filter(|package| package.name != OUTSIDE) {
        let name = room(&package.name);
        let Some((_, allowed)) = ROOMS.iter().find(|(known, _)| *known == name) else {
            found.push(format!(
                "{}: `{name}` is not in the table of crates (xtask/src/tidy/imports.rs)",
                package.manifest
            ));
            continue;
        };
        for dependency in &package.dependencies {
            if inside(dependency) && !allowed.contains(&room(dependency)) {
                found.push(format!("{}: `{name}` must not import `{}`", package.manifest, room(dependency)));
            }
            if !inside(dependency) && CORE.contains(&name) {
                found.push(format!("{}: core/{name} must not import `{dependency}`", package.manifest));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
