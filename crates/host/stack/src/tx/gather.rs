//! Super-segments that go to the port together, from where their payload lies: for a port that has several cores work
//! on them, for whom one is little. They wait for each other no longer than their connection is asked for more.

use super::Port;
use pio::{GATHER_MAX, Gather, PIECES_MAX, TxMeta};
use std::io::IoSlice;
use tcp::{Connection, Pool, Transmit};

/// Bytes of the longest headers.
const HEADERS_MAX: usize = 128;

/// A super-segment that waits for others.
pub(super) struct Gathered {
    tx: Transmit,
    headers: [u8; HEADERS_MAX],
    len: usize,
    meta: TxMeta,
}

impl Port {
    /// A super-segment is put to those that leave together; false if the port takes it no better alone, it is no
    /// super-segment, or its payload lies in too many pieces. Before anything else is done to the port or the
    /// connection, [`Port::send_gathered`] is to follow.
    pub(super) fn gathers(&mut self, tcp: &Connection, pool: &Pool, tx: &Transmit) -> bool {
        let Some(mut at_once) = self.at_once else { return false };
        if self.gathered.is_empty() {
            at_once = self.io.gather().and_then(|io| io.gathers_at_once()).unwrap_or(0);
            self.at_once = Some(at_once);
        }
        if at_once < 2 {
            return false;
        }
        let headers = self.below.len() + tx.header.len();
        let fits = tx.len > tx.mss.into()
            && headers <= HEADERS_MAX
            && tcp.payload(pool, tx).nth(PIECES_MAX).is_none();
        let frame = if fits { self.frame(headers + tx.len as usize) } else { None };
        let Some(mut frame) = frame else {
            self.send_gathered(tcp, pool);
            return false;
        };
        frame.set_range(self.caps.headroom, headers + tx.len as usize);
        let data = frame.data_mut();
        let meta = self.finish(&self.below, &tx.header, tx.len as usize, usize::from(tx.mss), data);
        let mut copy = [0; HEADERS_MAX];
        copy[..headers].copy_from_slice(&data[..headers]);
        self.put_back(frame);
        self.gathered.push(Gathered { tx: *tx, headers: copy, len: headers, meta });
        if self.gathered.len() >= at_once {
            self.send_gathered(tcp, pool);
        }
        true
    }

    /// Does something wait for more of its connection?
    #[inline]
    pub(crate) fn has_gathered(&self) -> bool {
        !self.gathered.is_empty()
    }

    /// Sends the super-segments gathered of this connection.
    #[inline(never)]
    pub(crate) fn send_gathered(&mut self, tcp: &Connection, pool: &Pool) {
        if self.gathered.is_empty() {
            return;
        }
        let mut pieces = [[IoSlice::new(&[]); PIECES_MAX]; GATHER_MAX];
        let mut counts = [0; GATHER_MAX];
        for (nth, Gathered { tx, .. }) in self.gathered.iter().enumerate() {
            for (place, piece) in pieces[nth].iter_mut().zip(tcp.payload(pool, tx)) {
                *place = IoSlice::new(piece);
                counts[nth] += 1;
            }
        }
        let all: [_; GATHER_MAX] = std::array::from_fn(|nth| {
            let of = self.gathered.get(nth);
            Gather {
                headers: of.map_or(&[], |of| &of.headers[..of.len]),
                meta: of.map_or(TxMeta::default(), |of| of.meta),
                payload: &pieces[nth][..counts[nth]],
            }
        });
        let count = self.gathered.len();
        if let Some(io) = self.io.gather() {
            io.tx_gather_all(&all[..count]);
        }
        self.sent += count as u32;
        self.bytes += self.gathered.drain(..).map(|of| of.len as u64 + u64::from(of.tx.len)).sum::<u64>();
    }
}
