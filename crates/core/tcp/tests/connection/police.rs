//! Watches everything one side sends and panics on what RFC 9293 forbids whatever the network does.

use base::Seq;
use wire::tcp::{Flags, Segment};

use crate::host::parse;

/// The byte at `offset` of the stream that `side` sends.
pub(crate) fn byte(side: usize, offset: u64) -> u8 {
    (offset.wrapping_mul(31) ^ (offset >> 8).wrapping_mul(17) ^ (offset >> 16)) as u8 ^ (side as u8 * 0x55)
}

/// Observations of one side.
#[derive(Default)]
pub(crate) struct Police {
    side: usize,
    isn: Option<Seq>,
    mss: u32,
    shift: Option<u8>,
    timestamps: bool,
    sack_permitted: bool,
    /// One past the highest byte sent, and where the FIN stands.
    end: Seq,
    fin: Option<Seq>,
    acked: Option<Seq>,
    /// The furthest byte it let the other side send, and the window field then.
    edge: Option<Seq>,
    last_ts: Option<u32>,
    pub(crate) resets: u32,
    pub(crate) segments: u64,
    pub(crate) data_bytes: u64,
}

impl Police {
    pub(crate) fn new(side: usize) -> Self {
        Police { side, ..Police::default() }
    }

    /// Checks a segment against what its sender and the other side have said before.
    pub(crate) fn watch(&mut self, other: &Police, bytes: &[u8], mtu: usize, headers: usize) {
        let seg = parse(bytes);
        self.segments += 1;
        assert!(bytes.len() + headers <= mtu, "{} bytes exceed the path's {mtu}", bytes.len() + headers);
        assert!(bytes[12] >> 4 <= 15 && !seg.flags.has(Flags::URG));
        if seg.flags.has(Flags::RST) {
            self.resets += 1;
            return;
        }
        if seg.flags.has(Flags::SYN) {
            return self.syn(&seg);
        }
        let isn = self.isn.expect("nothing comes before the SYN");
        assert!(seg.flags.has(Flags::ACK), "every segment after the SYN acknowledges: {seg:?}");
        self.data(&seg, isn, other, bytes.len() - seg.payload.len());
        self.acknowledgment(&seg, other);
        self.stamps(&seg, other);
    }

    fn syn(&mut self, seg: &Segment<'_>) {
        assert!(!seg.flags.has(Flags::FIN));
        assert!(seg.payload.is_empty());
        let new = self.isn.replace(seg.seq) != Some(seg.seq);
        assert!(new || self.fin.is_none(), "no SYN after the FIN");
        if new {
            self.end = seg.seq + 1;
        }
        self.mss = seg.options.mss.expect("a SYN says the MSS").into();
        self.shift = seg.options.window_scale;
        self.timestamps = seg.options.timestamps.is_some();
        self.sack_permitted = seg.options.sack_permitted;
        self.last_ts = seg.options.timestamps.map(|ts| ts.val);
        if seg.flags.has(Flags::ACK) {
            self.acked = Some(seg.ack);
            self.edge = Some(seg.ack + u32::from(seg.window));
        } else {
            self.edge = None;
        }
    }

    fn data(&mut self, seg: &Segment<'_>, isn: Seq, other: &Police, header: usize) {
        let len = seg.payload.len() as u32;
        self.data_bytes += u64::from(len);
        assert!(len == 0 || len + (header as u32 - 20) <= other.mss, "{len} bytes exceed MSS {}", other.mss);
        let end = seg.seq + seg.seq_len();
        // Keepalives and probes may lie one byte below what was acknowledged.
        assert!(seg.seq.at_or_after(isn), "{seg:?} lies before our stream");
        assert!(seg.seq.at_or_before(self.end), "{seg:?} skips bytes");
        if let Some(fin) = self.fin {
            assert!(len == 0 || (seg.seq + len).at_or_before(fin), "data beyond the FIN");
            assert!(!seg.flags.has(Flags::FIN) || seg.seq + len == fin, "the FIN moved");
        }
        if seg.flags.has(Flags::FIN) {
            self.fin = Some(seg.seq + len);
        }
        if let Some(edge) = other.edge.filter(|_| len > 0) {
            let beyond = (seg.seq + len).distance_from(edge);
            assert!(
                beyond <= 0 || (beyond == 1 && len == 1),
                "{len} bytes at {:?} go {beyond} beyond {edge:?}",
                seg.seq
            );
        }
        let first = u64::from(seg.seq.offset_from(isn + 1));
        for (i, &got) in seg.payload.iter().enumerate() {
            assert_eq!(got, byte(self.side, first + i as u64), "byte {} of {seg:?}", i);
        }
        self.end = self.end.later(end);
    }

    fn acknowledgment(&mut self, seg: &Segment<'_>, other: &Police) {
        assert!(seg.ack.at_or_before(other.end), "{seg:?} acknowledges what was not sent");
        if let Some(acked) = self.acked {
            assert!(seg.ack.at_or_after(acked), "{seg:?} takes an acknowledgment back");
        }
        self.acked = Some(seg.ack);
        let scaled = self.shift.is_some() && other.shift.is_some();
        let shift = if scaled { self.shift.unwrap_or(0) } else { 0 };
        let edge = seg.ack + (u32::from(seg.window) << shift);
        if let Some(before) = self.edge {
            let shrunk = before.distance_from(edge);
            assert!(shrunk < 1 << shift, "the window shrank by {shrunk}: {seg:?}");
        }
        self.edge = Some(self.edge.map_or(edge, |before| before.later(edge)));
        let blocks = seg.options.sack.as_slice();
        assert!(blocks.is_empty() || (self.sack_permitted && other.sack_permitted));
        for (i, &(left, right)) in blocks.iter().enumerate() {
            assert!(left.before(right) && right.at_or_before(other.end), "{seg:?}");
            assert!(i == 0 || left.after(seg.ack), "a run touches the acknowledgment: {seg:?}");
            let apart = |&(l, r): &(Seq, Seq)| r.before(left) || right.before(l);
            assert!(i == 0 || blocks[1..i].iter().all(apart), "runs overlap: {seg:?}");
        }
    }

    fn stamps(&mut self, seg: &Segment<'_>, other: &Police) {
        let negotiated = self.timestamps && other.timestamps;
        assert_eq!(
            seg.options.timestamps.is_some(),
            negotiated,
            "timestamps go with every segment or none: {seg:?}"
        );
        if let Some(ts) = seg.options.timestamps {
            let last = self.last_ts.replace(ts.val).unwrap_or(ts.val);
            assert!(ts.val.wrapping_sub(last) as i32 >= 0, "our clock went back");
        }
    }
}
