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
    fn bytes(self) -> u32;
    /// Appends it to what was received, as far as the pool has room; how much.
    fn append_to(self, rx: &mut Chain, pool: &mut Pool) -> usize;
    /// Appends at most `most` bytes of what follows the first `skip`. Returns how many.
    fn append_rest(self, skip: usize, most: usize, rx: &mut Chain, pool: &mut Pool) -> usize;
}

/// The payload of a run.
trait Run: Text {
    /// Shows the run to who watches.
    fn show(self, conn: &Connection, cx: &mut Cx<'_>, first: &Segment<'_>);
}

/// So many bytes of payload that lie elsewhere.
#[derive(Clone, Copy)]
struct Elsewhere(u32);

impl Text for Elsewhere {
    #[inline]
    fn bytes(self) -> u32 {
        self.0
    }

    #[inline]
    fn append_to(self, rx: &mut Chain, pool: &mut Pool) -> usize {
        if rx.owe(pool, self.0) { self.0 as usize } else { 0 }
    }

    fn append_rest(self, _: usize, _: usize, _: &mut Chain, _: &mut Pool) -> usize {
        // All of it was taken, or the caller keeps it.
        0
    }
}

impl Run for Elsewhere {
    fn show(self, _: &Connection, _: &mut Cx<'_>, _: &Segment<'_>) {
        unreachable!("not where an observer watches");
    }
}

impl Run for &[&[u8]] {
    fn show(self, conn: &Connection, cx: &mut Cx<'_>, first: &Segment<'_>) {
        conn.show_run(cx, first, self);
    }
}

impl Text for &[u8] {
    #[inline(always)]
    fn bytes(self) -> u32 {
        self.len() as u32
    }

    #[inline(always)]
    fn append_to(self, rx: &mut Chain, pool: &mut Pool) -> usize {
        rx.append(pool, self)
    }

    fn append_rest(self, skip: usize, most: usize, rx: &mut Chain, pool: &mut Pool) -> usize {
        let rest = &self[skip..];
        rx.append(pool, &rest[..rest.len().min(most)])
    }
}

impl Text for &[&[u8]] {
    #[inline]
    fn bytes(self) -> u32 {
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

    fn append_rest(self, skip: usize, most: usize, rx: &mut Chain, pool: &mut Pool) -> usize {
        let (mut skip, mut all) = (skip, 0);
        for piece in self {
            let here = skip.min(piece.len());
            let taken = piece.append_rest(here, most - all, rx, pool);
            (skip, all) = (skip - here, all + taken);
            if taken < piece.len() - here {
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
    /// The result is as if each had come alone except for acknowledgments: one answers for all, as it does
    /// for segments of one turn anyway. A probe sees one packet, which is all of them.
    pub fn on_run(&mut self, cx: &mut Cx<'_>, first: &Segment<'_>, pieces: &[&[u8]]) -> bool {
        self.take_if_usual(cx, first, pieces)
    }

    /// As [`Connection::on_run`], for `bytes` bytes of payload that the caller keeps: they count as received and
    /// may be read, and the caller reads them itself and tells so ([`Connection::consume`]). Before anything else
    /// of the connection arrives but another such run or a bare acknowledgment, and before its data is looked at by
    /// any other way, all that was not consumed must be handed over ([`Connection::settle`]). False also where data
    /// lies here already, where an observer watches, where nothing will read, and where the pool could not take it.
    pub fn on_lent_run(&mut self, cx: &mut Cx<'_>, first: &Segment<'_>, bytes: u32) -> bool {
        cx.probe.is_none()
            && !self.bits.has(Bits::READ_CLOSED)
            && self.rx.may_owe(cx.pool, bytes)
            && self.take_if_usual(cx, first, Elsewhere(bytes))
    }

    /// Does the caller keep data of this connection?
    #[inline]
    pub fn is_lent(&self) -> bool {
        self.rx.is_owing()
    }

    /// Takes over payload that the caller kept and that was not consumed.
    pub fn settle<'p>(&mut self, pool: &mut Pool, pieces: impl Iterator<Item = &'p [u8]>) {
        self.rx.settle(pool, pieces);
    }

    #[inline(always)]
    fn take_if_usual(&mut self, cx: &mut Cx<'_>, first: &Segment<'_>, run: impl Run) -> bool {
        let len = run.bytes();
        if self.is_usual(first, len) {
            self.take_run(cx, first, run, len);
            return true;
        }
        self.bits.has(Bits::PROMISED) && self.take_promised(cx, first, run, len)
    }

    #[inline(always)]
    fn take_run(&mut self, cx: &mut Cx<'_>, first: &Segment<'_>, run: impl Run, len: u32) {
        if cx.probe.is_some() {
            run.show(self, cx, first);
        }
        self.take_usual(cx, first, run, len);
        cx.counters.segments_in += 1;
        self.segs_in = self.segs_in.wrapping_add(first.merged.into());
    }

    /// Data that was promised comes; of what was acknowledged then, nothing is owed now.
    #[cold]
    fn take_promised(&mut self, cx: &mut Cx<'_>, first: &Segment<'_>, run: impl Run, len: u32) -> bool {
        let (told, owed) = (self.last_ack_sent, self.due.has(Due::ACK));
        self.redeem(cx);
        if !self.is_usual(first, len) {
            return false;
        }
        self.take_run(cx, first, run, len);
        if !owed && self.rcv_nxt == told {
            self.last_ack_sent = told;
            self.due.clear(Due::ACK);
            self.timers.delack = Instant::FAR_FUTURE;
        }
        true
    }
}
