//! The offer that a connect with Fast Open makes, and its outcome.

use alloc::boxed::Box;

use wire::tcp::FastOpen;

/// Fast Open option of a connect's SYN, from [`crate::FastOpenCache::offer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastOpenOffer {
    /// A cookie, a request, or nothing: then data goes without a cookie.
    pub option: Option<FastOpen>,
    /// The peer's MSS, as it was last time; zero if not known.
    pub mss: u16,
}

impl FastOpenOffer {
    /// May data go with the SYN?
    pub fn takes_data(&self) -> bool {
        self.option.is_none_or(|option| !option.is_request())
    }
}

/// How a connect with Fast Open went, for [`crate::FastOpenCache::learn`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastOpenOutcome {
    /// The peer's MSS; zero if it did not say.
    pub mss: u16,
    /// Its cookie, if it sent one.
    pub cookie: Option<FastOpen>,
    /// The rest.
    pub lesson: Lesson,
}

/// Observation for the cache, beside a cookie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lesson {
    /// Nothing to complain of.
    Answered,
    /// A request was answered by a plain SYN-ACK.
    NoCookie {
        /// The request was of the experimental kind.
        experimental: bool,
    },
    /// Nothing of the data was acknowledged, and no new cookie explains it.
    Refused,
    /// As before, and the SYN had to be retransmitted without cookie and data.
    Lost,
    /// An ICMP error came back.
    Unreachable,
    /// Even a plain SYN was not answered at first, or nothing after it: a middlebox may dislike such SYNs
    /// (RFC 7413, section 7.1).
    Silence,
}

/// State of a connection during its handshake.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    /// The option of our SYN or SYN-ACK.
    pub(super) option: Option<FastOpen>,
    /// When the SYN-ACK left, microseconds; `None` once it was sent again.
    pub(super) left: Option<u32>,
    /// To be taken by the owner of the cache.
    pub(super) outcome: Option<FastOpenOutcome>,
}

/// Fast Open on a connection.
#[derive(Debug, Default)]
pub(crate) struct FastOpenState {
    /// While the handshake lasts.
    pub(super) attempt: Option<Box<Attempt>>,
    /// Where data end, counted from the stream's first byte, that went with the SYN and had to go again; 0 for none.
    pub(super) data_again: u32,
}
