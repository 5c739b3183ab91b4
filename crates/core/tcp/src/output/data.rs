//! New data, FIN, retransmissions and zero-window probes.

use base::{Duration, Seq};
use cc::Controller;
use wire::tcp::Flags;

use crate::buffers::pool::Pool;
use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::mtu::mtu_search::Probing;
use crate::options::Switch;
use crate::output::WRITER;
use crate::recovery::retransmission::Resend;
use crate::state::Phase;
use crate::transmit::{SeqRange, TxPlan};
use crate::{Cx, Transmit, TransmitClass, TxLimits};

/// The application that sends within this time of receiving is in a dialogue: its answers carry the
/// acknowledgments.
const DIALOGUE_MS: u32 = 40;

/// Unsent data: bytes, how many of them lie before the end of the first record, and a FIN behind them.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    ready: u32,
    unsent: u32,
    fin: bool,
}

/// Conditions under which a transmission needs more than its data. Most connections have nothing of this for most
/// of their lives: that is looked at once for a segment, and what follows is compiled for either case.
const SPECIAL: Bits = Bits::MARKED
    .or(Bits::SEARCHING)
    .or(Bits::WINDOW_STARVED)
    .or(Bits::REDUCED)
    .or(Bits::BURSTS)
    .or(Bits::AUTOSIZED)
    .or(Bits::PACED)
    .or(Bits::SAMPLED)
    .or(Bits::ACCECN)
    .or(Bits::SIGNED)
    .or(Bits::FORCE)
    .or(Bits::FLUSH)
    .or(Bits::MORE)
    .or(Bits::UNPUSHED)
    .or(Bits::NO_SPACE);

impl Connection {
    /// Has it something of this, or is it `PLAIN`?
    #[inline(always)]
    fn has_special<const PLAIN: bool>(&self, what: impl Into<Bits>) -> bool {
        let what = what.into();
        debug_assert!(what.raw() & !SPECIAL.raw() == 0 && !(PLAIN && self.bits.has(what)), "{what:?}");
        !PLAIN && self.bits.has(what)
    }

    /// Is anything missing, unless it is `PLAIN`?
    #[inline(always)]
    fn has_loss<const PLAIN: bool>(&self) -> bool {
        debug_assert!(!PLAIN || !self.recovery.is_active());
        !PLAIN && self.recovery.is_active()
    }

    /// The next segment with data or FIN, old or new.
    /// RFC 6675, 5-4; RFC 7323, 2.4-3.
    pub(crate) fn plan_data(&mut self, cx: &mut Cx<'_>, limits: &TxLimits) -> Option<TxPlan> {
        if !self.may_send() {
            return None;
        }
        if self.recovery.is_active() {
            match self.next_retransmission(cx) {
                Resend::Now(range) => return Some(self.plan_old(cx, range)),
                Resend::Wait => {
                    self.bits.set(Bits::CWND_LIMITED, WRITER);
                    self.judge_limit(cx);
                    return None;
                }
                Resend::Nothing => {}
            }
        }
        let unsent = self.snd.unsent();
        let fin = self.bits.has(Bits::WRITE_CLOSED) && !self.snd.fin_in_flight();
        if unsent > 0 || fin {
            if self.recovery.is_active() || self.bits.has(SPECIAL) {
                return self.plan_special(cx, limits, unsent, fin);
            }
            return self.plan_new::<true>(cx, limits, unsent, fin);
        }
        self.all_left(cx);
        None
    }

    #[inline(never)]
    fn plan_special(&mut self, cx: &mut Cx<'_>, limits: &TxLimits, unsent: u32, fin: bool) -> Option<TxPlan> {
        let plan = self.plan_new::<false>(cx, limits, unsent, fin);
        if plan.is_none()
            && self.ends_test()
            && let Resend::Now(range) = self.next_retransmission(cx)
        {
            return Some(self.plan_old(cx, range));
        }
        plan
    }

    #[inline(always)]
    fn plan_new<const PLAIN: bool>(
        &mut self,
        cx: &mut Cx<'_>,
        limits: &TxLimits,
        unsent: u32,
        fin: bool,
    ) -> Option<TxPlan> {
        let flight = self.snd.flight();
        if flight == 0 {
            self.restart_if_idle(cx);
        }
        let mss = u32::from(self.snd.mss() - self.blocks_len());
        let window = self.snd.usable_window();
        let mut ready = unsent;
        if self.has_special::<PLAIN>(Bits::MARKED | Bits::SEARCHING) {
            if self.bits.has(Bits::SEARCHING) {
                match self.plan_mtu_probe(cx, unsent) {
                    Probing::Now(plan) => return Some(plan),
                    Probing::Wait => return None,
                    Probing::No => {}
                }
            }
            ready = self.within_record(self.snd.nxt(), unsent);
        }
        let waiting = Waiting { ready, unsent, fin };
        let Some((len, fin)) = self.allowance::<PLAIN>(cx, mss, limits, waiting, window) else {
            if flight == 0 && !self.timers.is_rtx_armed() && !self.bits.has(Bits::PACE_WAIT) {
                self.arm_override(cx);
            }
            self.judge_limit(cx);
            return None;
        };
        if len == unsent && !self.has_loss::<PLAIN>() {
            // That was all; whatever changes this says so.
            self.clear_due(Due::DATA);
            self.all_left(cx);
        }
        Some(self.plan_leaving::<PLAIN>(cx, SeqRange { seq: self.snd.nxt(), len, fin }, mss))
    }

    /// Plans the first transmission of new data.
    pub(crate) fn plan_fresh(&mut self, cx: &mut Cx<'_>, range: SeqRange, mss: u32) -> TxPlan {
        self.plan_leaving::<false>(cx, range, mss)
    }

    /// RFC 6298, 5-1.
    #[inline(always)]
    fn plan_leaving<const PLAIN: bool>(&mut self, cx: &mut Cx<'_>, range: SeqRange, mss: u32) -> TxPlan {
        let (flight, SeqRange { seq, len, fin }) = (self.snd.flight(), range);
        let again = self.has_special::<PLAIN>(Bits::MARKED) && self.is_syn_data(seq);
        let round = self.snd.round_is_over();
        let most = self.snd.transmitted(len, fin, small_part(len, mss) != 0 && !again);
        self.bits.clear(Bits::FORCE, WRITER);
        self.bits.clear(Bits::PROBED, WRITER);
        self.bits.clear(Bits::LONE_FIN, WRITER);
        if most && round {
            self.bits.clear(Bits::OPENING, WRITER);
        }
        if fin && len == 0 {
            self.bits.set(Bits::LONE_FIN, WRITER);
        }
        self.snd.note_tx_time(cx.pool.tx_times_mut(), cx.now);
        if self.has_special::<PLAIN>(Bits::MARKED | Bits::PACED | Bits::SAMPLED | Bits::FLUSH) {
            self.on_watched_transmit(cx, seq);
        }
        if flight == 0 || !self.timers.is_rtx_armed() {
            self.start_rtx(cx);
        } else if self.bits.has(Bits::TAIL_PROBE) {
            self.put_off_probe(cx);
        }
        if len > 0 {
            if self.has_loss::<PLAIN>() {
                self.count_repair(len);
            }
            self.control.on_sent(cx.now, len, flight + len);
            self.note_sending(cx);
            if self.has_special::<PLAIN>(Bits::NO_SPACE) {
                self.offer_space(cx);
                self.note_starved(cx);
            }
        }
        self.plan_range::<PLAIN>(cx, range, mss)
    }

    /// Notes the first transmission of `seq` to SND.NXT for those that keep account of it.
    #[cold]
    fn on_watched_transmit(&mut self, cx: &mut Cx<'_>, seq: Seq) {
        if self.snd.unsent() == 0 {
            self.bits.clear(Bits::FLUSH, WRITER);
        }
        if self.bits.has(Bits::MARKED) {
            self.on_marked_transmit(cx, seq);
        }
        if self.bits.has(Bits::PACED) {
            self.note_paced(cx, self.snd.nxt().offset_from(seq));
        }
        if self.bits.has(Bits::SAMPLED) {
            self.note_sampled(cx, seq, self.snd.nxt(), false);
        }
    }

    /// How much of what is ready may leave now, and whether the FIN goes along: the window, the congestion window,
    /// and silly window avoidance with Nagle's algorithm (RFC 9293, sections 3.8.6.2.1 and 3.7.4).
    /// RFC 9293, MUST-17, MUST-38, SHLD-7, SHLD-15, SHLD-27, SHLD-28 and MAY-16.
    #[inline(always)]
    fn allowance<const PLAIN: bool>(
        &mut self,
        cx: &mut Cx<'_>,
        mss: u32,
        limits: &TxLimits,
        waiting: Waiting,
        window: u32,
    ) -> Option<(u32, bool)> {
        let Waiting { ready, unsent, fin } = waiting;
        if unsent == 0 {
            return (fin && window > 0).then_some((0, true));
        }
        let congestion = self.congestion_room();
        let wanted = ready.min(window);
        let limited = congestion < wanted.min(mss);
        if limited || congestion < wanted {
            self.bits.set(Bits::CWND_LIMITED, WRITER);
        } else if self.snd.round_is_over() {
            // A round in which the window was full once counts as one that it limited, whatever is written at its end
            // (Linux's tcp_cwnd_validate).
            self.bits.clear(Bits::CWND_LIMITED, WRITER);
        }
        if wanted < ready || self.has_special::<PLAIN>(Bits::WINDOW_STARVED) {
            self.judge_window(cx, ready.min(mss), wanted, congestion);
        }
        if wanted == 0 || limited {
            return None;
        }
        let mut most = limits.max_payload.max(mss);
        let bounds =
            Bits::REDUCED | Bits::BURSTS | Bits::AUTOSIZED | Bits::PACED | Bits::ACCECN | Bits::SIGNED;
        if self.has_special::<PLAIN>(bounds) {
            most = self.bounded_burst(cx, mss, most)?;
        }
        let len = wanted.min(congestion).min(most);
        let small = small_part(len, mss);
        if small == 0 {
            return Some((len, fin && len == unsent && window > len));
        }
        let last = len == unsent;
        // What follows will never make this segment any fuller: a FIN, or another record.
        let flush = (last && fin) || (len == ready && ready < unsent);
        let nagle = self.options.has(Switch::NODELAY) || self.snd.is_full_from(self.snd.una());
        let worth = len == window && len >= self.snd.largest_window() / 2;
        let pushed =
            self.has_special::<PLAIN>(Bits::FLUSH) || self.has_loss::<PLAIN>() && self.tests_by_new_data();
        let corked = self.options.has(Switch::CORK) || self.has_special::<PLAIN>(Bits::MORE);
        let leaves = (!corked || pushed) && ((last && (nagle || pushed)) || worth);
        if flush || leaves || self.has_special::<PLAIN>(Bits::FORCE) {
            return Some((len, last && fin && window > len));
        }
        (len > small).then_some((len - small, false))
    }

    /// Does a segment that is not full wait for more (TCP_CORK, MSG_MORE)?
    pub(crate) fn is_held(&self) -> bool {
        self.options.has(Switch::CORK) || self.bits.has(Bits::MORE)
    }

    /// RFC 5681, section 4.1: after an idle time longer than the RTO the path is unknown again.
    /// RFC 5681, 4.1-1.
    #[inline(always)]
    fn restart_if_idle(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now.as_millis() as u32;
        let idle = u64::from(now.wrapping_sub(self.snd.last_ms()));
        if idle * 1_000 > u64::from(self.timers.rto_us()) && cx.config.idle_restart {
            self.restart(cx, now, idle);
        }
    }

    #[cold]
    fn restart(&mut self, cx: &mut Cx<'_>, now: u32, idle: u64) {
        let path = self.path_info(cx);
        let before = self.control.window().cwnd;
        self.control.on_idle_restart(cx.now, Duration::from_millis(idle), &path);
        cx.counters.idle_restarts += u64::from(self.control.window().cwnd < before);
        self.snd.note_sending(now);
    }

    /// Was the congestion window what stopped the transmission?
    pub(crate) fn note_cwnd_limited(&mut self, limited: bool) {
        self.bits.put(Bits::CWND_LIMITED, limited, WRITER);
    }

    /// The application does not answer at once what it receives.
    pub(crate) fn end_dialogue(&mut self) {
        self.bits.clear(Bits::INTERACTIVE, WRITER);
    }

    /// Sends what fits, however little.
    pub(crate) fn force(&mut self) {
        self.bits.set(Bits::FORCE, WRITER);
        self.request(Due::DATA);
    }

    /// Sends all that is unsent, as far as the peer's window allows.
    pub(crate) fn flush(&mut self) {
        self.bits.set(Bits::FLUSH, WRITER);
        self.request(Due::DATA);
    }

    /// The peer's window has become larger than ever.
    #[inline(always)]
    pub(crate) fn put_opening(&mut self, opening: bool) {
        self.bits.put(Bits::OPENING, opening, WRITER);
    }

    /// The zero-window probe's byte was taken.
    pub(crate) fn probe_taken(&mut self) {
        self.snd.probe_taken();
        self.bits.clear(Bits::PROBED, WRITER);
        self.uncount_probe();
    }

    fn note_sending(&mut self, cx: &Cx<'_>) {
        let now = cx.now.as_millis() as u32;
        self.snd.note_sending(now);
        let answers = now.wrapping_sub(self.rcv.last_ms()) < DIALOGUE_MS && self.rcv.bytes() > 0;
        if answers || self.ends_handshake() {
            self.bits.set(Bits::INTERACTIVE, WRITER);
        }
    }

    /// Do data take the place of the handshake's last acknowledgment? The end that waited for that with data at hand
    /// asks something. What had gone with the SYN asked before.
    fn ends_handshake(&self) -> bool {
        self.is_due(Due::ACK)
            && self.rcv.bytes() == 0
            && self.bits.has(Bits::ACTIVE)
            && self.syn_data_again() == 0
    }

    /// A retransmission.
    /// RFC 6675, 6-1.
    pub(crate) fn plan_old(&mut self, cx: &mut Cx<'_>, range: SeqRange) -> TxPlan {
        self.snd.stop_timing();
        self.counts.retransmitted();
        cx.counters.retransmits += 1;
        self.count_again(range.len);
        self.snd.note_sending(cx.now.as_millis() as u32);
        // A repair by SACK may last longer than the timeout, and while it sends it is alive (RFC 6675,
        // section 6).
        let alive = self.phase() == Phase::Fast && self.bits.has(Bits::SACK);
        if alive || !self.timers.is_rtx_armed() {
            self.arm_rtx(cx);
        }
        self.note_first_retransmission(cx);
        if self.bits.has(Bits::PACED) {
            self.note_paced(cx, range.len);
        }
        if self.bits.has(Bits::SAMPLED) {
            self.note_sampled(cx, range.seq, range.seq + range.len + u32::from(range.fin), true);
        }
        // It keeps the size it had, so SACK blocks go along only where they find room (RFC 2018, section 4).
        let tells = range.len + u32::from(self.blocks_len()) <= u32::from(self.snd.mss());
        let plan = self.plan_range::<false>(cx, range, u32::from(self.snd.mss()));
        TxPlan { retransmit: true, tells, ..plan }
    }

    /// RFC 9293, MUST-61.
    #[inline(always)]
    fn plan_range<const PLAIN: bool>(&mut self, cx: &mut Cx<'_>, range: SeqRange, mss: u32) -> TxPlan {
        let SeqRange { seq, len, fin } = range;
        let offset = seq.offset_from(self.snd.una());
        let mut flags = Flags::ACK;
        if fin {
            flags = flags | Flags::FIN;
        }
        // The receiver is told to hand on when the send buffer is empty (RFC 9293, section 3.9.1.2).
        let more = self.has_special::<PLAIN>(Bits::UNPUSHED);
        let burst = len > mss && self.has_special::<PLAIN>(Bits::BURSTS) && !more;
        let all = offset + len == self.snd.queued() && !more;
        let ends = self.has_special::<PLAIN>(Bits::MARKED) && self.ends_record(seq + len);
        if len > 0 && (all || burst || ends) {
            flags = flags | Flags::PSH;
        }
        let class = if len > 0 { TransmitClass::Data } else { TransmitClass::Control };
        if len > 0 {
            let more = if len > mss { (len - 1) / mss } else { 0 };
            self.counts.sent(more);
            self.snd.count_segments(1 + more);
        }
        cx.counters.bytes_out += u64::from(len);
        self.snd.buffer_mut().seek(cx.pool, offset);
        TxPlan { seq, len, flags, mss: mss as u16, class, retransmit: false, tells: true }
    }

    /// One byte beyond the window, or of what is in flight (RFC 9293, section 3.8.6.1): the answer tells the
    /// window.
    pub(crate) fn plan_window_probe(&mut self, cx: &mut Cx<'_>) -> Option<TxPlan> {
        if !self.state().may_send() || self.snd.window() > 0 {
            self.request(Due::DATA);
            return None;
        }
        let flight = self.snd.flight();
        if flight == 0 && cx.config.quirks.empty_probes && self.has_unsent() {
            cx.counters.window_probes += 1;
            return Some(TxPlan::bare(self.snd.una() - 1, Flags::ACK, TransmitClass::Ack));
        }
        let seq = if flight > 0 { self.snd.una() } else { self.snd.nxt() };
        let len = u32::from(self.snd.queued() > 0);
        let fin = len == 0 && self.bits.has(Bits::WRITE_CLOSED);
        if len == 0 && !fin {
            return None;
        }
        if flight == 0 {
            self.bits.set(Bits::PROBED, WRITER);
        }
        cx.counters.window_probes += 1;
        self.count_again(len);
        let plan = self.plan_range::<false>(cx, SeqRange { seq, len, fin }, u32::from(self.snd.mss()));
        Some(TxPlan { class: TransmitClass::Ack, tells: false, ..plan })
    }

    /// The payload of a transmission where it lies: pieces in order, `tx.len` bytes together.
    pub fn payload<'p>(&'p self, pool: &'p Pool, tx: &Transmit) -> impl Iterator<Item = &'p [u8]> {
        self.snd.buffer().pieces(pool, tx.offset, tx.len)
    }

    /// Copy the payload of a transmission to `into` (exactly `tx.len` bytes).
    pub fn copy_payload(&self, pool: &Pool, tx: &Transmit, into: &mut [u8]) {
        let copied = self.snd.buffer().copy_out(pool, tx.offset, &mut into[..tx.len as usize]);
        debug_assert_eq!(copied, tx.len as usize);
    }
}

/// Returns the remainder of `len` after full segments, in bytes. Most often `len` is less than two of them, and no
/// division is needed.
fn small_part(len: u32, mss: u32) -> u32 {
    match len {
        _ if len < mss => len,
        _ if len == mss => 0,
        _ => len % mss,
    }
}
