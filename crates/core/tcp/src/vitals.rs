//! What changes with every segment, cheap enough to be looked at with every segment.

use cc::Controller;

use crate::Connection;
use crate::State;
use crate::config::Switch;
use crate::connection::Bits;

/// The variables that a log of every segment tells (SIFTR's columns); [`crate::Info`] has the rest, and costs more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vitals {
    /// State.
    pub state: State,
    /// Congestion window, octets.
    pub cwnd: u32,
    /// Slow-start threshold, octets; [`u32::MAX`] until the first congestion.
    pub ssthresh: u32,
    /// Peer's window, octets.
    pub snd_wnd: u32,
    /// Our window, octets.
    pub rcv_wnd: u32,
    /// Window scale shifts (send, receive).
    pub scale: (u8, u8),
    /// Octets of data in a full segment.
    pub snd_mss: u16,
    /// Smoothed round-trip time, microseconds; 0 before the first sample.
    pub srtt_us: u32,
    /// Retransmission timeout, backoff included, microseconds.
    pub rto_us: u32,
    /// Window scaling was offered, and negotiated.
    pub scaling: (bool, bool),
    /// Timestamps were offered, and negotiated.
    pub timestamps: (bool, bool),
    /// SACK was negotiated.
    pub sack: bool,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// Send buffer limit and use, octets.
    pub sndbuf: (u32, u32),
    /// Receive buffer limit and use, octets.
    pub rcvbuf: (u32, u32),
    /// Octets sent and not acknowledged, SACKed ones included.
    pub flight: u32,
    /// Runs of segments held that came too early.
    pub reassembly: u16,
}

impl Connection {
    /// See [`Vitals`]. Inlined, so that who writes them elsewhere reads them here and stores them there.
    #[inline]
    pub fn vitals(&self) -> Vitals {
        let window = self.control.window();
        let agreed = self.state != State::SynSent;
        let bit = |bit| self.bits.has(bit);
        Vitals {
            state: self.state,
            cwnd: window.cwnd,
            ssthresh: window.ssthresh,
            snd_wnd: self.snd_wnd,
            rcv_wnd: self.receive_window(),
            scale: (self.snd_scale, self.rcv_scale),
            snd_mss: self.snd_mss,
            srtt_us: self.rtt.srtt_micros().unwrap_or(0),
            rto_us: self.rto_us,
            scaling: (bit(Bits::SCALING), agreed && bit(Bits::SCALING)),
            timestamps: (bit(Bits::TIMESTAMPS), agreed && bit(Bits::TIMESTAMPS)),
            sack: agreed && bit(Bits::SACK),
            nodelay: self.options.has(Switch::NODELAY),
            sndbuf: (self.tx.limit, self.tx.len()),
            rcvbuf: (self.rcvbuf, self.rx.len()),
            flight: self.flight(),
            reassembly: self.reassembly.as_ref().map_or(0, |reassembly| reassembly.held.runs()),
        }
    }
}
