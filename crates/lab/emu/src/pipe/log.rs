//! The forensic log: one row for each packet that enters, leaves or is dropped, in the order of time for each pipe.

use base::{Addr, Instant};
use std::fmt;
use wire::packet::{Content, parse_frame};

base::names! {
    /// Why a pipe dropped a packet.
    pub enum DropReason {
        Down: "down", "The pipe is down.",
        Listed: "pls", "Its position was named.",
        Lost: "plr", "Chance, or its turn.",
        Managed: "aqm", "Queue management.",
        Full: "full", "No room in the queue.",
    }
}

/// Event of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipeEvent {
    /// It was put into the queue.
    Enqueued,
    /// Its last byte left the line.
    Dequeued,
    /// It is gone: on arrival, or (CoDel) at the head of the queue after it was enqueued.
    Dropped(DropReason),
}

/// One row. In CSV, with the columns of [`LogRow::HEADER`]; what a packet does not have is left empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogRow {
    /// When.
    pub at: Instant,
    /// Which pipe: its number ([`crate::Network`] counts them from 0, see [`crate::PipeId`]).
    pub pipe: u32,
    /// Kind of event.
    pub event: PipeEvent,
    /// The packet.
    pub packet: PacketName,
    /// Packets in the queue after the event.
    pub packets: usize,
    /// Bytes in the queue after the event.
    pub bytes: u64,
}

/// A packet, as far as the log names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketName {
    /// Its number since the pipe was configured, the first being 1.
    pub nth: u64,
    /// Its bytes as the queue counts them.
    pub len: u32,
    /// IP protocol and addresses, if it is IP.
    pub ip: Option<(u8, Addr, Addr)>,
    /// Ports of TCP or UDP, source first.
    pub ports: Option<(u16, u16)>,
    /// Sequence number and bytes of data, if it is a segment of TCP.
    pub segment: Option<(u32, u32)>,
}

impl PacketName {
    pub(super) fn of(nth: u64, size: usize, frame: &[u8]) -> PacketName {
        let mut name = PacketName { nth, len: size as u32, ip: None, ports: None, segment: None };
        if let Ok(Content::Ip(ip)) = parse_frame(frame, frame.len()).map(|parsed| parsed.content) {
            name.ip = Some((ip.protocol, ip.src, ip.dst));
            name.ports = ports(ip.protocol, ip.upper(frame));
            if let (wire::protocol::TCP, Ok((.., segment))) = (ip.protocol, ip.tcp(frame)) {
                name.segment = Some((segment.seq.raw(), segment.payload.len() as u32));
            }
        }
        name
    }
}

fn ports(protocol: u8, upper: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *upper.first_chunk()?;
    let known = matches!(protocol, wire::protocol::TCP | wire::protocol::UDP);
    known.then(|| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

impl LogRow {
    /// The columns: microseconds, the pipe, `enq`, `deq` or `drop`, why it was dropped, the packet's number, its
    /// bytes, IP protocol, source and destination with ports, packets and bytes in the queue afterwards, a segment's
    /// sequence number and bytes of data.
    pub const HEADER: &'static str = "time_us,pipe,event,reason,packet,bytes,protocol,src,sport,dst,dport,\
                                      queue_packets,queue_bytes,seq,data";
}

impl fmt::Display for LogRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (event, reason) = match self.event {
            PipeEvent::Enqueued => ("enq", ""),
            PipeEvent::Dequeued => ("deq", ""),
            PipeEvent::Dropped(reason) => ("drop", reason.name()),
        };
        let PacketName { nth, len, ip, ports, segment } = self.packet;
        write!(f, "{},{},{event},{reason},{nth},{len}", self.at.as_micros(), self.pipe)?;
        match (ip, ports) {
            (Some((protocol, src, dst)), Some((sport, dport))) => {
                write!(f, ",{protocol},{src},{sport},{dst},{dport}")?;
            }
            (Some((protocol, src, dst)), None) => write!(f, ",{protocol},{src},,{dst},")?,
            (None, _) => f.write_str(",,,,,")?,
        }
        write!(f, ",{},{}", self.packets, self.bytes)?;
        match segment {
            Some((seq, data)) => write!(f, ",{seq},{data}"),
            None => f.write_str(",,"),
        }
    }
}
