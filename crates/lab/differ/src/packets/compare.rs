//! The first difference between two traces.

use super::input::Input;
use super::trace::{Moment, Seen, Trace, line};
use base::Duration;
use std::fmt;

/// How far the time of a packet since the step before it may differ: by a quarter of the longer one, or by this, which
/// is less than a delayed acknowledgment (40 ms) and more than what clocks and a busy machine add. This is the only
/// tolerance.
pub const TOLERANCE: Duration = Duration::from_millis(28);

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

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = |lines: &[String]| if lines.is_empty() { "nothing".into() } else { lines.join("; ") };
        write!(f, "step {}: kernel: {} | here: {}", self.step + 1, lines(&self.kernel), lines(&self.ours))
    }
}

/// Returns the first difference; what follows it may be its consequence.
pub fn first(input: &Input, kernel: &Trace, ours: &Trace) -> Option<Difference> {
    for step in 0..input.steps.len() {
        let (a, b) = (kernel.moments.get(step), ours.moments.get(step));
        let (Some(a), Some(b)) = (a, b) else { break };
        if let Some((kernel, ours)) = differ(a, b) {
            return Some(Difference { step, kernel, ours });
        }
    }
    let step = input.steps.len();
    let wrong = |trace: &Trace| trace.wrong.clone();
    if kernel.wrong != ours.wrong {
        return Some(Difference { step, kernel: wrong(kernel), ours: wrong(ours) });
    }
    let is_same = kernel.end == ours.end;
    (!is_same).then(|| Difference { step, kernel: vec![end(kernel)], ours: vec![end(ours)] })
}

fn end(trace: &Trace) -> String {
    format!("ends in [{}]", trace.end)
}

fn differ(a: &Moment, b: &Moment) -> Option<(Vec<String>, Vec<String>)> {
    let lines = |moment: &Moment| {
        let mut lines: Vec<String> = moment.answer.iter().map(|answer| format!("= {answer}")).collect();
        lines.extend(moment.seen.iter().map(|seen| line(&seen.packet)));
        lines
    };
    let (kernel, ours) = (lines(a), lines(b));
    if kernel != ours {
        // What both did is not told, from the front and from the back.
        let front = kernel.iter().zip(&ours).take_while(|(a, b)| a == b).count();
        return Some((kernel[front..].to_vec(), ours[front..].to_vec()));
    }
    let is_off = |(a, b): &(&Seen, &Seen)| a.at.abs_diff(b.at) > TOLERANCE.max(a.at.max(b.at) / 4);
    let (a, b) = a.seen.iter().zip(&b.seen).find(is_off)?;
    let timed = |seen: &Seen| vec![format!("after {} ms: {}", seen.at.as_millis(), line(&seen.packet))];
    Some((timed(a), timed(b)))
}

#[test]
fn the_first_difference_is_found_and_a_little_time_is_none() {
    let moment = |answer: &str| Moment { answer: Some(answer.into()), seen: Vec::new() };
    let input = Input {
        seed: 0,
        isn: 0,
        steps: vec![
            super::input::Step {
                after: 1,
                action: super::input::Action::Call(super::input::Call::Poll)
            };
            2
        ],
    };
    let trace = |last: &str| Trace { moments: vec![moment("0x1"), moment(last)], ..Trace::default() };
    assert_eq!(first(&input, &trace("0x1"), &trace("0x1")), None);
    let found = first(&input, &trace("0x1"), &trace("0x5")).expect("a difference");
    assert_eq!(found.to_string(), "step 2: kernel: = 0x1 | here: = 0x5");
    let ended = Trace { end: "CLOSED".into(), ..trace("0x1") };
    assert_eq!(first(&input, &trace("0x1"), &ended).expect("a difference").step, 2);
}
