//! How connections begin: settings and options, sequence numbers, cookies, Fast Open, the handshake cache, and
//! connections that another stack hands over.

pub(crate) mod cached;
pub(crate) mod cookie;
pub mod defer;
pub(crate) mod fast_open;
pub(crate) mod handover;
pub(crate) mod isn;
mod negotiation;
pub(crate) mod scale;
pub(crate) mod start;
