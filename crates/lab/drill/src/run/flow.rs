//! A connection as the script sees it and as it is: addresses, sequence numbers, timestamps.
//!
//! In a script, the sequence numbers of a segment with SYN are absolute and those of others count from the first SYN;
//! ISN and timestamps of the stack are its own. A flow translates both ways.

use base::Endpoint;
use std::collections::HashMap;

/// How far a connection has come, as far as it decides what a packet of the script means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// A socket, perhaps bound.
    Fresh,
    /// It listens: the next segment that comes in begins a connection.
    Listening,
    /// connect was called: its SYN is the next of ours.
    Connecting,
    /// The script has shown our SYN.
    SynSent,
    /// A segment came in from the peer; our SYN has not been seen.
    Accepting,
    /// Both sides' ISNs are known, or do not matter.
    Going,
}

/// A connection.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) stage: Stage,
    /// The script's number of the descriptor.
    pub(super) fd: Option<i64>,
    pub(super) local: Option<Endpoint>,
    pub(super) remote: Option<Endpoint>,
    /// Our ISN, live and in the script.
    pub(super) local_isn: (u32, u32),
    /// The peer's; the live one is the script's.
    pub(super) remote_isn: u32,
    /// Timestamps of ours that the script has shown, and the live ones.
    pub(super) stamps: HashMap<u32, u32>,
    /// The first of them.
    pub(super) first_stamp: Option<(u32, u32)>,
    /// Bytes that the application has written.
    pub(super) written: u64,
    /// Bytes that the application has read.
    pub(super) read: u64,
}

impl Flow {
    pub(super) fn new(stage: Stage, fd: Option<i64>) -> Flow {
        Flow {
            stage,
            fd,
            local: None,
            remote: None,
            local_isn: (0, 0),
            remote_isn: 0,
            stamps: HashMap::new(),
            first_stamp: None,
            written: 0,
            read: 0,
        }
    }

    /// Returns the offset from our sequence numbers in the script to the live ones.
    pub(super) fn local_offset(&self, syn: bool) -> u32 {
        let (live, script) = self.local_isn;
        if syn { live.wrapping_sub(script) } else { live }
    }

    /// Returns the offset from the peer's sequence numbers in the script to the live ones.
    pub(super) fn remote_offset(&self, syn: bool) -> u32 {
        if syn { 0 } else { self.remote_isn }
    }

    /// A timestamp of ours in the script, as it is live.
    pub(super) fn live_stamp(&self, script: u32) -> Option<u32> {
        self.stamps.get(&script).copied()
    }

    /// Remembers what the script calls a timestamp of ours.
    pub(super) fn show_stamp(&mut self, script: u32, live: u32) {
        self.stamps.insert(script, live);
        self.first_stamp.get_or_insert((script, live));
    }

    /// A live timestamp of ours as the script would call it.
    pub(super) fn script_stamp(&self, live: u32) -> Option<u32> {
        self.first_stamp.map(|(script, first)| script.wrapping_add(live.wrapping_sub(first)))
    }
}

/// Where a packet goes and comes from, live.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) source: Endpoint,
    pub(super) destination: Endpoint,
}

/// The byte that stands at relative sequence number `seq` (the first after SYN is 1) in either direction: data that
/// arrives in the wrong place is seen.
pub(super) fn byte(seq: u32) -> u8 {
    (seq.wrapping_mul(0x9e37_79b1) >> 24) as u8
}
