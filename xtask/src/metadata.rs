//! The workspace as `cargo metadata` describes it.

use serde_json::Value;

use crate::run;

/// A package of the workspace or one it depends on.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression, if the package states one.
    pub(crate) license: Option<String>,
    /// Where it came from; nothing for a package of this workspace.
    pub(crate) source: Option<String>,
    /// Path of its Cargo.toml.
    pub(crate) manifest: String,
    /// Packages it needs to run or to build, not to test.
    pub(crate) dependencies: Vec<String>,
    /// Packages that only its tests need.
    pub(crate) test_dependencies: Vec<String>,
    /// Root source files of its libraries and programs; examples and tests are neither.
    pub(crate) roots: Vec<String>,
    /// Is there a program of tests beside the library?
    pub(crate) has_tests: bool,
}

/// The packages of this workspace.
pub(crate) fn workspace() -> Result<Vec<Package>, String> {
    packages(&["metadata", "--format-version", "1", "--locked", "--no-deps"])
}

/// The packages of this workspace and everything they may depend on.
pub(crate) fn everything() -> Result<Vec<Package>, String> {
    packages(&["metadata", "--format-version", "1", "--locked"])
}

fn packages(arguments: &[&str]) -> Result<Vec<Package>, String> {
    let text = run::cargo(arguments).output()?;
    let value: Value = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    Ok(list(&value["packages"]).iter().map(package).collect())
}

fn package(value: &Value) -> Package {
    let names = |for_tests: bool| {
        let of_kind = |dependency: &&Value| (dependency["kind"] == "dev") == for_tests;
        list(&value["dependencies"]).iter().filter(of_kind).map(|one| text(&one["name"])).collect()
    };
    const ASIDE: [&str; 3] = ["test", "bench", "example"];
    let aside = |kind: &Value| kind.as_str().is_some_and(|kind| ASIDE.contains(&kind));
    let builds = |target: &&Value| !list(&target["kind"]).iter().any(aside);
    Package {
        name: text(&value["name"]),
        version: text(&value["version"]),
        license: value["license"].as_str().map(str::to_owned),
        source: value["source"].as_str().map(str::to_owned),
        manifest: text(&value["manifest_path"]),
        dependencies: names(false),
        test_dependencies: names(true),
        roots: list(&value["targets"])
            .iter()
            .filter(builds)
            .map(|target| text(&target["src_path"]))
            .collect(),
        has_tests: list(&value["targets"]).iter().any(|target| target["kind"][0] == "test"),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
