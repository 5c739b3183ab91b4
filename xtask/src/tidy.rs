//! House rules that a compiler does not check: how long files are, what was left over, where unsafe may live, which
//! crate may import which, and whether docs/ARCHITECTURE.md names what exists.

mod circles;
mod files;
mod imports;
mod pages;

pub(crate) use circles::show as circles;

use std::fs;

use crate::{Outcome, metadata, run};

pub(crate) fn tidy() -> Outcome {
    let mut complaints = Vec::new();
    let listing = run::tool("git").args(["ls-files", "-z", "-c", "-o", "--exclude-standard"]).output()?;
    let mut paths = Vec::new();
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        // Listed but gone: deleted and not yet committed. Not text: nothing of ours to read.
        let Ok(text) = fs::read_to_string(run::root().join(path)) else { continue };
        paths.push(path);
        complaints.extend(files::complaints(path, &text));
    }
    let packages = metadata::workspace()?;
    complaints.extend(imports::complaints(&packages));
    complaints.extend(circles::complaints(&packages)?);
    complaints.extend(unsafe_complaints(&packages)?);
    complaints.extend(pages::complaints(&paths));
    if complaints.is_empty() {
        println!("{} files and {} packages are tidy", paths.len(), packages.len());
        return Ok(());
    }
    complaints.sort();
    Err(format!("{}\n{} complaints", complaints.join("\n"), complaints.len()))
}

/// The crates whose work needs unsafe code: memory shared with the kernel, other processes, C and tracers.
const UNSAFE_ROOMS: &[&str] = &[
    "millstream-ring",
    "millstream-pio",
    "millstream-policy",
    "millstream-usdt",
    "millstream-capi",
    "millstream-preload",
    "millstream-drill-plugin",
];

fn unsafe_complaints(packages: &[metadata::Package]) -> Result<Vec<String>, String> {
    let mut complaints = Vec::new();
    for package in packages.iter().filter(|package| !UNSAFE_ROOMS.contains(&package.name.as_str())) {
        for root in &package.roots {
            let text = fs::read_to_string(root).map_err(|error| format!("{root}: {error}"))?;
            if !text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]") {
                complaints.push(format!("{root}: a crate root without #![forbid(unsafe_code)]"));
            }
        }
    }
    Ok(complaints)
}
