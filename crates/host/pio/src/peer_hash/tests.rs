//! Goal: flows that are crafted to meet under one key spread under another.
use super::*;
use base::{Addr, Rng};

/// `count` peers that the function puts into one of 256 buckets, made as `peer` says.
fn crafted(known: &PeerHash, count: usize, peer: impl FnMut() -> Endpoint) -> Vec<Endpoint> {
    std::iter::repeat_with(peer).filter(|peer| known.of(*peer) >> 24 == 7).take(count).collect()
}

/// The fullest of `parts` parts, of those that the top bits tell apart.
fn fullest(hash: &PeerHash, peers: &[Endpoint], parts: usize) -> usize {
    let mut load = vec![0; parts];
    peers.iter().for_each(|peer| load[hash.of(*peer) as usize / (1 << 24) * parts / 256] += 1);
    load.into_iter().max().unwrap_or(0)
}

#[test]
fn flows_crafted_without_the_key_spread() {
    let mut rng = Rng::new(11);
    for round in 0..40 {
        let (guess, real) = (PeerHash::new([round, 1]), PeerHash::new([round, 2]));
        let sets = [
            // One address, any port; an IPv6 /64; any address, one port.
            crafted(&guess, 200, || Endpoint::new(Addr::v4([10, 0, 0, 2]), rng.next_u32() as u16)),
            crafted(&guess, 2000, || {
                let mut bytes = [0xfd; 16];
                bytes[8..].copy_from_slice(&rng.next_u64().to_be_bytes());
                Endpoint::new(Addr::v6(bytes), 4000)
            }),
            crafted(&guess, 2000, || Endpoint::new(Addr::v4(rng.next_u32().to_be_bytes()), 4000)),
            // Whatever the key: words that differ in their top bits only.
            (0..512)
                .map(|bits: u16| {
                    let word = |at: usize| (bits >> at & 1) << 15;
                    let bytes: Vec<u8> = (0..8).flat_map(|at| word(at).to_be_bytes()).collect();
                    let bytes = bytes.try_into().expect("eight words");
                    Endpoint::new(Addr::v6(bytes), word(8))
                })
                .collect(),
        ];
        for (which, set) in sets.iter().enumerate() {
            assert_eq!(if which < 3 { fullest(&guess, set, 256) } else { set.len() }, set.len());
            let most = fullest(&real, set, 4);
            assert!(
                most <= set.len() / 2,
                "round {round}, set {which}: {most} of {} in a quarter",
                set.len()
            );
        }
    }
}
