//! Goal: an advisory concerns exactly the versions it says, and a file we cannot read is never "no advisory".
use super::*;

const TEXT: &str = "```toml\n[advisory]\nid = \"RUSTSEC-2099-0001\"\npackage = \"sieve\"\n\n[versions]\n\
                        patched = [\">= 0.6.3\", \"^0.5.1\"]\nunaffected = [\"< 0.3.2\"]\n```\n\n# Leaks water\n";

fn concerned(text: &str, version: &str) -> bool {
    Advisory::parse(text).unwrap().concerns(&Version::parse(version).unwrap())
}

#[test]
fn versions_on_both_sides_of_each_edge() {
    for (version, hit) in
        [("0.3.1", false), ("0.3.2", true), ("0.5.0", true), ("0.5.1", false), ("0.6.2", true)]
    {
        assert_eq!(concerned(TEXT, version), hit, "{version}");
    }
    assert!(!concerned(TEXT, "1.0.0"));
    assert_eq!(Advisory::parse(TEXT).unwrap().advisory.id, "RUSTSEC-2099-0001");
}

#[test]
fn withdrawn_and_unpatched() {
    let withdrawn = TEXT.replace("package =", "withdrawn = \"2099-01-02\"\npackage =");
    assert!(!concerned(&withdrawn, "0.4.0"));
    let unpatched = TEXT.replace("\">= 0.6.3\", \"^0.5.1\"", "");
    assert!(concerned(&unpatched, "9.9.9"));
}

#[test]
fn damage_is_an_error() {
    for text in ["", "# Title only", "```toml\n[versions]\n```", "```toml\nnot toml\n```"] {
        assert!(Advisory::parse(text).is_err(), "{text}");
    }
    assert!(Advisory::parse(&TEXT.replace("^0.5.1", "fish")).is_err());
}
