//! Known vulnerabilities: the RustSec advisory database, compared with Cargo.lock's packages.
//!
//! The database is a git repository of one file per advisory. `MILLSTREAM_ADVISORY_DB` names a checkout of it;
//! otherwise it is fetched afresh. Where it cannot be had, that is said, and nothing is claimed.

use std::fs;
use std::path::{Path, PathBuf};

use semver::{Version, VersionReq};
use serde::Deserialize;

use crate::metadata::Package;
use crate::run;

const DATABASE: &str = "https://github.com/RustSec/advisory-db";
const CHECKOUT: &str = "MILLSTREAM_ADVISORY_DB";

/// One complaint for each package with an advisory that is not in `ignored`.
pub(super) fn complaints(packages: &[Package], ignored: &[String]) -> Result<Vec<String>, String> {
    let folder = match database() {
        Ok(folder) => folder,
        Err(why) => {
            println!("ADVISORIES WERE NOT CHECKED: {}", why.lines().last().unwrap_or_default());
            println!("  ({DATABASE} could not be fetched; {CHECKOUT}=FOLDER names a checkout of it)");
            return Ok(Vec::new());
        }
    };
    let mut found = Vec::new();
    let mut read = 0;
    for package in packages.iter().filter(|package| package.source.is_some()) {
        let version =
            Version::parse(&package.version).map_err(|error| format!("{}: {error}", package.name))?;
        for text in advisories_of(&folder, &package.name)? {
            read += 1;
            let advisory =
                Advisory::parse(&text).map_err(|why| format!("advisory on {}: {why}", package.name))?;
            let id = &advisory.advisory.id;
            if advisory.concerns(&version) && !ignored.contains(id) {
                let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
                found.push(format!("{} {version}: {id} {title}", package.name));
            }
        }
    }
    println!("{read} advisories on our dependencies compared, of {}", folder.display());
    Ok(found)
}

fn database() -> Result<PathBuf, String> {
    if let Some(folder) = std::env::var_os(CHECKOUT) {
        let folder = PathBuf::from(folder);
        let there = folder.join("crates").is_dir();
        return if there { Ok(folder) } else { Err(format!("{} has no folder `crates`", folder.display())) };
    }
    let folder = run::target_dir().join("advisory-db");
    if folder.join("crates").is_dir() {
        let pull = run::tool("timeout").args(["60", "git", "-C"]).args([&folder]).args([
            "pull",
            "--quiet",
            "--ff-only",
        ]);
        pull.output()?;
    } else {
        let clone = run::tool("timeout").args(["60", "git", "clone", "--quiet", "--depth", "1", DATABASE]);
        clone.args([&folder]).env("GIT_TERMINAL_PROMPT", "0").output()?;
    }
    Ok(folder)
}

fn advisories_of(database: &Path, package: &str) -> Result<Vec<String>, String> {
    let Ok(entries) = fs::read_dir(database.join("crates").join(package)) else { return Ok(Vec::new()) };
    let read =
        |entry: std::io::Result<fs::DirEntry>| entry.and_then(|entry| fs::read_to_string(entry.path()));
    entries.map(|entry| read(entry).map_err(|error| format!("advisories on {package}: {error}"))).collect()
}

/// An advisory: the block of TOML that its text begins with.
#[derive(Deserialize)]
struct Advisory {
    advisory: Facts,
    #[serde(default)]
    versions: Safe,
}

#[derive(Deserialize)]
struct Facts {
    id: String,
    withdrawn: Option<String>,
}

/// Versions without the fault.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Safe {
    patched: Vec<VersionReq>,
    unaffected: Vec<VersionReq>,
}

impl Advisory {
    fn parse(text: &str) -> Result<Self, String> {
        let block = text.split("```toml").nth(1).and_then(|rest| rest.split("```").next());
        toml::from_str(block.ok_or("it has no block of TOML")?).map_err(|error| error.to_string())
    }

    fn concerns(&self, version: &Version) -> bool {
        let mut safe = self.versions.patched.iter().chain(&self.versions.unaffected);
        self.advisory.withdrawn.is_none() && !safe.any(|range| range.matches(version))
    }
}

#[cfg(test)]
mod tests;
