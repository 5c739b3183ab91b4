//! Getters of a connection.

use base::{Duration, Instant, Rate};
use cc::Controller;
use wire::tcp::{Flags, Segment};

use crate::connection::{Bits, Connection};
use crate::options::Switch;
use crate::state::Phase;
use crate::{HostLesson, Info, SocketOptions, State};

impl Connection {
    /// Returns the number that enters the flow label beside the two ends: another one after each timeout (RFC
    /// 6438).
    #[inline]
    pub fn path(&self) -> u16 {
        if self.bits.has(Bits::REHASHED) { self.cold().map_or(0, |cold| cold.path.number()) } else { 0 }
    }

    /// Does this segment end the handshake of a connection in SYN-RECEIVED?
    pub fn completes_handshake(&self, seg: &Segment<'_>) -> bool {
        let awaited = self.state() == State::SynReceived && seg.seq == self.rcv.nxt();
        awaited && seg.flags.has(Flags::ACK) && !seg.flags.has(Flags::SYN) && self.acknowledges_syn(seg)
    }

    /// Did we connect? Otherwise the peer did.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.bits.has(Bits::ACTIVE)
    }

    /// Bytes writable now (0 when not writable).
    pub fn writable(&self) -> u32 {
        let open = matches!(self.state(), State::Established | State::CloseWait) || self.may_write_early();
        if open && self.has_space() { self.snd.buffer().limit() - self.snd.queued() } else { 0 }
    }

    fn may_write_early(&self) -> bool {
        self.state() == State::SynReceived && self.is_early() && !self.bits.has(Bits::WRITE_CLOSED)
    }

    /// Where it is as far as its owner can tell: what Fast Open lets it use counts as established.
    pub fn state_for_owner(&self) -> State {
        if self.state() == State::SynReceived && self.is_early() { State::Established } else { self.state() }
    }

    /// The peer's FIN has been received in order.
    pub fn peer_closed(&self) -> bool {
        self.bits.has(Bits::PEER_FIN)
    }

    /// Our side was shut.
    pub fn write_closed(&self) -> bool {
        self.bits.has(Bits::WRITE_CLOSED) || self.state() == State::Closed
    }

    /// The smoothed round-trip time; zero before the first sample.
    pub fn round_trip(&self) -> Duration {
        self.timers.rtt().srtt()
    }

    /// Bytes readable now.
    pub fn readable(&self) -> u32 {
        self.rcv.readable()
    }

    /// Bytes not yet acknowledged (SIOCOUTQ).
    pub fn unacked(&self) -> u32 {
        self.snd.queued()
    }

    /// Bytes not yet sent (SIOCOUTQNSD).
    pub fn unsent(&self) -> u32 {
        self.snd.unsent()
    }

    /// Options in force (a copy: they are kept in less space than [`SocketOptions`] takes).
    pub fn options(&self) -> SocketOptions {
        SocketOptions { max_pacing: self.pace_cap(), times: self.times(), ..self.options.unpack() }
    }

    /// Name of the congestion control policy.
    pub fn control_name(&self) -> &'static str {
        self.control.name()
    }

    /// The value of one of the policy's tunables; `None` if it has none of that name.
    pub fn control_tunable(&self, name: &str) -> Option<i64> {
        self.control.tunable(name)
    }

    /// Everything TCP_INFO shows, and more.
    pub fn info(&self, now: Instant) -> Info {
        let unacked = u64::from(self.snd.queued());
        let (sacked, lost, sent_again) = self.trouble();
        let probing = self.snd.window() == 0 && self.snd.flight() == 0;
        let (account, spans) = (self.account(), self.spans(now.as_millis() as u32));
        let ago = |ms: u32| Duration::from_millis((now.as_millis() as u32).wrapping_sub(ms).into());
        Info {
            state: self.state(),
            window: self.control.window(),
            metered: self.metered_window(),
            srtt: self.timers.rtt().srtt(),
            rttvar: self.timers.rtt().rttvar(),
            min_rtt: self.timers.rtt().min_rtt(),
            rto: self.timers.rto(),
            snd_mss: self.told_mss(),
            rcv_mss: self.rcv.mss(),
            snd_una: self.snd.una(),
            snd_nxt: self.snd.nxt(),
            rcv_nxt: self.rcv.nxt(),
            snd_wnd: self.snd.window(),
            rcv_wnd: self.rcv.window(),
            scale: (self.snd.scale(), self.rcv.scale()),
            timestamps: self.bits.has(Bits::TIMESTAMPS),
            usec_timestamps: self.bits.has(Bits::MICROS),
            sack: self.bits.has(Bits::SACK),
            reordering: self.reordering().degree,
            ecn: self.bits.has(Bits::ECN) || self.accecn().is_some(),
            accecn: self.accecn_info(),
            syn_data: self.bits.has(Bits::SYN_DATA_TAKEN),
            nodelay: self.options.has(Switch::NODELAY),
            disorder: self.phase() == Phase::Disorder && (sacked > 0 || self.snd.duplicates() > 0),
            reduced: self.phase() == Phase::Reduced,
            recovery: self.phase() == Phase::Fast,
            loss: self.phase() == Phase::Timeout,
            in_flight: self.pipe(),
            flight: self.snd.flight(),
            sacked,
            lost,
            sent_again: sent_again.max(self.syn_data_again()),
            last_sent: ago(self.snd.last_ms()),
            last_received: ago(self.rcv.last_ms()),
            retransmits: self.counts.retransmits(),
            unsent: self.unsent(),
            timeouts: if probing { 0 } else { self.timers.retries() },
            backoff: self.timers.backoff(),
            bytes_sent: self.counts.bytes_acked() + unacked - u64::from(self.unsent()),
            bytes_acked: self.counts.bytes_acked(),
            bytes_received: self.rcv.bytes(),
            segs_out: self.counts.segments_out().into(),
            segs_in: self.counts.segments_in().into(),
            sndbuf: (self.snd.buffer().limit(), self.snd.queued()),
            rcvbuf: (self.rcv.limit(), self.rcv.held()),
            reassembly: self.rcv.info(account.refused),
            path_mtu: self.snd.path_mtu(),
            adv_mss: self.advertised_mss(),
            rcv_rtt: self.receiver_rtt(),
            probes: if probing { self.timers.retries() } else { self.keepalive.unanswered() },
            window_limited: self.bits.has(Bits::CWND_LIMITED),
            delivery: self.sampled_rate().or_else(|| self.delivery_rate()),
            data_segs_out: self.snd.data_segments(),
            data_segs_in: self.rcv.data_segments(),
            delivered: self.delivered(),
            delivered_marked: account.marked,
            bytes_retransmitted: account.bytes_again,
            duplicates_reported: account.duplicates,
            reordering_seen: self.reordering().seen,
            out_of_order_in: account.out_of_order,
            busy: spans.busy,
            window_starved: spans.window,
            buffer_starved: spans.buffer,
            limit: self.limit(),
            receive_limit: self.receive_limit(now.as_micros() as u32),
            limited: self.limited(now.as_millis() as u32),
            total_timeouts: account.timeouts,
            timeout_recoveries: account.timeout_recoveries,
            timeout_time: Duration::from_millis(account.timeout_ms.into()),
            pacing: self.control.window().pacing,
            max_pacing: self.pace_cap(),
            control: self.control.name(),
        }
    }

    /// How fast data arrives, as far as whole round trips tell: the most that was in flight in the last one, in the
    /// time that a round trip takes.
    fn delivery_rate(&self) -> Option<Rate> {
        self.timers
            .rtt()
            .is_measured()
            .then(|| Rate::over(self.snd.round_flight().into(), self.timers.rtt().srtt()))
    }

    /// Is the peer where its address says? It answered, so that a round trip was measured, and did not fall silent.
    #[inline]
    pub fn has_met_peer(&self) -> bool {
        self.timers.rtt().is_measured() && self.timers.backoff() == 0
    }

    /// Returns what later connections to the same host may use: nothing from a connection that measured no round
    /// trip, so that forged SYNs teach nothing, nor from one that ended by a timeout.
    pub fn lesson(&self) -> Option<HostLesson> {
        let srtt_us = self.timers.rtt().srtt_micros().filter(|_| self.timers.backoff() == 0)?;
        let window = self.control.window();
        Some(HostLesson {
            srtt_us,
            rttvar_us: self.timers.rtt().rttvar_micros(),
            ssthresh: if window.ssthresh == u32::MAX { 0 } else { window.ssthresh },
            cwnd: window.cwnd,
        })
    }
}
