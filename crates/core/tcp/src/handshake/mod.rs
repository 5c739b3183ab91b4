//! How connections begin: what is negotiated, sequence numbers, cookies, Fast Open, the handshake cache, and
//! connections that another stack hands over.

pub(crate) mod cached;
pub(crate) mod cookie;
pub mod defer;
pub(crate) mod fast_open;
pub(crate) mod handover;
pub(crate) mod isn;
mod negotiation;
