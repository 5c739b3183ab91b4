//! `budgets.toml`, read and written.

use crate::bed::sh;
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::PathBuf;

const HEAD: &str = "\
# What the hot paths may cost, in instructions that callgrind counts. `cargo xtask ci budgets` counts them again and
# fails when one has grown by more than 3 %. Who wants that nevertheless, and who made one cheaper, says so here:
#
#     cargo xtask bench budgets --bless \"REASON\"
#
# writes the figures that moved, with the day and the reason. Figures are of both ends together where none is named.
";

/// A row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Budget {
    pub(super) name: String,
    pub(super) instructions: f64,
    /// The day, `YYYY-MM-DD`.
    pub(super) changed: String,
    pub(super) reason: String,
}

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Budgets {
    /// Tools of the count.
    pub(super) tools: String,
    #[serde(rename = "budget")]
    pub(super) rows: Vec<Budget>,
}

fn path() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "budgets.toml"].iter().collect()
}

impl Budgets {
    pub(super) fn read() -> Result<Budgets, String> {
        let path = path();
        let told = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        toml::from_str(&std::fs::read_to_string(&path).map_err(|e| told(&e))?).map_err(|e| told(&e))
    }

    pub(super) fn write(&self) -> Result<(), String> {
        let path = path();
        std::fs::write(&path, self.text()).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn text(&self) -> String {
        let mut text = format!("{HEAD}tools = {:?}\n", self.tools);
        for Budget { name, instructions, changed, reason } in &self.rows {
            let _ = write!(
                text,
                "\n[[budget]]\nname = {name:?}\ninstructions = {instructions:.0}\nchanged = {changed:?}\n\
                 reason = {reason:?}\n"
            );
        }
        text
    }
}

/// Returns the versions of the tools that decide a count besides the code: the compiler, the counter, and the C
/// library with its copies.
pub(super) fn tools() -> Result<String, String> {
    let first = |text: String| text.lines().next().unwrap_or_default().to_string();
    let rustc = first(sh("rustc", &["--version"])?);
    let valgrind = first(sh("valgrind", &["--version"]).map_err(|e| format!("{e}; install valgrind"))?);
    let libc = first(sh("getconf", &["GNU_LIBC_VERSION"])?);
    Ok(format!("{rustc}, {valgrind}, {libc}"))
}

/// Today.
pub(super) fn today() -> Result<String, String> {
    Ok(sh("date", &["-u", "+%F"])?.trim().into())
}

#[cfg(test)]
mod tests;
