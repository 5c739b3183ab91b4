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
mod tests {
    //! Goal: both branches of section 3.10.7.1, and never a RST for a RST.
    use super::*;
    use crate::fuzz::segment;
    use base::{Addr, Endpoint};

    #[test]
    fn both_branches() {
        let key = FlowKey::new(
            Endpoint::new(Addr::v4([192, 0, 2, 1]), 80),
            Endpoint::new(Addr::v4([192, 0, 2, 2]), 4000),
        );
        let with_ack = segment(Seq::new(7), Seq::new(99), Flags::ACK | Flags::FIN, Options::default());
        let reset = reset_for(&key, &with_ack).unwrap();
        assert_eq!((reset.src_port, reset.dst_port), (80, 4000));
        assert_eq!((reset.seq, reset.flags), (Seq::new(99), Flags::RST));

        let mut syn = segment(Seq::new(u32::MAX), Seq::new(99), Flags::SYN, Options::default());
        syn.payload = b"abc";
        let reset = reset_for(&key, &syn).unwrap();
        assert_eq!((reset.seq, reset.ack, reset.flags), (Seq::new(0), Seq::new(3), Flags::RST | Flags::ACK));

        for flags in [Flags::RST, Flags::RST | Flags::ACK, Flags::RST | Flags::SYN] {
            assert!(reset_for(&key, &segment(Seq::new(1), Seq::new(2), flags, Options::default())).is_none());
        }
    }
}
