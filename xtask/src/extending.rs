//! Does what docs/EXTENDING.md says to a copy of the tree, as a reader would: a congestion control, a socket option and
//! a TCP option are added, and the tests of the crates pass.
//!
//! A step of the page names its file in bold. A block of Rust in it is written at the end of that file, a block of
//! differences changes lines of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::{Outcome, run};

const PAGE: &str = "docs/EXTENDING.md";

/// Parts of the page, and the most source files that each may change, tests not counted.
const RECIPES: [(&str, usize); 3] =
    [("## Add a congestion control", 4), ("## Add a socket option", 4), ("## Add a TCP option", 6)];

/// Adds all three to a copy, and runs the tests of the crates.
pub(crate) fn extending() -> Outcome {
    let copy = run::target_dir().join("extending");
    let tree = copy.join("tree");
    copy_tree(&tree)?;
    for (file, text) in extended(&read(PAGE)?)? {
        std::fs::write(tree.join(&file), text).map_err(|error| format!("{file}: {error}"))?;
    }
    let cargo = |arguments: &[&str]| {
        let run = run::cargo(&["test", "--quiet", "--locked", "--manifest-path"]);
        run.args([tree.join("Cargo.toml")]).args(arguments).env("CARGO_TARGET_DIR", copy.join("target"))
    };
    // The pages of settings and options get their new rows.
    cargo(&["--package", "millstream-sock", "--test", "reference"]).env("MILLSTREAM_BLESS", "1").check()?;
    cargo(&["--package", "millstream-cc", "--package", "millstream-wire", "--package", "millstream-tcp"])
        .check()?;
    cargo(&["--package", "millstream-sock", "--lib", "--test", "engine"]).check()
}

/// Returns the files that the page changes, as they are when all its steps are done.
fn extended(page: &str) -> Result<BTreeMap<String, String>, String> {
    let mut files = BTreeMap::new();
    for (heading, most) in RECIPES {
        let blocks = blocks(recipe(page, heading)?)?;
        let sources: BTreeSet<_> =
            blocks.iter().map(|block| block.file).filter(|file| is_source(file)).collect();
        if sources.len() > most {
            return Err(format!(
                "{PAGE}: `{heading}` changes {} files, not {most}: {sources:?}",
                sources.len()
            ));
        }
        for Block { file, is_diff, text } in blocks {
            let old = match files.remove(file) {
                Some(old) => old,
                None if !is_diff && !run::root().join(file).exists() => String::new(),
                None => read(file)?,
            };
            let wrong = |why| format!("{PAGE}: {file}: {why}");
            let new = if is_diff { changed(&old, &text).map_err(wrong)? } else { old + &text };
            files.insert(file.to_owned(), new);
        }
    }
    Ok(files)
}

/// A block of the page.
struct Block<'a> {
    file: &'a str,
    is_diff: bool,
    text: String,
}

/// Returns the blocks of a recipe, each with the file that the last words in bold before it name.
fn blocks(recipe: &str) -> Result<Vec<Block<'_>>, String> {
    let mut found = Vec::new();
    let (mut file, mut lines) = (None, recipe.lines());
    while let Some(line) = lines.next() {
        let bold = line.split("**`").skip(1).filter_map(|rest| Some(rest.split_once("`**")?.0));
        file = bold.last().or(file);
        let Some(kind) = line.trim_start().strip_prefix("```") else { continue };
        let indent = line.len() - line.trim_start().len();
        let inside = lines.by_ref().take_while(|line| line.trim() != "```");
        // Commands to see it work change nothing.
        if kind != "diff" && !kind.starts_with("rust") {
            inside.for_each(drop);
            continue;
        }
        let file = file.ok_or_else(|| format!("{PAGE}: a block before any file is named"))?;
        let text = inside.map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect();
        found.push(Block { file, is_diff: kind == "diff", text });
    }
    Ok(found)
}

/// Returns `text` with the differences made: parts between lines of `@@`, each of which fits in one place.
fn changed(text: &str, differences: &str) -> Result<String, String> {
    let mut text = text.to_owned();
    for part in differences.split("@@\n") {
        let side = |sign: char| -> String {
            let lines = part.lines().filter(|line| line.is_empty() || line.starts_with([' ', sign]));
            lines.map(|line| format!("{}\n", line.get(1..).unwrap_or_default())).collect()
        };
        let (old, new) = (side('-'), side('+'));
        match text.matches(&old).count() {
            1 => text = text.replacen(&old, &new, 1),
            times => return Err(format!("this is there {times} times, not once:\n{old}")),
        }
    }
    Ok(text)
}

/// Neither tests nor models that tests play.
fn is_source(file: &str) -> bool {
    !file.contains("/tests/") && !file.ends_with("tests.rs") && !file.ends_with("/fuzz.rs")
}

/// Copies every file of the checkout to `folder`, which is made anew.
fn copy_tree(folder: &Path) -> Outcome {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(wrong)?;
    }
    let files = run::tool("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]).output()?;
    for name in files.lines().filter(|name| run::root().join(name).is_file()) {
        let to = folder.join(name);
        std::fs::create_dir_all(to.parent().unwrap_or(folder)).map_err(wrong)?;
        std::fs::copy(run::root().join(name), to).map_err(wrong)?;
    }
    Ok(())
}

fn read(file: &str) -> Result<String, String> {
    std::fs::read_to_string(run::root().join(file)).map_err(|error| format!("{file}: {error}"))
}

/// Returns the part of the page under a heading.
fn recipe<'a>(page: &'a str, heading: &str) -> Result<&'a str, String> {
    let (_, rest) = page.split_once(heading).ok_or_else(|| format!("{PAGE}: no `{heading}`"))?;
    Ok(rest.split_once("\n## ").map_or(rest, |(inside, _)| inside))
}

#[cfg(test)]
mod tests;
