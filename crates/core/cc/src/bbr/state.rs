//! The states, and how each sends.

/// Where in its life a connection is (draft-ietf-ccwg-bbr, section 5.1).
///
/// ```text
///   Startup ──> Drain ──> Down ──> Cruise ──> Refill ──> Up ──┐      every five seconds
///                          ^                                  │      any ──> ProbeRtt ──> Cruise
///                          └──────────────────────────────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The rate doubles each round trip until deliveries no longer follow.
    Startup,
    /// The queue that this made empties.
    Drain,
    /// Less than the path carries, so that others find room (ProbeBW_DOWN).
    Down,
    /// As much as it carries (ProbeBW_CRUISE).
    Cruise,
    /// As `Cruise`, for a round trip without short-term bounds, so that the pipe is full (ProbeBW_REFILL).
    Refill,
    /// More, to see whether deliveries follow (ProbeBW_UP).
    Up,
    /// Half of what it holds, to see the round trip without a queue.
    ProbeRtt,
}

impl State {
    /// Pacing gain, per cent (section 5.6.1).
    pub(super) const fn pacing_gain(self) -> u64 {
        match self {
            State::Startup => 277,
            State::Drain => 50,
            State::Down => 90,
            State::Cruise | State::Refill | State::ProbeRtt => 100,
            State::Up => 125,
        }
    }

    /// Window gain, per cent (section 5.6.1).
    pub(super) const fn cwnd_gain(self) -> u64 {
        match self {
            State::Up => 225,
            State::ProbeRtt => 50,
            _ => 200,
        }
    }

    /// IsInAProbeBWState.
    pub(super) const fn probes_bandwidth(self) -> bool {
        matches!(self, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// IsProbingBW: a loss now tells about the probe, not about the path.
    pub(super) const fn accelerates(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }
}
