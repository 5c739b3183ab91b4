//! Citations of clauses, and missing ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::rfc::cite::{Citation, Target, citations};
use crate::rfc::clauses::{Clause, Document};
use crate::rfc::source::{Place, remarks};

/// Where something is cited: a file, and the item in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Spot {
    pub(super) path: String,
    pub(super) item: Option<String>,
}

/// Every citation of the tree.
#[derive(Default, Debug)]
pub(super) struct Trace {
    found: Vec<(Citation, Spot, Place)>,
}

/// Citations of one clause.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Proof {
    pub(super) code: BTreeSet<Spot>,
    pub(super) tests: BTreeSet<Spot>,
}

/// How a clause stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Obeyed, and a test says so.
    Proven,
    /// Obeyed or tested, not both; and if it is a MUST, then it is tested.
    Half,
    /// Not obeyed, for a reason.
    Excepted,
    /// A MUST without a test.
    Red,
    /// A request that nothing cites.
    Open,
}

/// The clauses with what cites them, by RFC and identifier.
#[derive(Default, Debug)]
pub(super) struct Joined {
    proofs: BTreeMap<(u32, String), Proof>,
    /// Citations of sections with several clauses, or none.
    sections: BTreeMap<(u32, String), Proof>,
    complaints: Vec<String>,
}

impl Trace {
    pub(super) fn take_rust(&mut self, path: &str, text: &str) {
        for remark in remarks(path, text) {
            for citation in citations(&remark.text) {
                let spot = Spot { path: path.into(), item: remark.item.clone() };
                self.found.push((citation, spot, remark.place));
            }
        }
    }

    /// A drill script is one test.
    pub(super) fn take_script(&mut self, path: &str, text: &str) {
        let said: Vec<&str> = text.lines().filter_map(comment).collect();
        for citation in citations(&said.join(" ")) {
            self.found.push((citation, Spot { path: path.into(), item: None }, Place::Test));
        }
    }

    /// Finds the clause of every citation. Of an RFC without a list nothing is known.
    pub(super) fn join(&self, documents: &[Document]) -> Joined {
        let mut joined = Joined::default();
        for (citation, spot, place) in &self.found {
            let Some(document) = documents.iter().find(|document| document.rfc == citation.rfc) else {
                continue;
            };
            let clause = match &citation.target {
                Target::Clause(id) => document.clauses.iter().find(|clause| clause.id == *id),
                Target::Section(section) => match document.in_section(section).as_slice() {
                    [only] => Some(*only),
                    _ => {
                        let key = (document.rfc, section.clone());
                        joined.sections.entry(key).or_default().add(spot, *place);
                        continue;
                    }
                },
            };
            match clause {
                Some(clause) => {
                    let key = (document.rfc, clause.id.clone());
                    joined.proofs.entry(key).or_default().add(spot, *place);
                }
                None => joined.complaints.push(format!("{}: unknown: {citation:?}", spot.path)),
            }
        }
        joined
    }
}

/// Returns the comment of a script's line.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim();
    line.strip_prefix("//").or_else(|| line.strip_prefix('#')).map(str::trim)
}

impl Document {
    fn in_section(&self, section: &str) -> Vec<&Clause> {
        self.clauses.iter().filter(|clause| clause.section == section).collect()
    }
}

impl Proof {
    fn add(&mut self, spot: &Spot, place: Place) {
        match place {
            Place::Code => self.code.insert(spot.clone()),
            Place::Test => self.tests.insert(spot.clone()),
            Place::Help => false,
        };
    }
}

impl Joined {
    /// The sections of `rfc` that are cited as a whole.
    pub(super) fn sections(&self, rfc: u32) -> impl Iterator<Item = (&str, &Proof)> {
        let of_rfc = self.sections.iter().filter(move |((of, _), _)| *of == rfc);
        of_rfc.map(|((_, section), proof)| (section.as_str(), proof))
    }

    /// Returns the citations of `clause`.
    pub(super) fn proof(&self, rfc: u32, clause: &Clause) -> Proof {
        self.proofs.get(&(rfc, clause.id.clone())).cloned().unwrap_or_default()
    }

    pub(super) fn standing(&self, rfc: u32, clause: &Clause) -> Standing {
        let Proof { code, tests } = self.proof(rfc, clause);
        match (code.is_empty(), tests.is_empty()) {
            _ if clause.exception.is_some() => Standing::Excepted,
            (false, false) => Standing::Proven,
            (_, true) if clause.is_must() => Standing::Red,
            (true, true) => Standing::Open,
            _ => Standing::Half,
        }
    }

    /// Returns the faults.
    pub(super) fn complaints(&self, documents: &[Document]) -> Vec<String> {
        let mut complaints = self.complaints.clone();
        for document in documents {
            for clause in &document.clauses {
                let mut complain =
                    |what| complaints.push(format!("RFC {}, {}: {what}", document.rfc, clause.id));
                let Proof { code, tests } = self.proof(document.rfc, clause);
                match (code.is_empty(), tests.is_empty()) {
                    (false, false) if clause.exception.is_some() => {
                        complain("obeyed, tested and excepted: what is more than an exception is a note");
                    }
                    _ if clause.exception.is_some() || !clause.is_must() => {}
                    (true, _) => complain("a MUST that no code cites, and no exception"),
                    (_, true) => complain("a MUST that no test cites, and no exception"),
                    _ => {}
                }
            }
        }
        complaints
    }
}

#[cfg(test)]
mod tests {
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
        let counted: Vec<_> = joined
            .sections(7)
            .map(|(section, proof)| (section, proof.code.len(), proof.tests.len()))
            .collect();
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
}
