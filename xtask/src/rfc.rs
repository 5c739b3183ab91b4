//! `cargo xtask rfc`: which clause of which RFC is obeyed where, and what proves it.
//!
//! `docs/rfc/*.toml` list the clauses, comments cite them (`rfc/cite.rs` has the notation), and `docs/RFC.md` is what
//! the two say together.

mod cite;
mod clauses;
mod page;
mod sentences;
mod source;
mod trace;

use std::fs;
use std::path::Path;

use crate::rfc::clauses::{Document, Extent};
use crate::rfc::trace::Trace;
use crate::{Outcome, run};

/// RFC of the protocol itself, whose list stands first.
const PROTOCOL: u32 = 9293;
const CLAUSES: &str = "docs/rfc";
const PAGE: &str = "docs/RFC.md";

/// Writes the page, or with `check` complains if it is not what it would be.
pub(crate) fn rfc(check: bool) -> Outcome {
    let documents = documents()?;
    let trace = scan()?;
    let joined = trace.join(&documents);
    let page = page::page(&documents, &joined);
    let path = run::root().join(PAGE);
    let mut complaints = joined.complaints(&documents);
    if check && fs::read_to_string(&path).unwrap_or_default() != page {
        complaints.push(format!("{PAGE} is not up to date: `cargo xtask rfc` writes it"));
    }
    if !check {
        fs::write(&path, page).map_err(|error| format!("{PAGE}: {error}"))?;
    }
    print!("{}", page::figures(&documents, &joined));
    if complaints.is_empty() {
        return Ok(());
    }
    complaints.sort();
    Err(format!("{}\n{} complaints", complaints.join("\n"), complaints.len()))
}

/// Counts the normative sentences of each document in `folder` (`rfcN.txt`) again. Prints those of lists that differ.
pub(crate) fn recount(folder: &Path) -> Outcome {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for document in documents()? {
        let Extent::Counted(counts, _) = &document.extent else { continue };
        let path = folder.join(format!("rfc{}.txt", document.rfc));
        let Ok(text) = fs::read_to_string(&path) else {
            println!("RFC {}: not compared, {} cannot be read", document.rfc, path.display());
            continue;
        };
        compared += 1;
        if sentences::count(&text) != *counts {
            wrong.push(format!("RFC {}: the list counts other sentences than the text", document.rfc));
            let mut numbers = sentences::Counts::new();
            for (section, sentence) in sentences::sentences(&text) {
                let number = numbers.entry(section.clone()).or_default();
                *number += 1;
                println!("RFC {} {section}#{number} {sentence}", document.rfc);
            }
        }
    }
    println!("{compared} lists compared with their documents");
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// [`rfc`] as a step of `ci`.
pub(crate) fn check() -> Outcome {
    rfc(true)
}

fn documents() -> Result<Vec<Document>, String> {
    let folder = run::root().join(CLAUSES);
    let entries = fs::read_dir(&folder).map_err(|error| format!("{CLAUSES}: {error}"))?;
    let mut documents = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| format!("{CLAUSES}: {error}"))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            documents.push(clauses::read(&name, &text)?);
        }
    }
    // The protocol itself first.
    documents.sort_by_key(|document| (document.rfc != PROTOCOL, document.rfc));
    Ok(documents)
}

/// All Rust of the workspace's crates, and all drill scripts.
fn scan() -> Result<Trace, String> {
    let arguments = ["ls-files", "-z", "-c", "-o", "--exclude-standard", "crates"];
    let listing = run::tool("git").args(arguments).output()?;
    let mut trace = Trace::default();
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        let kind = Path::new(path).extension().and_then(|kind| kind.to_str());
        if !matches!(kind, Some("rs" | "pkt")) {
            continue;
        }
        // Listed but gone: deleted and not yet committed.
        let Ok(text) = fs::read_to_string(run::root().join(path)) else { continue };
        match kind {
            Some("rs") => trace.take_rust(path, &text),
            _ => trace.take_script(path, &text),
        }
    }
    Ok(trace)
}
