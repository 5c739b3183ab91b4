//! The table of explained differences. A difference that no row explains fails a run.

/// Kind of input in which a difference is seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Programs of socket calls.
    Calls,
    /// Peers that send packets.
    Packets,
}

/// One explained difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Short name, shown with `--explain` and in counts.
    pub name: &'static str,
    /// Kind of input.
    pub kind: Kind,
    /// Name of the predicate that recognises the difference: a function of the comparison of its kind.
    pub key: &'static str,
    /// Why it is so: a section of an RFC, or a setting.
    pub reason: &'static str,
}

/// All rows. A row without a difference is removed, a predicate is as narrow as its reason.
pub const ROWS: &[Row] = &[];

/// Returns the rows of a kind.
pub fn of(kind: Kind) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.kind == kind)
}

/// Returns the row whose predicate has this name.
pub fn by_key(kind: Kind, key: &str) -> Option<&'static Row> {
    of(kind).find(|row| row.key == key)
}

/// Returns the rows of a kind as a table in Markdown.
pub fn table(kind: Kind) -> String {
    let rows: String = of(kind).map(|row| format!("| {} | {} |\n", row.name, row.reason)).collect();
    format!("| Difference | Reason |\n|---|---|\n{rows}")
}

#[cfg(test)]
mod tests {
    //! Goal: each row can be named, and gives a reason that a reader can look up.
    use super::*;

    #[test]
    fn names_and_keys_occur_once_per_kind() {
        for row in ROWS {
            assert_eq!(of(row.kind).filter(|other| other.key == row.key).count(), 1, "{}", row.key);
            assert_eq!(of(row.kind).filter(|other| other.name == row.name).count(), 1, "{}", row.name);
        }
    }

    #[test]
    fn reasons_name_an_rfc_or_a_setting() {
        for row in ROWS {
            let named = row.reason.contains("RFC ") || row.reason.contains('`') || row.reason.contains(".md");
            assert!(named, "{}: {}", row.name, row.reason);
        }
    }
}
