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
    /// What follows in the same program is compared as well.
    pub(super) goes_on: bool,
}

const fn row(name: &'static str, key: &'static str, reason: &'static str) -> (&'static str, &'static str, &'static str) {
    (name, key, reason)
}

/// Rows by hand.
const ROWS: &[(&str, &str, &str)] = &[];

/// BEING MENDED: faults that are known and have no reason. Each row goes when its fault is mended.
const BEING_MENDED: &[(&str, &str, &str)] = &[
    row("mapped addresses", "*ON THE KERNEL*", "an AF_INET6 socket goes to the kernel for a mapped address"),
    row("flags that Linux ignores", "*: * | -1 EOPNOTSUPP", "a flag that the kernel ignores is refused"),
    row("children by clone", "*: child: * | *the control connection*", "a child of clone drives its parent's rings"),
];

static ALL: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let by_hand = ROWS.iter().chain(BEING_MENDED).map(|(name, key, reason)| Row {
        name,
        key: (*key).to_owned(),
        reason,
        goes_on: key.contains("ON THE KERNEL"),
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

/// Returns the row that explains a difference.
pub(super) fn explains(key: &str) -> Option<&'static Row> {
    ALL.iter().find(|row| fits(row.key.as_bytes(), key.as_bytes()))
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
        assert_eq!(explains("setsockopt SO_DONTROUTE: 0 | -1 ENOPROTOOPT").map(|row| row.name), Some("SO_DONTROUTE"));
        assert!(explains("setsockopt SO_KEEPALIVE: 0 | -1 ENOPROTOOPT").is_none());
    }
}
