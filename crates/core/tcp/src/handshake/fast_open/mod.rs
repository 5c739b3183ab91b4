//! TCP Fast Open (RFC 7413): data with the SYN, taken from clients that show a cookie.
//!
//! ```text
//!  client                                      server
//!  SYN, "a cookie, please"       ------------>
//!                                <------------ SYN-ACK, cookie            keys: made, kept nowhere
//!  cache: kept
//!     ...
//!  SYN, cookie, data             ------------>                            cookie right: the application reads
//!                                <------------ SYN-ACK of SYN and data
//!                                <------------ data                       EARLY: before the handshake's end
//!  ACK                           ------------>
//! ```
//! Connections without it pay nothing: what it needs hangs in [`Cold`](crate::connection::Cold), behind one bit each.

mod cache;
mod keys;
mod offer;

use alloc::boxed::Box;

use base::{Duration, FlowKey, Seq};
use cc::{Control, Controller};
use wire::tcp::{FastOpen, Flags, Segment};

use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::{Config, Counters, Cx, Events, Open, State};

pub use cache::FastOpenCache;
pub use keys::{CookieWorth, FastOpenJar, FastOpenKeys};
use offer::Attempt;
pub(crate) use offer::FastOpenState;
pub use offer::{FastOpenOffer, FastOpenOutcome, Lesson};

crate::bits::writer!(FAST_OPEN, COOKIE, SYN_DATA, SYN_DATA_TAKEN, EARLY);

/// Room in a SYN with data that is left for the most options there can be.
const OPTIONS_MAX: u32 = 40;

/// Bits of `Config::fastopen`, with Linux's values.
pub(crate) mod bits {
    pub(crate) const CLIENT: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const CLIENT_NO_COOKIE: u32 = 4;
    pub(crate) const SERVER_NO_COOKIE: u32 = 0x200;
    pub(crate) const ALL_LISTENERS: u32 = 0x400;
}

impl Config {
    /// May connects use Fast Open?
    pub const fn fastopen_client(&self) -> bool {
        self.fastopen & bits::CLIENT != 0
    }

    /// Do connects send data although they have no cookie?
    pub const fn fastopen_without_cookie(&self) -> bool {
        self.fastopen & bits::CLIENT_NO_COOKIE != 0
    }

    /// Do listeners take data with a SYN where their socket does not say so?
    pub const fn fastopen_all_listeners(&self) -> bool {
        let both = bits::SERVER | bits::ALL_LISTENERS;
        self.fastopen & both == both
    }
}

/// A listener's decision about a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FastOpenAnswer {
    /// An ordinary handshake; the SYN-ACK gives this cookie, if any.
    Handshake(Option<FastOpen>),
    /// The application gets the connection and its data at once; the SYN-ACK may bring a newer cookie.
    Open(Option<FastOpen>),
}

impl FastOpenAnswer {
    /// RFC 7413, section 4.2.2: what `syn` deserves on a listener with `keys` that has room for another connection
    /// whose client has proven nothing but its cookie.
    /// RFC 7413, 4.2.1-3 and 4.2.2-2.
    pub fn to(
        config: &Config,
        keys: &FastOpenKeys,
        flow: &FlowKey,
        syn: &Segment<'_>,
        counters: &mut Counters,
    ) -> FastOpenAnswer {
        if config.fastopen & bits::SERVER_NO_COOKIE != 0 {
            return FastOpenAnswer::Open(None);
        }
        let Some(option) = syn.options.fast_open() else { return FastOpenAnswer::Handshake(None) };
        let fresh = keys.cookie(flow, option.experimental);
        if option.is_request() {
            return FastOpenAnswer::Handshake(fresh);
        }
        match keys.judge(flow, &option) {
            CookieWorth::Good => FastOpenAnswer::Open(None),
            CookieWorth::Aging => {
                counters.fastopen_passive_alt_key += 1;
                FastOpenAnswer::Open(fresh)
            }
            CookieWorth::Bad => {
                counters.fastopen_passive_fail += 1;
                FastOpenAnswer::Handshake(fresh)
            }
        }
    }

    /// Is there anything in `syn` that Fast Open could be about?
    #[inline]
    pub fn concerns(config: &Config, syn: &Segment<'_>) -> bool {
        config.fastopen & bits::SERVER != 0 && (syn.options.fast_open().is_some() || !syn.payload.is_empty())
    }
}

impl Connection {
    /// Active open in `place` with Fast Open: the SYN carries what `offer` says and as much of `data` as one segment
    /// takes (RFC 7413, section 4.2.1). How many bytes that is.
    /// RFC 7413, 4.1.3-2 and 4.2.2-1.
    pub fn connect_fast(
        place: &mut Option<Connection>,
        cx: &mut Cx<'_>,
        open: &Open,
        control: Control,
        offer: &FastOpenOffer,
        data: &[u8],
    ) -> usize {
        let conn = Connection::connect(place, cx, open, control);
        conn.bits.set(Bits::FAST_OPEN, WRITER);
        conn.bits.put(Bits::COOKIE, offer.option.is_some(), WRITER);
        conn.attempt().option = offer.option;
        if !offer.takes_data() || data.is_empty() {
            return 0;
        }
        let ours = conn.advertised_mss();
        let mss = if offer.mss == 0 { ours } else { offer.mss.min(ours) };
        let room = u32::from(mss).saturating_sub(OPTIONS_MAX) as usize;
        let room = room.min(conn.snd.buffer().room()).min(conn.memory_for_writing(cx.pool));
        let taken = conn.snd.buffer_mut().append(cx.pool, &data[..data.len().min(room)]);
        if taken > 0 {
            conn.note_busy(cx.now.as_millis() as u32, true);
        }
        conn.bits.put(Bits::SYN_DATA, taken > 0, WRITER);
        taken
    }

    /// Passive open in `place` for a client that showed a good cookie: its data can be read and answered at once,
    /// before it proved by an ACK that it is there (RFC 7413, section 4.2.2). `option` goes with the SYN-ACK.
    /// RFC 7413, 4.2.2-4 and 4.2.2-8.
    pub fn accept_fast<'p>(
        place: &'p mut Option<Connection>,
        cx: &mut Cx<'_>,
        open: &Open,
        control: Control,
        syn: &Segment<'_>,
        option: Option<FastOpen>,
    ) -> &'p mut Connection {
        cx.counters.fastopen_passive += 1;
        let conn = Connection::accept(place, cx, open, control, syn);
        conn.grant(option);
        conn.bits.set(Bits::EARLY, WRITER);
        conn.attempt();
        // Data may follow the SYN-ACK, so its number counts as acknowledged: it is sent again all the same.
        conn.snd.begin_at(open.isn + 1);
        let path = conn.path_info(cx);
        conn.control.on_established(&path);
        if !syn.payload.is_empty() {
            conn.bits.set(Bits::SYN_DATA_TAKEN, WRITER);
            let text = crate::input::behind_syn(syn);
            let room = text.payload.len().min(conn.syn_window() as usize);
            conn.learn_segment_size(room as u32, syn.merged);
            // What the pool has no room for is counted, is not acknowledged, and comes again.
            let _ = conn.take_in_order(cx, (&text.payload[..room], None), room, text.flags);
        }
        conn
    }

    /// The SYN-ACK gives the client this cookie.
    pub fn grant(&mut self, option: Option<FastOpen>) {
        if option.is_some() {
            self.bits.set(Bits::COOKIE, WRITER);
            self.attempt().option = option;
        }
    }

    /// The outcome of a connect with Fast Open, taken; [`Events::FAST_OPEN`] says that there is one.
    pub fn take_fast_open(&mut self) -> Option<FastOpenOutcome> {
        let outcome = self.attempt().outcome.take();
        if !self.bits.has(Bits::FAST_OPEN) {
            self.cold_mut().fast_open.attempt = None;
        }
        outcome
    }

    /// May its owner read and write although the handshake has not ended?
    pub fn is_early(&self) -> bool {
        self.bits.has(Bits::EARLY)
    }

    fn attempt(&mut self) -> &mut Attempt {
        self.cold_mut().fast_open.attempt.get_or_insert_with(Box::default)
    }

    /// The option of a SYN or SYN-ACK about to leave.
    #[cold]
    pub(crate) fn syn_option(&mut self) -> Option<FastOpen> {
        self.attempt().option
    }

    /// A SYN or SYN-ACK of ours leaves. One that is sent again is plain, because a box on the way may have disliked
    /// the other (RFC 7413, section 4.2.1).
    /// RFC 7413, 4.2.1-1 and 4.2.1-2.
    pub(crate) fn note_syn(&mut self, cx: &Cx<'_>, retransmit: bool) {
        if retransmit {
            self.bits.clear(Bits::COOKIE, WRITER);
        }
        if self.bits.has(Bits::EARLY) {
            self.attempt().left = (!retransmit).then_some(cx.now.as_micros() as u32);
        }
    }

    /// The number of our SYN-ACK, or of our SYN while it is not acknowledged.
    pub(crate) fn syn_seq(&self) -> Seq {
        if self.bits.has(Bits::EARLY) { self.snd.una() - 1 } else { self.snd.una() }
    }

    /// A SYN that is the one this connection began with: the peer sent it again, with or without its data.
    pub(crate) fn is_first_syn(&self, seg: &Segment<'_>) -> bool {
        let first = seg.flags.has(Flags::SYN) && self.state() == State::SynReceived;
        first && seg.seq + 1 + self.rcv.bytes() as u32 == self.rcv.nxt()
    }

    /// A SYN-ACK arrived in SYN-SENT: what to remember for the next connect. `self.snd.nxt()` is what was sent.
    /// RFC 7413, 4.1.3.1-1.
    #[cold]
    pub(crate) fn conclude(&mut self, cx: &mut Cx<'_>, seg: &Segment<'_>) {
        self.bits.clear(Bits::FAST_OPEN, WRITER);
        let all = seg.ack == self.snd.nxt();
        let data = self.bits.has(Bits::SYN_DATA);
        let again = self.counts.retransmits() > 0;
        let asked = self.attempt().option;
        let answer = seg.options.fast_open().filter(|option| !option.is_request());
        // A cookie that no peer asked for is none.
        let cookie = answer.filter(|_| asked.is_some());
        let lesson = match asked {
            _ if again && cookie.is_none() && data && !all => Lesson::Lost,
            _ if cookie.is_none() && data && seg.ack == self.snd.una() + 1 => Lesson::Refused,
            Some(option) if cookie.is_none() && !data && !again => {
                Lesson::NoCookie { experimental: option.experimental }
            }
            _ => Lesson::Answered,
        };
        if data {
            match all {
                true => cx.counters.fastopen_active += 1,
                false => cx.counters.fastopen_active_fail += 1,
            }
            self.bits.put(Bits::SYN_DATA_TAKEN, all, WRITER);
        }
        let mss = seg.options.mss.unwrap_or(0);
        self.tell_outcome(FastOpenOutcome { mss, cookie, lesson });
    }

    /// A SYN with Fast Open was not answered. The third one that is not, or the end, is a reason for caution.
    #[cold]
    pub(crate) fn note_silence(&mut self, cx: &mut Cx<'_>, over: bool) {
        if self.timers.retries() == 2 || (over && self.timers.retries() < 2) {
            cx.counters.fastopen_blackhole += 1;
            self.tell_outcome(FastOpenOutcome { mss: 0, cookie: None, lesson: Lesson::Silence });
        }
    }

    /// An ICMP error ends the attempt.
    #[cold]
    pub(crate) fn note_unreachable(&mut self) {
        self.tell_outcome(FastOpenOutcome { mss: 0, cookie: None, lesson: Lesson::Unreachable });
    }

    /// Data are sent again and again. If nothing ever came after the handshake, the path may have closed because of
    /// the data in the SYN.
    #[cold]
    pub(crate) fn note_stall(&mut self, cx: &mut Cx<'_>) {
        if self.timers.retries() == 3 && self.rcv.bytes() == 0 {
            cx.counters.fastopen_blackhole += 1;
            self.tell_outcome(FastOpenOutcome { mss: 0, cookie: None, lesson: Lesson::Silence });
        }
    }

    fn tell_outcome(&mut self, outcome: FastOpenOutcome) {
        self.attempt().outcome = Some(outcome);
        self.raise(Events::FAST_OPEN);
    }

    /// The SYN is acknowledged, and of the data with it the first `acked` bytes. The rest was refused: it goes again
    /// as if for the first time (RFC 7413, section 4.2.2).
    /// RFC 7413, 4.2.2-6.
    #[cold]
    pub(crate) fn settle_syn_data(&mut self, cx: &mut Cx<'_>, acked: u32) {
        let (acked, whole) = (self.snd.data_in(acked), self.snd.queued());
        self.snd.buffer_mut().consume(cx.pool, acked);
        if acked > 0 && acked == whole {
            self.note_busy(cx.now.as_millis() as u32, false);
        }
        self.counts.acknowledged(acked);
        if self.snd.flight() > 0 {
            self.counts.retransmitted();
            cx.counters.retransmits += 1;
            // What goes again counts as data anew.
            self.count_again(self.snd.queued());
            let end = self.counts.bytes_acked() as u32 + self.snd.flight();
            self.cold_mut().fast_open.data_again = end;
            self.keep_boundary(self.snd.nxt());
            self.snd.take_back(self.snd.una());
            self.request(Due::DATA);
        }
    }

    /// Bytes in flight that went with the SYN before.
    pub(crate) fn syn_data_again(&self) -> u32 {
        self.syn_data_end().min(self.snd.flight())
    }

    /// Bytes from SND.UNA on that went with the SYN before.
    fn syn_data_end(&self) -> u32 {
        let end = self.cold().map_or(0, |cold| u64::from(cold.fast_open.data_again));
        end.saturating_sub(self.counts.bytes_acked()) as u32
    }

    /// Went what begins at `seq` with the SYN before? Then it is no small segment that the next one waits for.
    #[cold]
    pub(crate) fn is_syn_data(&self, seq: Seq) -> bool {
        seq.offset_from(self.snd.una()) < self.syn_data_end()
    }

    /// The client answered our SYN-ACK: it is there.
    #[cold]
    pub(crate) fn prove(&mut self, cx: &mut Cx<'_>) {
        self.bits.clear(Bits::EARLY, WRITER);
        self.bits.clear(Bits::COOKIE, WRITER);
        if let Some(left) = self.attempt().left {
            let micros = (cx.now.as_micros() as u32).wrapping_sub(left);
            self.timers.sample(micros, cx.now);
            self.show_round_trip(cx, Duration::from_micros(micros.into()));
        }
        self.cold_mut().fast_open.attempt = None;
        self.clear_due(Due::SYN);
        self.timers.end_backoff();
        self.refresh_rto(cx.config);
        self.establish(cx);
        if self.snd.flight() > 0 {
            self.start_rtx(cx);
        }
    }
}
