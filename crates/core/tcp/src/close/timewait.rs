//! State of a connection in TIME-WAIT.

use base::{FlowKey, Instant, Seq};
use wire::tcp::{Flags, Header, Options, Segment, Timestamps};

use crate::connection::{Bits, Connection};
use crate::scale::{Clock, to_field, ts_before};
use crate::{Config, Cx};

/// Least time between two ACKs that neither data nor a FIN asked for, in the entry's 1/8 second clock: two ends that
/// disagree must not answer each other's answers for ever (RFC 5961, section 7).
const ACK_SPACING: u16 = 4;

/// A connection in TIME-WAIT, at most 64 bytes.
#[derive(Clone, Debug)]
pub struct TimeWait {
    /// The flow.
    pub key: FlowKey,
    /// When it ends.
    pub until: Instant,
    pub(crate) snd_nxt: Seq,
    pub(crate) rcv_nxt: Seq,
    pub(crate) ts_recent: u32,
    pub(crate) ts_offset: u32,
    /// Window field of the last segment sent.
    pub(crate) window: u16,
    /// [`Bits::TIMESTAMPS`] as the connection had them.
    pub(crate) stamps: u8,
    /// When the last spaced ACK left: 1 to 255 in 1/8 s, 0 for never. The clock wraps every 32 s, which at
    /// worst swallows one ACK that the peer will ask for again.
    pub(crate) acked_at: u8,
}

const _: () = assert!(Bits::TIMESTAMPS.raw() <= u8::MAX as u64);

const _: () = assert!(size_of::<TimeWait>() <= 64);

/// Answer to a segment for a TIME-WAIT entry.
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

impl Connection {
    /// The compact rest of this connection, once `on_segment` said TimeWait.
    pub fn time_wait(&self, cx: &Cx<'_>) -> TimeWait {
        TimeWait {
            key: *self.key(),
            until: cx.now + cx.config.time_wait,
            snd_nxt: self.snd.nxt(),
            rcv_nxt: self.rcv.nxt(),
            ts_recent: self.rcv.ts_recent(),
            ts_offset: self.snd.ts_offset(),
            window: to_field(self.rcv.window(), self.rcv.scale()),
            stamps: (self.bits.raw() & Bits::TIMESTAMPS.raw()) as u8,
            acked_at: 0,
        }
    }
}

impl TimeWait {
    /// The rest of a connection whose FIN was acknowledged and whose peer's FIN was received. `window` is the
    /// field as last sent, `timestamps` is TS.Recent and the offset of our timestamp clock of milliseconds, where they
    /// were negotiated.
    pub fn new(
        key: FlowKey,
        until: Instant,
        snd_nxt: Seq,
        rcv_nxt: Seq,
        window: u16,
        timestamps: Option<(u32, u32)>,
    ) -> Self {
        let (ts_recent, ts_offset) = timestamps.unwrap_or((0, 0));
        let stamps = if timestamps.is_some() { Bits::MILLIS.raw() as u8 } else { 0 };
        TimeWait { key, until, snd_nxt, rcv_nxt, ts_recent, ts_offset, window, stamps, acked_at: 0 }
    }

    fn has_timestamps(&self) -> bool {
        self.stamps != 0
    }

    fn clock(&self) -> Clock {
        Bits::of(self.stamps.into()).clock()
    }

    /// A segment arrived (the TIME-WAIT parts of RFC 9293, section 3.10.7.4).
    pub fn on_segment(&mut self, now: Instant, config: &Config, seg: &Segment<'_>) -> TimeWaitAnswer {
        if seg.flags.has(Flags::RST) {
            return self.on_reset(config, seg);
        }
        if seg.flags.has(Flags::SYN) {
            return self.on_syn(now, config, seg);
        }
        let stamp = seg.options.timestamps.filter(|_| self.has_timestamps());
        if stamp.is_some_and(|ts| ts_before(ts.val, self.ts_recent)) {
            return self.answer_unacceptable(now, seg);
        }
        if !seg.flags.has(Flags::ACK) {
            return match seg.seq == self.rcv_nxt {
                true => TimeWaitAnswer::Ignore,
                false => self.answer_unacceptable(now, seg),
            };
        }
        // What ends where the peer's stream ends: its FIN again, or a bare acknowledgment.
        let in_place = seg.seq + seg.seq_len() == self.rcv_nxt && seg.ack.at_or_before(self.snd_nxt);
        if let Some(ts) = stamp.filter(|_| in_place) {
            self.ts_recent = ts.val;
        }
        if in_place && seg.flags.has(Flags::FIN) {
            self.until = self.until.max(now + config.time_wait);
            return self.ack(now);
        }
        // Nothing new can follow the peer's FIN. A bare acknowledgment in its place needs no answer; anything
        // else shows that the peer misses ours.
        if in_place && seg.seq_len() == 0 {
            return TimeWaitAnswer::Ignore;
        }
        self.answer_unacceptable(now, seg)
    }

    /// The ACK that an unacceptable segment gets: data and a FIN each time, what could be an answer itself spaced.
    /// RFC 7323, 5.3-1.
    fn answer_unacceptable(&mut self, now: Instant, seg: &Segment<'_>) -> TimeWaitAnswer {
        if seg.seq_len() > 0 { self.ack(now) } else { self.ack_spaced(now) }
    }

    /// A RST ends TIME-WAIT early unless the operator follows RFC 1337; only one that names the exact sequence number
    /// counts (RFC 5961, section 3).
    fn on_reset(&mut self, config: &Config, seg: &Segment<'_>) -> TimeWaitAnswer {
        if config.time_wait_reset && seg.seq == self.rcv_nxt {
            TimeWaitAnswer::Remove
        } else {
            TimeWaitAnswer::Ignore
        }
    }

    /// A SYN may start the next incarnation if timestamps or sequence numbers prove it newer than anything of
    /// this one (RFC 6191, section 2). Otherwise the peer gets the challenge ACK of RFC 5961, section 4,
    /// where RFC 6191 would stay silent: it tells a peer that lost its state what to reset.
    /// RFC 9293, MAY-2 and SHLD-4; RFC 6191, 2-1, 2-2 and 2-3.
    fn on_syn(&mut self, now: Instant, config: &Config, seg: &Segment<'_>) -> TimeWaitAnswer {
        // RCV.NXT itself is refused, too, as Linux refuses it: an old SYN of a crossed open may carry it.
        let higher = seg.seq.after(self.rcv_nxt);
        let newer = match seg.options.timestamps.filter(|_| config.timestamps) {
            Some(ts) if self.has_timestamps() && ts.val != self.ts_recent => {
                ts_before(self.ts_recent, ts.val)
            }
            Some(_) if self.has_timestamps() => higher,
            Some(_) => true,
            None => higher,
        };
        let odd = seg.flags.has(Flags::ACK) || seg.flags.has(Flags::FIN) && config.drop_synfin;
        if !odd && newer { TimeWaitAnswer::Reuse { isn_above: self.snd_nxt } } else { self.ack_spaced(now) }
    }

    /// Returns the lower bound of the ISN, if a connection of ours to the same endpoint may begin in place of this
    /// entry: its timestamps count the same and are newer than any of the old one, so that neither end confuses them
    /// (RFC 6191).
    pub fn yields_to_connect(&self, now: Instant, config: &Config) -> Option<Seq> {
        let waited = now + config.time_wait >= self.until + config.time_wait_reuse_after;
        let told_apart = self.has_timestamps() && config.timestamps && self.clock() == Clock::of(config);
        (config.time_wait_reuse && told_apart && waited).then_some(self.snd_nxt)
    }

    /// Returns the answer to a SYN that might begin a new connection if there were a listener (RFC 5961, section
    /// 4).
    pub fn challenge(&mut self, now: Instant) -> TimeWaitAnswer {
        self.ack_spaced(now)
    }

    /// An ACK, if the last one is long enough ago.
    fn ack_spaced(&mut self, now: Instant) -> TimeWaitAnswer {
        let tick = (now.as_millis() / 125 % 255) as u8 + 1;
        let elapsed = (u16::from(tick) + 255 - u16::from(self.acked_at)) % 255;
        if self.acked_at != 0 && elapsed < ACK_SPACING {
            return TimeWaitAnswer::Ignore;
        }
        self.acked_at = tick;
        self.ack(now)
    }

    fn ack(&self, now: Instant) -> TimeWaitAnswer {
        let val = || self.clock().value(now, self.ts_offset);
        let stamped = self.has_timestamps();
        let timestamps = stamped.then(|| Timestamps { val: val(), ecr: self.ts_recent });
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

#[cfg(test)]
mod tests;
