//! The table of workloads as documents show it.

use super::{Group, WORKLOADS, Where};
use std::fmt::Write as _;

/// A table for each group.
pub fn listing() -> String {
    let mut out = String::new();
    for group in Group::ALL {
        let _ = writeln!(out, "{}\n", group.words().0);
        out += "| `--only` | what | points (**quick**) | contenders |\n|---|---|---|---|\n";
        for row in WORKLOADS.iter().filter(|row| row.group == group) {
            let points: Vec<_> = row
                .points
                .iter()
                .map(|point| if point.quick { format!("**{}**", point.label) } else { point.label.into() })
                .collect();
            let place = match row.place {
                Where::Veth { .. } => "",
                Where::Pipe => " (through `millstream pipe`)",
                Where::Memory => "",
            };
            let _ = writeln!(
                out,
                "| `{}` | {}{place} | {}: {} | {} |",
                row.name,
                row.title,
                row.axis,
                points.join(", "),
                row.contenders.join(", ")
            );
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    //! Goal: the document has the table as it is. `MILLSTREAM_BLESS=1` writes it.
    use super::*;

    const BEGIN: &str =
        "<!-- workloads: written by `MILLSTREAM_BLESS=1 cargo test -p millstream-bench listing` -->\n";
    const END: &str = "<!-- end of workloads -->";

    #[test]
    fn the_document_has_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/PERFORMANCE.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (before, rest) = text.split_once(BEGIN).expect("where the table begins");
        let (table, after) = rest.split_once(END).expect("where it ends");
        if std::env::var_os("MILLSTREAM_BLESS").is_some() {
            std::fs::write(path, format!("{before}{BEGIN}{}{END}{after}", listing())).unwrap();
        } else {
            assert_eq!(table, listing(), "MILLSTREAM_BLESS=1 writes it");
        }
    }
}
