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

/// All rows. A predicate is as narrow as its reason.
pub const ROWS: &[Row] = &[
    Row {
        name: "duplicates in SACK blocks",
        kind: Kind::Packets,
        key: "duplicate_block",
        reason: "Linux reports every old segment as a duplicate. RFC 2883, section 4, lets a receiver choose; here \
                 what lies before the window is acknowledged without a block.",
    },
    Row {
        name: "FIN in a SACK block",
        kind: Kind::Packets,
        key: "block_with_fin",
        reason: "Linux counts the FIN of a segment out of order in its block. RFC 2018, section 3, speaks of data, and \
                 a FIN is not data.",
    },
    Row {
        name: "options when SYNs cross",
        kind: Kind::Packets,
        key: "crossed_syn_options",
        reason: "Linux repeats the options of its own SYN. RFC 7323, sections 1.3 and 2.2, and RFC 2018, section 2, \
                 allow in a SYN-ACK what the peer's SYN had.",
    },
    Row {
        name: "ACK before sequence in SYN-RECEIVED",
        kind: Kind::Packets,
        key: "half_open_ack_first",
        reason: "Linux looks at the acknowledgment first and resets. RFC 9293, section 3.10.7.4, has the sequence \
                 check first.",
    },
    Row {
        name: "echo of another timestamp in SYN-RECEIVED",
        kind: Kind::Packets,
        key: "half_open_echo",
        reason: "Linux takes the last ACK of a handshake only with the echo of a SYN-ACK's timestamp. RFC 7323, \
                 section 4.3, uses the echo for round trips and has no such check.",
    },
    Row {
        name: "old timestamp on a pure ACK",
        kind: Kind::Packets,
        key: "old_stamp_unanswered",
        reason: "Linux drops an old pure ACK with an old timestamp in silence. RFC 7323, section 5.3, has every such \
                 segment acknowledged, as here.",
    },
    Row {
        name: "window lowered by equal numbers",
        kind: Kind::Packets,
        key: "window_lowered",
        reason: "Linux ignores a smaller window in a segment whose numbers are those of the one before. RFC 9293, \
                 section 3.10.7.4, takes it (SND.WL1 = SEG.SEQ and SND.WL2 =< SEG.ACK), as here.",
    },
    Row {
        name: "beyond the kernel's window",
        kind: Kind::Packets,
        key: "beyond_window",
        reason: "Linux offers whole segments of memory at first, 64240 bytes, and here the window is what the setting \
                 `rcvbuf` gives, so one of the two refuses what lies between the edges (RFC 9293, section 3.8.6.2).",
    },
    Row {
        name: "tail loss probe of a FIN",
        kind: Kind::Packets,
        key: "fin_probed",
        reason: "Linux sends a lone FIN again after two round trips. Here it waits for the retransmission timeout: RFC \
                 8985, section 7.2, arms the probe for data in flight.",
    },
    Row {
        name: "urgent data",
        kind: Kind::Packets,
        key: "urgent_in_stream",
        reason: "Linux takes the urgent byte out of the stream. Here it stays there, as with SO_OOBINLINE and as RFC \
                 6093, section 6, recommends.",
    },
    Row {
        name: "old acknowledgment",
        kind: Kind::Packets,
        key: "old_ack",
        reason: "Linux refuses an acknowledgment of less than the connection has sent. RFC 5961, section 5.2, takes \
                 those within MAX.SND.WND, as here.",
    },
    Row {
        name: "FIN acknowledged at once",
        kind: Kind::Packets,
        key: "fin_acked_at_once",
        reason: "Linux may delay the acknowledgment of a FIN by 40 ms. RFC 9293, section 3.8.6.3 (RFC 1122, section \
                 4.2.3.2), permits the delay and does not ask for it.",
    },
];

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
