//! Goal: names say level and section where they can, and what is wrong is refused.
use super::*;

fn one(clause: &str) -> Result<Document, String> {
    read("rfc1.toml", &format!("rfc = 1\ntitle = \"T\"\nnamed = true\n[[clause]]\n{clause}"))
}

#[test]
fn names_speak() {
    let document = one("id = \"3.2-1\"\nlevel = \"MUST NOT\"\ntext = \"So.\"").unwrap();
    let clause = &document.clauses[0];
    assert_eq!((clause.section.as_str(), clause.level.as_str()), ("3.2", "MUST NOT"));
    assert!(clause.is_must());
    let document = one("id = \"SHLD-2\"\nsection = \"3.5\"\ntext = \"So.\"\nexception = \"Why.\"").unwrap();
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
    assert!(read("rfc2.toml", "rfc = 1\ntitle = \"T\"\nnamed = true\nclause = []").is_err());
}

#[test]
fn a_list_says_whether_it_is_complete() {
    let list = |head: &str, says: &str| {
        let clause = format!("[[clause]]\nid = \"2-1\"\nlevel = \"MUST\"\ntext = \"So.\"\n{says}");
        read("rfc1.toml", &format!("rfc = 1\ntitle = \"T\"\n{head}\n{clause}"))
    };
    let counted = "aside = \"1#1\"\n[sentences]\n\"1\" = 1\n\"2\" = 2\n";
    assert!(list(counted, "says = \"2#1-2\"").is_ok());
    assert!(list(counted, "says = \"2#1\"").unwrap_err().contains("no clause says 2#2"));
    assert!(list(counted, "says = \"2#1-3\"").unwrap_err().contains("no such sentence: 2#3"));
    assert!(list("named = true", "").is_ok() && list("incomplete = \"No text.\"", "").is_ok());
    assert!(list("named = true", "says = \"2#1\"").is_err(), "what does it count?");
    assert!(list("", "").is_err() && list("named = true\nincomplete = \"No.\"", "").is_err());
}
