//! The library as it is installed, and programs against it.

use bench::bed::{Bed, sh};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The project's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the project lies somewhere")
}

/// A bed, unless we may not make one here.
pub(crate) fn bed() -> Option<Bed> {
    let root = std::fs::read_to_string("/proc/self/status").unwrap_or_default().contains("Uid:\t0\t0");
    if !root {
        eprintln!("skipped: network namespaces need root");
        return None;
    }
    Some(Bed::new(true).expect("a bed of two namespaces"))
}

/// The archive that cargo has built for these tests: the newest, if there were others before.
fn archive() -> PathBuf {
    let tests = std::env::current_exe().expect("a program knows where it is");
    let folder = tests.parent().expect("it lies in a folder");
    let archives = folder.read_dir().expect("it can be read").flatten().filter(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("libmillstream_c") && name.ends_with(".a")
    });
    let newest = archives.max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok());
    newest.unwrap_or_else(|| panic!("no libmillstream_c.a in {}", folder.display())).path()
}

/// Installs the library once, as a person would; where it is.
pub(crate) fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
        let prefix = home.join("usr");
        let (archive, out) = (archive(), home.join("build"));
        let said = sh(
            "make",
            &[
                "-C",
                env!("CARGO_MANIFEST_DIR"),
                "install",
                &format!("ARCHIVE={}", archive.display()),
                &format!("OUT={}", out.display()),
                &format!("PREFIX={}", prefix.display()),
            ],
        );
        said.unwrap_or_else(|e| panic!("{e}"));
        prefix
    })
}

/// Returns pkg-config's output for the installed library.
pub(crate) fn pkg_config(what: &str) -> Vec<String> {
    let path = format!("PKG_CONFIG_PATH={}/lib/pkgconfig", prefix().display());
    let said = sh("env", &[&path, "pkg-config", what, "millstream"]).unwrap_or_else(|e| panic!("{e}"));
    said.split_whitespace().map(str::to_owned).collect()
}

/// Compiles a program against the library, every warning an error; where it is.
pub(crate) fn compile(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let program = prefix().join("bin").join(name);
    std::fs::create_dir_all(prefix().join("bin")).expect("a folder for programs");
    let (rest, source) = (pkg_config("--cflags"), root().join(source));
    let libs = pkg_config("--libs");
    let rpath = format!("-Wl,-rpath,{}/lib", prefix().display());
    let mut args = vec!["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-o"];
    let (program_text, source_text) = (program.to_string_lossy(), source.to_string_lossy());
    args.extend([&*program_text, &*source_text, &*rpath, "-pthread"]);
    args.extend(flags);
    args.extend(rest.iter().chain(&libs).map(String::as_str));
    sh("cc", &args).unwrap_or_else(|e| panic!("{e}"));
    program.clone()
}

#[test]
fn make_takes_the_archive_from_where_cargo_builds() {
    let elsewhere = Path::new(env!("CARGO_TARGET_TMPDIR")).join("elsewhere");
    std::fs::create_dir_all(elsewhere.join("dist")).expect("a folder");
    std::fs::write(elsewhere.join("dist/libmillstream_c.a"), "").expect("a file");
    let target = format!("CARGO_TARGET_DIR={}", elsewhere.display());
    let said = sh("env", &[&target, "make", "-n", "-C", env!("CARGO_MANIFEST_DIR"), "install"]);
    let said = said.unwrap_or_else(|e| panic!("{e}"));
    let archive = format!("install -m 644 {}/dist/libmillstream_c.a", elsewhere.display());
    assert!(said.contains(&archive), "{said}");
}
