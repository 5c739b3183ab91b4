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
mod tests;
