//! The differences that were decided on, with their reasons.

use crate::compare::Difference;
use drill::run::Profile;

/// A difference that is seen in every run of its script.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// The script; [`ANY`] for whatever script shows it, and at least one does.
    pub(crate) script: &'static str,
    /// How the differences begin, as they are shown: all of them, and each is seen once, or one or more times if `…`
    /// stands at the end.
    pub(crate) what: &'static [&'static str],
    /// Why that is as it should be.
    pub(crate) reason: &'static str,
}

/// In the place of a script's name.
pub(crate) const ANY: &str = "";

const MERGED: &str =
    "what one turn has to send leaves together: a call hands its request over, the turn after it sends";

/// With every profile that is compared.
const COMMON: &[Row] = &[
    Row {
        script: ANY,
        what: &["PSH of the kernel's only: [.]…"],
        reason: "PSH: Linux marks the last segment of each super-segment, here of two; this port takes none",
    },
    Row { script: "data at once", what: &["kernel: [.] 1:1(0) ack 1"], reason: MERGED },
    Row {
        script: "three writes at once",
        what: &[
            "kernel: [.] 1:11(10)",
            "kernel: [.] 11:21(10)",
            "kernel: [.] 21:31(10)",
            "ours: [.] 1:31(30)",
        ],
        reason: MERGED,
    },
    Row {
        script: "write and close",
        what: &["kernel: [.] 1:1001(1000)", "kernel: [F.] 1001:1001(0)", "ours: [F.] 1:1001(1000)"],
        reason: MERGED,
    },
    Row {
        script: "delayed acknowledgment",
        what: &["kernel: [.] 1:1(0) ack 101"],
        reason: "an answer that is written in the turn in which its question came carries the acknowledgment",
    },
    Row {
        script: "data and FIN lost",
        what: &["kernel: [.] 1:1001(1000)", "ours: [F.] 1:1001(1000)"],
        reason: "what is sent again is cut anew and takes the FIN along; Linux sends again what it had cut",
    },
    Row {
        script: "own zero window",
        what: &["kernel: [.] 1:1(0) ack …", "ours: [.] 1:1(0) ack …"],
        reason: "Linux charges the receive buffer for the memory of a segment, we for its bytes: the window closes \
                 later, and every number after that differs",
    },
    Row {
        script: "cork times out",
        what: &["earlier: [.] 1:11(10)", "later: [F.] 11:11(0)"],
        reason: "a cork holds for 200 ms (tcp(7)); Linux looks when its probe timer runs out, one RTO after the write",
    },
];

/// With what ships alone.
const DEFAULT: &[Row] = &[Row {
    script: "peer's zero window",
    what: &["kernel: [.] 4344:4344(0)", "ours: [.] 4345:4346(1)"],
    reason: "a probe of a shut window carries the next byte (RFC 9293, section 3.8.6.1); Linux's is empty",
}];

/// Returns the differences that a profile is expected to show.
pub(crate) fn rows(profile: Profile) -> Vec<Row> {
    let own = if profile == Profile::Production { DEFAULT } else { &[] };
    [COMMON, own].concat()
}

/// Result of a script's run against the table.
#[derive(Default)]
pub(crate) struct Verdict {
    /// Differences that no row expects.
    pub(crate) unexplained: Vec<Difference>,
    /// Expected differences that did not occur.
    pub(crate) unseen: Vec<&'static str>,
    pub(crate) reasons: Vec<&'static str>,
}

impl Verdict {
    pub(crate) fn of(rows: &[Row], script: &str, differences: Vec<Difference>) -> Verdict {
        // What is expected, how often it was seen, and the reason.
        let mut expected: Vec<(&'static str, u32, &Row)> = rows
            .iter()
            .filter(|row| row.script == script || row.script == ANY)
            .flat_map(|row| row.what.iter().map(move |what| (*what, 0, row)))
            .collect();
        let mut verdict = Verdict::default();
        for difference in differences {
            let shown = difference.to_string();
            let fits = |(what, seen, _): &&mut (&str, u32, &Row)| match what.strip_suffix('…') {
                Some(start) => shown.starts_with(start),
                None => *seen == 0 && shown.starts_with(what),
            };
            match expected.iter_mut().find(fits) {
                Some((_, seen, row)) => {
                    *seen += 1;
                    if !verdict.reasons.contains(&row.reason) {
                        verdict.reasons.push(row.reason);
                    }
                }
                None => verdict.unexplained.push(difference),
            }
        }
        let missing = expected.iter().filter(|(_, seen, row)| *seen == 0 && row.script != ANY);
        verdict.unseen = missing.map(|(what, ..)| *what).collect();
        verdict
    }

    pub(crate) fn is_as_expected(&self) -> bool {
        self.unexplained.is_empty() && self.unseen.is_empty()
    }
}

#[test]
fn every_difference_needs_a_row_and_every_row_a_difference() {
    let rows = [Row { script: "a", what: &["ours: P", "later: F"], reason: "because" }];
    let ours = || Difference::Ours("P".into());
    let time = || Difference::Time("F".into(), second(1), second(2));
    assert!(Verdict::of(&rows, "a", vec![ours(), time()]).is_as_expected());
    assert_eq!(Verdict::of(&rows, "a", vec![ours()]).unseen, ["later: F"]);
    assert_eq!(Verdict::of(&rows, "a", vec![ours(), ours(), time()]).unexplained, [ours()]);
    assert_eq!(Verdict::of(&rows, "b", vec![ours()]).unexplained, [ours()]);
    assert!(Verdict::of(&rows, "b", Vec::new()).is_as_expected());
    let rows = [Row { script: ANY, what: &["ours: P…"], reason: "often" }];
    let verdict = Verdict::of(&rows, "a", vec![ours(), ours()]);
    assert!(verdict.is_as_expected() && verdict.reasons == ["often"]);
    assert!(Verdict::of(&rows, "a", Vec::new()).is_as_expected());
}

#[cfg(test)]
fn second(count: u64) -> base::Duration {
    base::Duration::from_secs(count)
}
