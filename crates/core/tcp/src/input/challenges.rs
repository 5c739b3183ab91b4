//! Challenge ACKs (RFC 5961).

/// Challenge ACKs of a connection.
#[derive(Default, Debug)]
pub(crate) struct Challenges {
    /// When the last one left, milliseconds.
    pub(super) last_ms: Option<u32>,
}
