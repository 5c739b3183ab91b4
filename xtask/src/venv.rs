//! Environments of Python, one for each list of packages.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run;

/// The folder of the environment called `name` with the packages of the last of `lists` (which may name the others),
/// made when a list is another than last time.
pub(crate) fn with(name: &str, lists: &[&str]) -> Result<PathBuf, String> {
    let folder = run::target_dir().join(name);
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let texts: Result<Vec<String>, String> = lists.iter().map(|list| read(&run::root().join(list))).collect();
    let (wanted, made) = (texts?.concat(), folder.join("made-of.txt"));
    if fs::read_to_string(&made).is_ok_and(|made| made == wanted) {
        return Ok(folder);
    }
    run::tool("python3").args(["-m", "venv", "--clear"]).args([&folder]).check()?;
    // Networks fail for a moment.
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "5", "-r"];
    run::tool(&python(&folder)).args(install).args(lists.last()).check()?;
    fs::write(&made, wanted).map_err(|error| format!("{}: {error}", made.display()))?;
    Ok(folder)
}

/// Its interpreter.
pub(crate) fn python(folder: &Path) -> String {
    folder.join("bin/python").to_string_lossy().into_owned()
}
