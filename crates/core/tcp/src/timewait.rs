//! State of a connection in TIME-WAIT.

use base::{FlowKey, Instant, Seq};
use wire::tcp::{Flags, Header, Options, Segment, Timestamps};

use crate::Config;
use crate::connection::Bits;
use crate::scale::{Clock, ts_before};

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

const _: () = assert!(Bits::TIMESTAMPS.0 <= u8::MAX as u64);

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
        let stamps = if timestamps.is_some() { Bits::MILLIS.0 as u8 } else { 0 };
        TimeWait { key, until, snd_nxt, rcv_nxt, ts_recent, ts_offset, window, stamps, acked_at: 0 }
    }

    fn has_timestamps(&self) -> bool {
        self.stamps != 0
    }

    fn clock(&self) -> Clock {
        Bits(self.stamps.into()).clock()
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
mod tests {
    //! Goal: only a FIN extends TIME-WAIT, only a newer SYN (or an allowed RST) ends it, and answers cannot
    //! ping-pong.
    use super::*;
    use crate::fuzz;
    use crate::fuzz::seeded::seeded;
    use crate::fuzz::segment;
    use base::{Addr, Duration, Endpoint};

    const NOW: Instant = Instant::from_secs(50);
    const SND: Seq = Seq::new(10);
    const RCV: Seq = Seq::new(u32::MAX);

    fn entry(timestamps: Option<(u32, u32)>) -> TimeWait {
        let key = FlowKey::new(
            Endpoint::new(Addr::v4([192, 0, 2, 1]), 80),
            Endpoint::new(Addr::v4([192, 0, 2, 2]), 4000),
        );
        TimeWait::new(key, NOW + Duration::from_secs(60), SND, RCV, 512, timestamps)
    }

    fn stamped(val: u32) -> Options {
        Options { timestamps: Some(Timestamps { val, ecr: 0 }), ..Options::default() }
    }

    #[test]
    fn survives_arbitrary_segments() {
        seeded("time_wait", 2_000, 400, fuzz::time_wait);
    }

    #[test]
    fn a_retransmitted_fin_is_answered_and_restarts_the_wait() {
        let mut entry = entry(Some((100, 7)));
        let fin = segment(RCV - 1, SND, Flags::FIN | Flags::ACK, stamped(101));
        let later = NOW + Duration::from_secs(20);
        for _ in 0..3 {
            let TimeWaitAnswer::Ack(ack) = entry.on_segment(later, &Config::default(), &fin) else {
                panic!()
            };
            assert_eq!((ack.seq, ack.ack, ack.window), (SND, RCV, 512));
            assert_eq!(ack.options.timestamps, Some(Timestamps { val: 70_007, ecr: 101 }));
        }
        assert_eq!(entry.until, later + Config::default().time_wait);
    }

    /// RFC 9293, MAY-2 and SHLD-4; RFC 6191, 2-1, 2-2 and 2-3.
    #[test]
    fn rfc_6191_decides_on_a_syn() {
        let config = Config::default();
        let none = Options::default();
        for (timestamps, seq, options, reused) in [
            (None, RCV + 1, none, true),
            (None, RCV, none, false),
            (None, RCV - 1, none, false),
            (None, RCV - 1, stamped(5), true),
            (Some((100, 0)), RCV - 1, stamped(101), true),
            (Some((100, 0)), RCV - 1, stamped(100), false),
            (Some((100, 0)), RCV, stamped(100), false),
            (Some((100, 0)), RCV + 1, stamped(100), true),
            (Some((100, 0)), RCV + 1000, stamped(99), false),
            (Some((100, 0)), RCV + 1000, none, true),
            (Some((100, 0)), RCV - 1, none, false),
        ] {
            match entry(timestamps).on_segment(NOW, &config, &segment(seq, SND, Flags::SYN, options)) {
                TimeWaitAnswer::Reuse { isn_above } => assert!(reused && isn_above == SND),
                TimeWaitAnswer::Ack(ack) => assert!(!reused && ack.ack == RCV),
                other => panic!("{other:?}"),
            }
        }
    }

    /// RFC 9293, section 3.10.7.4, and RFC 5961, section 4: a SYN that carries a FIN is a SYN.
    #[test]
    fn a_syn_with_a_fin_is_challenged_and_reopens_nothing() {
        let both = segment(RCV + 1000, SND, Flags::SYN | Flags::FIN, Options::default());
        let (config, mut waiting) = (Config::default(), entry(None));
        let answer = waiting.on_segment(NOW, &config, &both);
        assert!(matches!(answer, TimeWaitAnswer::Ack(ack) if ack.ack == RCV));
        assert!(matches!(waiting.on_segment(NOW, &config, &both), TimeWaitAnswer::Ignore), "spaced");
        let taken = Config { drop_synfin: false, ..Config::default() };
        assert!(matches!(entry(None).on_segment(NOW, &taken, &both), TimeWaitAnswer::Reuse { .. }));
    }

    /// Only timestamps keep two connections apart whose numbers may overlap, and only once their clock has ticked.
    #[test]
    fn a_connect_takes_over_what_timestamps_tell_apart() {
        let config = Config::default();
        assert_eq!(config.time_wait, Duration::from_secs(60), "what the entries here begin with");
        let later = |millis| NOW + Duration::from_millis(millis);
        let stamped = entry(Some((100, 7)));
        assert_eq!(stamped.yields_to_connect(later(999), &config), None);
        assert_eq!(stamped.yields_to_connect(later(1_000), &config), Some(SND));
        assert_eq!(entry(None).yields_to_connect(later(50_000), &config), None);
        for config in [
            Config { time_wait_reuse: false, ..config.clone() },
            Config { timestamps: false, ..config.clone() },
            Config { time_wait_reuse_after: Duration::from_secs(30), ..config },
        ] {
            assert_eq!(stamped.yields_to_connect(later(20_000), &config), None);
        }
    }

    /// An entry speaks in the clock of its connection, and makes room for a connection whose clock is the same.
    #[test]
    fn microseconds() {
        let micros = Config { usec_timestamps: true, ..Config::default() };
        let mut waiting = TimeWait { stamps: Bits::MICROS.0 as u8, ..entry(Some((100, 7))) };
        let fin = segment(RCV - 1, SND, Flags::FIN | Flags::ACK, stamped(101));
        let TimeWaitAnswer::Ack(ack) = waiting.on_segment(NOW, &micros, &fin) else { panic!() };
        assert_eq!(ack.options.timestamps, Some(Timestamps { val: 50_000_007, ecr: 101 }));
        let later = NOW + Duration::from_secs(20);
        assert_eq!(waiting.yields_to_connect(later, &micros), Some(SND));
        assert_eq!(waiting.yields_to_connect(later, &Config::default()), None);
        assert_eq!(entry(Some((100, 7))).yields_to_connect(later, &micros), None);
        // A new incarnation's clock has gone on by what passed, at the least by one.
        let syn = |val| segment(RCV - 50, Seq::new(0), Flags::SYN, stamped(val));
        assert!(matches!(waiting.on_segment(later, &micros, &syn(101)), TimeWaitAnswer::Ack(_)), "a copy");
        assert!(matches!(waiting.on_segment(later, &micros, &syn(102)), TimeWaitAnswer::Reuse { .. }));
    }

    #[test]
    fn a_reset_ends_it_only_where_allowed() {
        let exact = segment(RCV, SND, Flags::RST, Options::default());
        let near = segment(RCV + 1, SND, Flags::RST, Options::default());
        let (allowed, not) = (Config::default(), Config { time_wait_reset: false, ..Config::default() });
        assert!(matches!(entry(None).on_segment(NOW, &not, &exact), TimeWaitAnswer::Ignore));
        assert!(matches!(entry(None).on_segment(NOW, &allowed, &near), TimeWaitAnswer::Ignore));
        assert!(matches!(entry(None).on_segment(NOW, &allowed, &exact), TimeWaitAnswer::Remove));
    }

    /// RFC 9293, section 3.10.7.4, and RFC 7323, section 5.3: what takes sequence numbers is answered each time, since
    /// no answer to an ACK is of that kind.
    #[test]
    fn data_and_fins_are_answered_without_limit() {
        let config = Config::default();
        for (seq, flags, options) in [
            (RCV - 1, Flags::FIN | Flags::ACK, stamped(50)),
            (RCV - 1, Flags::FIN, stamped(50)),
            (RCV - 1, Flags::FIN, stamped(101)),
            (RCV - 5, Flags::FIN | Flags::ACK, stamped(101)),
            (RCV + 5, Flags::FIN | Flags::ACK, stamped(101)),
        ] {
            let mut entry = entry(Some((100, 7)));
            let until = entry.until;
            for _ in 0..3 {
                let answer = entry.on_segment(NOW, &config, &segment(seq, SND, flags, options));
                assert!(matches!(answer, TimeWaitAnswer::Ack(ack) if ack.ack == RCV), "{seq:?} {flags:?}");
            }
            assert_eq!((entry.until, entry.ts_recent), (until, 100));
        }
    }

    #[test]
    fn two_entries_that_disagree_fall_silent() {
        let config = Config::default();
        let stray = segment(RCV + 100, SND, Flags::ACK, Options::default());
        let mut entry = entry(None);
        let answers = |entry: &mut TimeWait, from: Instant| {
            let times = (0..100).map(|i| from + Duration::from_millis(i));
            times
                .filter(|&at| matches!(entry.on_segment(at, &config, &stray), TimeWaitAnswer::Ack(_)))
                .count()
        };
        assert_eq!(answers(&mut entry, NOW), 1);
        assert_eq!(answers(&mut entry, NOW + Duration::from_secs(1)), 1);
        assert_eq!(entry.until, NOW + Duration::from_secs(60), "a stray ACK does not extend it");
    }
}
