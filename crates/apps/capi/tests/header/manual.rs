//! Goal: the manual pages of section 3 say what the functions' documentation says: one page for each file of functions,
//! and one for the library. `cargo xtask headers` writes them; `make install` puts them under each function's name.

use super::{HEADERS, functions, home, read};
use std::fs;
use std::process::Command;

/// Of the pages' last change in kind, as mdoc(7) wants one.
const DATE: &str = "November 22, 2026";
/// Errors of any call, and their causes.
const ERRORS: &[(&str, &str)] = &[
    ("EFAULT", "There is no context, or NULL where memory must be."),
    ("EBADF", "The descriptor is none of this context's."),
    ("EDEADLK", "A function that the stack calls and waits for has called the stack."),
    ("ECHILD", "The process was forked after the context was opened."),
    ("EIO", "A fault in the stack, which ms_error(3) describes."),
];

/// Text as roff takes it: a sentence a line, which editors like, and nothing that would be taken for an instruction.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let mut quoted = false;
    let text: String = text
        .chars()
        .map(|c| match c {
            '`' => {
                quoted = !quoted;
                (if quoted { "\\fI" } else { "\\fP" }).to_string()
            }
            other => other.to_string(),
        })
        .collect();
    let lines = text.replace(". ", ".\n").replace("; ", ";\n");
    lines
        .lines()
        .map(|line| if line.starts_with(['.', '\'']) { format!("\\&{line}\n") } else { format!("{line}\n") })
        .collect()
}

/// Paragraphs of documentation.
fn paragraphs(doc: &[String]) -> String {
    let text = doc.join("\n");
    let each = text.split("\n\n").map(|paragraph| escaped(paragraph.replace('\n', " ").trim()));
    each.filter(|paragraph| !paragraph.is_empty()).collect::<Vec<_>>().join(".Pp\n")
}

fn head(title: &str, source: &str) -> String {
    format!(
        ".\\\" Made from {source} by `cargo xtask headers`.\n.Dd {DATE}\n.Dt {} 3\n.Os Millstream\n.Sh NAME\n",
        title.to_uppercase()
    )
}

const LIBRARY: &str =
    ".Sh LIBRARY\nMillstream (libmillstream, \\-lmillstream)\n.Sh SYNOPSIS\n.In millstream.h\n";

fn errors() -> String {
    let rows: String =
        ERRORS.iter().map(|(name, when)| format!(".It Bq Er {name}\n{}", escaped(when))).collect();
    format!(
        ".Sh ERRORS\nErrors are those of the calls of Linux, and of any call:\n.Bl -tag -width Er\n{rows}.El\n"
    )
}

/// A page: its name and its text.
fn page(file: &str) -> (String, String) {
    let source = read(&home().join("src/calls").join(format!("{file}.rs")));
    let title = source.lines().find_map(|line| line.strip_prefix("//! ")).expect("a title");
    let all = functions(&source);
    let name = all[0].name.clone();
    let mut text = head(&name, &format!("src/calls/{file}.rs"));
    let names: Vec<String> = all.iter().map(|function| format!(".Nm {}", function.name)).collect();
    text += &names.join(" ,\n");
    text += &format!("\n.Nd {}\n", escaped(title.trim_end_matches('.')).trim_end().replace('\n', " "));
    text += LIBRARY;
    for function in &all {
        text += &format!(".Ft {}\n.Fo {}\n", function.result.trim_end().replace('*', "\\&*"), function.name);
        for (name, kind) in &function.arguments {
            text += &format!(".Fa \"{kind}{name}\"\n");
        }
        if function.arguments.is_empty() {
            text += ".Fa void\n";
        }
        text += ".Fc\n";
    }
    text += ".Sh DESCRIPTION\n.Bl -tag -width Ds\n";
    text += &all
        .iter()
        .map(|function| format!(".It Fn {}\n{}", function.name, paragraphs(&function.doc)))
        .collect::<String>();
    text += ".El\n.Sh RETURN VALUES\n";
    text +=
        "As the calls of Linux of the same names.\nA failure is \\-1, or NULL, and\n.Va errno\nsays which.\n";
    text += &errors();
    text += ".Sh SEE ALSO\n.Xr millstream 3\n";
    (name, text)
}

/// The page of the library: what stands at the head of the header.
fn overview(pages: &[(String, String)]) -> String {
    let words = HEADERS[0].head.split("*/").next().expect("a comment at the head");
    let words: Vec<String> = words
        .lines()
        .skip(1)
        .map(|line| line.trim_start_matches(" *").trim().to_owned())
        .filter(|line| !line.starts_with("This file is made"))
        .collect();
    let body = paragraphs(&words);
    let mut text = head("millstream", "include/millstream.head");
    text += ".Nm millstream\n.Nd a user-level TCP stack for C programs\n";
    text += LIBRARY;
    text += &format!(".Sh DESCRIPTION\n{}\n", body.trim_end());
    text += &errors();
    text += ".Sh SEE ALSO\n";
    let mut names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    text += &names.iter().map(|name| format!(".Xr {name} 3")).collect::<Vec<_>>().join(" ,\n");
    text + "\n"
}

fn all_pages() -> Vec<(String, String)> {
    let mut pages: Vec<_> = HEADERS.iter().flat_map(|header| header.files).map(|file| page(file)).collect();
    pages.push(("millstream".into(), overview(&pages)));
    pages
}

#[test]
fn pages_are_what_the_library_has() {
    let folder = home().join("man");
    let bless = std::env::var_os("MILLSTREAM_BLESS").is_some();
    let mut known = Vec::new();
    for (name, text) in all_pages() {
        let path = folder.join(format!("{name}.3"));
        if bless {
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(&path, &text).expect("the page can be written");
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == text, "{}: run `cargo xtask headers`", path.display());
        known.push(path);
    }
    for entry in folder.read_dir().expect("pages").flatten() {
        assert!(known.contains(&entry.path()), "{} is no command's page", entry.path().display());
    }
}

/// Returns the output of a program that checks manual pages; `None` if it is not here.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C.UTF-8").output();
    match output {
        Ok(output) => {
            let all = [output.stdout, output.stderr].concat();
            Some(String::from_utf8_lossy(&all).into_owned())
        }
        Err(_) => {
            eprintln!("skipped: there is no {program}");
            None
        }
    }
}

#[test]
fn readers_take_every_page() {
    for (name, _) in all_pages() {
        let path = home().join("man").join(format!("{name}.3"));
        let path = path.to_string_lossy();
        if let Some(lint) = said("mandoc", &["-T", "lint", "-W", "warning", &path]) {
            assert!(lint.is_empty(), "{lint}");
        }
        if let Some(shown) = said("man", &["--warnings", "-E", "UTF-8", "-l", "-P", "cat", &path]) {
            assert!(shown.contains("SYNOPSIS") && !shown.contains("warning:"), "{name}: {shown}");
        }
    }
}

#[test]
fn text_is_no_instruction() {
    assert_eq!(escaped("-1 `fd`. Then."), "\\-1 \\fIfd\\fP.\nThen.\n");
    assert_eq!(escaped(".x \\"), "\\&.x \\e\n");
    let doc = ["One", "two.", "", "Three."].map(String::from);
    assert_eq!(paragraphs(&doc), "One two.\n.Pp\nThree.\n");
}
