//! The proof that core/* does no I/O: all of it, linked into one WebAssembly module, asks its host for nothing.
//! A module reaches the outside only through its import section, and this one's is empty.
//!
//! The module is a `no_std` library that calls the widest function of every core room. Were one of them to
//! bring in std, its panic handler would meet the probe's own, and the build would fail.

use std::fs;
use std::path::{Path, PathBuf};

use wasmparser::{Parser, Payload};

use crate::{Outcome, run};

const TARGET: &str = "wasm32-unknown-unknown";

/// The core crates, with functions of bytes that reach as much of each as one can: what is not reached is not
/// linked. The others reach base.
const ROOTS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("wire", &["wire::fuzz::any_frame"]),
    ("cc", &["cc::fuzz"]),
    ("offload", OFFLOAD),
    ("tcp", TCP),
];

const OFFLOAD: &[&str] = &["offload::fuzz::merged_runs"];

const TCP: &[&str] = &[
    "tcp::fuzz::assembler",
    "tcp::fuzz::chain",
    "tcp::fuzz::send_buffer",
    "tcp::fuzz::connection",
    "tcp::fuzz::cookie",
    "tcp::fuzz::rtt",
    "tcp::fuzz::scoreboard",
    "tcp::fuzz::time_wait",
];

/// Code that a module without a host needs, so that the core crates meet no std.
const FOUNDATION: &str = r#"#![no_std]
extern crate alloc;
use core::alloc::{GlobalAlloc, Layout};
struct Nothing;
// SAFETY: it hands out no memory at all, which an allocator may do.
unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 { core::ptr::null_mut() }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
#[global_allocator]
static NOTHING: Nothing = Nothing;
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }
"#;

/// Code that core/* must not contain.
const ASKS: &str = r#"
#[link(wasm_import_module = "host")]
unsafe extern "C" { fn clock() -> u64; }
// SAFETY: it is never run, only linked.
#[unsafe(no_mangle)]
pub extern "C" fn probe() -> u64 { unsafe { clock() } }
"#;

pub(crate) fn prove() -> Outcome {
    let core = core_rooms()?;
    if let Some(room) = core.iter().find(|room| ROOTS.iter().all(|(known, _)| known != room)) {
        return Err(format!(
            "core/{room} has no row in ROOTS (xtask/src/wasm.rs): the proof would leave it out"
        ));
    }
    let calls: String =
        ROOTS.iter().flat_map(|(_, roots)| *roots).map(|root| format!("    {root}(data);\n")).collect();
    let body = format!(
        "pub extern \"C\" fn probe(data: &'static &'static [u8]) {{\n    let data = *data;\n{calls}}}"
    );
    let module = build("wasm-probe", &core, &format!("{FOUNDATION}\n#[unsafe(no_mangle)]\n{body}\n"))?;
    let imports = imports(&module).map_err(|why| format!("the module is damaged: {why}"))?;
    if !imports.is_empty() {
        return Err(format!("core/* asks its host for {}", imports.join(", ")));
    }
    the_proof_can_fail()?;
    println!("core/{{{}}} as one wasm module of {} bytes imports nothing", core.join(","), module.len());
    Ok(())
}

/// A module that does import something must not pass, or the proof would prove nothing.
fn the_proof_can_fail() -> Outcome {
    let module = build("wasm-counterproof", &[], &format!("{FOUNDATION}\n{ASKS}"))?;
    match imports(&module) {
        Ok(imports) if imports == ["host.clock"] => Ok(()),
        other => Err(format!("a module that imports host.clock was read as {other:?}")),
    }
}

/// Every import of a module, as `module.name`.
fn imports(module: &[u8]) -> wasmparser::Result<Vec<String>> {
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::ImportSection(section) = payload? {
            for import in section.into_imports() {
                let import = import?;
                found.push(format!("{}.{}", import.module, import.name));
            }
        }
    }
    Ok(found)
}

fn core_rooms() -> Result<Vec<String>, String> {
    let folder = run::root().join("crates/core");
    let entries = fs::read_dir(&folder).map_err(|error| told(&folder, &error))?;
    let mut rooms: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    rooms.sort();
    Ok(rooms)
}

/// Builds a library of `source` over the named core crates and returns the module.
fn build(name: &str, rooms: &[String], source: &str) -> Result<Vec<u8>, String> {
    let folder = run::target_dir().join(name);
    let paths = rooms.iter().map(|room| {
        let path = run::root().join("crates/core").join(room);
        format!("{room} = {{ package = \"millstream-{room}\", path = {path:?} }}\n")
    });
    let manifest = format!(
        "[package]\nname = \"{name}\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n\
         [profile.release]\npanic = \"abort\"\n[dependencies]\n{}",
        paths.collect::<String>()
    );
    write(&folder.join("Cargo.toml"), &manifest)?;
    write(&folder.join("src/lib.rs"), source)?;
    let out = run::target_dir().join("wasm");
    run::cargo(&["build", "--quiet", "--release", "--target", TARGET, "--manifest-path"])
        .args([folder.join("Cargo.toml")])
        .env("CARGO_TARGET_DIR", &out)
        .check()?;
    let module = out.join(TARGET).join("release").join(format!("{}.wasm", name.replace('-', "_")));
    fs::read(&module).map_err(|error| told(&module, &error))
}

/// Writes only what changed, so that nothing is built again without need.
fn write(path: &PathBuf, text: &str) -> Outcome {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).and_then(|()| fs::write(path, text)).map_err(|error| told(path, &error))
}

fn told(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests;
