//! The first difference between two traces.

use super::input::MSS;
use super::trace::{Moment, Seen, Trace, line};
use base::Duration;
use drill::lang::{Body, Flags, Packet, Range, Segment};
use std::fmt;

/// How far the time of a packet since the step before it may differ: by a quarter of the longer one, or by this, which
/// is less than a delayed acknowledgment (40 ms) and more than what clocks and a busy machine add. What a timer sends
/// may as well be so far off from what the same end sent before, or as far as `lateness` says. These are the only
/// tolerances.
pub const TOLERANCE: Duration = Duration::from_millis(28);

/// Linux rounds a timeout up to ticks, and begins to count with the next tick: two ticks of 4 ms (CONFIG_HZ = 250).
const TICKS: Duration = Duration::from_millis(8);

/// Returns how much later than after `length` a timer may run out. From 64 ticks on Linux rounds its end up by up to an
/// eighth (kernel/time/timer.c).
fn lateness(length: Duration) -> Duration {
    TOLERANCE.max(length / 8 + TICKS)
}

/// A difference after a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Number of the step, from 0; the number of steps for the states at the end.
    pub step: usize,
    /// Lines of the kernel that this stack did not show.
    pub kernel: Vec<String>,
    /// Lines of this stack that the kernel did not show.
    pub ours: Vec<String>,
}

impl Difference {
    /// Returns the bare acknowledgment that one of the two sent first and the other did not, and what differs beside
    /// it.
    pub(super) fn without_acknowledgment(&self) -> Option<(Difference, Difference)> {
        let is_bare = |line: &String| line.starts_with(". ") && line.contains("(0) ");
        let (kernel, ours) = (self.kernel.first()?, self.ours.first()?);
        let part = |kernel: &[String], ours: &[String]| Difference {
            step: self.step,
            kernel: kernel.to_vec(),
            ours: ours.to_vec(),
        };
        match (is_bare(kernel), is_bare(ours)) {
            (true, false) => Some((part(&self.kernel[..1], &[]), part(&self.kernel[1..], &self.ours))),
            (false, true) => Some((part(&[], &self.ours[..1]), part(&self.kernel, &self.ours[1..]))),
            _ => None,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = |lines: &[String]| if lines.is_empty() { "nothing".into() } else { lines.join("; ") };
        write!(f, "step {}: kernel: {} | here: {}", self.step + 1, lines(&self.kernel), lines(&self.ours))
    }
}

/// How long an acknowledgment may be delayed on Linux, mostly.
pub(super) const DELAYED: Duration = Duration::from_millis(40);

/// Time within which segments leave together: one call or one segment from the peer made them.
pub(super) const TOGETHER: Duration = Duration::from_millis(3);

/// Returns how far the time of a packet may be off.
fn tolerance(seen: &Seen) -> Duration {
    TOLERANCE.max(seen.at / 4) + seen.unread
}

/// Did a timer that may have run since before the step send data, a SYN or a FIN?
fn is_by_timer(seen: &Seen, least: Duration) -> bool {
    seen.at > least && super::case::is_numbered(&seen.packet)
}

/// Returns how long after the step the other one may send it yet.
fn latest(seen: &Seen, least: Duration) -> Duration {
    let late = if is_by_timer(seen, least) { lateness(seen.gap) } else { Duration::ZERO };
    seen.at + tolerance(seen).max(late + seen.unread)
}

/// Did each leave as long after what the same end had sent before? What came before may have been off itself.
fn is_after_alike(a: &Seen, b: &Seen) -> bool {
    a.gap.abs_diff(b.gap) <= lateness(a.gap.max(b.gap)) + a.unread
}

/// Returns the difference after a step, if there is one, which both were watched for `until`.
pub fn differ(step: usize, a: &Moment, b: &Moment, until: Duration) -> Option<Difference> {
    let (mut a, mut b) = (joined(a), joined(b));
    trim(&mut a, &mut b, until);
    let lines = |moment: &Moment| {
        let mut lines: Vec<String> = moment.answer.iter().map(|answer| format!("= {answer}")).collect();
        lines.extend(moment.seen.iter().map(|seen| line(&seen.packet)));
        lines
    };
    let (kernel, ours) = (lines(&a), lines(&b));
    if kernel != ours {
        // What both did is not told, from the front.
        let front = kernel.iter().zip(&ours).take_while(|(a, b)| a == b).count();
        return Some(Difference { step, kernel: kernel[front..].to_vec(), ours: ours[front..].to_vec() });
    }
    let is_off = |(a, b): &(&Seen, &Seen)| {
        let is_off = a.at.abs_diff(b.at) > tolerance(a).max(tolerance(b));
        is_off && !(is_by_timer(a, TOLERANCE) && is_by_timer(b, TOGETHER) && is_after_alike(a, b))
    };
    let (a, b) = a.seen.iter().zip(&b.seen).find(is_off)?;
    let timed = |seen: &Seen| vec![format!("after {} ms: {}", seen.at.as_millis(), line(&seen.packet))];
    Some(Difference { step, kernel: timed(a), ours: timed(b) })
}

/// Leaves out what one of the two sent so late that the other one may send it after the watch.
fn trim(kernel: &mut Moment, ours: &mut Moment, until: Duration) {
    while kernel.seen.len() != ours.seen.len() {
        // In virtual time what is no answer is a timer's.
        let (longer, shorter, least) = if kernel.seen.len() > ours.seen.len() {
            (&mut *kernel, &*ours, TOLERANCE)
        } else {
            (&mut *ours, &*kernel, TOGETHER)
        };
        let may_be_later = |last: &mut Seen| last.at > least && latest(last, least) > until;
        // The other one may have sent it, and something else is missing there.
        let missing = longer.seen.last().is_some_and(|last| {
            let last = line(&last.packet);
            let count = |seen: &[Seen]| seen.iter().filter(|seen| line(&seen.packet) == last).count();
            count(&longer.seen) > count(&shorter.seen)
        });
        if !missing || longer.seen.pop_if(may_be_later).is_none() {
            return;
        }
    }
}

/// Returns how long after the next step a timer may run out on one of the two that ran out on the other one so shortly
/// before it.
pub(super) fn timer_beside(a: &Moment, b: &Moment, until: Duration) -> Option<Duration> {
    let (mut a, mut b) = (joined(a), joined(b));
    let counts = (a.seen.len(), b.seen.len());
    let (last, least) =
        if counts.0 > counts.1 { (a.seen.last(), TOLERANCE) } else { (b.seen.last(), TOGETHER) };
    let left =
        last.filter(|last| is_by_timer(last, least)).map(|last| latest(last, least).saturating_sub(until));
    trim(&mut a, &mut b, until);
    left.filter(|_| counts != (a.seen.len(), b.seen.len()))
}

/// Returns the difference at the end: complaints, which both may have, then states.
pub fn differ_at_end(step: usize, kernel: &Trace, ours: &Trace) -> Option<Difference> {
    if !kernel.wrong.is_empty() || !ours.wrong.is_empty() {
        return Some(Difference { step, kernel: kernel.wrong.clone(), ours: ours.wrong.clone() });
    }
    let end = |trace: &Trace| vec![format!("ends in [{}]", trace.end)];
    (kernel.end != ours.end).then(|| Difference { step, kernel: end(kernel), ours: end(ours) })
}

/// Returns the moment with data that left together in one piece: where it is cut is not specified (RFC 9293, section
/// 3.7), as long as no piece is beyond the peer's MSS and there are no more pieces than needed.
fn joined(moment: &Moment) -> Moment {
    let mut seen: Vec<Seen> = Vec::new();
    let mut pieces = 1;
    for next in &moment.seen {
        let last = seen.last_mut().filter(|last| next.at.abs_diff(last.at) <= TOGETHER);
        if let Some(last) = last
            && pieces_join(&mut last.packet, &next.packet, pieces)
        {
            pieces += 1;
            continue;
        }
        pieces = 1;
        seen.push(next.clone());
    }
    Moment { answer: moment.answer.clone(), seen }
}

/// Joins `next` to the `pieces` pieces before it, if it is the next one.
fn pieces_join(into: &mut Packet, next: &Packet, pieces: u32) -> bool {
    let (Body::Tcp(a), Body::Tcp(b)) = (&mut into.body, &next.body) else { return false };
    let (Some(before), Some(after)) = (a.seq, b.seq) else { return false };
    let bits = |tcp: &Segment| tcp.flags.bits & !(Flags::PSH | Flags::FIN);
    // The least that a full piece has beside timestamps and blocks.
    let full = u32::from(MSS) - 40;
    let is_next = bits(a) == Flags::ACK
        && bits(b) == Flags::ACK
        && !a.flags.has(Flags::FIN)
        && a.len > 0
        && (b.len > 0 || b.flags.has(Flags::FIN))
        && before.end == after.start
        && (a.ack, b.len <= u32::from(MSS)) == (b.ack, true)
        && pieces <= a.len / full + 1;
    if is_next {
        a.seq = Some(Range { start: before.start, end: after.end });
        a.len += b.len;
        a.flags.bits |= b.flags.bits & (Flags::PSH | Flags::FIN);
    }
    is_next
}

#[test]
fn a_difference_is_found_and_a_little_time_is_none() {
    let moment = |answer: &str| Moment { answer: Some(answer.into()), seen: Vec::new() };
    assert_eq!(differ(1, &moment("0x1"), &moment("0x1"), Duration::MAX), None);
    let found = differ(1, &moment("0x1"), &moment("0x5"), Duration::MAX).expect("a difference");
    assert_eq!(found.to_string(), "step 2: kernel: = 0x1 | here: = 0x5");
    let ended = Trace { end: "CLOSED".into(), ..Trace::default() };
    assert_eq!(differ_at_end(2, &Trace::default(), &ended).expect("a difference").step, 2);
    let unsent = Trace { wrong: vec!["it cannot be built".into()], ..Trace::default() };
    assert!(differ_at_end(2, &unsent, &unsent).is_some(), "a step that neither of the two saw");
}

#[test]
fn data_that_leaves_together_is_compared_by_its_ends() {
    let piece = |flags, start, end, at| {
        let tcp = Segment {
            ports: None,
            flags: Flags { bits: flags, ..Flags::default() },
            seq: Some(Range { start, end }),
            len: end - start,
            absolute: false,
            ack: Some(1),
            window: Some(9),
            urgent: None,
            options: None,
            udp: None,
        };
        let ip = drill::lang::IpInfo::default();
        let direction = drill::lang::Direction::Out;
        let packet = Packet { direction, outer: Vec::new(), ip, body: Body::Tcp(tcp) };
        let at = Duration::from_millis(at);
        Seen { at, gap: at, unread: Duration::ZERO, packet }
    };
    let (ack, fin) = (Flags::ACK, Flags::ACK | Flags::FIN);
    let moment = |seen: &[Seen]| Moment { answer: None, seen: seen.to_vec() };
    let two = moment(&[piece(ack, 1, 989, 0), piece(ack, 989, 1001, 0), piece(fin, 1001, 1001, 0)]);
    assert_eq!(differ(0, &two, &moment(&[piece(fin, 1, 1001, 0)]), Duration::MAX), None);
    let later = moment(&[piece(ack, 1, 989, 0), piece(fin, 989, 1001, 90)]);
    assert!(differ(0, &later, &two, Duration::MAX).is_some(), "another time");
    let early = moment(&[piece(ack, 1, 989, 0), piece(fin, 989, 1001, 50)]);
    assert!(differ(0, &later, &early, Duration::MAX).is_some(), "40 ms later");
    let mut unread = later.clone();
    unread.seen[1].unread = Duration::from_millis(30);
    assert_eq!(differ(0, &unread, &early, Duration::MAX), None, "it may have waited to be read");
    let mut after_alike = later.clone();
    after_alike.seen[1].gap = Duration::from_millis(60);
    assert_eq!(differ(0, &after_alike, &early, Duration::MAX), None, "as long after what came before");
    let timed = |at, gap| {
        let mut seen = piece(ack, 1, 989, at);
        seen.gap = Duration::from_millis(gap);
        moment(&[seen])
    };
    assert_eq!(differ(0, &timed(180, 464), &timed(123, 426), Duration::MAX), None, "rounded up by an eighth");
    assert_eq!(differ(0, &timed(180, 323), &timed(123, 276), Duration::MAX), None, "and by two ticks");
    assert!(differ(0, &timed(180, 330), &timed(123, 276), Duration::MAX).is_some());
    let until = Duration::from_millis(160);
    assert_eq!(
        differ(0, &moment(&[]), &timed(123, 426), until),
        None,
        "the kernel's may come after the watch"
    );
    assert!(differ(0, &moment(&[]), &timed(123, 123), until).is_some());
    let first = moment(&later.seen[..1]);
    assert!(differ(0, &later, &first, Duration::from_millis(450)).is_some(), "nothing for long");
    assert_eq!(differ(0, &later, &first, Duration::from_millis(100)), None, "it may come after the watch");
    let left = timer_beside(&later, &first, Duration::from_millis(100));
    assert_eq!(left, Some(Duration::from_millis(18)), "28 ms from 90 ms on");
    assert_eq!(timer_beside(&later, &first, Duration::from_millis(450)), None);
    let small: Vec<Seen> = (0..10).map(|at| piece(ack, 1 + at, 2 + at, 0)).collect();
    assert!(
        differ(0, &moment(&small), &moment(&[piece(ack, 1, 11, 0)]), Duration::MAX).is_some(),
        "too many pieces"
    );
}
