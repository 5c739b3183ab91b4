//! How a connection begins, changes its state and ends.

use cc::{Control, Controller, Cubic, PathInfo};
use wire::tcp::{Flags, Options, Segment};

use crate::config::{ABC_LIMIT, Config, HYSTART};
use crate::connection::{Bits, Connection};
use crate::due::Due;
use crate::ecn::SETUP as ECN_SETUP;
use crate::ecn::accecn;
use crate::options::Switch;
use crate::scale::{from_field, shift_for};
use crate::start::Start;
use crate::{Cookie, Cx, Error, Events, HostHint, Incident, Open, State};

crate::bits::writer!(ACTIVE);

impl Connection {
    /// A new connection in `place`: what is as large as this should not be moved, and in a slab it need not be.
    pub(crate) fn begin<'p>(
        place: &'p mut Option<Connection>,
        cx: &Cx<'_>,
        open: &Open,
        control: Control,
        state: State,
    ) -> &'p mut Connection {
        *place = None;
        let start = Start::of(cx.config, &open.options, open.path_mtu);
        let conn = place.insert(Connection::new(cx.now, &start, &open.fresh(), control, state));
        conn.make_room_for_lowat(cx);
        if open.options.max_pacing.is_some() {
            conn.set_pace_cap(open.options.max_pacing);
        }
        if conn.options.has(Switch::OWN_TIMES) {
            conn.set_times(open.options.times);
        }
        conn.heed_defaults(cx.config);
        conn.take_hint(cx.config, &open.hint);
        conn
    }

    /// Takes over what earlier connections learned of the path.
    #[inline(always)]
    pub(crate) fn take_hint(&mut self, config: &Config, hint: &HostHint) {
        if hint.ssthresh != 0 {
            self.note_ssthresh(hint.ssthresh);
        }
        self.refresh_rto(config);
    }

    /// Active open in `place`: SYN-SENT; poll_transmit gives the SYN.
    pub fn connect<'p>(
        place: &'p mut Option<Connection>,
        cx: &mut Cx<'_>,
        open: &Open,
        control: Control,
    ) -> &'p mut Connection {
        cx.counters.active_opens += 1;
        let conn = Connection::begin(place, cx, open, control, State::SynSent);
        conn.ask(cx.config);
        conn
    }

    /// Sets the features that only the active opener asks for.
    pub(crate) fn ask(&mut self, config: &Config) {
        self.bits.set(Bits::ACTIVE, WRITER);
        self.ask_ecn(config);
    }

    /// Passive open in `place` on a valid SYN (RFC 9293, 3.10.7.2): SYN-RECEIVED; poll_transmit gives the
    /// SYN-ACK.
    pub fn accept<'p>(
        place: &'p mut Option<Connection>,
        cx: &mut Cx<'_>,
        open: &Open,
        control: Control,
        syn: &Segment<'_>,
    ) -> &'p mut Connection {
        cx.counters.passive_opens += 1;
        cx.counters.segments_in += 1;
        cx.counters.unpredicted += 1;
        let conn = Connection::begin(place, cx, open, control, State::SynReceived);
        conn.counts.received(1);
        if cx.probe.is_some() {
            conn.show_inbound(cx, syn);
        }
        conn.take_syn(cx, syn);
        conn
    }

    /// Passive open in `place` completed by a SYN cookie: ESTABLISHED at once; feed the same ACK segment to
    /// on_segment next.
    pub fn accept_cookie<'p>(
        place: &'p mut Option<Connection>,
        cx: &mut Cx<'_>,
        open: &Open,
        control: Control,
        cookie: &Cookie,
        ack: &Segment<'_>,
    ) -> &'p mut Connection {
        cx.counters.passive_opens += 1;
        let open = Open { ts_offset: cookie.ts_offset, ..*open };
        let conn = Connection::begin(place, cx, &open, control, State::SynReceived);
        let syn = Segment {
            seq: ack.seq - 1,
            flags: Flags::SYN | if cookie.ecn { ECN_SETUP } else { accecn::recall(cx.config, ack) },
            options: Options {
                mss: Some(cookie.mss),
                window_scale: cookie.window_scale,
                sack_permitted: cookie.sack,
                timestamps: ack.options.timestamps.filter(|_| cookie.timestamps),
                ..Options::default()
            },
            payload: &[],
            ..*ack
        };
        conn.take_syn(cx, &syn);
        // The answer was sent for us, by the cookie: its number is the one this segment acknowledges, and its
        // window and scale are the stack's, whatever the socket's options.
        if conn.bits.has(Bits::SCALING) {
            conn.rcv.set_scale(shift_for(cx.config.rcvbuf.1));
        }
        conn.rcv.offer(cx.config.rcvbuf.0.min(u16::MAX.into()));
        conn.request_only(Due::default());
        conn.snd.begin_at(ack.ack);
        conn.set_send_window(from_field(ack.window, conn.snd.scale()), ack.seq);
        if conn.bits.has(Bits::ACCECN) {
            conn.take_greeting(cx, ack);
        }
        conn.establish(cx);
        conn
    }

    /// Both SYNs are acknowledged.
    /// RFC 5681, 3.1-3.
    pub(crate) fn establish(&mut self, cx: &mut Cx<'_>) {
        cx.counters.established += 1;
        self.timers.stop_rtx();
        if cx.config.mtu_probing > 1 {
            self.begin_search(cx);
        }
        let mut path = self.path_info(cx);
        if self.bits.has(Bits::ACCECN) && self.takes_marked_greeting() {
            path.initial_window = self.snd.mss().into();
        }
        self.begin_policy(cx, &path);
        self.timers.answered();
        self.raise(Events::CONNECTED | Events::WRITABLE);
        self.set_state(cx, State::Established);
        // Where there is a sample, it was taken just now, and the timeout follows it already.
        if !self.timers.rtt().is_measured() {
            self.refresh_rto(cx.config);
        }
        if self.options.has(Switch::KEEPALIVE) {
            self.arm_keepalive(cx.now);
        }
        if self.bits.has(Bits::WRITE_CLOSED) {
            // Closed while the handshake was under way (RFC 9293, section 3.10.4).
            self.request(Due::DATA);
            self.set_state(cx, State::FinWait1);
        }
    }

    /// The policy takes over, on a new connection or on one that lives.
    #[inline(always)]
    pub(crate) fn begin_policy(&mut self, cx: &Cx<'_>, path: &PathInfo) {
        self.control.on_established(path);
        if cx.config.abc_limit != ABC_LIMIT {
            // A policy that does not count by RFC 3465 has no such limit to move.
            let _ = self.control.set_tunable("abc_limit", cx.config.abc_limit.into());
        }
        if cx.config.hystart != HYSTART {
            // Linux's rule is part of its CUBIC alone.
            let none = cx.config.hystart > HYSTART && self.control.name() != Cubic::NAME;
            let _ = self.control.set_tunable("hystart", if none { 0 } else { cx.config.hystart.into() });
        }
        self.refresh_pacing(cx);
    }

    pub(crate) fn path_info(&self, cx: &Cx<'_>) -> PathInfo {
        PathInfo {
            mss: self.snd.mss().into(),
            srtt: self.timers.rtt().is_measured().then(|| self.timers.rtt().srtt()),
            initial_window: self.initial_window(cx),
            ssthresh: self.known_ssthresh(),
        }
    }

    pub(crate) fn set_state(&mut self, cx: &mut Cx<'_>, to: State) {
        let from = self.replace_state(to);
        if let Some(probe) = cx.probe.as_deref_mut() {
            probe.state(cx.now, self.key(), from, to);
        }
        self.refresh_prediction();
    }

    /// The end: nothing more is sent but what `due` still asks for; what was received stays readable.
    pub(crate) fn finish(&mut self, cx: &mut Cx<'_>) {
        cx.counters.closed += 1;
        self.stop_counting(cx);
        self.snd.release(cx.pool);
        if self.bits.has(Bits::MARKED) {
            self.settle_marks();
        }
        self.recovery.end();
        self.rcv.forget_out_of_order(cx);
        if self.bits.has(Bits::ORPHAN) {
            self.rcv.release_buffer(cx.pool);
            self.forget_orphan(cx.pool);
        }
        self.snd.end_at(self.bare_seq());
        self.timers.stop();
        self.raise(Events::CLOSED);
        self.request_only(Due::default());
        self.set_state(cx, State::Closed);
    }

    /// The end, with an error for the application.
    pub(crate) fn fail(&mut self, cx: &mut Cx<'_>, error: Error) {
        match self.state() {
            State::SynSent | State::SynReceived => cx.counters.attempt_fails += 1,
            _ => {}
        }
        self.set_error(error);
        self.note(cx, Incident::Failed(error));
        self.raise(Events::ERROR | Events::READABLE | Events::WRITABLE);
        self.finish(cx);
    }

    /// The port or the core below is gone for good: the connection ends without another segment.
    pub fn on_port_gone(&mut self, cx: &mut Cx<'_>) {
        self.fail(cx, Error::NetDown);
    }

    /// The end by a RST of ours.
    pub(crate) fn reset(&mut self, cx: &mut Cx<'_>) {
        if self.state().is_synchronized() {
            cx.counters.established_resets += 1;
        }
        self.finish(cx);
        self.request_only(Due::RST);
    }
}
