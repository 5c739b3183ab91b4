//! TCP headers and options (RFC 9293 section 3.1, RFC 7323, RFC 2018, RFC 7413, RFC 9768, RFC 2385, RFC 5925).

mod accecn;
mod fast_open;
mod flags;
mod header;
mod options;
mod segment;
mod signature;
#[cfg(test)]
mod tests;

pub use accecn::{AccEcn, CounterOrder, EcnBytes};
pub use fast_open::FastOpen;
pub use flags::Flags;
pub use header::{CHECKSUM_OFFSET, Header, set_checksum};
pub use options::{MAX_LEN as MAX_OPTIONS_LEN, MAX_WINDOW_SCALE, Options, SackBlocks, SynLayout, Timestamps};
pub use segment::{Pieces, Raw, Segment, parse};
pub use signature::{Signature, Signed};
