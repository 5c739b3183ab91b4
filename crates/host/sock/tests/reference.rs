//! Goal: the reference pages have the rows of the tables in the code. `MILLSTREAM_BLESS=1` writes them.

use sock::Settings;
use sock::options::{Shape, TABLE};
use std::fmt::Write;

const HOW: &str = "written by `MILLSTREAM_BLESS=1 cargo test -p millstream-sock --test reference`";

/// Compares the marked section of a page with `table`, or writes it there.
fn check(page: &str, name: &str, table: &str) {
    let path = format!("{}/../../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the page");
    let (begin, end) = (format!("<!-- {name}: {HOW} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = text.split_once(&begin).expect("where the table begins");
    let (old, after) = rest.split_once(&end).expect("where it ends");
    if std::env::var_os("MILLSTREAM_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{table}{end}{after}")).expect("the page is written");
    } else {
        assert!(old == table, "docs/{page} is out of date: it must be {HOW}");
    }
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn settings_has_every_setting() {
    let defaults = Settings::default();
    let values = defaults.values();
    let default = |key: &str| &values.iter().find(|(name, _)| *name == key).expect("a key has a value").1;
    let mut table =
        String::from("Stack, links and tools:\n\n| Key | Default | Values | Meaning |\n|---|---|---|---|\n");
    for row in Settings::ROWS {
        let (value, form, help) = (cell(default(row.key)), cell(row.form), cell(row.help));
        writeln!(table, "| `{}` | `{value}` | {form} | {help} |", row.key).expect("a string");
    }
    table += "\nTCP, which can be changed at run time as `net.inet.tcp.KEY`:\n\n";
    table += "| Key | Default | Bounds | Meaning |\n|---|---|---|---|\n";
    for row in sock::tcp_settings() {
        let (min, max) = (row.bounds)();
        let (value, help) = (cell(default(row.name)), cell(row.help));
        writeln!(table, "| `{}` | `{value}` | {min} to {max} | {help} |", row.name).expect("a string");
    }
    check("SETTINGS.md", "settings", &table.replace("``", ""));
}

#[test]
fn socket_options_has_every_option() {
    let mut table = String::from("| Option | Value | Set | Meaning |\n|---|---|---|---|\n");
    for row in TABLE {
        let value = match row.shape {
            Shape::Bool => "`int`, 0 or 1".into(),
            Shape::Int(min, i32::MAX) => format!("`int`, {min} or more"),
            Shape::Int(min, max) => format!("`int`, {min} to {max}"),
            Shape::Word => "`int`".into(),
            Shape::Linger => "`struct linger`".into(),
            Shape::Time => "`struct timeval`".into(),
            Shape::Name => "a name".into(),
            Shape::Tunable => "text, `NAME=VALUE`".into(),
            Shape::Info => "`struct tcp_info`".into(),
            Shape::Keys => "16 or 32 bytes".into(),
            Shape::Rate => "bytes a second, 32 or 64 bits".into(),
            Shape::Auth => "a structure of Linux's".into(),
            Shape::Ucred => "`struct ucred`".into(),
        };
        let set = if row.settable { "yes" } else { "no" };
        writeln!(table, "| `{}` | {value} | {set} | {} |", row.text, cell(row.help)).expect("a string");
    }
    check("SOCKET_OPTIONS.md", "options", &table);
}
