//! Differences on purpose, each with its reason.

use std::sync::LazyLock;

/// A difference that is meant.
#[derive(Debug)]
pub(super) struct Row {
    /// A short name.
    pub(super) name: &'static str,
    /// The keys that it explains; `*` stands for any text.
    pub(super) key: String,
    /// The reason.
    pub(super) reason: &'static str,
    /// True if the rest of the same program is compared as well.
    pub(super) goes_on: bool,
}

/// A name, a pattern of keys, a reason, and whether what follows is compared as well.
type Line = (&'static str, &'static str, &'static str, bool);

/// Rows by hand.
const ROWS: &[Line] = &[
    (
        "a call that sleeps holds its descriptor",
        "*, closed while a call slept: *",
        "On Linux a call that sleeps in another thread keeps a closed connection open until it returns; here close \
         closes.",
        false,
    ),
    (
        "a reset within a call",
        "sendmmsg*: lens n * 1* | lens n n 2*",
        "veth delivers within the call: the kernel's second message meets the answer to the first. A link has a \
         delay.",
        false,
    ),
    (
        "a relayed connection",
        "*, after a child: *",
        "A connection that a child uses is relayed by a thread of its parent: errors and ends come later, a reset \
         comes as the end, and the parent's own descriptors of it end with the child's.",
        false,
    ),
    (
        "several reads of one socket",
        "*, several reads asleep: *",
        "Which of several calls that sleep for data of one socket gets it is not defined.",
        false,
    ),
    ("after a reset", "ioctl 0x5411: 0 * | 0 0", "What was not acknowledged is let go at a reset.", true),
];

/// BEING MENDED: faults that are known and have no reason. A row goes when its fault is mended; none stays. Each names
/// the fault, not a reason.
const BEING_MENDED: &[Line] = &[
];

static ALL: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let by_hand = BEING_MENDED.iter().chain(ROWS).map(|(name, key, reason, goes_on)| Row {
        name,
        key: (*key).to_owned(),
        reason,
        goes_on: *goes_on,
    });
    let options = sock::boundary::rows().filter_map(|row| {
        use sock::boundary::Verdict;
        let reason = match row.verdict {
            Verdict::Same => return None,
            Verdict::Differs(_, how) => how,
            Verdict::Refused(_, why) => why,
        };
        row.number?;
        Some(Row { name: row.name, key: format!("?etsockopt {}*", row.name), reason, goes_on: true })
    });
    by_hand.chain(options).collect()
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

/// Returns a row by its name.
pub(super) fn named(name: &str) -> Option<&'static Row> {
    ALL.iter().find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    //! Goal: a row explains its own keys alone.
    use super::*;

    #[test]
    fn patterns() {
        let fits = |pattern: &str, text: &str| fits(pattern.as_bytes(), text.as_bytes());
        assert!(fits("a*c", "abbc") && fits("*", "") && fits("?b*", "ab"));
        assert!(!fits("a*c", "abb") && !fits("?b", "b") && !fits("a", "ab"));
    }

    #[test]
    fn options_that_differ_by_the_table_are_explained() {
        assert_eq!(
            explains("setsockopt SO_DONTROUTE: 0 | -1 ENOPROTOOPT").map(|row| row.name),
            Some("SO_DONTROUTE")
        );
        assert!(explains("recv, after a child: 5 | hangs").is_none());
        assert!(explains("setsockopt SO_KEEPALIVE: 0 | -1 ENOPROTOOPT").is_none());
    }
}
