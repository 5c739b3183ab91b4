//! A snapshot of a connection.

use base::{Duration, Seq};
use cc::Window;

use crate::State;

/// Everything TCP_INFO shows, and more (RFC 4898 terms).
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// State.
    pub state: State,
    /// Congestion window and threshold.
    pub window: Window,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Duration,
    /// RTT variation.
    pub rttvar: Duration,
    /// Smallest RTT.
    pub min_rtt: Duration,
    /// Retransmission timeout, backoff included.
    pub rto: Duration,
    /// Sender MSS: octets of data in a full segment.
    pub snd_mss: u16,
    /// Receiver MSS (estimate of the peer's segments).
    pub rcv_mss: u16,
    /// Oldest unacknowledged octet.
    pub snd_una: Seq,
    /// Next to send.
    pub snd_nxt: Seq,
    /// Next expected.
    pub rcv_nxt: Seq,
    /// Peer's window, octets.
    pub snd_wnd: u32,
    /// Our window, octets.
    pub rcv_wnd: u32,
    /// Window scale shifts (send, receive).
    pub scale: (u8, u8),
    /// Timestamps negotiated.
    pub timestamps: bool,
    /// SACK negotiated.
    pub sack: bool,
    /// By how many segments something was overtaken on this path at most; 3 is assumed.
    pub reordering: u16,
    /// ECN negotiated (RFC 3168).
    pub ecn: bool,
    /// Data went with the SYN and was acknowledged (RFC 7413).
    pub syn_data: bool,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// Something was SACKed, or duplicates came, and no repair is under way.
    pub disorder: bool,
    /// The window was reduced without a loss, and sending is metered.
    pub reduced: bool,
    /// In fast recovery.
    pub recovery: bool,
    /// Loss recovery after an RTO.
    pub loss: bool,
    /// Octets in flight (pipe).
    pub in_flight: u32,
    /// Octets sent and not acknowledged, SACKed ones included.
    pub flight: u32,
    /// Octets of these that the peer has SACKed, that count as lost, and that were sent again.
    pub sacked: u32,
    /// See `sacked`.
    pub lost: u32,
    /// See `sacked`.
    pub sent_again: u32,
    /// How long ago something was sent with data, and something came.
    pub last_sent: Duration,
    /// See `last_sent`.
    pub last_received: Duration,
    /// Segments retransmitted ever.
    pub retransmits: u32,
    /// Octets written and not sent.
    pub unsent: u32,
    /// Timeouts in a row without progress.
    pub timeouts: u8,
    /// Consecutive RTOs.
    pub backoff: u8,
    /// Octets sent for the first time.
    pub bytes_sent: u64,
    /// Octets acknowledged.
    pub bytes_acked: u64,
    /// Octets received in order.
    pub bytes_received: u64,
    /// Segments out; counts modulo 2^32.
    pub segs_out: u64,
    /// Segments in; counts modulo 2^32.
    pub segs_in: u64,
    /// Send buffer limit and use.
    pub sndbuf: (u32, u32),
    /// Receive buffer limit and use.
    pub rcvbuf: (u32, u32),
    /// Out-of-order runs held.
    pub reassembly: u16,
    /// Path MTU.
    pub path_mtu: u16,
    /// Name of the policy.
    pub control: &'static str,
}
