//! The short path for what nearly every segment is: the next data in order, the next acknowledgment, or both,
//! on a connection that is established, or closed in one direction, where nothing is missing (V. Jacobson's header
//! prediction).

use cc::Controller;
use wire::Ecn;
use wire::tcp::{Flags, Segment};

use crate::connection::{Bits, Connection, NOTHING};
use crate::scale::{from_field, ts_before};
use crate::{Cx, State};

/// Flags that decide; of these only ACK may be set, on most connections. PSH and URG change nothing here, nor AE where
/// no peer agreed on it.
const DECISIVE: Flags =
    Flags(Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0 | Flags::ACK.0 | Flags::ECE.0 | Flags::CWR.0);

impl Connection {
    /// Decides which segments may take the short path, when the state, the reader or the feedback of congestion
    /// changes. FIN-WAIT-1 and the states after both FINs have more to look at in each segment. A policy that counts
    /// marks needs every acknowledgment.
    #[inline]
    pub(crate) fn refresh_prediction(&mut self) {
        let fits = match self.state() {
            State::Established | State::CloseWait => true,
            State::FinWait2 => !self.has_no_reader(),
            _ => false,
        };
        let counts =
            || self.bits.has(Bits::ACCECN) || (self.bits.has(Bits::ECN) && self.control.needs().echoes);
        self.predict(if fits && !counts() { Flags::ACK } else { NOTHING });
    }

    /// Is the segment, with `len` bytes of payload, of the predicted kind?
    #[inline(always)]
    pub(crate) fn is_predicted(&self, seg: &Segment<'_>, len: u32) -> bool {
        let acked = seg.ack.offset_from(self.snd.una());
        seg.flags.0 & DECISIVE.0 == self.predicted().0
            && seg.seq == self.rcv.nxt()
            && acked <= self.snd.flight()
            && len <= self.rcv.window()
            && acked | len != 0
            // The peer's FIN took the last place: what comes behind it is no data.
            && (len == 0 || self.state() != State::CloseWait)
            && !self.recovery.is_active()
            && self.snd.duplicates() == 0
            && !self.rcv.is_missing()
            && seg.options.sack.is_empty()
            && seg.ecn != Ecn::Marked
            && self.timestamp_is_predicted(seg)
    }

    /// Handles a segment that [is of the predicted kind](Connection::is_predicted), whose data has `len` bytes.
    #[inline(always)]
    pub(crate) fn take_predicted(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>, len: u32) {
        let acked = seg.ack.offset_from(self.snd.una());
        // RFC 7323, section 4.3.
        if self.bits.has(Bits::TIMESTAMPS)
            && seg.seq == self.rcv.acked()
            && let Some(ts) = seg.options.timestamps
        {
            self.rcv.note_timestamp(ts.val);
        }
        if len > 0 {
            self.heed_pause(cx);
        }
        self.rcv.note_arrival(cx.now);
        // SND.WL1 is ahead where a bare acknowledgment came from beyond a hole, and its window is newer.
        if acked > 0 || self.snd.is_newer(seg.seq) {
            if from_field(seg.window, self.snd.scale()) != self.snd.window() {
                self.update_send_window(cx.config, seg, acked);
            } else {
                self.snd.confirm_window(seg.seq);
            }
        }
        if acked > 0 {
            cx.counters.predicted_acks += 1;
            self.advance(cx, seg, acked);
        }
        if len > 0 {
            cx.counters.predicted_data += 1;
            self.rcv.count_segments(seg.merged);
            self.learn_segment_size(len, seg.merged);
            self.learn_round_trip(cx, seg);
            // A full pool was counted; the sender will try again.
            let _ = self.take_in_order(cx, (seg.payload, seg.rest), len as usize, seg.flags);
        }
    }

    /// Present if negotiated, and not older than the last.
    #[inline(always)]
    pub(crate) fn timestamp_is_predicted(&self, seg: &Segment<'_>) -> bool {
        !self.bits.has(Bits::TIMESTAMPS)
            || seg.options.timestamps.is_some_and(|ts| !ts_before(ts.val, self.rcv.ts_recent()))
    }
}
