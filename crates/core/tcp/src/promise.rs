//! Early acknowledgment: receive offload holds data, and the connection answers for it before it is handed over.
//!
//! ```text
//!                 what the application may read        promised
//!   rx's head ------------------------------->|------------------>| rcv_nxt            rcv_adv
//! ```
//! An acknowledgment means that the data will reach the application (RFC 9293, section 3.8), so the connection decides
//! what it accepts, not who holds the data: only what the short path would take as it is, with room in the buffer and
//! chunks of the pool set aside for it. Until then RCV.NXT stands behind it and the buffer counts it, so whatever
//! leaves meanwhile carries one acknowledgment number and the real window, timestamps, SACK and echoes.
//!
//! The next arrival, of any kind, takes the early acknowledgment back first and is then received as usual. The
//! holder of the data must hand over all of it, before anything else of the connection.

use wire::Ecn;
use wire::tcp::{Flags, Segment};

use crate::connection::{Bits, Connection};
use crate::input::fast::NOTHING;
use crate::pool::CHUNK;
use crate::{Cx, Pool, State};

/// Early acknowledgment that has been given.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Promise {
    bytes: u32,
    /// Set aside in the pool.
    chunks: u32,
    /// TS.Recent as the first of it left it: none of it is older.
    stamp: u32,
}

impl Connection {
    /// Data of the usual kind is held that continues all that was received and promised: `bytes` of it, the first of
    /// which come with the header `first`. True if the connection answers for them from now on, and will acknowledge
    /// them as it does data that it has received.
    pub fn promise(&mut self, cx: &mut Cx<'_>, first: &Segment<'_>, bytes: u32) -> bool {
        let chunks = bytes.div_ceil(CHUNK as u32);
        if !self.may_promise(first, bytes) || !cx.pool.set_aside(chunks) {
            return false;
        }
        // RFC 7323, section 4.3.
        if first.seq == self.last_ack_sent
            && let Some(ts) = first.options.timestamps
        {
            self.ts_recent = ts.val;
        }
        let stamp = self.ts_recent;
        let promise = &mut self.rare_mut().promise;
        if promise.bytes == 0 {
            promise.stamp = stamp;
        }
        promise.bytes += bytes;
        promise.chunks += chunks;
        self.bits.set(Bits::PROMISED);
        self.usual = NOTHING;
        self.rcv_nxt += bytes;
        self.rcvbuf -= bytes;
        cx.counters.bytes_promised += u64::from(bytes);
        self.acknowledge_data(cx);
        true
    }

    /// Would the short path take it, and is there room for it?
    fn may_promise(&self, first: &Segment<'_>, bytes: u32) -> bool {
        let refused = Bits::READ_CLOSED | Bits::READ_SHUT | Bits::DATED | Bits::ORPHAN | Bits::SIGNED;
        let usual = self.usual == Flags::ACK || self.bits.has(Bits::PROMISED);
        usual
            && self.state == State::Established
            && !self.bits.has(refused)
            && first.flags.0 & !Flags::PSH.0 == Flags::ACK.0
            && first.seq == self.rcv_nxt
            && first.ack.offset_from(self.snd_una) <= self.flight()
            && bytes <= self.receive_window()
            && bytes <= self.buffer_room()
            && self.rcvbuf > bytes + (1 << self.rcv_scale)
            && self.options.clamp() >= self.rcvbuf
            && self.reassembly.is_none()
            && first.options.sack.is_empty()
            && first.ecn != Ecn::Marked
            && self.timestamp_is_usual(first)
    }

    /// Something arrives: what was promised counts as not received again, for it comes now.
    #[cold]
    pub(crate) fn redeem(&mut self, cx: &mut Cx<'_>) {
        let Promise { bytes, stamp, .. } = self.forget_promise(cx.pool);
        self.rcv_nxt = self.rcv_nxt - bytes;
        self.last_ack_sent = self.last_ack_sent.earlier(self.rcv_nxt);
        self.ts_recent = stamp;
        self.refresh_usual();
    }

    /// Releases the memory that was set aside, and returns the early acknowledgment.
    #[cold]
    pub(crate) fn forget_promise(&mut self, pool: &mut Pool) -> Promise {
        let promise = core::mem::take(&mut self.rare_mut().promise);
        self.bits.clear(Bits::PROMISED);
        self.rcvbuf += promise.bytes;
        pool.give_back(promise.chunks);
        promise
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what is acknowledged early is no more than the connection answers for, with its real window, and once it
    //! is handed over nothing tells that it was promised.
    use super::*;
    use crate::testing::{End, MSS, Packet, Pair, cx};
    use crate::{Config, SocketOptions};
    use alloc::vec::Vec;
    use base::Duration;

    /// An established pair, and full segments of `a` that `b` has not got.
    fn in_flight(config: Config, count: usize) -> (Pair, Vec<Packet>) {
        let mut pair = Pair::with(config, SocketOptions::default());
        let mut packets = Vec::new();
        // The first ones end quick acknowledgments, and grow the window.
        for _ in 0..30 {
            pair.a.write(pair.now, &[1; 4 * MSS]);
            pair.settle();
            pair.b.read(pair.now);
            pair.pass(Duration::from_millis(2));
        }
        pair.a.write(pair.now, &[7; 64 * MSS]);
        packets.extend(pair.a.drain(pair.now).into_iter().filter(|packet| packet.payload.len() == MSS));
        packets.truncate(count);
        assert_eq!(packets.len(), count);
        (pair, packets)
    }

    fn bytes(packets: &[Packet]) -> u32 {
        packets.iter().map(|packet| packet.payload.len() as u32).sum()
    }

    fn hand_over(b: &mut End, now: base::Instant, packets: &[Packet]) {
        let pieces: Vec<&[u8]> = packets.iter().map(|packet| &*packet.payload).collect();
        let first = Segment { merged: packets.len() as u16, ..packets[0].segment() };
        assert!(b.conn.on_run(cx!(b, now), &first, &pieces), "as ever");
    }

    #[test]
    fn d01_d02_d03_an_early_acknowledgment_is_the_connections_own() {
        let (mut pair, packets) = in_flight(Config::default(), 8);
        let (b, now) = (&mut pair.b, pair.now);
        let (before, edge) = (b.conn.rcv_nxt, b.conn.rcv_adv);
        let used = b.pool.used();
        assert!(b.conn.promise(cx!(b, now), &packets[0].segment(), bytes(&packets[..4])));
        assert!(b.conn.promise(cx!(b, now), &packets[4].segment(), bytes(&packets[4..])), "and more of it");
        assert!(b.pool.used() >= used + bytes(&packets) / CHUNK as u32, "memory is set aside");
        let ack = b.drain(now).pop().expect("at once: more than two segments");
        assert_eq!(ack.header.ack, before + bytes(&packets));
        let offered = ack.header.ack + (u32::from(ack.header.window) << b.conn.rcv_scale);
        let room = before + b.conn.readable() + b.conn.rcvbuf + bytes(&packets);
        assert!(offered.at_or_before(room), "no more than there is room for behind what is held");
        assert!(offered.at_or_after(edge - (1 << b.conn.rcv_scale)), "and no edge that moves back");
        let stamps = ack.header.options.timestamps.expect("negotiated");
        assert_eq!(stamps.ecr, packets[0].header.options.timestamps.expect("negotiated").val);
        assert!(b.read(now).is_empty(), "nothing to read yet");
        hand_over(b, now, &packets);
        assert_eq!(b.conn.rcv_nxt, before + bytes(&packets));
        assert_eq!(b.read(now).len(), bytes(&packets) as usize);
        assert_eq!((b.pool.used(), b.conn.rcvbuf > 0), (used, true));
    }

    #[test]
    fn a_promise_that_was_kept_leaves_no_trace() {
        for each in [false, true] {
            let (mut one, packets) = in_flight(Config::default(), 6);
            let (mut other, same) = in_flight(Config::default(), 6);
            let now = one.now;
            let b = &mut one.b;
            assert!(b.conn.promise(cx!(b, now), &packets[0].segment(), bytes(&packets)));
            let early = b.drain(now);
            for (end, packets) in [(&mut one.b, &packets), (&mut other.b, &same)] {
                if each {
                    packets.iter().for_each(|packet| {
                        end.take(now, packet);
                    });
                } else {
                    hand_over(end, now, packets);
                }
            }
            let late = other.b.drain(now);
            let again = one.b.drain(now);
            assert_eq!((early.len(), late.len()), (1, 1));
            assert!(each || again.is_empty(), "one acknowledgment, not two");
            assert!(again.iter().all(|ack| ack.header.ack == late[0].header.ack));
            let (a, b) = (one.b.conn.info(now), other.b.conn.info(now));
            assert_eq!((a.rcv_nxt, a.rcv_wnd, a.rcvbuf), (b.rcv_nxt, b.rcv_wnd, b.rcvbuf));
            assert_eq!((a.bytes_received, a.data_segs_in), (b.bytes_received, b.data_segs_in));
            assert_eq!(one.b.pool.used(), other.b.pool.used());
            assert_eq!(one.b.read(now), other.b.read(now));
        }
    }

    #[test]
    fn promised_data_is_not_older_than_itself() {
        let (mut pair, mut packets) = in_flight(Config::default(), 6);
        for (nth, packet) in packets.iter_mut().enumerate() {
            let stamps = packet.header.options.timestamps.as_mut().expect("negotiated");
            stamps.val += nth as u32;
        }
        let (b, now) = (&mut pair.b, pair.now);
        for pair in packets.chunks(2) {
            assert!(b.conn.promise(cx!(b, now), &pair[0].segment(), bytes(pair)));
            let ack = b.drain(now).pop().expect("two segments");
            let stamps = pair[0].header.options.timestamps.expect("negotiated");
            assert_eq!(ack.header.options.timestamps.expect("negotiated").ecr, stamps.val);
        }
        packets.iter().for_each(|packet| {
            b.take(now, packet);
        });
        assert_eq!((b.read(now).len(), b.counters.paws_drops), (bytes(&packets) as usize, 0));
    }

    #[test]
    fn only_what_could_be_received_is_promised() {
        let (mut pair, packets) = in_flight(Config::default(), 6);
        let (b, now) = (&mut pair.b, pair.now);
        let first = packets[0].segment();
        let refused = |b: &mut End, segment: &Segment<'_>, bytes: u32| {
            let before = (b.conn.rcv_nxt, b.conn.rcvbuf, b.pool.used());
            assert!(!b.conn.promise(cx!(b, now), segment, bytes));
            assert_eq!((b.conn.rcv_nxt, b.conn.rcvbuf, b.pool.used()), before);
        };
        refused(b, &packets[1].segment(), MSS as u32);
        refused(b, &Segment { flags: Flags::ACK | Flags::FIN, ..first }, MSS as u32);
        refused(b, &Segment { ecn: Ecn::Marked, ..first }, MSS as u32);
        let window = b.conn.receive_window();
        refused(b, &first, window + 1);
        let left = b.pool.available();
        assert!(b.pool.set_aside(left - 1));
        refused(b, &first, 3 * MSS as u32);
        b.pool.give_back(left - 1);
        b.conn.bits.set(Bits::READ_SHUT);
        refused(b, &first, MSS as u32);
    }

    #[test]
    fn a_connection_that_dies_gives_back_what_was_set_aside() {
        let (mut pair, packets) = in_flight(Config::default(), 6);
        let (b, now) = (&mut pair.b, pair.now);
        assert!(b.conn.promise(cx!(b, now), &packets[0].segment(), bytes(&packets)));
        b.conn.abort(cx!(b, now));
        b.conn.release(&mut b.pool);
        assert_eq!(b.pool.used(), 0);
    }
}
