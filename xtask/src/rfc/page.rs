//! `docs/RFC.md`.

use std::collections::BTreeSet;

use crate::rfc::clauses::{Clause, Document, Extent};
use crate::rfc::trace::{Joined, Spot, Standing};

const HEAD: &str = "\
# RFC clauses, and where they are obeyed

`cargo xtask rfc` writes this page from the lists of clauses in [docs/rfc](rfc), whose sentences are ours, and from the
citations in comments of code, tests and drill scripts; `cargo xtask ci` fails if it is out of date, if a comment cites
a clause that does not exist, or if a MUST of RFC 9293 lacks code, a test and a reason.

| Mark | Meaning |
|:---:|---|
| ✅ | obeyed, and a test says so |
| 🟡 | code or a test cites it, not both |
| 🔴 | a MUST without a test |
| ⚪ | not obeyed, or not applicable: the reason stands there |
| ▫️ | a SHOULD or MAY that nothing cites |

";

/// The whole page.
pub(super) fn page(documents: &[Document], joined: &Joined) -> String {
    let mut page = HEAD.to_owned() + "## Summary\n\n" + &figures(documents, joined);
    for document in documents {
        let rfc = document.rfc;
        page += &format!("\n## RFC {rfc}: {}\n\n", document.title);
        page += &format!("<https://www.rfc-editor.org/rfc/rfc{rfc}>. {}\n\n", extent(document));
        page += "| | Clause | Level | What | Code | Tests |\n|:---:|---|---|---|---|---|\n";
        for clause in &document.clauses {
            page += &row(rfc, clause, joined);
        }
        page += &whole_sections(rfc, joined);
    }
    page
}

/// Tells how much of the document the list covers.
fn extent(document: &Document) -> String {
    match &document.extent {
        Extent::Counted(counts, aside) => {
            let all: usize = counts.values().sum();
            let aside = match aside.len() {
                0 => String::new(),
                n => format!(", of which {n} ask nothing of a TCP"),
            };
            format!("The list covers all {all} sentences with MUST or SHOULD{aside}.")
        }
        Extent::Named => "The list has every clause that the document names.".into(),
        Extent::Part(why) => format!("**The list is incomplete:** {why}"),
    }
}

/// How often sections are cited that stand for no single clause.
fn whole_sections(rfc: u32, joined: &Joined) -> String {
    let counts = joined.sections(rfc).map(|(section, proof)| {
        let number = |n: usize, one: &str| match n {
            0 => None,
            1 => Some(format!("1 {one}")),
            n => Some(format!("{n} {one}s")),
        };
        let counts = [number(proof.code.len(), "item"), number(proof.tests.len(), "test")];
        format!("{section} ({})", counts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    });
    let counts: Vec<_> = counts.filter(|count| !count.ends_with("()")).collect();
    if counts.is_empty() { String::new() } else { format!("\nCited as a whole: {}.\n", counts.join(", ")) }
}

/// A table: each RFC's clauses, counted by standing.
pub(super) fn figures(documents: &[Document], joined: &Joined) -> String {
    let standings = [Standing::Proven, Standing::Half, Standing::Red, Standing::Excepted, Standing::Open];
    let mut table = String::from("| RFC | MUST | ✅ | 🟡 | 🔴 | ⚪ | SHOULD, MAY | ✅ | 🟡 | ⚪ | ▫️ |\n");
    table += &format!("|---{}|\n", "|---:".repeat(10));
    let mut totals = vec![0; 10];
    for document in documents {
        let count = |must: bool, standing: Option<Standing>| {
            let of_kind = document.clauses.iter().filter(|clause| clause.is_must() == must);
            of_kind
                .filter(|clause| standing.is_none_or(|s| s == joined.standing(document.rfc, clause)))
                .count()
        };
        let [proven, half, red, excepted, open] = standings.map(Some);
        let musts = [None, proven, half, red, excepted].map(|standing| count(true, standing));
        let others = [None, proven, half, excepted, open].map(|standing| count(false, standing));
        let cells = [musts, others].concat();
        totals.iter_mut().zip(&cells).for_each(|(total, cell)| *total += cell);
        table += &line(&document.rfc.to_string(), &cells);
    }
    table + &line("all", &totals)
}

fn line(name: &str, cells: &[usize]) -> String {
    let cells: Vec<_> = cells.iter().map(usize::to_string).collect();
    format!("| {name} | {} |\n", cells.join(" | "))
}

fn row(rfc: u32, clause: &Clause, joined: &Joined) -> String {
    let mark = match joined.standing(rfc, clause) {
        Standing::Proven => "✅",
        Standing::Half => "🟡",
        Standing::Red => "🔴",
        Standing::Excepted => "⚪",
        Standing::Open => "▫️",
    };
    let proof = joined.proof(rfc, clause);
    let mut what = clause.text.clone();
    if !clause.id.starts_with(&clause.section) {
        what = format!("{what} ({})", clause.section);
    }
    if let Some(exception) = &clause.exception {
        what += &format!(" **Exception:** {exception}");
    }
    if let Some(note) = &clause.note {
        what += &format!(" *{note}*");
    }
    let (code, tests) = (links(&proof.code), links(&proof.tests));
    format!("| {mark} | {} | {} | {what} | {code} | {tests} |\n", clause.id, clause.level)
}

fn links(spots: &BTreeSet<Spot>) -> String {
    let links: Vec<_> = spots.iter().map(link).collect();
    links.join("<br>")
}

/// `tcp/input/reset.rs: check_reset`, which leads to the file.
fn link(spot: &Spot) -> String {
    let parts: Vec<_> = spot.path.split('/').skip(2).filter(|part| *part != "src").collect();
    let item = spot.item.as_ref().map(|item| format!(": {item}")).unwrap_or_default();
    format!("[{}{item}](../{})", parts.join("/"), spot.path)
}

#[cfg(test)]
mod tests;
