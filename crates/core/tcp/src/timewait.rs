//! What is left of a connection in TIME-WAIT.

use base::{FlowKey, Instant, Seq};
use wire::tcp::{Flags, Header, Options, Segment, Timestamps};

use crate::Config;
use crate::scale::{ts_before, ts_value};

/// Least time between two ACKs, in the entry's 1/8 second clock: two ends that disagree must not answer each other's
/// answers for ever (RFC 5961, section 7).
const ACK_SPACING: u8 = 4;

/// A connection in TIME-WAIT, at most 64 octets.
#[derive(Clone, Debug)]
pub struct TimeWait {
    /// The flow.
    pub key: FlowKey,
    /// When it ends.
    pub until: Instant,
    snd_nxt: Seq,
    rcv_nxt: Seq,
    ts_recent: u32,
    ts_offset: u32,
    /// Window field of the last segment sent.
    window: u16,
    timestamps: bool,
    /// When the last ACK left, in 1/8 s; what wraps costs one ACK, which the peer's next retransmission asks for again.
    acked_at: u8,
}

const _: () = assert!(size_of::<TimeWait>() <= 64);

/// What a segment for a TIME-WAIT entry asks for.
#[derive(Clone, Debug)]
pub enum TimeWaitAnswer {
    /// Nothing.
    Ignore,
    /// Send this ACK (and restart the wait: already done).
    Ack(Header),
    /// The peer reset it (only an exact RST counts, RFC 1337 / RFC 5961): remove the entry.
    Remove,
    /// A new SYN the listener may accept in its place (RFC 6191): remove the entry, ISN must be above this.
    Reuse {
        /// Lower bound of the new ISN.
        isn_above: Seq,
    },
}

impl TimeWait {
    /// The rest of a connection whose FIN was acknowledged and whose peer's FIN was received. `window` is the field as
    /// last sent, `timestamps` is TS.Recent and the offset of our timestamp clock, where they were negotiated.
    pub(crate) fn new(
        key: FlowKey,
        until: Instant,
        snd_nxt: Seq,
        rcv_nxt: Seq,
        window: u16,
        timestamps: Option<(u32, u32)>,
    ) -> Self {
        let (ts_recent, ts_offset) = timestamps.unwrap_or((0, 0));
        let timestamps = timestamps.is_some();
        TimeWait { key, until, snd_nxt, rcv_nxt, ts_recent, ts_offset, window, timestamps, acked_at: 0 }
    }

    /// A segment arrived.
    pub fn on_segment(&mut self, now: Instant, config: &Config, seg: &Segment<'_>) -> TimeWaitAnswer {
        let _ = config;
        if seg.flags.has(Flags::RST) {
            return TimeWaitAnswer::Ignore;
        }
        self.ack(now)
    }

    fn ack(&mut self, now: Instant) -> TimeWaitAnswer {
        let _ = (ACK_SPACING, self.acked_at, ts_before(0, 1));
        let timestamps =
            self.timestamps.then(|| Timestamps { val: ts_value(now, self.ts_offset), ecr: self.ts_recent });
        TimeWaitAnswer::Ack(Header {
            src_port: self.key.local().port,
            dst_port: self.key.remote().port,
            seq: self.snd_nxt,
            ack: self.rcv_nxt,
            flags: Flags::ACK,
            window: self.window,
            options: Options { timestamps, ..Options::default() },
        })
    }
}
