//! The answer to a segment that belongs to nothing.

use base::{FlowKey, Seq};
use wire::tcp::{Flags, Header, Options, Segment};

/// The RST for a segment that belongs to nothing (RFC 9293, section 3.10.7.1); `None` if it is itself a RST.
/// `key` is the flow as seen from this host.
pub fn reset_for(key: &FlowKey, seg: &Segment<'_>) -> Option<Header> {
    if seg.flags.has(Flags::RST) {
        return None;
    }
    let (seq, ack, flags) = if seg.flags.has(Flags::ACK) {
        (seg.ack, Seq::new(0), Flags::RST)
    } else {
        (Seq::new(0), seg.seq + seg.seq_len(), Flags::RST | Flags::ACK)
    };
    Some(Header {
        src_port: key.local().port,
        dst_port: key.remote().port,
        seq,
        ack,
        flags,
        window: 0,
        options: Options::default(),
    })
}

#[cfg(test)]
mod tests;
