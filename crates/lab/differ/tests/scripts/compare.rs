//! Packets of the near end, without parts that differ from run to run, and the differences of two such lists.

use crate::path::{End, Seen};
use base::Duration;
use std::fmt;
use wire::tcp::Flags;

/// How far the time since the segment before may differ: by a quarter of the longer one, or by this, which is less than
/// a delayed acknowledgment (40 ms) and more than what a busy machine adds.
const TOLERANCE: Duration = Duration::from_millis(28);

/// One segment of the near end, or one answer that its application got.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Line {
    /// Since the first segment of the connection; an answer has no time.
    pub(crate) at: Option<Duration>,
    /// Flags except PSH, numbers from the initial ones, payload, whether the window is shut, options.
    pub(crate) text: String,
    pub(crate) push: bool,
}

/// Difference between the two.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Difference {
    Kernel(String),
    Ours(String),
    /// Both do it, but only one (the kernel, if true) with PSH.
    Push(String, bool),
    /// Both do it, so long after what they had in common before.
    Time(String, Duration, Duration),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Kernel(text) => write!(f, "kernel: {text}"),
            Difference::Ours(text) => write!(f, "ours: {text}"),
            Difference::Push(text, true) => write!(f, "PSH of the kernel's only: {text}"),
            Difference::Push(text, false) => write!(f, "PSH of ours only: {text}"),
            Difference::Time(text, kernel, ours) => {
                let order = if kernel < ours { "later" } else { "earlier" };
                write!(f, "{order}: {text} (kernel after {kernel:.0?}, ours after {ours:.0?})")
            }
        }
    }
}

/// The segments of the near end as lines.
pub(crate) fn normalise(seen: &[Seen]) -> Vec<Line> {
    let Some(start) = seen.first().map(|segment| segment.at) else { return Vec::new() };
    let mut initial = [None; 2];
    let mut lines = Vec::new();
    for segment in seen {
        let (own, other) = (segment.from as usize, segment.from.other() as usize);
        let has = |flag| segment.flags.has(flag);
        // The first number that was heard of an end is its initial one: also that of a reset that is all it sends.
        let seq = segment.seq.wrapping_sub(*initial[own].get_or_insert(segment.seq));
        let ack = has(Flags::ACK).then(|| segment.ack.wrapping_sub(initial[other].unwrap_or(0)));
        if segment.from == End::Far {
            continue;
        }
        let flags = Flags(segment.flags.0 & !Flags::PSH.0);
        let mut text = format!("{flags:?} {seq}:{}({})", seq.wrapping_add(segment.len), segment.len);
        text.extend(ack.map(|ack| format!(" ack {ack}")));
        if segment.window == 0 && !has(Flags::RST) {
            text.push_str(" win 0");
        }
        if !segment.options.is_empty() {
            text.push_str(&format!(" <{}>", segment.options));
        }
        lines.push(Line { at: Some(segment.at.since(start)), text, push: has(Flags::PSH) });
    }
    lines
}

/// The differences, in order: the longest common part of both lists is what they have in common.
pub(crate) fn differences(kernel: &[Line], ours: &[Line]) -> Vec<Difference> {
    let (n, m) = (kernel.len(), ours.len());
    let mut common = vec![vec![0_u32; m + 1]; n + 1];
    for i in (0..n).rev() {
        for j in (0..m).rev() {
            common[i][j] = match kernel[i].text == ours[j].text {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    let mut before = (Duration::ZERO, Duration::ZERO);
    while i < n || j < m {
        if i < n && j < m && kernel[i].text == ours[j].text {
            if let (Some(a), Some(b)) = (kernel[i].at, ours[j].at) {
                let (after_a, after_b) = (a - before.0, b - before.1);
                if after_a.abs_diff(after_b) > TOLERANCE.max(after_a.max(after_b) / 4) {
                    found.push(Difference::Time(kernel[i].text.clone(), after_a, after_b));
                }
                before = (a, b);
            }
            if kernel[i].push != ours[j].push {
                found.push(Difference::Push(kernel[i].text.clone(), kernel[i].push));
            }
            (i, j) = (i + 1, j + 1);
        } else if j == m || i < n && common[i + 1][j] >= common[i][j + 1] {
            found.push(Difference::Kernel(kernel[i].text.clone()));
            i += 1;
        } else {
            found.push(Difference::Ours(ours[j].text.clone()));
            j += 1;
        }
    }
    found
}

#[test]
fn differences_are_found_and_agreement_is_none() {
    let line =
        |ms: u64, text: &str| Line { at: Some(Duration::from_millis(ms)), text: text.into(), push: false };
    let kernel = [line(0, "S"), line(100, "."), line(200, "F")];
    assert!(differences(&kernel, &kernel).is_empty());
    let ours = [line(0, "S"), line(100, "P"), line(900, "F")];
    let found: Vec<String> = differences(&kernel, &ours).iter().map(ToString::to_string).collect();
    assert_eq!(found, ["kernel: .", "ours: P", "later: F (kernel after 200ms, ours after 900ms)"]);
    // What is late once is told once: the rest follows at the same distance.
    let ours = [line(0, "S"), line(140, "."), line(240, "F")];
    assert_eq!(differences(&kernel, &ours).len(), 1);
    let pushed = [line(0, "S"), Line { push: true, ..line(100, ".") }, line(200, "F")];
    assert_eq!(differences(&kernel, &pushed), [Difference::Push(".".into(), false)]);
    let ours = [line(20, "S"), line(110, "."), line(225, "F")];
    assert!(differences(&kernel, &ours).is_empty(), "within the tolerance");
}

#[test]
fn segments_become_lines_without_what_is_random() {
    let segment = |ms: u64, from, flags, seq, ack, len, options: &str| Seen {
        at: base::Instant::from_millis(ms),
        from,
        flags,
        seq,
        ack,
        len,
        window: 0,
        options: options.into(),
    };
    let seen = [
        segment(5, End::Near, Flags::SYN, u32::MAX, 0, 0, "mss 1460"),
        segment(30, End::Far, Flags::SYN | Flags::ACK, 70, 0, 0, ""),
        segment(55, End::Near, Flags::ACK | Flags::PSH, 0, 71, 5, "TS"),
    ];
    let lines = normalise(&seen);
    assert_eq!(lines[0].text, "[S] 0:0(0) win 0 <mss 1460>");
    assert_eq!(lines[1].text, "[.] 1:6(5) ack 1 win 0 <TS>");
    assert_eq!(lines[1].at, Some(Duration::from_millis(50)));
    assert_eq!((lines.len(), lines[0].push, lines[1].push), (2, false, true));
}
