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
mod tests;
