//! Records as lines for people.

use super::record::{Record, Segment, What, error_name};
use super::ring::Ring;
use base::{Instant, Seq};
use cc::Signal;
use std::fmt::{self, Display, Formatter};
use tcp::Incident;
use wire::tcp::Flags;

/// Returns the name of a signal to a policy.
fn signal_name(signal: Signal) -> String {
    match signal {
        Signal::Loss => "loss".into(),
        Signal::Ecn => "mark".into(),
        Signal::Timeout { nth } => format!("timeout {nth}"),
    }
}

/// Sequence numbers from the initial one of the side that counts them, where it is known.
struct Numbers {
    initial: Option<Seq>,
}

impl Numbers {
    fn of(&self, seq: Seq) -> u32 {
        self.initial.map_or(seq.raw(), |initial| seq.distance_from(initial).cast_unsigned())
    }
}

impl Ring {
    /// Returns the text of a record, without its time.
    pub fn line(&self, record: &Record) -> String {
        let (ours, theirs) = (Numbers { initial: self.initial.0 }, Numbers { initial: self.initial.1 });
        match &record.what {
            What::In(segment) => format!("in   {}", segment_line(segment, &theirs, &ours)),
            What::Out(segment) => format!("out  {}", segment_line(segment, &ours, &theirs)),
            What::Again(segment) => format!("out  {}  again", segment_line(segment, &ours, &theirs)),
            What::State(from, to) => format!("{from} -> {to}"),
            What::Window { cwnd, ssthresh: u32::MAX } => format!("cwnd {cwnd}"),
            What::Window { cwnd, ssthresh } => format!("cwnd {cwnd}, ssthresh {ssthresh}"),
            What::Incident(incident) => match incident {
                Incident::Timer(timer) => format!("timer: {timer}"),
                Incident::Timeout { nth } => format!("retransmission timeout {nth}"),
                Incident::RecoveryEntered => "recovery begins".into(),
                Incident::RecoveryLeft { needless: false } => "recovery ends".into(),
                Incident::RecoveryLeft { needless: true } => "recovery was needless".into(),
                Incident::Congestion(signal) => format!("congestion: {}", signal_name(*signal)),
                Incident::Dropped(reason) => format!("dropped: {reason}"),
                Incident::Failed(error) => format!("failed: {}", error_name(*error)),
            },
        }
    }

    /// How the connection stands, in a word.
    pub fn end(&self) -> &'static str {
        match (self.closed, self.error) {
            (_, Some(error)) => error_name(error),
            (Some(_), None) if self.reset => "reset by us",
            (Some(_), None) => "closed",
            (None, None) => "open",
        }
    }
}

fn segment_line(segment: &Segment, seqs: &Numbers, acks: &Numbers) -> String {
    let Segment { seq, ack, len, window, flags } = *segment;
    let start = seqs.of(seq);
    let mut line = format!("{flags:?} seq {start}");
    if len > 0 {
        line += &format!(":{}", start.wrapping_add(len));
    }
    if flags.has(Flags::ACK) {
        line += &format!(" ack {}", acks.of(ack));
    }
    line + &format!(" win {window} len {len}")
}

/// Seconds, from the first record.
struct After(Instant, Instant);

impl Display for After {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12.6}", self.0.since(self.1).as_secs_f64())
    }
}

impl Display for Ring {
    /// A head line and a line a record, times in seconds since the first one.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (local, remote) = (self.key.local(), self.key.remote());
        writeln!(
            f,
            "{local} - {remote}: {}, {} records, {} older ones overwritten",
            self.end(),
            self.made,
            self.overwritten()
        )?;
        for record in self.records() {
            writeln!(f, "{} {}", After(record.at, self.begun), self.line(record))?;
        }
        Ok(())
    }
}
