//! Hand-over of a connection whose application has not seen it to another stack with the same settings: there the
//! handshake is played again, with the numbers of the first one.

use base::{Instant, Seq};
use cc::Control;
use wire::Ecn;
use wire::tcp::{Flags, Options, Segment, Timestamps};

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::ecn::SETUP as ECN_SETUP;
use crate::scale::{Clock, from_field, to_field};
use crate::start::Open;
use crate::{Cx, State};

/// State of a connection that has sent nothing but its SYN and acknowledgments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handover {
    /// Our initial sequence number.
    pub isn: Seq,
    /// Our timestamp when it was handed over: another process's clock has another beginning.
    pub ts_value: u32,
    /// The peer's initial sequence number.
    pub peer_isn: Seq,
    /// The peer's MSS, bytes.
    pub peer_mss: u16,
    /// The peer's window scale and ours.
    pub scales: Option<(u8, u8)>,
    /// SACK was agreed on.
    pub sack: bool,
    /// The peer's last timestamp, if timestamps were agreed on.
    pub ts_recent: Option<u32>,
    /// ECN was agreed on (RFC 3168).
    pub ecn: bool,
    /// The peer's window field; `None` while the handshake is not over.
    pub window: Option<u16>,
    /// The peer's FIN was taken.
    pub peer_closed: bool,
}

impl Handover {
    fn timestamps(&self) -> Option<Timestamps> {
        self.ts_recent.map(|val| Timestamps { val, ecr: 0 })
    }

    fn syn(&self) -> Segment<'static> {
        Segment {
            seq: self.peer_isn,
            ack: Seq::new(0),
            flags: Flags::SYN | if self.ecn { ECN_SETUP } else { Flags::default() },
            window: 0,
            urgent: 0,
            options: Options {
                mss: Some(self.peer_mss),
                window_scale: self.scales.map(|(peers, _)| peers),
                sack_permitted: self.sack,
                timestamps: self.timestamps(),
                ..Options::default()
            },
            merged: 1,
            ecn: Ecn::NotCapable,
            payload: &[],
            rest: None,
        }
    }

    /// Returns the segment that brings what the peer has sent: `data`, and its FIN. `None` if that is nothing.
    pub fn segment<'a>(&self, data: &'a [u8]) -> Option<Segment<'a>> {
        let fin = if self.peer_closed { Flags::FIN } else { Flags::default() };
        let sent = self.peer_closed || !data.is_empty();
        sent.then_some(Segment {
            seq: self.peer_isn + 1,
            ack: self.isn + 1,
            flags: Flags::ACK | fin,
            window: self.window?,
            options: Options { timestamps: self.timestamps(), ..Options::default() },
            payload: data,
            ..self.syn()
        })
    }
}

impl Connection {
    /// Returns what another stack needs to go on with a connection that was never read or written; `None` of one that
    /// has a signature, accurate ECN or Fast Open, or that is over. What it holds out of order the peer sends again.
    pub fn hand_over(&self, now: Instant) -> Option<Handover> {
        let done = matches!(self.state(), State::Established | State::CloseWait);
        let known = Bits::ACTIVE | Bits::SIGNED | Bits::ACCECN | Bits::EARLY;
        if !done && self.state() != State::SynReceived || self.bits.has(known) {
            return None;
        }
        if done && (self.snd.flight() > 0 || self.snd.unsent() > 0) {
            return None;
        }
        let peer_closed = self.bits.has(Bits::PEER_FIN);
        let received = self.rcv.readable() + u32::from(peer_closed);
        Some(Handover {
            isn: if done { self.snd.una() - 1 } else { self.snd.una() },
            ts_value: self.bits.clock().value(now, self.snd.ts_offset()),
            peer_isn: self.rcv.nxt() - received - 1,
            peer_mss: self.snd.peer_mss(),
            scales: self.bits.has(Bits::SCALING).then_some((self.snd.scale(), self.rcv.scale())),
            sack: self.bits.has(Bits::SACK),
            ts_recent: self.bits.has(Bits::TIMESTAMPS).then_some(self.rcv.ts_recent()),
            ecn: self.bits.has(Bits::ECN),
            window: done.then(|| to_field(self.snd.window(), self.snd.scale())),
            peer_closed,
        })
    }

    /// Begins a connection in `place` that another stack has handed over; [`Handover::segment`] comes next.
    /// Of one whose handshake is not over the SYN-ACK is sent again.
    pub fn take_over<'p>(
        place: &'p mut Option<Connection>,
        cx: &mut Cx<'_>,
        open: &Open,
        control: Control,
        state: &Handover,
    ) -> &'p mut Connection {
        let ts_offset = state.ts_value.wrapping_sub(Clock::of(cx.config).value(cx.now, 0));
        let open = Open { isn: state.isn, ts_offset, ..*open };
        let conn = Connection::begin(place, cx, &open, control, State::SynReceived);
        conn.take_syn(cx, &state.syn());
        if let Some((_, ours)) = state.scales.filter(|_| conn.bits.has(Bits::SCALING)) {
            conn.rcv.set_scale(ours);
        }
        let Some(window) = state.window else { return conn };
        conn.request_only(Due::default());
        conn.snd.begin_at(state.isn + 1);
        conn.set_send_window(from_field(window, conn.snd.scale()), state.peer_isn + 1);
        conn.establish(cx);
        conn
    }
}
