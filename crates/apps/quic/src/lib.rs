//! Millstream's congestion control under QUIC: every policy of a [`cc::Registry`], built in or a program's own, as a
//! [`quinn_proto::congestion::Controller`].
//!
//! ```
//! use std::sync::Arc;
//! use millstream_quic::Policies;
//! use quinn_proto::TransportConfig;
//!
//! let policies = Policies::new(cc::Registry::new());
//! let mut transport = TransportConfig::default();
//! transport.congestion_controller_factory(Arc::new(policies.factory("htcp").expect("built in")));
//! ```
//!
//! QUIC's signals and a policy's arguments differ in places:
//!
//! * QUIC has no retransmission timeout; its persistent congestion (RFC 9002, section 7.6) is told as the first.
//! * A round-trip sample contains the peer's delay of acknowledgments (at most 25 ms, unless it says otherwise).
//! * quinn tells that marks came, not how many: a policy hears that all which that acknowledgment covers was marked.
//! * quinn paces by the window (five quarters of it a round trip) whatever the policy asks for; the request is in
//!   [`metrics`](quinn_proto::congestion::Controller::metrics) only.
#![forbid(unsafe_code)]

mod adapter;
mod policies;
mod rates;

pub use adapter::Adapter;
pub use policies::{Factory, Policies};
