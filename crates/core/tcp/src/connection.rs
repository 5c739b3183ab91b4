//! The connection itself: what it keeps.

use alloc::boxed::Box;

use base::{FlowKey, Instant, Seq};
use cc::Control;
use wire::tcp::Flags;

use crate::auth::Signing;
pub(crate) use crate::bits::Bits;
use crate::delivery::samples::Samples;
use crate::due::Due;
use crate::ecn::accecn::AccurateEcn;
use crate::handshake::fast_open::FastOpenState;
use crate::input::challenges::Challenges;
use crate::marks::ends::Marks;
use crate::mtu::PathState;
use crate::options::PackedOptions;
use crate::pacing::quantum::Pace;
use crate::receiver::Receiver;
use crate::receiver::tuner::Tuning;
use crate::recovery::{Learned, Recovery};
use crate::sender::{SegmentSizes, Sender};
use crate::start::{Fresh, Start};
use crate::stats::counts::{Counts, RareStats};
use crate::timers::{Keepalive, OwnTimes, Timers};
use crate::{Error, Events, State};

crate::bits::writer!(RESET_AT);

/// The value of `predicted` that no segment's flags agree with: nothing takes the short path.
pub(crate) const NOTHING: Flags = Flags::ALL;

/// One connection. Poll order for the caller: `on_*`, then `poll_event`, then `poll_transmit` until `None`,
/// then `poll_timeout`.
#[derive(Debug)]
#[repr(C)]
pub struct Connection {
    // What every segment touches.
    state: State,
    due: Due,
    events: Events,
    pub(crate) keepalive: Keepalive,
    error: Option<Error>,
    /// The flags, of those that decide, of what takes the short path.
    predicted: Flags,
    pub(crate) bits: Bits,
    pub(crate) snd: Sender,
    pub(crate) rcv: Receiver,
    pub(crate) recovery: Recovery,
    pub(crate) timers: Timers,
    pub(crate) counts: Counts,

    pub(crate) control: Control,

    // What is rarely needed.
    key: FlowKey,
    pub(crate) options: PackedOptions,
    /// Exists once it was needed.
    cold: Option<Box<Cold>>,
}

const _: () = assert!(size_of::<Connection>() <= 448, "an idle connection must fit 512 bytes all told");

/// State that only connections need that move much data or lose some.
#[derive(Debug)]
pub(crate) struct Cold {
    pub(crate) tuning: Tuning,
    pub(crate) recovery: Learned,
    pub(crate) sizes: SegmentSizes,
    pub(crate) path: PathState,
    pub(crate) challenges: Challenges,
    /// The number of a RST that answers a bad acknowledgment ([`Bits::RESET_AT`]).
    reset_seq: Seq,
    pub(crate) marks: Marks,
    pub(crate) fast_open: FastOpenState,
    pub(crate) stats: RareStats,
    pub(crate) pacing: Pace,
    pub(crate) delivery: Samples,
    pub(crate) accecn: AccurateEcn,
    pub(crate) auth: Signing,
    /// Where slow start ended for connections before this one, bytes; 0 if unknown (RFC 9040).
    ssthresh: u32,
    pub(crate) times: OwnTimes,
}

impl Connection {
    /// Before its options have had their say. Inlined, so that it is written where it is to live.
    #[inline(always)]
    pub(crate) fn new(
        now: Instant,
        start: &Start,
        open: &Fresh,
        control: Control,
        state: State,
    ) -> Connection {
        Connection {
            state,
            due: Due::SYN,
            events: Events::default(),
            keepalive: Keepalive::default(),
            error: None,
            predicted: NOTHING,
            bits: start.bits,
            snd: Sender::new(open.isn, open.ts_offset, (start.sndbuf, start.path_mtu), now),
            rcv: Receiver::new(start, now),
            recovery: Recovery::default(),
            timers: Timers::new(open.hint.rto_us),
            counts: Counts::default(),
            control,
            key: open.key,
            options: start.options,
            cold: None,
        }
    }

    /// Returns the events since the last call (zero if none).
    pub fn poll_event(&mut self) -> Events {
        core::mem::take(&mut self.events)
    }

    /// Would [`Connection::poll_event`] give anything? What leaves makes room, too.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Its two ends.
    #[inline(always)]
    pub fn key(&self) -> &FlowKey {
        &self.key
    }

    /// Where in RFC 9293's diagram it is.
    #[inline(always)]
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the state so far; it is this one from now on.
    #[inline]
    pub(crate) fn replace_state(&mut self, to: State) -> State {
        core::mem::replace(&mut self.state, to)
    }

    /// Takes the pending error (SO_ERROR). Where there is none, it is what ICMP said since something was acknowledged
    /// last, as on Linux; a later timeout is not explained by that any more.
    pub fn take_error(&mut self) -> Option<Error> {
        if self.error.is_none() && self.state != State::Closed {
            return self.take_soft_error();
        }
        self.error.take()
    }

    /// The pending error, left.
    pub fn error(&self) -> Option<Error> {
        self.error
    }

    /// Something is to be sent.
    #[inline(always)]
    pub(crate) fn request(&mut self, due: Due) {
        self.due |= due;
    }

    /// Nothing but this is to be sent.
    pub(crate) fn request_only(&mut self, due: Due) {
        self.due = due;
    }

    /// A RST is to be sent that carries this number and no ACK.
    pub(crate) fn request_reset_at(&mut self, seq: Seq) {
        self.cold_mut().reset_seq = seq;
        self.bits.set(Bits::RESET_AT, WRITER);
        self.due |= Due::RST;
    }

    /// Takes the number of the RST that answers a bad acknowledgment.
    pub(crate) fn take_reset_seq(&mut self) -> Option<Seq> {
        let seq = self.cold.as_ref().filter(|_| self.bits.has(Bits::RESET_AT)).map(|cold| cold.reset_seq)?;
        self.bits.clear(Bits::RESET_AT, WRITER);
        Some(seq)
    }

    /// Slow start ended here for connections before this one.
    pub(crate) fn note_ssthresh(&mut self, ssthresh: u32) {
        self.cold_mut().ssthresh = ssthresh;
    }

    /// Returns where slow start ended for connections before this one, if that is known.
    pub(crate) fn known_ssthresh(&self) -> Option<u32> {
        self.cold().map(|cold| cold.ssthresh).filter(|&told| told != 0)
    }

    /// It was sent, or need not be any more.
    #[inline(always)]
    pub(crate) fn clear_due(&mut self, due: Due) {
        self.due.clear(due);
    }

    #[inline(always)]
    pub(crate) fn is_due(&self, due: Due) -> bool {
        self.due.has(due)
    }

    /// Output that is requested.
    #[inline(always)]
    pub(crate) fn due(&self) -> Due {
        self.due
    }

    /// Something happened that the owner is told.
    #[inline(always)]
    pub(crate) fn raise(&mut self, events: Events) {
        self.events |= events;
    }

    pub(crate) fn set_error(&mut self, error: Error) {
        self.error = Some(error);
    }

    /// Segments with these flags, of those that decide, take the short path.
    #[inline(always)]
    pub(crate) fn predict(&mut self, flags: Flags) {
        self.predicted = flags;
    }

    #[inline(always)]
    pub(crate) fn predicted(&self) -> Flags {
        self.predicted
    }

    /// Returns the rarely used state, created if it does not exist.
    #[inline(always)]
    pub(crate) fn cold_mut(&mut self) -> &mut Cold {
        let una = self.snd.una();
        self.cold.get_or_insert_with(|| {
            Box::new(Cold {
                tuning: Tuning::default(),
                recovery: Learned::new(una),
                sizes: SegmentSizes::new(una),
                path: PathState::default(),
                challenges: Challenges::default(),
                reset_seq: una,
                marks: Marks::default(),
                fast_open: FastOpenState::default(),
                stats: RareStats::default(),
                pacing: Pace::default(),
                delivery: Samples::default(),
                accecn: AccurateEcn::default(),
                auth: Signing::default(),
                ssthresh: 0,
                times: OwnTimes::default(),
            })
        })
    }

    /// Returns the rarely used state if it exists.
    pub(crate) fn cold(&self) -> Option<&Cold> {
        self.cold.as_deref()
    }

    /// Returns the rarely used state, mutably, if it exists.
    #[inline(always)]
    pub(crate) fn existing_rare(&mut self) -> Option<&mut Cold> {
        self.cold.as_deref_mut()
    }

    /// May data be sent? See [`State::may_send`].
    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        self.state.may_send() || (self.is_early() && self.state == State::SynReceived)
    }

    /// Is anything waiting to be sent for the first time?
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.may_send()
            && (self.snd.unsent() > 0 || (self.bits.has(Bits::WRITE_CLOSED) && !self.snd.fin_in_flight()))
    }
}
