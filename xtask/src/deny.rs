//! Dependencies: their licences, sources and known vulnerabilities. The rules stand in
//! `deny.toml`, in the words that cargo-deny reads too.

mod advisories;

use std::fs;

use spdx::{Expression, ParseMode};
use toml::Table;

use crate::metadata::{self, Package};
use crate::{Outcome, run};

pub(crate) fn deny() -> Outcome {
    let text =
        fs::read_to_string(run::root().join("deny.toml")).map_err(|error| format!("deny.toml: {error}"))?;
    let rules: Table = text.parse().map_err(|error| format!("deny.toml: {error}"))?;
    let allowed = words(&rules, "licenses", "allow");
    let registries = words(&rules, "sources", "allow-registry");
    let packages = metadata::everything()?;
    let mut complaints: Vec<String> =
        packages.iter().filter_map(|package| license_complaint(package, &allowed)).collect();
    complaints.extend(packages.iter().filter_map(|package| source_complaint(package, &registries)));
    let foreign = packages.iter().filter(|package| package.source.is_some()).count();
    println!("{foreign} packages from elsewhere: licences and sources compared with deny.toml");
    complaints.extend(advisories::complaints(&packages, &words(&rules, "advisories", "ignore"))?);
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n")) }
}

fn license_complaint(package: &Package, allowed: &[String]) -> Option<String> {
    let stated = package.license.as_deref().unwrap_or("");
    if is_allowed(stated, allowed) {
        return None;
    }
    Some(format!("{} {}: licence `{stated}` is not allowed by deny.toml", package.name, package.version))
}

/// Returns true if the allowed licences alone meet an SPDX expression. One that cannot be read is not met.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    Expression::parse_mode(expression, ParseMode::LAX)
        .is_ok_and(|expression| expression.evaluate(|license| allowed.contains(&license.to_string())))
}

fn source_complaint(package: &Package, registries: &[String]) -> Option<String> {
    let source = package.source.as_deref()?;
    let known =
        source.strip_prefix("registry+").is_some_and(|url| registries.iter().any(|known| known == url));
    (!known).then(|| format!("{} {}: comes from {source}", package.name, package.version))
}

fn words(rules: &Table, section: &str, key: &str) -> Vec<String> {
    let list = rules.get(section).and_then(|section| section.get(key)).and_then(|list| list.as_array());
    list.into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests;
