//! The receive window: how much is offered, when it is worth telling, and how the buffer finds its size.

use base::{Duration, Seq};
use wire::tcp::Segment;

use crate::buffers::pool::CHUNK;
use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::options::Switch;
use crate::receiver::tuner::Tuner;
use crate::scale::{Clock, MAX_SHIFT, from_field};
use crate::{Config, Cx};

/// A buffer starts to tune itself once this much was received: short connections never measure.
const TUNE_AFTER: u64 = 16 << 10;
/// Segments of slack in a tuned buffer, so that it is never the buffer that limits a sender that grows.
const SLACK: u32 = 16;
/// An acknowledgment of more full segments than this is of packets that were merged on the way to the receiver.
const MERGED: u32 = 4;

/// Rounds that are shorter than this do not tell whether the application still reads.
const SETTLED_US: u32 = 10_000;

impl Connection {
    /// The window of a SYN: never scaled (RFC 7323, section 2.2).
    /// RFC 7323, 2.2-3.
    pub(crate) fn syn_window(&self) -> u32 {
        self.buffer_limit().min(u16::MAX.into())
    }

    /// The window of a SYN-ACK. Data that came with the SYN and was not read takes room in it (RFC 7413). It is not
    /// scaled: the edge is where later segments can tell it without taking any of it back.
    pub(crate) fn syn_ack_window(&mut self, cx: &Cx<'_>) -> u32 {
        let mut window = self.syn_window();
        if self.rcv.window() < window {
            window = window.min(self.rcv.window() + self.gain(cx));
        }
        self.rcv.offer(self.rcv.window().max(window.next_multiple_of(1 << self.rcv.scale())));
        window
    }

    /// Bytes that are offered at most: no less than the window field can tell, or an empty buffer would count as
    /// a full one for ever.
    pub(crate) fn buffer_limit(&self) -> u32 {
        self.rcv.limit().min(self.options.clamp()).max(1 << self.rcv.scale())
    }

    /// SO_RCVLOWAT fits into the buffer twice, as far as the settings allow.
    pub(crate) fn make_room_for_lowat(&mut self, cx: &Cx<'_>) {
        if self.options.rcvbuf() == 0 && self.options.rcv_lowat() > self.rcv.limit() / 2 {
            let twice = self.options.rcv_lowat().saturating_mul(2);
            self.rcv.set_limit(self.rcv.limit().max(twice.min(cx.config.rcvbuf.1)));
        }
    }

    /// Is there enough to wake the application? A mark that the buffer could not reach counts as half of the
    /// buffer.
    pub(crate) fn is_worth_reading(&self) -> bool {
        let mark = self.options.rcv_lowat();
        mark <= 1 || self.rcv.readable() >= mark.min(self.buffer_limit() / 2)
    }

    /// Bytes that the receive buffer has room for.
    pub(crate) fn buffer_room(&self) -> u32 {
        self.buffer_limit().saturating_sub(self.rcv.readable())
    }

    /// Returns the window in bytes that could be advertised now: room in the buffer, at most `memory`.
    /// RFC 9293, MAY-8.
    #[inline(always)]
    fn room(&self, memory: u32) -> u32 {
        let largest = from_field(u16::MAX, self.rcv.scale().min(MAX_SHIFT));
        if self.bits.has(Bits::READ_CLOSED) {
            return self.buffer_limit().min(largest);
        }
        let room = self.buffer_room().min(memory).min(largest);
        if self.bits.has(Bits::EARLY | Bits::RAMP) { room.min(self.ramp()) } else { room }
    }

    /// Returns the window offered at the start: that of the SYN-ACK, and twice the bytes received since. A client
    /// that has not proven itself gets no more than at first, or forged SYNs would reserve memory. The scale must
    /// not take any of it away.
    fn ramp(&self) -> u32 {
        let came = if self.bits.has(Bits::EARLY) { 0 } else { self.rcv.bytes().min(1 << 29) as u32 };
        (u32::from(u16::MAX) + 2 * came).next_multiple_of(1 << self.rcv.scale())
    }

    /// How far the right edge could move.
    #[inline(never)]
    fn gain(&self, cx: &Cx<'_>) -> u32 {
        if cx.pool.is_scarce() {
            return self.scarce_gain(cx);
        }
        let chunks = cx.pool.available().saturating_mul(CHUNK as u32);
        self.room(chunks).saturating_sub(self.rcv.window())
    }

    #[cold]
    #[inline(never)]
    fn scarce_gain(&self, cx: &Cx<'_>) -> u32 {
        self.room(self.rcv.scarce_room(cx.pool)).saturating_sub(self.rcv.window())
    }

    /// No less than [`Connection::gain`], and mostly known to be too little before what else bounds that is looked at.
    #[inline(always)]
    fn gain_at_most(&self) -> u32 {
        let room = if self.bits.has(Bits::READ_CLOSED) { self.buffer_limit() } else { self.buffer_room() };
        room.saturating_sub(self.rcv.window())
    }

    /// Silly window avoidance (RFC 9293, section 3.8.6.2.2): the edge moves by a full segment, or by half the
    /// buffer.
    /// RFC 9293, MUST-39.
    fn worth_telling(&self) -> u32 {
        (self.buffer_limit() / 2).min(self.rcv.mss().into())
    }

    /// Moves the right edge, where that is worth it, or wherever it can move for `ALL`; it never moves left.
    /// RFC 9293, SHLD-14 and MUST-39.
    #[inline(always)]
    pub(crate) fn advance_window<const ALL: bool>(&mut self, cx: &mut Cx<'_>) {
        let least = if ALL { 1 } else { self.worth_telling() };
        if self.gain_at_most() < least {
            if self.rcv.window() < self.rcv.mss().into() {
                self.watch_reader(cx, true);
            }
            return;
        }
        let gain = self.gain(cx);
        if gain >= least {
            self.rcv.move_edge(gain);
            if self.bits.has(Bits::SHUT) {
                self.watch_reader(cx, false);
            }
        }
    }

    /// The application took `taken` bytes.
    #[inline]
    pub(crate) fn on_consumed(&mut self, cx: &mut Cx<'_>, taken: u32) {
        if !self.state().may_receive() {
            return;
        }
        if self.rcv.bytes() > TUNE_AFTER {
            self.tune(cx, taken);
        }
        // An update of its own only when the window at least doubles; otherwise the next acknowledgment
        // tells.
        let least = self.rcv.window().max(self.worth_telling());
        let drained =
            self.rcv.readable() == 0 && self.bits.has(Bits::PUSHED) && !self.bits.has(Bits::INTERACTIVE);
        if self.gain_at_most() >= least && self.gain(cx) >= least {
            cx.counters.window_updates += 1;
            self.request(Due::ACK);
        } else if drained && self.rcv.unacknowledged() > 0 {
            self.request(Due::ACK);
        }
    }

    /// Round-trip time as the receive buffer's tuning knows it; zero where it does not.
    pub(crate) fn receiver_rtt(&self) -> Duration {
        let tuner = self.cold().and_then(|cold| cold.tuning.0.as_ref());
        Duration::from_micros(tuner.map_or(0, |tuner| u64::from(tuner.echo) * u64::from(tuner.tick_us)))
    }

    /// Data arrived: what it tells about the path, if the buffer tunes itself.
    #[inline(always)]
    pub(crate) fn learn_round_trip(&mut self, cx: &Cx<'_>, seg: &Segment<'_>) {
        let Some(ts) = seg.options.timestamps else { return };
        if self.bits.has(Bits::MILLIS) {
            self.note_echo(Clock::Millis, cx, ts.ecr);
        } else {
            self.note_other_echo(cx, ts.ecr);
        }
    }

    #[cold]
    fn note_other_echo(&mut self, cx: &Cx<'_>, ecr: u32) {
        if self.bits.has(Bits::MICROS) {
            self.note_echo(Clock::Micros, cx, ecr);
        }
    }

    /// Data arrived that echoes our timestamp `ecr`.
    #[inline(always)]
    fn note_echo(&mut self, clock: Clock, cx: &Cx<'_>, ecr: u32) {
        let offset = self.snd.ts_offset();
        let Some(tuner) = self.existing_rare().and_then(|cold| cold.tuning.0.as_mut()) else { return };
        let age = clock.value(cx.now, offset).wrapping_sub(ecr);
        if age <= clock.echo_limit() {
            tuner.youngest = tuner.youngest.min(age);
        }
    }

    fn tune(&mut self, cx: &Cx<'_>, taken: u32) {
        let now = cx.now.as_micros() as u32;
        // Before the first sample the timeout stands in: long enough on any path.
        let rtt = self.timers.rtt().srtt_micros().unwrap_or(self.timers.rto_us());
        let clock = self.bits.clock();
        let tuner = self.cold_mut().tuning.0.get_or_insert_with(|| Tuner::new(now, clock));
        tuner.taken = tuner.taken.saturating_add(taken);
        let span = tuner.round(rtt);
        if now.wrapping_sub(tuner.since) < span {
            return;
        }
        tuner.shortest[1] = tuner.shortest[1].min(span.max(1));
        // Of less there is nothing to learn, whatever waited.
        if tuner.taken <= tuner.best {
            return tuner.begin_round(now, span);
        }
        self.learn_room(cx, now, span);
    }

    /// More came in the round trip that ends now, which should have lasted for `span` microseconds, than in any before.
    #[inline(never)]
    fn learn_room(&mut self, cx: &Cx<'_>, now: u32, span: u32) {
        let Some(tuner) = self.cold_mut().tuning.0.as_mut() else { return };
        let round = tuner.without_queue(now, span);
        tuner.begin_round(now, span);
        if round <= tuner.best {
            return;
        }
        // A sender in slow start doubles by the time it learns of the larger window. Any other one has to use three
        // quarters of what is offered before there is more.
        let growing = round > tuner.best + tuner.best / 2;
        tuner.best = round;
        if !growing && u64::from(round) * 4 < u64::from(self.buffer_limit()) * 3 {
            return;
        }
        let target = round.saturating_mul(if growing { 4 } else { 2 });
        let target = target.saturating_add(SLACK * u32::from(self.rcv.mss())).min(cx.config.rcvbuf.1);
        // Memory that other connections may need is not promised.
        if self.options.rcvbuf() == 0 && !cx.pool.is_scarce() {
            self.rcv.set_limit(self.rcv.limit().max(target));
        }
    }

    /// Does the peer send as much in a round trip as the receive buffer lets it, at `now` in microseconds? A buffer
    /// that may still grow is twice as large as what is taken.
    #[cold]
    pub(crate) fn fills_buffer(&self, now: u32) -> bool {
        let Some(tuner) = self.cold().and_then(|cold| cold.tuning.0.as_ref()) else { return false };
        let span =
            tuner.round(self.timers.rtt().srtt_micros().unwrap_or(self.timers.rto_us())).max(SETTLED_US);
        let fresh = now.wrapping_sub(tuner.since) < span.saturating_mul(4);
        fresh && tuner.last() * 4 >= u64::from(self.buffer_limit()) * 3
    }

    /// The peer's window, from a segment that is not older than the last one that set it (RFC 9293, section
    /// 3.10.7.4) and acknowledges `acked` bytes. Did it change?
    #[inline]
    pub(crate) fn update_send_window(&mut self, config: &Config, seg: &Segment<'_>, acked: u32) -> bool {
        let window = from_field(seg.window, self.snd.scale());
        if window == self.snd.window() {
            self.snd.confirm_window(seg.seq);
            return false;
        }
        if self.snd.window() == 0 && self.snd.flight() == 0 {
            self.end_window_probes(config);
        }
        self.set_send_window(window, seg.seq);
        if acked > MERGED * u32::from(self.snd.mss()) {
            self.put_opening(false);
        }
        self.request(Due::DATA);
        true
    }

    /// The window opens. What probes of it waited says nothing about the path.
    #[cold]
    pub(crate) fn end_window_probes(&mut self, config: &Config) {
        self.timers.answered();
        self.timers.end_backoff();
        self.refresh_rto(config);
        self.timers.stop_rtx();
    }

    pub(crate) fn set_send_window(&mut self, window: u32, seq: Seq) {
        if self.snd.set_window(window, seq) {
            self.put_opening(true);
        }
    }

    /// The acknowledgment for data in order: at once for every second full segment, at the start, and while
    /// the application streams; otherwise delayed (RFC 9293, section 3.8.6.3; RFC 5681, section 4.2).
    /// RFC 9293, SHLD-18, SHLD-19 and MUST-58; RFC 5681, 4.2-1.
    #[inline]
    pub(crate) fn acknowledge_data(&mut self, cx: &Cx<'_>) {
        let owed = self.rcv.unacknowledged();
        let quick = self.rcv.quick() > 0 && !self.bits.has(Bits::INTERACTIVE);
        if quick
            || owed >= 2 * u32::from(self.rcv.mss())
            || (self.options.has(Switch::HURRIED) && self.hurries())
        {
            self.request(Due::ACK);
        } else if !self.timers.is_delack_armed() {
            self.timers.set_delack(cx.now + self.longest_delay(cx.config));
        }
    }

    /// TCP_QUICKACK is set, or this is a second segment where every second one counts.
    #[cold]
    fn hurries(&self) -> bool {
        self.options.has(Switch::QUICKACK) || self.timers.is_delack_armed()
    }

    /// Learns the peer's segment size (RFC 5681, section 4.2: RMSS).
    #[inline]
    pub(crate) fn learn_segment_size(&mut self, len: u32, merged: u16) {
        let each = if merged > 1 { len / u32::from(merged) } else { len };
        if each > u32::from(self.rcv.mss()) {
            self.rcv.set_mss(each.min(self.advertised_mss().into()) as u16);
        }
    }
}

#[cfg(test)]
mod tests;
