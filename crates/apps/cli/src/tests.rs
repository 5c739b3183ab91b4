//! Goal: no command's flags contradict each other; docs/BOUNDARY.md is what the command prints.

mod man;
pub(crate) mod testing;

use super::*;
use clap::CommandFactory;

#[test]
fn the_page_of_the_boundary_is_what_the_command_prints() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/BOUNDARY.md");
    // `cargo xtask differ reasons` writes what follows.
    const REST: &str = "\n## Generated programs of calls\n";
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (printed, rest) = page.split_at(page.find(REST).unwrap_or(page.len()));
    if std::env::var_os("MILLSTREAM_BLESS").is_some() {
        std::fs::write(PAGE, sock::boundary::page() + rest).unwrap();
        return;
    }
    assert!(
        printed == sock::boundary::page(),
        "docs/BOUNDARY.md: MILLSTREAM_BLESS=1 cargo test -p millstream boundary writes it"
    );
}

/// Calls `each` for every command, with the words that lead to it.
fn every(command: &mut clap::Command, words: &str, each: &mut dyn FnMut(&mut clap::Command, &str)) {
    each(command, words);
    for inner in command.get_subcommands_mut() {
        let words = format!("{words} {}", inner.get_name());
        every(inner, &words, each);
    }
}

#[test]
fn the_help_of_every_command_lists_every_flag_that_it_takes() {
    let mut all = Cli::command();
    all.build();
    every(&mut all, "millstream", &mut |command, words| {
        let help = command.render_long_help().to_string();
        for arg in command.get_arguments() {
            let name = match (arg.get_long(), arg.get_value_names()) {
                (Some(long), _) => format!("--{long}"),
                (None, Some([name, ..])) => name.to_string(),
                other => panic!("{words}: {other:?}"),
            };
            assert!(help.contains(&name) && !arg.is_hide_set(), "{words}: {name} is not in\n{help}");
            assert!(arg.get_help().is_some(), "{words}: {name} is not explained");
        }
    });
}

/// Advice of the form `millstream COMMAND --flag`, in messages and pages, names commands and flags that there are.
#[test]
fn advice_names_commands_and_flags_that_there_are() {
    fn files(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() && !entry.ends_with("target") {
                files(&entry, found);
            } else if entry.extension().is_some_and(|ending| ending == "rs" || ending == "md") {
                found.push(entry);
            }
        }
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut found = Vec::new();
    ["crates", "docs"].iter().for_each(|folder| files(&root.join(folder), &mut found));
    let (mut all, mut seen) = (Cli::command(), 0);
    all.build();
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        for advice in text.split("`millstream ").skip(1).filter_map(|rest| rest.split('`').next()) {
            // Lines of a string or a comment that goes on.
            let words = advice.split_whitespace().filter(|word| !["\\", "///", "//!", "//"].contains(word));
            let words: Vec<_> = words.take_while(|word| *word != "--").collect();
            let Some((name, rest)) =
                words.split_first().filter(|(name, _)| name.starts_with(char::is_lowercase))
            else {
                continue;
            };
            let mut command =
                all.find_subcommand(name).unwrap_or_else(|| panic!("{}: {advice}", path.display()));
            for word in rest {
                command = command.find_subcommand(word).unwrap_or(command);
                let Some(flag) = word.strip_prefix("--") else { continue };
                let flag = flag.split(['=', ',', '.', ')']).next().unwrap_or(flag);
                let known = command.get_arguments().any(|arg| arg.get_long() == Some(flag));
                assert!(known, "{}: `millstream {advice}`: {name} has no --{flag}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen} flags in advice");
}

#[test]
fn every_command_can_be_parsed() {
    Cli::command().debug_assert();
}
