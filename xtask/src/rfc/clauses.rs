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
//! ```

use toml::{Table, Value};

use crate::rfc::cite::is_clause;

/// One RFC.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) rfc: u32,
    pub(super) title: String,
    /// Every MUST needs code and test, or an exception.
    pub(super) strict: bool,
    pub(super) clauses: Vec<Clause>,
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
    let strict = table.remove("strict").and_then(|value| value.as_bool()).unwrap_or(false);
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
    Ok(Document { rfc, title, strict, clauses })
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
        None => Ok(Clause { id, section, level, text, note, exception }),
    }
}

fn string(table: &mut Table, key: &str) -> Option<String> {
    match table.remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    //! Goal: names say level and section where they can, and what is wrong is refused.
    use super::*;

    fn one(clause: &str) -> Result<Document, String> {
        read("rfc1.toml", &format!("rfc = 1\ntitle = \"T\"\n[[clause]]\n{clause}"))
    }

    #[test]
    fn names_speak() {
        let document = one("id = \"3.2-1\"\nlevel = \"MUST NOT\"\ntext = \"So.\"").unwrap();
        let clause = &document.clauses[0];
        assert_eq!((clause.section.as_str(), clause.level.as_str()), ("3.2", "MUST NOT"));
        assert!(clause.is_must() && !document.strict);
        let document =
            one("id = \"SHLD-2\"\nsection = \"3.5\"\ntext = \"So.\"\nexception = \"Why.\"").unwrap();
        let clause = &document.clauses[0];
        assert_eq!((clause.section.as_str(), clause.level.as_str()), ("3.5", "SHOULD"));
        assert_eq!(clause.exception.as_deref(), Some("Why."));
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in [
            "id = \"3.2\"\nlevel = \"MUST\"\ntext = \"So.\"",
            "id = \"3.2-1\"\ntext = \"No level.\"",
            "id = \"3.2-1\"\nlevel = \"OUGHT\"\ntext = \"So.\"",
            "id = \"MUST-1\"\ntext = \"No section.\"",
            "id = \"3.2-1\"\nlevel = \"MUST\"\ntext = \"no sentence\"",
            "id = \"3.2-1\"\nlevel = \"MUST\"\ntext = \"So.\"\nwhy = \"Unknown.\"",
            "id = \"3-1\"\nlevel = \"MAY\"\ntext = \"So.\"\n[[clause]]\nid = \"3-1\"\nlevel = \"MAY\"\ntext = \"So.\"",
        ] {
            assert!(one(wrong).is_err(), "{wrong}");
        }
        assert!(read("rfc2.toml", "rfc = 1\ntitle = \"T\"\nclause = []").is_err());
    }
}
