//! Watches what one end sends, and panics on what RFC 9293 forbids whatever the path does.

use base::Seq;
use wire::tcp::{Flags, Segment};

use super::{Pair, byte};
use crate::State;

/// Observations of one end.
#[derive(Clone, Copy, Default)]
pub(super) struct Judge {
    side: usize,
    isn: Option<Seq>,
    /// Bytes that a segment to this end may carry, options included.
    mss: u32,
    shift: Option<u8>,
    timestamps: bool,
    sack: bool,
    /// One past the highest byte sent, and where the FIN stands.
    end: Seq,
    fin: Option<Seq>,
    acked: Option<Seq>,
    /// The furthest byte that it let the other end send, as it said and as the other end heard.
    edge: Option<Seq>,
    heard: Option<Seq>,
    stamp: Option<u32>,
    /// Progress that never goes back: SND.UNA and RCV.NXT.
    progress: Option<(Seq, Seq)>,
    pub(super) segments: u32,
    pub(super) resets: u32,
    /// It closed its window for a time.
    pub(super) closed_window: bool,
}

impl Judge {
    pub(super) fn new(side: usize) -> Judge {
        Judge { side, ..Judge::default() }
    }

    /// A segment leaves its end; `other` is what is known of the end it goes to.
    pub(super) fn watch(&mut self, other: &Judge, seg: &Segment<'_>, len: usize, room: usize) {
        self.segments += 1;
        assert!(len <= room, "{len} bytes exceed the path's {room}");
        if seg.flags.has(Flags::RST) {
            self.resets += 1;
            return;
        }
        if seg.flags.has(Flags::SYN) {
            return self.syn(seg);
        }
        let isn = self.isn.expect("nothing comes before the SYN");
        assert!(seg.flags.has(Flags::ACK), "every segment after the SYN acknowledges: {seg:?}");
        self.data(seg, isn, other, len - seg.payload.len());
        self.acknowledgment(seg, other);
        self.stamps(seg, other);
    }

    fn syn(&mut self, seg: &Segment<'_>) {
        assert!(!seg.flags.has(Flags::FIN));
        let new = self.isn.replace(seg.seq) != Some(seg.seq);
        // With Fast Open a FIN may leave before the SYN-ACK is acknowledged.
        assert!(new || self.fin.is_none() || seg.flags.has(Flags::ACK), "no SYN after the FIN");
        let end = seg.seq + seg.seq_len();
        self.end = if new { end } else { self.end.later(end) };
        for (place, &got) in (0..).zip(seg.payload) {
            assert_eq!(got, byte(self.side, place), "byte {place} behind the SYN");
        }
        self.mss = seg.options.mss.expect("a SYN says the MSS").into();
        self.shift = seg.options.window_scale;
        self.timestamps = seg.options.timestamps.is_some();
        self.sack = seg.options.sack_permitted;
        self.stamp = seg.options.timestamps.map(|ts| ts.val);
        if seg.flags.has(Flags::ACK) {
            self.acked = Some(self.acked.map_or(seg.ack, |acked| acked.later(seg.ack)));
            let edge = seg.ack + u32::from(seg.window);
            self.edge = Some(self.edge.map_or(edge, |before| before.later(edge)));
        }
    }

    fn data(&mut self, seg: &Segment<'_>, isn: Seq, other: &Judge, header: usize) {
        let len = seg.payload.len() as u32;
        assert!(len == 0 || len + (header as u32 - 20) <= other.mss, "{len} bytes exceed {}", other.mss);
        // Keepalives and probes may lie one byte below what was acknowledged.
        assert!(seg.seq.at_or_after(isn) && seg.seq.at_or_before(self.end), "{seg:?} lies beside our stream");
        if let Some(fin) = self.fin {
            assert!(len == 0 || (seg.seq + len).at_or_before(fin), "data beyond the FIN");
            assert!(!seg.flags.has(Flags::FIN) || seg.seq + len == fin, "the FIN moved");
        }
        if seg.flags.has(Flags::FIN) {
            self.fin = Some(seg.seq + len);
        }
        if let Some(edge) = other.heard.filter(|_| len > 0) {
            let beyond = (seg.seq + len).distance_from(edge);
            let probe = beyond == 1 && len == 1;
            assert!(beyond <= 0 || probe, "{len} bytes at {:?} go {beyond} beyond {edge:?}", seg.seq);
        }
        let first = seg.seq.offset_from(isn + 1);
        for (place, &got) in (first..).zip(seg.payload) {
            assert_eq!(got, byte(self.side, place), "byte {place} of {seg:?}");
        }
        self.end = self.end.later(seg.seq + seg.seq_len());
    }

    fn shift_towards(&self, other: &Judge) -> u8 {
        self.shift.filter(|_| other.shift.is_some()).unwrap_or(0)
    }

    fn acknowledgment(&mut self, seg: &Segment<'_>, other: &Judge) {
        assert!(seg.ack.at_or_before(other.end), "{seg:?} acknowledges what was not sent");
        let back = self.acked.is_some_and(|acked| seg.ack.before(acked));
        assert!(!back, "{seg:?} takes an acknowledgment back");
        self.acked = Some(seg.ack);
        let shift = self.shift_towards(other);
        let edge = seg.ack + (u32::from(seg.window) << shift);
        if let Some(before) = self.edge {
            let shrunk = before.distance_from(edge);
            assert!(shrunk < 1 << shift, "the window shrank by {shrunk}: {seg:?}");
        }
        self.edge = Some(self.edge.map_or(edge, |before| before.later(edge)));
        self.closed_window |= seg.window == 0;
        let blocks = seg.options.sack.as_slice();
        assert!(blocks.is_empty() || (self.sack && other.sack));
        for (i, &(left, right)) in blocks.iter().enumerate() {
            assert!(left.before(right) && right.at_or_before(other.end), "{seg:?}");
            assert!(i == 0 || left.after(seg.ack), "a run touches the acknowledgment: {seg:?}");
            let apart = |&(l, r): &(Seq, Seq)| r.before(left) || right.before(l);
            assert!(i == 0 || blocks[1..i].iter().all(apart), "runs overlap: {seg:?}");
        }
    }

    fn stamps(&mut self, seg: &Segment<'_>, other: &Judge) {
        let negotiated = self.timestamps && other.timestamps;
        assert_eq!(seg.options.timestamps.is_some(), negotiated, "time stamps go with all or none: {seg:?}");
        if let Some(ts) = seg.options.timestamps {
            let last = self.stamp.replace(ts.val).unwrap_or(ts.val);
            assert!(ts.val.wrapping_sub(last) as i32 >= 0, "our clock went back");
        }
    }

    /// A segment of this end reached `other`, which knows its window now.
    pub(super) fn arrived(&mut self, other: &Judge, seg: &Segment<'_>) {
        let syn = seg.flags.has(Flags::SYN);
        let shift = if syn { 0 } else { self.shift_towards(other) };
        // A SYN without an acknowledgment speaks of what follows the other end's SYN, if that was sent.
        let ack = match other.isn {
            _ if seg.flags.has(Flags::RST) => return,
            _ if seg.flags.has(Flags::ACK) => seg.ack,
            Some(isn) if syn => isn + 1,
            _ => return,
        };
        let edge = ack + (u32::from(seg.window) << shift);
        self.heard = Some(self.heard.map_or(edge, |before| before.later(edge)));
    }
}

impl Pair<'_, '_> {
    /// Checks the invariants that hold between calls.
    pub(super) fn judge(&mut self) {
        for i in 0..2 {
            let end = &self.ends[i];
            assert!(end.pool.used() <= end.pool.limit());
            let Some(conn) = &end.conn else { continue };
            let info = conn.info(self.now);
            let lives = end.lives();
            if info.state != State::SynSent && (lives || self.judges[i].progress.is_some()) {
                let judge = &mut self.judges[i];
                let back = judge
                    .progress
                    .is_some_and(|(una, nxt)| info.snd_una.before(una) || info.rcv_nxt.before(nxt));
                assert!(!back, "progress was lost");
                judge.progress = Some((info.snd_una, info.rcv_nxt));
            }
            if !lives {
                continue;
            }
            let flight = info.snd_nxt.distance_from(info.snd_una);
            assert!(flight >= 0 && flight as u32 == info.flight, "SND.UNA <= SND.NXT");
            let (limit, used) = info.sndbuf;
            assert!(info.flight <= used + 2, "{} bytes in flight, {used} of {limit} kept", info.flight);
            assert!(info.sacked + info.lost <= info.flight, "{} + {}", info.sacked, info.lost);
            assert!(info.window.cwnd >= u32::from(info.snd_mss).min(1), "no congestion window");
            if !info.state.is_synchronized() {
                continue;
            }
            let (own, other) = (self.judges[i], self.judges[1 - i]);
            let edge = info.rcv_nxt + info.rcv_wnd;
            let promised = own.edge.map_or(0, |promised| promised.distance_from(edge));
            assert!(promised < 1 << own.shift_towards(&other), "a promise of {promised} bytes is not kept");
        }
        for i in 0..2 {
            let (Some((una, _)), Some((_, nxt))) = (self.judges[i].progress, self.judges[1 - i].progress)
            else {
                continue;
            };
            let ahead = una.distance_from(nxt);
            assert!(ahead <= 0 || !self.ends[i].lives(), "{i} takes {ahead} bytes for arrived that are not");
        }
    }
}
