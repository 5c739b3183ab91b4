//! Goal: what the short way says is what the general way says, for every plain packet and every broken
//! one.
use super::*;
use crate::packet::{Link, parse_ip, parse_v4};
use crate::tcp::{Options, SackBlocks, Timestamps};
use alloc::vec;
use alloc::vec::Vec;
use base::{Rng, Seq};

fn random(rng: &mut Rng) -> (Below, Header, Vec<u8>) {
    let addr = |rng: &mut Rng| Addr::v4((rng.next_u32() & 0x7fff_ffff).to_be_bytes());
    let link = Link { dst: [1, 2, 3, 4, 5, 6], src: [7, 8, 9, 10, 11, 12] };
    let (tos, ttl, label) = (rng.next_u32() as u8, rng.next_u32() as u8, rng.next_u32());
    let below = Below { link: Some(link), src: addr(rng), dst: addr(rng), tos, ttl, label };
    let stamps = Timestamps { val: rng.next_u32(), ecr: rng.next_u32() };
    let mut sack = SackBlocks::none();
    if rng.chance(0.1) {
        sack.push(Seq::new(rng.next_u32()), Seq::new(rng.next_u32()));
    }
    let options = Options {
        timestamps: rng.chance(0.5).then_some(stamps),
        sack,
        mss: rng.chance(0.5).then_some(rng.next_u32() as u16),
        window_scale: rng.chance(0.5).then_some(rng.below(15) as u8),
        sack_permitted: rng.chance(0.5),
        ..Options::default()
    };
    let header = Header {
        src_port: rng.next_u32() as u16,
        dst_port: rng.next_u32() as u16,
        seq: Seq::new(rng.next_u32()),
        ack: Seq::new(rng.next_u32()),
        flags: Flags(rng.next_u32() as u16 & Flags::ALL.0),
        window: rng.next_u32() as u16,
        options,
    };
    let mut payload = vec![0; rng.below(200) as usize];
    rng.fill(&mut payload);
    (below, header, payload)
}

#[test]
fn as_the_general_way() {
    for seed in 0..3000 {
        let mut rng = Rng::new(seed);
        let (below, header, payload) = random(&mut rng);
        let headers = below.len() + header.len();
        let mut short = vec![0xaa; headers];
        short.extend(&payload);
        let mut long = short.clone();
        let checksum = if seed % 2 == 0 { Checksum::Full } else { Checksum::Offloaded };
        below.emit_tcp_generally(&header, payload.len(), checksum, &mut long);
        assert_eq!(emit(&below, &header, payload.len(), checksum, &mut short), Some(long.len()));
        assert_eq!(short, long, "seed {seed}");
        let general = parse_v4(&long, 14, long.len());
        match plain_tcp_v4(&long, 14, long.len()) {
            Some(packet) => assert_eq!(Ok(packet), general, "seed {seed}"),
            None => assert!(general.is_err(), "seed {seed}: {general:?}"),
        }
        let at = 14 + rng.below(20) as usize;
        long[at] ^= 1 << rng.below(8);
        if let Some(packet) = plain_tcp_v4(&long, 14, long.len()) {
            assert_eq!(Ok(packet), parse_v4(&long, 14, long.len()), "seed {seed}");
        }
        let cut = rng.below(long.len() as u64 + 1) as usize;
        if let Some(packet) = plain_tcp_v4(&long[14..cut.max(14)], 0, cut.max(14) - 14) {
            assert_eq!(Ok(packet), parse_ip(&long[14..cut], cut - 14), "seed {seed}");
        }
    }
}
