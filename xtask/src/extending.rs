//! Does what docs/EXTENDING.md says to a copy of the tree, as a reader would: its congestion control is added, and the
//! tests that the page shows pass.

use std::path::Path;

use crate::{Outcome, run};

/// Adds the page's congestion control and runs the tests of the crate.
pub(crate) fn extending() -> Outcome {
    let copy = run::target_dir().join("extending");
    copy_tree(&copy.join("tree"))?;
    let page = read(&run::root().join("docs/EXTENDING.md"))?;
    let recipe = between(&page, "## Add a congestion control", "\n## ")?;
    let blocks: Vec<String> = recipe.split("```rust,ignore\n").skip(1).map(unindented).collect();
    let [law, tests] = &blocks[..] else {
        return Err(format!("docs/EXTENDING.md: {} blocks of Rust for a policy: expected 2", blocks.len()));
    };
    let cc = copy.join("tree/crates/core/cc/src");
    let tests = format!(
        "{law}\n#[cfg(test)]\nmod tests {{\n    use super::*;\n    use crate::testing::Lab;\n\n{tests}}}\n"
    );
    std::fs::write(cc.join("scalable.rs"), tests).map_err(|error| error.to_string())?;
    change(&cc.join("lib.rs"), "mod reno;", "mod reno;\nmod scalable;")?;
    change(&cc.join("lib.rs"), "pub use reno::Reno;", "pub use reno::Reno;\npub use scalable::Scalable;")?;
    let registry = cc.join("registry.rs");
    let row = "(Scalable::NAME, Make::Boxed(|| Box::new(Scalable::new())))";
    named(recipe, row)?;
    change(&registry, "BUILT_IN: [(&str, Make); 11]", "BUILT_IN: [(&str, Make); 12]")?;
    // The first row is the default.
    let last = "    (Prague::NAME, Make::Boxed(|| Box::new(Prague::new()))),\n";
    change(&registry, last, &format!("{last}    {row},\n"))?;
    change(&registry, "    Bbr, Cdg,", "    Scalable, Bbr, Cdg,")?;
    let promise = "Scalable::NAME => 9";
    named(recipe, promise)?;
    change(
        &cc.join("model.rs"),
        "            _ => 7,\n",
        &format!("            crate::{promise},\n            _ => 7,\n"),
    )?;
    let manifest = copy.join("tree/Cargo.toml");
    run::cargo(&["test", "--quiet", "--locked", "--package", "millstream-cc", "--manifest-path"])
        .args([&manifest])
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .check()
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

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the text from `begin` to the next `end`.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Result<&'a str, String> {
    let (_, rest) = text.split_once(begin).ok_or_else(|| format!("docs/EXTENDING.md: no `{begin}`"))?;
    Ok(rest.split_once(end).map_or(rest, |(inside, _)| inside))
}

/// Returns a block of a list's item, up to its fence.
fn unindented(block: &str) -> String {
    let lines = block.lines().take_while(|line| line.trim() != "```");
    lines.map(|line| format!("{}\n", line.strip_prefix("   ").unwrap_or(line))).collect()
}

/// Refuses a recipe that does not have these words.
fn named(recipe: &str, words: &str) -> Outcome {
    if recipe.contains(words) { Ok(()) } else { Err(format!("docs/EXTENDING.md: no `{words}`")) }
}

/// Replaces `old`, which the file has once.
fn change(path: &Path, old: &str, new: &str) -> Outcome {
    let text = read(path)?;
    if text.matches(old).count() != 1 {
        return Err(format!("{}: `{old}` is there {} times", path.display(), text.matches(old).count()));
    }
    std::fs::write(path, text.replacen(old, new, 1)).map_err(|error| format!("{}: {error}", path.display()))
}
