//! Goal: each standing, and each complaint, from a list and a tree of a few lines.
use super::*;
use crate::rfc::clauses;

const LIST: &str = r#"
        rfc = 7
        title = "T"
        named = true
        [[clause]]
        id = "2-1"
        level = "MUST"
        text = "A."
        [[clause]]
        id = "3-1"
        level = "SHOULD"
        text = "B."
        [[clause]]
        id = "3-2"
        level = "MUST"
        text = "C."
        exception = "D."
    "#;

fn standings(files: &[(&str, &str)]) -> (Vec<Standing>, usize) {
    let documents = [clauses::read("rfc7.toml", LIST).unwrap()];
    let mut trace = Trace::default();
    for (path, text) in files {
        match path.ends_with(".rs") {
            true => trace.take_rust(path, text),
            false => trace.take_script(path, text),
        }
    }
    let joined = trace.join(&documents);
    let clauses = &documents[0].clauses;
    let standings = clauses.iter().map(|clause| joined.standing(7, clause)).collect();
    (standings, joined.complaints(&documents).len())
}

#[test]
fn from_red_to_proven() {
    use Standing::{Excepted, Half, Open, Proven, Red};
    let (code, script) =
        (("src/a.rs", "/// (RFC 7, 2-1)\nfn f() {}"), ("s/a.pkt", "// RFC 7, 2-1\n+0 socket()"));
    assert_eq!(standings(&[]), (vec![Red, Open, Excepted], 1));
    assert_eq!(standings(&[code]), (vec![Red, Open, Excepted], 1));
    assert_eq!(standings(&[script]), (vec![Half, Open, Excepted], 1), "a test of what no code claims");
    assert_eq!(standings(&[code, script]), (vec![Proven, Open, Excepted], 0));
    let section = ("src/a.rs", "fn f() {} // RFC 7, section 2\n// RFC 7, section 3\nfn g() {}");
    assert_eq!(standings(&[section, script]), (vec![Proven, Open, Excepted], 0), "3 has two clauses");
    let request = ("src/b.rs", "// RFC 7, 3-1\nfn g() {}");
    assert_eq!(standings(&[code, script, request]), (vec![Proven, Half, Excepted], 0));
}

#[test]
fn sections_of_several_clauses_prove_none() {
    let documents = [clauses::read("rfc7.toml", LIST).unwrap()];
    let mut trace = Trace::default();
    trace.take_rust("src/a.rs", "// RFC 7, sections 3 and 4\nfn g() {}");
    trace.take_script("s/a.pkt", "// RFC 7, section 3: so.");
    let joined = trace.join(&documents);
    let counted: Vec<_> =
        joined.sections(7).map(|(section, proof)| (section, proof.code.len(), proof.tests.len())).collect();
    assert_eq!(counted, [("3", 1, 1), ("4", 1, 0)]);
    assert_eq!(joined.proof(7, &documents[0].clauses[1]), Proof::default());
}

#[test]
fn unknown_clauses_and_needless_exceptions() {
    let fine = [("src/a.rs", "// RFC 7, 2-1\nfn f() {}"), ("s/a.pkt", "# RFC 7, 2-1")];
    let complaints = |more: &[(&'static str, &'static str)]| standings(&[&fine, more].concat()).1;
    assert_eq!(complaints(&[]), 0);
    assert_eq!(complaints(&[("src/b.rs", "// RFC 7, 9-1, and RFC 8, 9-1\nfn g() {}")]), 1);
    assert_eq!(complaints(&[("src/b.rs", "// RFC 7, 3-2\nfn g() {}")]), 0);
    assert_eq!(complaints(&[("src/b.rs", "// RFC 7, 3-2\nfn g() {}"), ("s/b.pkt", "// RFC 7, 3-2")]), 1);
}
