//! Packets of a capture joined with the state of their connection.
//!
//! A tap sees whole packets, a probe of TCP sees states. They meet in the writer, by what names a segment: the core
//! only copies. A packet that arrived is seen by the tap before the probe, one that leaves by the probe before the tap.

use base::{FlowKey, Instant};
use ring::{Consumer, Producer};
use std::collections::VecDeque;
use std::fmt::Write;
use tcp::{Info, Probe, Seen, State};
use wire::packet::{Content, parse_frame, parse_ip};
use wire::pcap::LinkType;
use wire::protocol;
use wire::tcp::{Flags, Header};

/// Notes that may wait for the writer.
const NOTES: usize = 1 << 14;
/// Notes that may wait for their packets: some never left, others came in pieces.
const WAITING_MAX: usize = 4_096;

/// Identity of a segment of a flow, in either direction. Offloads merge and cut data and move PSH and FIN about, so
/// those do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    key: FlowKey,
    seq: u32,
    ack: u32,
    flags: Flags,
    window: u16,
}

impl Name {
    fn new(key: FlowKey, seq: u32, ack: u32, flags: Flags, window: u16) -> Name {
        let ack = if flags.has(Flags::ACK) { ack } else { 0 };
        Name { key, seq, ack, flags: Flags(flags.0 & !(Flags::PSH | Flags::FIN).0), window }
    }

    /// The name of the TCP segment in a packet, if there is one.
    pub(crate) fn of_packet(link: LinkType, bytes: &[u8], whole: usize, outbound: bool) -> Option<Name> {
        let content = match link {
            LinkType::Ethernet => parse_frame(bytes, whole).ok()?.content,
            _ => Content::Ip(parse_ip(bytes, whole).ok()?),
        };
        let Content::Ip(packet) = content else { return None };
        if packet.protocol != protocol::TCP {
            return None;
        }
        let (src_port, dst_port, segment) = packet.tcp(bytes).ok()?;
        let (src, dst) =
            (base::Endpoint::new(packet.src, src_port), base::Endpoint::new(packet.dst, dst_port));
        let key = if outbound { FlowKey::new(src, dst) } else { FlowKey::new(dst, src) };
        Some(Name::new(key, segment.seq.raw(), segment.ack.raw(), segment.flags, segment.window))
    }
}

/// The state of a connection with the segment that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    name: Name,
    outbound: bool,
    state: State,
    repair: &'static str,
    control: &'static str,
    cwnd: u32,
    ssthresh: u32,
    srtt_us: u32,
    rttvar_us: u32,
    rto_us: u32,
    in_flight: u32,
    snd_wnd: u32,
    rcv_wnd: u32,
    unsent: u32,
    reassembly: u16,
    retransmits: u32,
}

impl Note {
    fn new(seen: &Seen<'_>) -> Note {
        let info = seen.conn.info(seen.now);
        let micros = |time: base::Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let Header { seq, ack, flags, window, .. } = seen.header();
        Note {
            name: Name::new(*seen.conn.key(), seq.raw(), ack.raw(), flags, window),
            outbound: seen.outbound,
            state: info.state,
            repair: match &info {
                Info { loss: true, .. } => "timeout",
                Info { recovery: true, .. } => "fast",
                Info { reduced: true, .. } => "reduced",
                Info { disorder: true, .. } => "disorder",
                _ => "none",
            },
            control: info.control,
            cwnd: info.window.cwnd,
            ssthresh: info.window.ssthresh,
            srtt_us: micros(info.srtt),
            rttvar_us: micros(info.rttvar),
            rto_us: micros(info.rto),
            in_flight: info.in_flight,
            snd_wnd: info.snd_wnd,
            rcv_wnd: info.rcv_wnd,
            unsent: info.unsent,
            reassembly: info.reassembly.runs,
            retransmits: info.retransmits,
        }
    }

    /// One line for a reader of captures: `key=value`, sizes in bytes, times in microseconds.
    fn line(&self, into: &mut String) {
        let ssthresh: &dyn std::fmt::Display = if self.ssthresh == u32::MAX { &"-" } else { &self.ssthresh };
        into.clear();
        // Writing to a String does not fail.
        let _ = write!(
            into,
            "state={} cwnd={} ssthresh={ssthresh} srtt_us={} rttvar_us={} rto_us={} in_flight={} unsent={} \
             snd_wnd={} rcv_wnd={} reassembly={} retransmits={} repair={} cc={}",
            self.state,
            self.cwnd,
            self.srtt_us,
            self.rttvar_us,
            self.rto_us,
            self.in_flight,
            self.unsent,
            self.snd_wnd,
            self.rcv_wnd,
            self.reassembly,
            self.retransmits,
            self.repair,
            self.control,
        );
    }
}

/// The core's end: attach it to the core whose port is tapped.
pub struct StateProbe {
    notes: Producer<Note>,
}

impl Probe for StateProbe {
    fn packet(&mut self, seen: &Seen<'_>) {
        // A packet whose state finds no room gets no comment.
        let _ = self.notes.push(Note::new(seen));
    }

    /// Each packet of the capture gets a state of its own.
    fn wants_each(&self) -> bool {
        true
    }

    fn state(&mut self, _: Instant, _: &FlowKey, _: State, _: State) {}
}

/// A packet that may still get its comment.
struct Held {
    header: crate::capture::PacketHeader,
    bytes: Vec<u8>,
    name: Option<Name>,
    /// The drain that took it out of the ring.
    drain: u64,
}

/// The writer's end: holds packets back until their states are known, or cannot come any more.
pub(crate) struct Annotator {
    notes: Consumer<Note>,
    /// Of packets that arrive, and of those that leave.
    waiting: [VecDeque<Note>; 2],
    held: VecDeque<Held>,
    /// Buffers of packets that were written.
    spare: Vec<Vec<u8>>,
    drain: u64,
    link: LinkType,
    comment: String,
}

/// Both ends. `link` is what the packets start with.
pub(crate) fn annotator(link: LinkType) -> (StateProbe, Annotator) {
    let (producer, consumer) = ring::queue(NOTES);
    let annotator = Annotator {
        notes: consumer,
        waiting: Default::default(),
        held: VecDeque::new(),
        spare: Vec::new(),
        drain: 0,
        link,
        comment: String::new(),
    };
    (StateProbe { notes: producer }, annotator)
}

impl Annotator {
    /// A packet came out of the ring.
    pub(crate) fn hold(&mut self, header: crate::capture::PacketHeader, bytes: &[u8]) {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        let name = Name::of_packet(self.link, bytes, header.len as usize, header.outbound);
        self.held.push_back(Held { header, bytes: copy, name, drain: self.drain });
    }

    /// Gives each packet whose time has come to `write`, with its comment or an empty one, in the order in which they
    /// passed. A packet that arrived waits until the next batch shows that the core has dealt with it; for two rounds
    /// at most, or none if these are the `last`.
    pub(crate) fn release(
        &mut self,
        last: bool,
        mut write: impl FnMut(&crate::capture::PacketHeader, &[u8], &str),
    ) {
        while let Some(note) = self.notes.pop() {
            let queue = &mut self.waiting[usize::from(note.outbound)];
            if queue.len() == WAITING_MAX {
                queue.pop_front();
            }
            queue.push_back(note);
        }
        let newest = self.held.iter().rev().find(|held| !held.header.outbound).map(|held| held.header.batch);
        while let Some(held) = self.held.front() {
            let header = held.header;
            let note = held.name.and_then(|name| take(&mut self.waiting, header.outbound, &name));
            let settled = last
                || held.name.is_none()
                || header.outbound
                || newest.is_some_and(|newest| newest != header.batch)
                || self.drain - held.drain >= 2;
            if note.is_none() && !settled {
                break;
            }
            self.comment.clear();
            if let Some(note) = note {
                note.line(&mut self.comment);
            }
            if let Some(held) = self.held.pop_front() {
                write(&header, &held.bytes, &self.comment);
                self.spare.push(held.bytes);
            }
        }
        self.spare.truncate(64);
        self.drain += 1;
    }
}

/// Takes the note of a segment. What arrives is dealt with in order, so notes before it belong to nothing that is still
/// awaited; what leaves may be overtaken by what is more urgent.
fn take(waiting: &mut [VecDeque<Note>; 2], outbound: bool, name: &Name) -> Option<Note> {
    let queue = &mut waiting[usize::from(outbound)];
    let at = queue.iter().position(|note| note.name == *name)?;
    if !outbound {
        queue.drain(..at);
        return queue.pop_front();
    }
    queue.remove(at)
}
