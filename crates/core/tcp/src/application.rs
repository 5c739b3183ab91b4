//! The application's calls: write, read, shutdown, close, options.

use alloc::sync::Arc;
use core::ops::Range;

use cc::{Control, Controller, PathInfo, TunableError};

use crate::buffers::pool::Pool;
use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::options::{PackedOptions, Switch};
use crate::sender::send_buffer::LENT_MIN;
use crate::{Cx, Error, Events, Frames, Hints, Limit, ReadError, Shutdown, SocketOptions, State, WriteError};

crate::bits::writer!(WRITE_CLOSED, READ_CLOSED, READ_SHUT, ORPHAN, NO_SPACE, MORE, UNPUSHED, DATED);

impl Connection {
    /// Append to the send buffer; how many bytes it took.
    #[inline]
    pub fn write(&mut self, cx: &mut Cx<'_>, data: &[u8]) -> Result<usize, WriteError> {
        if data.is_empty() {
            return self.may_write().map(|()| 0);
        }
        let room = self.room_to_write(cx, data.len())?;
        let part = &data[..data.len().min(room)];
        let mut taken = self.snd.buffer_mut().append(cx.pool, part);
        if taken < part.len() {
            taken += self.append_least(cx, &part[taken..]);
        }
        self.note_write(cx, taken, data.len());
        if taken == 0 {
            if self.snd.queued() == 0 {
                self.arm_memory_retry(cx.now);
            }
            return Err(WriteError::NoMemory);
        }
        Ok(taken)
    }

    /// As `write`, with `hints` for this data.
    pub fn write_hinted(&mut self, cx: &mut Cx<'_>, data: &[u8], hints: &Hints) -> Result<usize, WriteError> {
        self.before_hinted(hints)?;
        let taken = self.write(cx, data)?;
        if hints.completion && taken > 0 {
            self.on_copied_in();
        }
        self.after_hinted(cx, taken, data.len(), hints);
        Ok(taken)
    }

    fn before_hinted(&mut self, hints: &Hints) -> Result<(), WriteError> {
        self.may_write()?;
        let may = if hints.marks_end() { self.may_mark() } else { Ok(()) };
        if may == Err(WriteError::Full) {
            self.bits.set(Bits::NO_SPACE, WRITER);
        }
        may
    }

    fn after_hinted(&mut self, cx: &mut Cx<'_>, taken: usize, wanted: usize, hints: &Hints) {
        if taken > 0 && hints.more {
            self.bits.set(Bits::MORE, WRITER);
            self.bits.set(Bits::UNPUSHED, WRITER);
        }
        if taken > 0 && (taken == wanted || !hints.waits) {
            self.end_call(cx, hints);
        }
    }

    /// Append `bytes[range]` to the send buffer without copying it: the connection holds a reference until the last
    /// byte it took is acknowledged. A few bytes are copied nevertheless. How many it took.
    ///
    /// # Panics
    /// If the range does not lie in `bytes`.
    pub fn lend(
        &mut self,
        cx: &mut Cx<'_>,
        bytes: &Arc<[u8]>,
        range: Range<usize>,
        hints: &Hints,
    ) -> Result<usize, WriteError> {
        if range.len() < LENT_MIN {
            return self.write_hinted(cx, &bytes[range], hints);
        }
        self.before_hinted(hints)?;
        let room = self.room_to_write(cx, range.len())?;
        // The rest of the room is worth a reference only if it is no trifle.
        let part = range.start..range.start + range.len().min(room);
        if part.len() < LENT_MIN {
            let hints = Hints { waits: true, ..*hints };
            let taken = self.write_hinted(cx, &bytes[part], &hints)?;
            self.bits.set(Bits::NO_SPACE, WRITER);
            return Ok(taken);
        }
        let taken = self.snd.buffer_mut().lend(bytes, part);
        self.note_write(cx, taken, range.len());
        self.after_hinted(cx, taken, range.len(), hints);
        Ok(taken)
    }

    fn may_write(&mut self) -> Result<(), WriteError> {
        match self.state() {
            State::SynReceived if self.is_early() => self.may_write_open(),
            State::SynSent | State::SynReceived => Err(WriteError::NotConnected),
            State::Closed => Err(self.take_error().map_or(WriteError::Shutdown, WriteError::Failed)),
            _ => self.may_write_open(),
        }
    }

    fn may_write_open(&self) -> Result<(), WriteError> {
        if self.bits.has(Bits::WRITE_CLOSED) { Err(WriteError::Shutdown) } else { Ok(()) }
    }

    /// Bytes that may be written now, when `wanted` are to be: at least one.
    #[inline]
    fn room_to_write(&mut self, cx: &mut Cx<'_>, wanted: usize) -> Result<usize, WriteError> {
        self.may_write()?;
        let room = if self.bits.has(Bits::PIECES) {
            self.room_in_pieces(cx, wanted)
        } else {
            if wanted > self.snd.buffer().room() || cx.pool.is_scarce() {
                self.grow_send_buffer(cx);
            }
            self.snd.buffer().room()
        };
        if room == 0 {
            self.bits.set(Bits::NO_SPACE, WRITER);
            return Err(WriteError::Full);
        }
        Ok(room)
    }

    /// MSG_MORE holds nothing back any more.
    #[inline(always)]
    pub(crate) fn release_held(&mut self) {
        self.bits.clear(Bits::MORE, WRITER);
    }

    /// MSG_MORE holds nothing back any more, and the last of it carries PSH.
    #[inline(always)]
    pub(crate) fn end_more(&mut self) {
        self.bits.clear(Bits::MORE, WRITER);
        self.bits.clear(Bits::UNPUSHED, WRITER);
    }

    /// As on Linux, whatever the peer sends lets data go that MSG_MORE has held back.
    #[inline]
    pub(crate) fn let_go(&mut self) {
        if self.bits.has(Bits::MORE) {
            self.release_held();
            self.request(Due::DATA);
        }
    }

    /// Sends data held back by Nagle, MSG_MORE or TCP_CORK; data written later is not affected (TCP_NODELAY
    /// set again, tcp(7)).
    pub fn push(&mut self) {
        self.release_held();
        if self.state().may_send() && self.snd.unsent() > 0 {
            self.flush();
        }
    }

    /// `taken` of `wanted` bytes went into the send buffer.
    #[inline]
    fn note_write(&mut self, cx: &Cx<'_>, taken: usize, wanted: usize) {
        if taken < wanted || !self.has_space() {
            self.bits.set(Bits::NO_SPACE, WRITER);
        }
        if taken > 0 {
            if self.snd.queued() as usize == taken {
                self.note_busy(cx.now.as_millis() as u32, true);
            }
            self.request(Due::DATA);
            self.end_more();
        }
    }

    /// Take from the receive buffer; may make a window update due.
    /// RFC 9293, MUST-12.
    pub fn read(&mut self, cx: &mut Cx<'_>, into: &mut [u8]) -> Result<usize, ReadError> {
        let n = (self.rcv.readable() as usize).min(into.len());
        if n > 0 {
            self.rcv.copy_out(cx, &mut into[..n]);
            self.consume(cx, n);
            return Ok(n);
        }
        if into.is_empty() && self.rcv.readable() > 0 {
            return Ok(0);
        }
        if self.bits.has(Bits::PEER_FIN | Bits::READ_CLOSED) {
            return Err(ReadError::Finished);
        }
        Err(match self.state() {
            State::SynReceived if self.is_early() => ReadError::Empty,
            State::SynSent | State::SynReceived => ReadError::NotConnected,
            State::Closed => self.take_error().map_or(ReadError::Finished, ReadError::Failed),
            _ => ReadError::Empty,
        })
    }

    /// Looks at the readable bytes in place (MSG_PEEK, zero-copy): calls `each` with slices in order, of at most `max`
    /// bytes, until it returns false.
    pub fn peek(
        &self,
        pool: &Pool,
        frames: Option<&dyn Frames>,
        max: usize,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) {
        let len = u32::try_from(max).unwrap_or(u32::MAX).min(self.rcv.readable());
        self.rcv.peek(pool, frames, len, each);
    }

    /// Drop `len` readable bytes without copying them.
    #[inline]
    pub fn consume(&mut self, cx: &mut Cx<'_>, len: usize) {
        let len = u32::try_from(len).unwrap_or(u32::MAX).min(self.rcv.readable());
        if len > 0 {
            self.rcv.consume(cx, len);
            self.on_consumed(cx, len);
        }
    }

    /// Close one half or both. An attempt to connect ends with either, as on Linux: nothing was said yet, so nothing
    /// need be taken back, and a thread that waits for it is notified.
    pub fn shutdown(&mut self, cx: &mut Cx<'_>, how: Shutdown) {
        if self.state() == State::SynSent {
            return self.fail(cx, Error::Reset);
        }
        if matches!(how, Shutdown::Read | Shutdown::Both) {
            self.bits.set(Bits::READ_SHUT, WRITER);
            self.raise(Events::READABLE);
            if cx.config.quirks.discard_after_shutdown {
                self.bits.set(Bits::READ_CLOSED, WRITER);
                self.rcv.discard_out_of_order(cx);
            }
            self.refresh_prediction();
        }
        if matches!(how, Shutdown::Write | Shutdown::Both) {
            self.shut_write(cx);
        }
    }

    /// CLOSE of RFC 9293, section 3.10.4: a FIN follows what was written.
    fn shut_write(&mut self, cx: &mut Cx<'_>) {
        let next = match self.state() {
            // Nothing was said yet, so nothing need be taken back.
            State::SynSent => return self.finish(cx),
            // The FIN waits for the handshake, unless data does not either.
            State::SynReceived => {
                self.bits.set(Bits::WRITE_CLOSED, WRITER);
                if self.is_early() {
                    self.request(Due::DATA);
                }
                return;
            }
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            _ => return,
        };
        self.bits.set(Bits::WRITE_CLOSED, WRITER);
        self.request(Due::DATA);
        self.set_state(cx, next);
    }

    /// Returns true if [`Connection::close`] will end the connection by RST: there is unread data, or the time to
    /// linger is zero.
    #[inline]
    pub fn resets_on_close(&self) -> bool {
        self.state() != State::Closed && (self.rcv.readable() > 0 || self.options.lingers_no_time())
    }

    /// The application lets go (close): unread data means RST (RFC 2525, 2.17), linger is obeyed, else an
    /// orderly end as an orphan.
    /// RFC 9293, MAY-1 and SHLD-3.
    pub fn close(&mut self, cx: &mut Cx<'_>) {
        self.bits.set(Bits::ORPHAN, WRITER);
        self.bits.set(Bits::READ_CLOSED, WRITER);
        // Elsewhere a change of the state follows, or nothing depends on the reader.
        if self.state() == State::FinWait2 {
            self.refresh_prediction();
        }
        if self.state() == State::Closed {
            return self.rcv.release_buffer(cx.pool);
        }
        if self.resets_on_close() {
            cx.counters.abort_on_data += u64::from(self.rcv.readable() > 0);
            return self.abort(cx);
        }
        self.rcv.forget_out_of_order(cx);
        self.shut_write(cx);
        self.become_orphan(cx);
        if self.state() == State::FinWait2 {
            self.await_fin(cx);
        }
    }

    /// RST and CLOSED at once.
    pub fn abort(&mut self, cx: &mut Cx<'_>) {
        self.bits.set(Bits::READ_CLOSED, WRITER);
        match self.state() {
            State::Closed => {}
            State::SynSent => self.finish(cx),
            // Both FINs were sent: there is nothing left that a RST could tell (RFC 9293, section 3.10.5).
            State::Closing | State::LastAck if self.snd.fin_in_flight() => self.finish(cx),
            _ => {
                if self.error().is_none() {
                    self.set_error(Error::Aborted);
                }
                self.reset(cx);
            }
        }
        self.rcv.release_buffer(cx.pool);
    }

    /// Replace the options; takes effect at once where that makes sense (nodelay flushes, keepalive arms,
    /// ...).
    pub fn set_options(&mut self, cx: &mut Cx<'_>, options: SocketOptions) {
        let old = core::mem::replace(&mut self.options, PackedOptions::from(&options));
        let own_times = self.options.has(Switch::OWN_TIMES) || old.has(Switch::OWN_TIMES);
        if own_times {
            self.set_times(options.times);
        }
        self.set_pace_cap(options.max_pacing);
        if self.state() == State::Closed {
            return;
        }
        self.request(Due::DATA);
        self.bits.put(Bits::DATED, self.options.has(Switch::DATED), WRITER);
        if self.options.rcvbuf() != 0 {
            self.rcv.set_limit(self.options.rcvbuf());
        }
        self.make_room_for_lowat(cx);
        if own_times {
            self.refresh_rto(cx.config);
        }
        self.refresh_pacing(cx);
        self.heed_defaults(cx.config);
        if self.options.sndbuf() != 0 {
            self.snd.buffer_mut().set_limit(self.options.sndbuf());
        }
        if self.options.has(Switch::NODELAY) && !old.has(Switch::NODELAY) && self.snd.unsent() > 0 {
            // What waits leaves, even under a cork (tcp(7)).
            self.flush();
        }
        if self.options.has(Switch::QUICKACK) && self.rcv.unacknowledged() > 0 {
            self.request(Due::ACK);
        }
        if self.options.has(Switch::NO_QUICKACK) {
            // Until a gap in the data asks for quick acknowledgments again, as on Linux.
            self.rcv.set_quick(0);
        }
        if self.state() != State::SynSent && self.options.max_seg() != old.max_seg() {
            self.refresh_mss(cx.config);
        }
        self.keepalive.restart();
        if self.options.has_user_timeout() && !old.has_user_timeout() {
            self.note_progress(cx);
        }
        let lingering = self.state() == State::FinWait2 && self.bits.has(Bits::ORPHAN);
        if self.options.has(Switch::KEEPALIVE) && self.state().is_synchronized() && !lingering {
            self.arm_keepalive(cx.now);
        }
    }

    /// Replace the congestion control policy on the live connection (cwnd and ssthresh carry over).
    pub fn set_control(&mut self, cx: &mut Cx<'_>, control: Control) {
        let window = self.control.window();
        self.control = control;
        if self.state().is_synchronized() {
            let ssthresh = Some(window.ssthresh).filter(|&ssthresh| ssthresh != u32::MAX);
            let path = PathInfo { initial_window: window.cwnd, ssthresh, ..self.path_info(cx) };
            self.begin_policy(cx, &path);
            self.refresh_prediction();
        }
    }

    /// Change a tunable of this connection's policy; another policy that replaces it knows nothing of that.
    pub fn set_control_tunable(&mut self, name: &str, value: i64) -> Result<(), TunableError> {
        self.control.set_tunable(name, value)
    }

    /// Give every chunk back to the pool. The caller must do this before it drops the connection.
    pub fn release(&mut self, pool: &mut Pool) {
        self.rcv.release(pool);
        self.snd.release(pool);
        self.forget_orphan(pool);
    }

    /// Unless the user fixed it, the send buffer follows twice the congestion window, so that one window is
    /// ready while another is in flight; or the share of the pool that there is for it, while chunks are scarce.
    pub(crate) fn grow_send_buffer(&mut self, cx: &mut Cx<'_>) {
        if cx.pool.is_scarce() {
            return self.fit_send_buffer(cx);
        }
        let limit = match self.options.sndbuf() {
            0 => self.snd.buffer().limit().max(self.grown_limit(cx)),
            fixed => fixed,
        };
        self.snd.buffer_mut().set_limit(limit);
    }

    /// Bytes were acknowledged or sent, and a write waits for room: it is told when a third of the buffer is
    /// free, so that it does not wake for every segment.
    pub(crate) fn offer_space(&mut self, cx: &mut Cx<'_>) {
        if self.bits.has(Bits::CHARGED) {
            // Linux looks when all has left that may: whether the buffer grows depends on what is in flight then.
            self.request(Due::DATA);
            return;
        }
        self.offer_space_now(cx);
    }

    pub(crate) fn offer_space_now(&mut self, cx: &mut Cx<'_>) {
        self.grow_send_buffer(cx);
        if self.has_space() {
            self.announce_space();
            if self.bits.has(Bits::BUFFER_STARVED) {
                self.watch(cx, Bits::BUFFER_STARVED, false);
                self.put_limit(cx, Limit::Application);
            }
        }
    }

    /// A write that waits for room may come again.
    pub(crate) fn announce_space(&mut self) {
        self.bits.clear(Bits::NO_SPACE, WRITER);
        self.raise(Events::WRITABLE);
    }

    #[inline(always)]
    pub(crate) fn has_space(&self) -> bool {
        if self.bits.has(Bits::PIECES | Bits::MARKED) {
            self.has_bounded_space()
        } else {
            self.is_third_free(self.snd.queued())
        }
    }

    /// Returns true if there is space where more than the number of bytes counts.
    #[cold]
    fn has_bounded_space(&self) -> bool {
        // Half of the mark, so that a writer does not wake for every segment.
        let lowat = self.snd.unsent().saturating_mul(2) < self.options.lowat();
        self.is_third_free(self.charge()) && lowat && !self.marks_full()
    }

    fn is_third_free(&self, used: u32) -> bool {
        self.snd.buffer().limit().saturating_sub(used) >= (used / 2).max(1)
    }
}
