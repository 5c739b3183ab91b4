//! Values that change with every segment, cheap enough to be read with every segment.

use cc::Controller;

use crate::Connection;
use crate::State;
use crate::connection::Bits;
use crate::options::Switch;

/// The variables that a log of every segment tells (SIFTR's columns); [`crate::Info`] has the rest, and costs more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vitals {
    /// State.
    pub state: State,
    /// Congestion window, bytes.
    pub cwnd: u32,
    /// Slow-start threshold, bytes; [`u32::MAX`] until the first congestion.
    pub ssthresh: u32,
    /// Peer's window, bytes.
    pub snd_wnd: u32,
    /// Our window, bytes.
    pub rcv_wnd: u32,
    /// Window scale shifts (send, receive).
    pub scale: (u8, u8),
    /// Bytes of data in a full segment.
    pub snd_mss: u16,
    /// Smoothed round-trip time, microseconds; 0 before the first sample.
    pub srtt_us: u32,
    /// Retransmission timeout, backoff included, microseconds.
    pub rto_us: u32,
    /// Features offered to the peer, and the application's choices.
    pub features: Features,
    /// Send buffer limit and use, bytes.
    pub sndbuf: (u32, u32),
    /// Receive buffer limit and use, bytes.
    pub rcvbuf: (u32, u32),
    /// Bytes sent and not acknowledged, SACKed ones included.
    pub flight: u32,
    /// Runs of segments held that came too early.
    pub reassembly: u16,
}

/// Options of TCP that were offered, which means agreed on once the peer's SYN is known; and TCP_NODELAY. Kept as the
/// connection has them: the reader takes them apart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Features(u8);

/// The bits that say what was offered, which come first in a connection.
const OFFERED: u64 = Bits::TIMESTAMPS.or(Bits::SACK).or(Bits::SCALING).raw();
const NODELAY: u8 = 0x80;
const _: () = assert!(OFFERED < NODELAY as u64);

impl Features {
    /// Those of a byte that [`Features::byte`] gave.
    pub const fn of(byte: u8) -> Features {
        Features(byte & (OFFERED as u8 | NODELAY))
    }

    /// All of them in a byte, for storage.
    pub const fn byte(self) -> u8 {
        self.0
    }

    /// These.
    pub fn new(timestamps: bool, sack: bool, scaling: bool, nodelay: bool) -> Features {
        let bits = Bits::MILLIS.when(timestamps) | Bits::SACK.when(sack) | Bits::SCALING.when(scaling);
        Features(bits.raw() as u8 | if nodelay { NODELAY } else { 0 })
    }

    /// Timestamps.
    pub fn timestamps(self) -> bool {
        self.has(Bits::TIMESTAMPS)
    }

    /// Selective acknowledgments.
    pub fn sack(self) -> bool {
        self.has(Bits::SACK)
    }

    /// Window scaling.
    pub fn scaling(self) -> bool {
        self.has(Bits::SCALING)
    }

    /// TCP_NODELAY.
    pub fn nodelay(self) -> bool {
        self.0 & NODELAY != 0
    }

    fn has(self, bit: impl Into<Bits>) -> bool {
        Bits::of(self.0.into()).has(bit)
    }
}

impl Connection {
    /// See [`Vitals`]. Inlined, so that a caller that stores them elsewhere copies them directly.
    #[inline(always)]
    pub fn vitals(&self) -> Vitals {
        let window = self.control.window();
        let nodelay = if self.options.has(Switch::NODELAY) { NODELAY } else { 0 };
        Vitals {
            state: self.state(),
            cwnd: window.cwnd,
            ssthresh: window.ssthresh,
            snd_wnd: self.snd.window(),
            rcv_wnd: self.rcv.window(),
            scale: (self.snd.scale(), self.rcv.scale()),
            snd_mss: self.snd.mss(),
            srtt_us: self.timers.rtt().srtt_micros().unwrap_or(0),
            rto_us: self.timers.rto_us(),
            features: Features((self.bits.raw() & OFFERED) as u8 | nodelay),
            sndbuf: (self.snd.buffer().limit(), self.snd.queued()),
            rcvbuf: (self.rcv.limit(), self.rcv.held()),
            flight: self.snd.flight(),
            reassembly: self.rcv.runs(),
        }
    }
}
