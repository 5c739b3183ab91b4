//! Observers of connections: the arguments of a probe, and when it is called.

use core::any::Any;

use base::{Duration, FlowKey, Instant};
use wire::tcp::{Header, Segment};

use crate::connection::{Bits, Connection};
use crate::{Cx, Incident, Pool, State, Timer, Transmit};

/// Sees a connection's segments, round-trip times and changes of state; for SIFTR, captures and tests. Must not block.
pub trait Probe: Any {
    /// A segment came in, and its connection has not processed it yet; or one goes out, and its connection has done all
    /// that sending means. Segments that receive offload delivers as one are seen as one, as are those of a port that
    /// merges or cuts: [`Seen::segments`] is their number.
    fn packet(&mut self, seen: &Seen<'_>);

    /// Must it see each segment as it came from the port? Then none are merged. Asked for every batch.
    fn wants_each(&self) -> bool {
        false
    }

    /// The state changed.
    fn state(&mut self, now: Instant, key: &FlowKey, from: State, to: State);

    /// Something else happened; an observer of segments alone need not care.
    fn incident(&mut self, _now: Instant, _key: &FlowKey, _incident: &Incident) {}

    /// A round-trip time was measured (RFC 6298, section 3): `sample` is as it was before it was smoothed.
    fn round_trip(&mut self, _now: Instant, _key: &FlowKey, _sample: Duration) {}

    /// A segment passed that no connection had a part in.
    fn stray(&mut self, _now: Instant, _outbound: bool, _key: &FlowKey, _whose: Stray) {}

    /// Nothing more happens until the core's next turn: an observer that batches passes its batch on.
    fn pause(&mut self) {}
}

/// A segment on its way past a probe.
pub struct Seen<'a> {
    /// The time of this turn.
    pub now: Instant,
    /// It goes out.
    pub outbound: bool,
    /// Its connection: [`Connection::vitals`] for what changes with every segment, [`Connection::info`] for everything.
    pub conn: &'a Connection,
    /// Its data.
    pub payload: Payload<'a>,
}

impl Seen<'_> {
    /// How many segments of the wire it is: more than one where the port merged them, or will cut it up.
    pub fn segments(&self) -> u32 {
        match self.payload.0 {
            Place::Received(seg) => seg.merged.max(1).into(),
            Place::Sent { tx, .. } => tx.len.div_ceil(tx.mss.max(1).into()).max(1),
        }
    }

    /// Does it repeat what was sent before?
    pub fn retransmitted(&self) -> bool {
        matches!(self.payload.0, Place::Sent { tx, .. } if tx.retransmit)
    }

    /// The segment's header; of several the first's. An inbound one is put together again from what was understood of
    /// it, on request: most look at the connection only.
    #[inline]
    pub fn header(&self) -> Header {
        match self.payload.0 {
            Place::Received(seg) => Header {
                src_port: self.conn.key().remote().port,
                dst_port: self.conn.key().local().port,
                seq: seg.seq,
                ack: seg.ack,
                flags: seg.flags,
                window: seg.window,
                options: seg.options,
            },
            Place::Sent { tx, .. } => tx.header,
        }
    }
}

/// Why a segment belonged to no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stray {
    /// The connection has become a TIME-WAIT entry.
    TimeWait,
    /// There is no such connection, or not yet: refused, answered with a reset or a cookie.
    Unknown,
    /// It was kept from its connection: a bad signature, or no room to accept.
    Withheld,
}

/// The data of a segment, where it lies.
#[derive(Clone, Copy)]
pub struct Payload<'a>(Place<'a>);

#[derive(Clone, Copy)]
enum Place<'a> {
    Received(&'a Segment<'a>),
    Sent { conn: &'a Connection, pool: &'a Pool, tx: &'a Transmit },
}

impl Payload<'_> {
    /// Bytes.
    pub fn len(&self) -> u32 {
        match self.0 {
            Place::Received(seg) => seg.len(),
            Place::Sent { tx, .. } => tx.len,
        }
    }

    /// Does the segment carry none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with its pieces in order.
    pub fn for_each(&self, mut each: impl FnMut(&[u8])) {
        match self.0 {
            Place::Received(seg) => seg.for_each_piece(&mut |piece| {
                each(piece);
                true
            }),
            Place::Sent { conn, pool, tx } => conn.payload(pool, tx).for_each(each),
        }
    }
}

impl Connection {
    /// Shows a segment that came in, or a run of them.
    #[cold]
    #[inline(never)]
    pub(crate) fn show_inbound(&self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        let Some(probe) = cx.probe.as_deref_mut() else { return };
        let payload = Payload(Place::Received(seg));
        probe.packet(&Seen { now: cx.now, outbound: false, conn: self, payload });
    }

    /// Shows a segment that goes out.
    #[cold]
    pub(crate) fn show_outbound(&self, cx: &mut Cx<'_>, tx: &Transmit) {
        let Some(probe) = cx.probe.as_deref_mut() else { return };
        let payload = Payload(Place::Sent { conn: self, pool: cx.pool, tx });
        probe.packet(&Seen { now: cx.now, outbound: true, conn: self, payload });
    }

    /// Shows a sample of the round-trip time.
    #[cold]
    pub(crate) fn show_round_trip(&self, cx: &mut Cx<'_>, sample: Duration) {
        if let Some(probe) = cx.probe.as_deref_mut() {
            probe.round_trip(cx.now, self.key(), sample);
        }
    }

    /// Tells the observer.
    #[inline]
    pub(crate) fn note(&self, cx: &mut Cx<'_>, incident: Incident) {
        if cx.probe.is_some() {
            self.note_to_probe(cx, incident);
        }
    }

    #[cold]
    fn note_to_probe(&self, cx: &mut Cx<'_>, incident: Incident) {
        if let Some(probe) = cx.probe.as_deref_mut() {
            probe.incident(cx.now, self.key(), &incident);
        }
    }

    /// Tells the observer which timers have expired.
    #[cold]
    pub(crate) fn note_timers(&self, cx: &mut Cx<'_>) {
        let now = cx.now;
        if self.timers.is_delack_due(now) {
            self.note_to_probe(cx, Incident::Timer(Timer::DelayedAck));
        }
        if self.timers.is_rtx_due(now) {
            self.note_to_probe(cx, Incident::Timer(self.rtx_stands_for()));
        }
        if self.timers.is_idle_due(now) {
            self.note_to_probe(cx, Incident::Timer(Timer::Idle));
        }
    }

    fn rtx_stands_for(&self) -> Timer {
        match self.state() {
            State::SynSent | State::SynReceived => Timer::Handshake,
            _ if self.bits.has(Bits::REORDERING) => Timer::Reordering,
            _ if self.bits.has(Bits::TAIL_PROBE) => Timer::TailProbe,
            _ if self.snd.flight() == 0 || self.snd.window() == 0 => Timer::Persist,
            _ => Timer::Retransmission,
        }
    }
}

#[cfg(test)]
mod tests;
