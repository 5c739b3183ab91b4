//! One thing that happened to a connection, as it is kept: a fixed-size copy.

use base::{Instant, Seq};
use tcp::{Error, Incident, State};
use wire::tcp::Flags;

/// A segment as the black box keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Sequence number.
    pub seq: Seq,
    /// Acknowledgment number; meaningful with ACK.
    pub ack: Seq,
    /// Bytes of data.
    pub len: u32,
    /// The sender's window in bytes, as far as its scale is known.
    pub window: u32,
    /// Control bits.
    pub flags: Flags,
}

/// Event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A segment arrived.
    In(Segment),
    /// A segment left.
    Out(Segment),
    /// A segment left of which something had left before.
    Again(Segment),
    /// The state changed.
    State(State, State),
    /// The congestion window or the threshold is not what it was when the segment before passed, bytes.
    Window {
        /// Congestion window.
        cwnd: u32,
        /// Slow-start threshold, [`u32::MAX`] before the first congestion.
        ssthresh: u32,
    },
    /// Anything else.
    Incident(Incident),
}

/// Event with its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When.
    pub at: Instant,
    /// Event.
    pub what: What,
}

const _: () = assert!(size_of::<Record>() <= 40, "a record stays a small copy");

/// The end of a connection, in a word.
pub(super) fn error_name(error: Error) -> &'static str {
    match error {
        Error::Refused => "refused",
        Error::Reset => "reset by the peer",
        Error::TimedOut => "timed out",
        Error::HostUnreachable => "host unreachable",
        Error::NetUnreachable => "network unreachable",
        Error::Aborted => "aborted",
        Error::BrokenPipe => "reset by the peer after its FIN",
        Error::NetDown => "the stack below is gone",
    }
}
