//! Goal: millstream(1) says what the command's help says. `MILLSTREAM_BLESS=1 cargo test -p millstream the_page` writes
//! it.

use crate::Cli;
use clap::{Arg, Command, CommandFactory};
use std::path::Path;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/man/millstream.1");
/// Of the page's last change in kind, as mdoc(7) wants one.
const DATE: &str = "November 22, 2026";

/// Text as roff takes it, a sentence a line.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('`', "");
    let lines = text.replace(". ", ".\n");
    lines
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| if line.starts_with(['.', '\'']) { format!("\\&{line}\n") } else { format!("{line}\n") })
        .collect()
}

fn about(command: &Command) -> String {
    let text = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let end = if text.ends_with('.') || text.is_empty() { "" } else { "." };
    escaped(&format!("{text}{end}"))
}

/// An option or an operand, with its help.
fn item(arg: &Arg) -> String {
    let values: Vec<String> = arg
        .get_value_names()
        .filter(|_| arg.get_action().takes_values())
        .unwrap_or_default()
        .iter()
        .map(|name| format!(" Ar {}", name.replace('-', "\\-")))
        .collect();
    let names = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!(" Fl {short} , Fl \\-{}", long.replace('-', "\\-")),
        (None, Some(long)) => format!(" Fl \\-{}", long.replace('-', "\\-")),
        (Some(short), None) => format!(" Fl {short}"),
        (None, None) => String::new(),
    };
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let end = if help.ends_with(['.', ')']) || help.is_empty() { "" } else { "." };
    let default: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let default = if default.is_empty() {
        String::new()
    } else {
        format!("Default: {}.\n", escaped(&default.join(" ")).trim_end())
    };
    format!(".It{names}{}\n{}{default}", values.concat(), escaped(&format!("{help}{end}")))
}

fn items<'a>(args: impl Iterator<Item = &'a Arg>) -> String {
    let all: String = args.map(item).collect();
    if all.is_empty() { all } else { format!(".Bl -tag -width Ds\n{all}.El\n") }
}

/// The commands' own: not what clap adds, not what is hidden.
fn own(command: &Command) -> impl Iterator<Item = &Arg> {
    command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version"))
}

fn page() -> String {
    let mut cli = Cli::command();
    cli.build();
    let settings = cli.find_subcommand("settings").expect("it lists them");
    let of_a_stack: Vec<&str> = own(settings).map(|arg| arg.get_id().as_str()).collect();
    let mut text = format!(
        ".\\\" Made from the command's help.\n.Dd {DATE}\n.Dt MILLSTREAM 1\n.Os Millstream\n.Sh NAME\n.Nm millstream\n\
         .Nd a user\\-level TCP stack: servers, load, and a look inside\n.Sh SYNOPSIS\n.Nm\n.Ar command\n\
         .Op Ar options\n.Sh DESCRIPTION\nCommands are:\n"
    );
    for command in cli.get_subcommands().filter(|command| command.get_name() != "help") {
        let (stacks, others): (Vec<&Arg>, Vec<&Arg>) =
            own(command).partition(|arg| of_a_stack.contains(&arg.get_id().as_str()));
        text += &format!(".Ss millstream {}\n{}", command.get_name(), about(command));
        if !stacks.is_empty() {
            text += "Takes the options of a stack, which are below.\n";
        }
        text += &items(others.into_iter());
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            text += &format!(".Ss millstream {} {}\n{}", command.get_name(), inner.get_name(), about(inner));
            text += &items(own(inner));
        }
    }
    text += ".Sh OPTIONS OF A STACK\n";
    text += &items(own(settings));
    text += ".Sh EXIT STATUS\n.Ex -std\n.Sh SEE ALSO\n.Xr millstream 3\n";
    text
}

#[test]
fn the_page_is_the_help() {
    let text = page();
    if std::env::var_os("MILLSTREAM_BLESS").is_some() {
        let folder = Path::new(PAGE).parent().expect("a folder");
        std::fs::create_dir_all(folder).expect("it can be made");
        std::fs::write(PAGE, &text).expect("the page can be written");
    }
    let there = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(there == text, "{PAGE}: MILLSTREAM_BLESS=1 cargo test -p millstream the_page writes it");
}

#[test]
fn readers_take_the_page() {
    for (program, arguments) in [
        ("mandoc", &["-T", "lint", "-W", "warning"][..]),
        ("man", &["--warnings", "-E", "UTF-8", "-P", "cat", "-l"]),
    ] {
        match std::process::Command::new(program).args(arguments).arg(PAGE).output() {
            Ok(said) => {
                let warned =
                    [&said.stderr[..], if program == "mandoc" { &said.stdout } else { &[] }].concat();
                assert!(warned.is_empty(), "{program}: {}", String::from_utf8_lossy(&warned));
            }
            Err(_) => eprintln!("skipped: there is no {program}"),
        }
    }
}
