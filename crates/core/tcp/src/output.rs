//! What a connection wants to send, in order of urgency.

pub(crate) mod data;
mod segment;

use crate::connection::{Bits, Connection};
use crate::{Cx, State, Transmit, TransmitClass, TxLimits};
use wire::tcp::Flags;

/// What waits to be sent, as bits; nothing set means that `poll_transmit` need not look.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Due(u8);

impl Due {
    /// SYN, or SYN-ACK once the peer's SYN is known.
    pub(crate) const SYN: Due = Due(1);
    /// RST; nothing follows it.
    pub(crate) const RST: Due = Due(2);
    /// An acknowledgment, alone or on whatever else leaves.
    pub(crate) const ACK: Due = Due(4);
    /// Something changed about data, FIN or retransmissions: look whether any can leave.
    pub(crate) const DATA: Due = Due(8);
    /// A zero-window probe.
    pub(crate) const PROBE: Due = Due(16);
    /// A keepalive probe.
    pub(crate) const KEEPALIVE: Due = Due(32);

    pub(crate) fn has(self, one: Due) -> bool {
        self.0 & one.0 != 0
    }

    pub(crate) fn clear(&mut self, one: Due) {
        self.0 &= !one.0;
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl core::ops::BitOrAssign for Due {
    fn bitor_assign(&mut self, rhs: Due) {
        self.0 |= rhs.0;
    }
}

impl Connection {
    /// The next segment to send, if any.
    pub fn poll_transmit(&mut self, cx: &mut Cx<'_>, limits: &TxLimits) -> Option<Transmit> {
        if self.due.is_empty() {
            return None;
        }
        let tx = self.next_segment(cx, limits)?;
        cx.counters.segments_out += 1;
        self.segs_out = self.segs_out.wrapping_add(1);
        if cx.probe.is_some() {
            self.show(cx, true, &tx.header, tx.len);
        }
        Some(tx)
    }

    fn next_segment(&mut self, cx: &mut Cx<'_>, limits: &TxLimits) -> Option<Transmit> {
        if self.due.has(Due::RST) {
            return Some(self.emit_reset(cx));
        }
        if self.due.has(Due::SYN) {
            return Some(self.emit_syn(cx));
        }
        if self.due.has(Due::DATA) {
            if let Some(tx) = self.next_data(cx, limits) {
                return Some(tx);
            }
            self.due.clear(Due::DATA);
        }
        if self.due.has(Due::PROBE) {
            self.due.clear(Due::PROBE);
            if let Some(tx) = self.emit_window_probe(cx) {
                return Some(tx);
            }
        }
        if self.due.has(Due::KEEPALIVE) {
            return Some(self.emit_keepalive(cx));
        }
        if self.due.has(Due::ACK) {
            return Some(self.emit_ack(cx));
        }
        None
    }

    /// A segment without data at SND.NXT. Once our FIN is out there is nothing behind it, so this is where every bare
    /// acknowledgment sits.
    fn emit_ack(&mut self, cx: &mut Cx<'_>) -> Transmit {
        cx.counters.pure_acks_out += 1;
        // In SYN-SENT there is nothing to acknowledge; `due` never asks for it there.
        let seq = self.snd_nxt;
        self.emit(cx, seq, Flags::ACK, TransmitClass::Ack)
    }

    /// One octet below SND.UNA and no data: old, so the peer must answer (RFC 9293, section 3.8.4).
    fn emit_keepalive(&mut self, cx: &mut Cx<'_>) -> Transmit {
        self.due.clear(Due::KEEPALIVE);
        cx.counters.keepalive_probes += 1;
        let seq = self.snd_una - 1;
        self.emit(cx, seq, Flags::ACK, TransmitClass::Ack)
    }

    fn emit_reset(&mut self, cx: &mut Cx<'_>) -> Transmit {
        self.due.clear(Due::RST);
        cx.counters.resets_out += 1;
        if self.bits.has(Bits::RESET_AT) {
            self.bits.clear(Bits::RESET_AT);
            let seq = self.reset_seq;
            return self.emit(cx, seq, Flags::RST, TransmitClass::Control);
        }
        let seq = self.snd_nxt;
        self.emit(cx, seq, Flags::RST | Flags::ACK, TransmitClass::Control)
    }

    fn emit_syn(&mut self, cx: &mut Cx<'_>) -> Transmit {
        self.due.clear(Due::SYN);
        let retransmit = self.snd_nxt != self.snd_una;
        let passive = self.state != State::SynSent;
        if retransmit {
            cx.counters.syn_retransmits += 1;
            self.retransmits += 1;
            self.bits.clear(Bits::TIMING);
        } else {
            self.snd_nxt = self.snd_una + 1;
            self.start_timing(cx);
        }
        if self.timers.rtx == base::Instant::FAR_FUTURE {
            self.arm_rtx(cx);
        }
        let flags = if passive { Flags::SYN | Flags::ACK } else { Flags::SYN };
        let seq = self.snd_una;
        let mut tx = self.emit(cx, seq, flags, TransmitClass::Control);
        tx.retransmit = retransmit;
        tx
    }

    /// The segment from poll_transmit could not be sent after all (no frame): undo or make it due again.
    pub fn transmit_failed(&mut self, cx: &mut Cx<'_>, tx: &Transmit) {
        let flags = tx.header.flags;
        if flags.has(Flags::RST) {
            if !flags.has(Flags::ACK) {
                self.reset_seq = tx.header.seq;
                self.bits.set(Bits::RESET_AT);
            }
            self.due = Due::RST;
            return;
        }
        if self.state == State::Closed {
            self.due |= Due::ACK;
            return;
        }
        if flags.has(Flags::ACK) {
            self.due |= Due::ACK;
        }
        if flags.has(Flags::SYN) {
            self.due |= Due::SYN;
            return;
        }
        let len = tx.len + u32::from(flags.has(Flags::FIN));
        if len > 0 {
            self.data_failed(cx, tx, len);
        }
    }
}
