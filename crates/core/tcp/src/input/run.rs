//! A run: segments that continue each other, merged before they came here, whose payload lies in several pieces.

use base::Instant;
use wire::tcp::Segment;

use crate::chain::Chain;
use crate::connection::{Bits, Connection};
use crate::output::Due;
use crate::{Cx, Pool};

/// Payload, in one piece or several.
pub(crate) trait Text: Copy {
    /// How much it is.
    fn octets(self) -> u32;
    /// Appends it to what was received, as far as the pool has room; how much.
    fn append_to(self, rx: &mut Chain, pool: &mut Pool) -> usize;
}

impl Text for &[u8] {
    #[inline(always)]
    fn octets(self) -> u32 {
        self.len() as u32
    }

    #[inline(always)]
    fn append_to(self, rx: &mut Chain, pool: &mut Pool) -> usize {
        rx.append(pool, self)
    }
}

impl Text for &[&[u8]] {
    #[inline]
    fn octets(self) -> u32 {
        self.iter().map(|piece| piece.len() as u32).sum()
    }

    #[inline]
    fn append_to(self, rx: &mut Chain, pool: &mut Pool) -> usize {
        let mut all = 0;
        for piece in self {
            let taken = rx.append(pool, piece);
            all += taken;
            if taken < piece.len() {
                break;
            }
        }
        all
    }
}

impl Connection {
    /// Segments of one flow arrived that continue each other and agree in everything but timestamps: `first` is the
    /// first of them, with PSH if any has it and `merged` the number of all; `pieces` are their payloads, the first's
    /// among them. False, and nothing of them was taken, where they are not of the usual kind: each is then to be
    /// handed to [`Connection::on_segment`].
    ///
    /// What follows is the same as if each had come for itself but for acknowledgments: one answers for all, as it does
    /// for segments of one turn anyway. A probe sees one packet, which is all of them.
    pub fn on_run(&mut self, cx: &mut Cx<'_>, first: &Segment<'_>, pieces: &[&[u8]]) -> bool {
        let len = pieces.octets();
        if self.is_usual(first, len) {
            self.take_run(cx, first, pieces, len);
            return true;
        }
        self.bits.has(Bits::PROMISED) && self.take_promised(cx, first, pieces, len)
    }

    #[inline(always)]
    fn take_run(&mut self, cx: &mut Cx<'_>, first: &Segment<'_>, pieces: &[&[u8]], len: u32) {
        if cx.probe.is_some() {
            self.show_run(cx, first, pieces);
        }
        self.take_usual(cx, first, pieces, len);
        cx.counters.segments_in += 1;
        self.segs_in = self.segs_in.wrapping_add(first.merged.into());
    }

    /// Data that was promised comes; of what was acknowledged then, nothing is owed now.
    #[cold]
    fn take_promised(&mut self, cx: &mut Cx<'_>, first: &Segment<'_>, pieces: &[&[u8]], len: u32) -> bool {
        let (told, owed) = (self.last_ack_sent, self.due.has(Due::ACK));
        self.redeem(cx);
        if !self.is_usual(first, len) {
            return false;
        }
        self.take_run(cx, first, pieces, len);
        if !owed && self.rcv_nxt == told {
            self.last_ack_sent = told;
            self.due.clear(Due::ACK);
            self.timers.delack = Instant::FAR_FUTURE;
        }
        true
    }
}
