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
