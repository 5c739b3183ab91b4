//! Goal: each row can be named, gives a reason that a reader can look up, and stands in its page.
use super::*;

#[test]
fn names_and_keys_occur_once_per_kind() {
    for row in of(CALLS).chain(of(Kind::Packets)) {
        assert_eq!(of(row.kind).filter(|other| other.key == row.key).count(), 1, "{}", row.key);
        assert_eq!(of(row.kind).filter(|other| other.name == row.name).count(), 1, "{}", row.name);
    }
}

#[test]
fn reasons_name_an_rfc_or_a_setting() {
    for row in of(CALLS).chain(of(Kind::Packets)) {
        let named = ["RFC ", "`", ".md", "(2)"].iter().any(|text| row.reason.contains(text));
        assert!(named, "{}: {}", row.name, row.reason);
    }
}

#[test]
fn pages_have_the_rows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    assert_eq!(pages(&root, true), Ok(()));
}

#[test]
fn rows_that_explained_nothing_are_named() {
    let used = BTreeMap::from([("urgent data", vec![3, 9])]);
    let text = usage(Kind::Packets, &used, Counts { inputs: 20, ..Counts::default() });
    assert!(
        text.starts_with("explained: urgent data: 2 (seeds 3, 9)\nrows that 20 inputs did not use: "),
        "{text}"
    );
    assert!(text.contains("old acknowledgment") && !text.contains("urgent data;"), "{text}");
    assert!(!text.contains("a relayed connection"), "{text}");
}
