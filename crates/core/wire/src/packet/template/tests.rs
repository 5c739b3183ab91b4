//! Goal: what a template becomes is what the headers written anew would be.
use super::*;
use crate::tcp::{Flags, Options, SynLayout};
use alloc::vec;
use base::Rng;

fn below(rng: &mut Rng) -> Below {
    let v4 = rng.chance(0.5);
    let addr = |rng: &mut Rng| match v4 {
        true => Addr::v4(rng.next_u32().to_be_bytes()),
        false => Addr::v6(core::array::from_fn(|i| if i == 0 { 0x20 } else { rng.next_u32() as u8 })),
    };
    let link = Link { dst: [1, 2, 3, 4, 5, 6], src: [7, 8, 9, 10, 11, 12] };
    let label = if v4 { 0 } else { rng.next_u32() & LABEL };
    let (src, dst) = (addr(rng), addr(rng));
    let (tos, ttl) = (rng.next_u32() as u8, rng.next_u32() as u8);
    Below { link: rng.chance(0.7).then_some(link), src, dst, tos, ttl, label }
}

fn header(rng: &mut Rng) -> Header {
    let flags = [Flags::SYN, Flags::SYN | Flags::ACK, Flags::ACK, Flags::FIN | Flags::ACK];
    let flags = flags[rng.below(4) as usize];
    let stamps = Timestamps { val: rng.next_u32(), ecr: rng.next_u32() };
    let options = Options {
        timestamps: rng.chance(0.7).then_some(stamps),
        mss: rng.chance(0.8).then_some(rng.next_u32() as u16),
        window_scale: rng.chance(0.8).then_some(rng.below(15) as u8),
        sack_permitted: rng.chance(0.8),
        layout: if rng.chance(0.3) { SynLayout::Bsd } else { SynLayout::Linux },
        ..Options::default()
    };
    Header {
        src_port: rng.next_u32() as u16,
        dst_port: rng.next_u32() as u16,
        seq: Seq::new(rng.next_u32()),
        ack: Seq::new(if flags.has(Flags::ACK) { rng.next_u32() } else { 0 }),
        flags,
        window: rng.next_u32() as u16,
        options,
    }
}

/// Returns a segment of the same kind with other numbers.
fn another(rng: &mut Rng, like: &Header) -> Header {
    let other = header(rng);
    let mut next = Header { options: like.options, flags: like.flags, ..other };
    next.options.timestamps =
        like.options.timestamps.map(|_| Timestamps { val: rng.next_u32(), ecr: rng.next_u32() });
    if !next.flags.has(Flags::ACK) {
        next.ack = Seq::new(0);
    }
    next
}

#[test]
fn as_headers_written_anew() {
    for seed in 0..4_000 {
        let mut rng = Rng::new(seed);
        let (one, first) = (below(&mut rng), header(&mut rng));
        let template = Template::new(&one, &first).expect("stamps stand at even places");
        let next = another(&mut rng, &first);
        let macs = Link { dst: [9; 6], src: [8; 6] };
        let label = if one.src.is_v4() { 0 } else { rng.next_u32() & LABEL };
        let ends = [(); 2].map(|()| {
            loop {
                let other = below(&mut rng);
                if other.src.is_v4() == one.src.is_v4() {
                    break other.src;
                }
            }
        });
        let two = Below { link: one.link.map(|_| macs), label, src: ends[0], dst: ends[1], ..one };
        let filling = Filling {
            link: two.link,
            label,
            ends: [Endpoint::new(two.src, next.src_port), Endpoint::new(two.dst, next.dst_port)],
            seq: next.seq,
            ack: next.ack,
            window: next.window,
            stamps: next.options.timestamps,
        };
        let full = rng.chance(0.5);
        let len = two.len() + next.len();
        assert_eq!((template.len(), template.below()), (len, two.len()));
        let (mut made, mut written) = (vec![0xaa; len], vec![0x55; len]);
        template.fill(&filling, full, &mut made);
        let checksum = if full { Checksum::Full } else { Checksum::Offloaded };
        two.emit_tcp(&next, 0, checksum, &mut written);
        assert_eq!(made, written, "seed {seed}");
    }
}
