//! Settings of a queue, and the answers to those that put records in.

/// Treatment of a record that finds no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// It is dropped and counted; for whom a log must not delay.
    DropNew,
    /// Its producer waits, as long as an observer drains the rings and the file takes what they held.
    Block,
}

/// Why a record was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It is longer than [`Config::longest`].
    TooLong,
    /// There is no room, and waiting for some is not allowed or would be for ever.
    Full,
    /// There is no room, and the file takes nothing.
    Failed,
    /// The queue was closed.
    Closed,
}

/// How to open a queue.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Producers, each with a ring of its own.
    pub rings: usize,
    /// Bytes a ring holds at least, lengths of records included.
    pub room: usize,
    /// Longest record, bytes.
    pub longest: usize,
    /// For records that find no room.
    pub policy: Policy,
    /// A thread writes; otherwise [`Queue::drain`](super::Queue::drain) does.
    pub threaded: bool,
}

/// Counters of the records offered to a ring.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Records offered.
    pub offered: u64,
    /// Those in the file.
    pub written: u64,
    /// Those refused, and once the queue is closed all that are not in the file.
    pub dropped: u64,
}
