//! A snapshot of a connection.

use base::{Duration, Rate, Seq};
use cc::Window;
use wire::tcp::EcnBytes;

use crate::{Limit, Limited, ReceiveLimit, State};

/// Everything TCP_INFO shows, and more (RFC 4898 terms).
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// State.
    pub state: State,
    /// Congestion window and threshold.
    pub window: Window,
    /// While a repair meters what is sent: bytes that may be in flight, on the way to the window (RFC 9937).
    pub metered: Option<u32>,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Duration,
    /// RTT variation.
    pub rttvar: Duration,
    /// Smallest RTT.
    pub min_rtt: Duration,
    /// Retransmission timeout, backoff included.
    pub rto: Duration,
    /// Sender MSS: bytes of data in a full segment.
    pub snd_mss: u16,
    /// Receiver MSS (estimate of the peer's segments).
    pub rcv_mss: u16,
    /// Oldest unacknowledged byte.
    pub snd_una: Seq,
    /// Next to send.
    pub snd_nxt: Seq,
    /// Next expected.
    pub rcv_nxt: Seq,
    /// Peer's window, bytes.
    pub snd_wnd: u32,
    /// Our window, bytes.
    pub rcv_wnd: u32,
    /// Window scale shifts (send, receive).
    pub scale: (u8, u8),
    /// Timestamps negotiated.
    pub timestamps: bool,
    /// They count microseconds.
    pub usec_timestamps: bool,
    /// SACK negotiated.
    pub sack: bool,
    /// By how many segments something was overtaken on this path at most; 3 is assumed.
    pub reordering: u16,
    /// ECN negotiated, whichever its feedback.
    pub ecn: bool,
    /// Counters of accurate ECN feedback, if it was negotiated (RFC 9768).
    pub accecn: Option<AccEcnInfo>,
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
    /// Bytes in flight (pipe).
    pub in_flight: u32,
    /// Bytes sent and not acknowledged, SACKed ones included.
    pub flight: u32,
    /// Bytes of these that the peer has SACKed, that count as lost, and that were sent again.
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
    /// Bytes written and not sent.
    pub unsent: u32,
    /// Timeouts in a row without progress.
    pub timeouts: u8,
    /// Consecutive RTOs.
    pub backoff: u8,
    /// Bytes sent, those sent again counted once.
    pub bytes_sent: u64,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Segments out; counts modulo 2^32.
    pub segs_out: u64,
    /// Segments in; counts modulo 2^32.
    pub segs_in: u64,
    /// Send buffer limit and use.
    pub sndbuf: (u32, u32),
    /// Receive buffer limit and use.
    pub rcvbuf: (u32, u32),
    /// Out-of-order data held.
    pub reassembly: ReassemblyInfo,
    /// Path MTU.
    pub path_mtu: u16,
    /// MSS that our SYN told.
    pub adv_mss: u16,
    /// Round-trip time as a receiver estimates it; zero before it was needed.
    pub rcv_rtt: Duration,
    /// Zero-window or keepalive probes without an answer.
    pub probes: u8,
    /// The congestion window, not the application or the peer, stopped the last transmission.
    pub window_limited: bool,
    /// Bytes delivered a second: the last sample, of policies that ask for them, else estimated from the last round
    /// trip; `None` before the first.
    pub delivery: Option<Rate>,
    /// Segments with data out, again or not; modulo 2^32, like the other counts here.
    pub data_segs_out: u32,
    /// Segments with data in.
    pub data_segs_in: u32,
    /// Segments delivered: with data, our SYN, or a FIN alone, each once.
    pub delivered: u32,
    /// Of these, those whose acknowledgments echoed a mark (RFC 3168).
    pub delivered_marked: u32,
    /// Bytes sent again.
    pub bytes_retransmitted: u64,
    /// Segments that the peer reported as duplicates (RFC 2883).
    pub duplicates_reported: u32,
    /// How often something was seen to be overtaken.
    pub reordering_seen: u32,
    /// Segments that came out of order.
    pub out_of_order_in: u32,
    /// How long there was something to send or in flight.
    pub busy: Duration,
    /// For how much of this the peer's window alone held data back.
    pub window_starved: Duration,
    /// For how much of this the application waited for room, with everything sent.
    pub buffer_starved: Duration,
    /// Limits of sending and of the peer's sending.
    pub limit: Limit,
    /// See `limit`.
    pub receive_limit: ReceiveLimit,
    /// How long it was limited by what.
    pub limited: Limited,
    /// Retransmission timeouts ever.
    pub total_timeouts: u16,
    /// Repairs that these began, and the time those took that are over.
    pub timeout_recoveries: u16,
    /// See `timeout_recoveries`.
    pub timeout_time: Duration,
    /// Bytes a second at which the policy wants departures spread; of those without such a request see
    /// [`crate::Connection::pacing_rate`].
    pub pacing: Option<Rate>,
    /// SO_MAX_PACING_RATE, if one is set.
    pub max_pacing: Option<Rate>,
    /// Name of the policy.
    pub control: &'static str,
}

/// Whether the peer sends counters of bytes (RFC 9768, section 3.2.3.2), in Linux's numbers (TCP_ACCECN_OPT_*).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum OptionSeen {
    /// It sent none.
    #[default]
    Never = 0,
    /// An option without counters.
    Empty = 1,
    /// Counters.
    Counters = 2,
    /// Counters that something on the way had zeroed: they are ignored.
    Zeroed = 3,
}

/// Counters of accurate ECN (RFC 9768, section 3.2), without their initial values.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AccEcnInfo {
    /// Packets that arrived with CE (r.cep).
    pub received_ce: u32,
    /// Bytes of payload that arrived under each codepoint (r.e0b, r.ceb, r.e1b).
    pub received_bytes: EcnBytes,
    /// Our segments that were delivered, as far as bytes tell.
    pub delivered: u32,
    /// Our packets of which the peer told that they arrived with CE (s.cep).
    pub delivered_ce: u32,
    /// Bytes of ours of which it told (s.e0b, s.ceb, s.e1b).
    pub delivered_bytes: EcnBytes,
    /// Validity of its options.
    pub option_seen: OptionSeen,
    /// We send ECT.
    pub capable: bool,
    /// Our SYN-ACK, or the peer's SYN, did without ECN.
    pub unsure: bool,
    /// Codepoints or counters are changed on the way.
    pub mangled: bool,
    /// We no longer send counters: segments with them were lost.
    pub option_blocked: bool,
}

/// Figures of a connection's queue of out-of-order data.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReassemblyInfo {
    /// Runs held, each between two holes.
    pub runs: u16,
    /// Their bytes.
    pub bytes: u32,
    /// Bytes of memory that they occupy: whole chunks, those of holes included, and what is noted about them.
    pub memory: u32,
    /// Most runs, when something last came out of order; 0 while nothing is missing. The bytes are bounded by
    /// [`Info::rcv_wnd`].
    pub limit: u16,
    /// Segments refused ever.
    pub refused: u32,
}
