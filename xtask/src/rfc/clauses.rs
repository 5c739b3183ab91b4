//! The lists of clauses, `docs/rfc/*.toml`.
//!
//! ```toml
//! rfc = 5961
//! title = "Improving TCP's Robustness to Blind In-Window Attacks"
//!
//! [[clause]]
//! id = "3.2-1"            # section and ordinal, or the name that the RFC gives it
//! section = "3.2"         # where the name does not say it
//! level = "MUST"          # where the name does not say it
//! text = "One short sentence of our own."
//! note = "What a reader should know besides."
//! exception = "Why it is not obeyed."
//! says = "3.2#4-5"        # the normative sentences that it stands for (`sentences`)
//! ```
//!
//! A list says in one of three ways whether it is complete: `[sentences]` counts the document's normative sentences,
//! each of which some clause `says` or `aside` names; `named = true` where the document names its own clauses; or
//! `incomplete = "Why."`.

use toml::{Table, Value};

use crate::rfc::cite::is_clause;
use crate::rfc::sentences::{self, Counts, Sentences};

/// One RFC.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) rfc: u32,
    pub(super) title: String,
    pub(super) extent: Extent,
    pub(super) clauses: Vec<Clause>,
}

/// How much of its document a list covers.
#[derive(Debug)]
pub(super) enum Extent {
    /// All normative sentences, counted by section; the second are those that ask nothing of a TCP.
    Counted(Counts, Sentences),
    /// All clauses that the document names.
    Named,
    /// A part, and why not all.
    Part(String),
}

/// One normative sentence.
#[derive(Debug)]
pub(super) struct Clause {
    pub(super) id: String,
    pub(super) section: String,
    pub(super) level: String,
    pub(super) text: String,
    pub(super) note: Option<String>,
    pub(super) exception: Option<String>,
    pub(super) says: Sentences,
}

impl Clause {
    pub(super) fn is_must(&self) -> bool {
        self.level.starts_with("MUST")
    }
}

const LEVELS: &[&str] = &["MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY"];
/// A clause is one short sentence.
const LONGEST: usize = 240;

/// Reads the list `name`.
pub(super) fn read(name: &str, text: &str) -> Result<Document, String> {
    let wrong = |what: &str| format!("docs/rfc/{name}: {what}");
    let mut table: Table = text.parse().map_err(|error| wrong(&format!("{error}")))?;
    let rfc = table.remove("rfc").and_then(|value| value.as_integer());
    let rfc = rfc.and_then(|rfc| u32::try_from(rfc).ok()).ok_or_else(|| wrong("no `rfc`"))?;
    if name != format!("rfc{rfc}.toml") {
        return Err(wrong(&format!("is about RFC {rfc}")));
    }
    let title = string(&mut table, "title").ok_or_else(|| wrong("no `title`"))?;
    let extent = extent(&mut table).map_err(|why| wrong(&why))?;
    let Some(Value::Array(rows)) = table.remove("clause") else { return Err(wrong("no `[[clause]]`")) };
    if let Some(key) = table.keys().next() {
        return Err(wrong(&format!("unknown key `{key}`")));
    }
    let mut clauses: Vec<Clause> = Vec::new();
    for row in rows {
        let Value::Table(row) = row else { return Err(wrong("a clause is a table")) };
        let clause = clause(row).map_err(|why| wrong(&why))?;
        if clauses.iter().any(|other| other.id == clause.id) {
            return Err(wrong(&format!("{} twice", clause.id)));
        }
        clauses.push(clause);
    }
    let document = Document { rfc, title, extent, clauses };
    document.check_extent().map_err(|why| wrong(&why))?;
    Ok(document)
}

impl Document {
    /// Every normative sentence is in the list, and every sentence that the list names exists.
    fn check_extent(&self) -> Result<(), String> {
        let said = self.clauses.iter().flat_map(|clause| &clause.says);
        let Extent::Counted(counts, aside) = &self.extent else {
            return match said.count() {
                0 => Ok(()),
                _ => Err("`says` without `[sentences]`".into()),
            };
        };
        let (missing, unknown) = sentences::gaps(counts, &said.chain(aside).cloned().collect());
        let list = |of: &Sentences| of.iter().map(|(s, n)| format!("{s}#{n}")).collect::<Vec<_>>().join(", ");
        match (missing.is_empty(), unknown.is_empty()) {
            (true, true) => Ok(()),
            (false, _) => Err(format!("no clause says {}", list(&missing))),
            (true, false) => Err(format!("no such sentence: {}", list(&unknown))),
        }
    }
}

fn extent(table: &mut Table) -> Result<Extent, String> {
    let counted = table.remove("sentences");
    let aside = string(table, "aside");
    let named = table.remove("named").and_then(|value| value.as_bool()).unwrap_or(false);
    match (counted, named, string(table, "incomplete")) {
        (Some(Value::Table(rows)), false, None) => {
            let mut counts = Counts::new();
            for (section, count) in rows {
                let count = count.as_integer().and_then(|count| usize::try_from(count).ok());
                counts.insert(section, count.ok_or("`[sentences]` counts sentences")?);
            }
            Ok(Extent::Counted(counts, sentences::parse(&aside.unwrap_or_default())?))
        }
        (None, true, None) if aside.is_none() => Ok(Extent::Named),
        (None, false, Some(why)) if aside.is_none() => Ok(Extent::Part(why)),
        _ => Err("a list has `[sentences]`, `named = true` or `incomplete`, and only one of them".into()),
    }
}

fn clause(mut row: Table) -> Result<Clause, String> {
    let id = string(&mut row, "id").ok_or("a clause without `id`")?;
    if !is_clause(&id) {
        return Err(format!("`{id}` is no name of a clause"));
    }
    let (head, _) = id.rsplit_once('-').unwrap_or((&id, ""));
    let named = match head {
        "MUST" => Some("MUST"),
        "SHLD" | "REC" => Some("SHOULD"),
        "MAY" => Some("MAY"),
        _ => None,
    };
    let level = string(&mut row, "level").or(named.map(str::to_owned)).ok_or(format!("{id}: no `level`"))?;
    if !LEVELS.contains(&level.as_str()) {
        return Err(format!("{id}: no level `{level}`"));
    }
    let section = string(&mut row, "section").or(named.is_none().then(|| head.to_owned()));
    let section = section.ok_or(format!("{id}: no `section`"))?;
    let text = string(&mut row, "text").ok_or(format!("{id}: no `text`"))?;
    let (note, exception) = (string(&mut row, "note"), string(&mut row, "exception"));
    let says = sentences::parse(&string(&mut row, "says").unwrap_or_default())?;
    for said in [Some(&text), note.as_ref(), exception.as_ref()].into_iter().flatten() {
        if !said.ends_with('.') || said.contains(['\n', '|']) {
            return Err(format!("{id}: `{said}` is no sentence for a table"));
        }
    }
    if text.chars().count() > LONGEST {
        return Err(format!("{id}: longer than {LONGEST} characters"));
    }
    match row.keys().next() {
        Some(key) => Err(format!("{id}: unknown key `{key}`")),
        None => Ok(Clause { id, section, level, text, note, exception, says }),
    }
}

fn string(table: &mut Table, key: &str) -> Option<String> {
    match table.remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
