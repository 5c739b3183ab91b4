//! Traces of an end: its answers and its packets, without what differs from run to run.

use base::Duration;
use drill::lang::{Body, Flags, Packet, TcpOption};

/// A packet of the near end.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// Time since the step that it followed.
    pub at: Duration,
    /// Time since the packet before it that took sequence numbers, those that left together not counted.
    pub gap: Duration,
    /// How long it may have waited until it was read.
    pub unread: Duration,
    /// The packet in a script's words.
    pub packet: Packet,
}

/// A step and what followed it, until the next.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Moment {
    /// Answer of a call.
    pub answer: Option<String>,
    /// Packets.
    pub seen: Vec<Seen>,
}

/// Everything that an end did.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trace {
    /// One for each step.
    pub moments: Vec<Moment>,
    /// States of the connection's sockets when all was over, as Linux names them.
    pub end: String,
    /// Complaints about packets, whatever the other end did.
    pub wrong: Vec<String>,
    /// Time before each step since the one before, and how long was watched after the last, as it was.
    pub pauses: Vec<Duration>,
    /// The most that a step was late.
    pub late: Duration,
}

/// Returns what is compared of a packet: flags without PSH, numbers, payload, whether the window is shut, options.
pub fn line(packet: &Packet) -> String {
    let Body::Tcp(tcp) = &packet.body else { return packet.to_string() };
    let flags = Flags { bits: tcp.flags.bits & !Flags::PSH, ..tcp.flags };
    let (start, end) = tcp.seq.map_or((0, 0), |range| (range.start, range.end));
    let mut text = format!("{flags} {start}:{end}({})", tcp.len);
    if let Some(ack) = tcp.ack {
        text.push_str(&format!(" ack {ack}"));
    }
    if tcp.window == Some(0) && !tcp.flags.has(Flags::RST) {
        text.push_str(" win 0");
    }
    let mut options: Vec<String> = tcp.options.iter().flatten().filter_map(option).collect();
    if !options.is_empty() {
        options.sort();
        text.push_str(&format!(" <{}>", options.join(",")));
    }
    text
}

/// Returns the option without what depends on a clock; `None` if it says nothing.
fn option(option: &TcpOption) -> Option<String> {
    match option {
        TcpOption::Nop | TcpOption::Eol => None,
        TcpOption::Timestamps { ecr, .. } => Some(format!("TS ecr {ecr}")),
        other => Some(other.to_string()),
    }
}
