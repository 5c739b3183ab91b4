//! The rows for programs of calls: those of [`crate::reasons`], options that differ, and faults that are known.

use crate::reasons::{CALLS, Kind, of};
use std::sync::LazyLock;

/// A difference that is meant.
#[derive(Debug)]
pub(super) struct Row {
    /// A short name.
    pub(super) name: &'static str,
    /// The keys that it explains; `*` stands for any text.
    pub(super) key: String,
    /// True if the rest of the same program is compared as well.
    pub(super) goes_on: bool,
}

/// A name, a pattern of keys, a reason, and whether what follows is compared as well.
type Line = (&'static str, &'static str, &'static str, bool);

/// BEING MENDED: faults that are known and have no reason. A row goes when its fault is mended; none stays. Each names
/// the fault, not a reason.
const BEING_MENDED: &[Line] = &[];

static ALL: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let row = |(name, key, _, goes_on): Line| Row { name, key: key.to_owned(), goes_on };
    let shared = of(CALLS).map(|shared| {
        row((shared.name, shared.key, shared.reason, shared.kind == Kind::Calls { goes_on: true }))
    });
    let options = sock::boundary::rows().filter_map(|row| {
        if matches!(row.verdict, sock::boundary::Verdict::Same) {
            return None;
        }
        row.number?;
        Some(Row { name: row.name, key: format!("?etsockopt {}*", row.name), goes_on: true })
    });
    BEING_MENDED.iter().copied().map(row).chain(shared).chain(options).collect()
});

/// Does `text` fit `pattern`, where `*` stands for any text and `?` for one character?
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, _) => text.is_empty(),
        (Some((b'*', rest)), _) => (0..=text.len()).any(|at| fits(rest, &text[at..])),
        (Some((b'?', rest)), Some((_, text))) => fits(rest, text),
        (Some((one, rest)), Some((other, text))) => one == other && fits(rest, text),
        (Some(_), None) => false,
    }
}

/// Results that no reason explains.
const NEVER: [&str; 5] =
    ["crashes", "hangs", "the control connection", "the program ended", "a call that no signal"];

/// Returns the row that explains a difference.
pub(super) fn explains(key: &str) -> Option<&'static Row> {
    let stack = key.rsplit('|').next().unwrap_or_default();
    let rows = if NEVER.iter().any(|text| stack.contains(text)) { BEING_MENDED.len() } else { ALL.len() };
    ALL[..rows].iter().find(|row| fits(row.key.as_bytes(), key.as_bytes()))
}

#[cfg(test)]
mod tests;
