//! Goal: against a plain map, whatever the hashes: every stored flow is found, no other is, through
//! splits, removals in any order, and crowded buckets.
use super::*;
use base::Rng;
use std::collections::BTreeMap;

/// Runs operations drawn from `seed` against the oracle. `crowd` makes many hashes share buckets and
/// tags.
fn model(seed: u64, crowd: bool, steps: usize) {
    let mut rng = Rng::new(seed);
    let mut table = FlowTable::new(&mut Rng::new(1));
    let mut oracle = BTreeMap::<u32, (u64, bool)>::new();
    let flow = |id, waiting| if waiting { Flow::TimeWait(id) } else { Flow::Connection(id) };
    for step in 0..steps {
        let id = rng.below(4000) as u32;
        let before = oracle.get(&id).copied();
        match (before, rng.below(3)) {
            (None, _) => {
                let hash = if crowd { rng.next_u64() & 0xfff0_0000_0001_0003 } else { rng.next_u64() };
                let hashes = &oracle;
                let stored = table.insert(hash, flow(id, false), |f| match f {
                    Flow::Connection(id) | Flow::TimeWait(id) => hashes[&id].0,
                });
                assert!(stored);
                oracle.insert(id, (hash, false));
            }
            (Some((hash, waiting)), 0) => {
                assert!(
                    table.replace(hash, flow(id, waiting), flow(id, !waiting)),
                    "seed {seed} step {step}"
                );
                oracle.insert(id, (hash, !waiting));
            }
            (Some((hash, waiting)), _) => {
                assert!(!table.remove(hash, flow(id, !waiting)), "seed {seed} step {step}");
                assert!(table.remove(hash, flow(id, waiting)), "seed {seed} step {step}");
                assert!(!table.remove(hash, flow(id, waiting)), "seed {seed} step {step}");
                oracle.remove(&id);
            }
        }
        assert_eq!(table.len() as usize, oracle.len());
        if let Some((&id, &(hash, waiting))) = oracle.iter().nth(rng.below(oracle.len() as u64) as usize) {
            let want = flow(id, waiting);
            assert_eq!(table.find(hash, |f| f == want), Some(want), "seed {seed} step {step}");
            assert!(table.candidate(hash).is_some());
        }
        assert_eq!(table.find(rng.next_u64(), |_| false), None);
    }
    for (id, (hash, waiting)) in oracle {
        assert!(table.remove(hash, flow(id, waiting)), "seed {seed}: {id} lost");
    }
    assert_eq!(table.len(), 0);
    assert!(table.pages.iter().all(|p| p.used == 0));
    assert!(table.buckets.iter().flatten().all(|b| b.passed == 0));
}

#[test]
fn against_a_map() {
    for seed in 0..6 {
        model(seed, seed % 2 == 0, 20_000);
    }
}

#[test]
fn grows_to_a_million_in_eleven_bytes_each() {
    let mut table = FlowTable::new(&mut Rng::new(3));
    let hash = |id: u32| base::SipKey::new(5, 6).fast(&[u64::from(id)]);
    for id in 0..1_000_000 {
        let stored = table.insert(hash(id), Flow::Connection(id), |f| match f {
            Flow::Connection(id) | Flow::TimeWait(id) => hash(id),
        });
        assert!(stored);
    }
    assert!((0..1_000_000).all(|id| table.find(hash(id), |f| f == Flow::Connection(id)).is_some()));
    let each = table.footprint() as f64 / 1e6;
    assert!(each < 18.0, "{each} bytes each");
}

#[test]
fn every_bit_of_a_flow_counts_everywhere() {
    let table = FlowTable::new(&mut Rng::new(7));
    let mut rng = Rng::new(8);
    for v4 in [true, false] {
        let bits = if v4 { 96 } else { 288 };
        for bit in 0..bits {
            let mut flips = [0u32; 64];
            for _ in 0..400 {
                let mut bytes = [0; 36];
                rng.fill(&mut bytes);
                let before = table.hash(&flow_of(&bytes, v4));
                bytes[bit / 8] ^= 1 << (bit % 8);
                let changed = before ^ table.hash(&flow_of(&bytes, v4));
                (0..64).for_each(|i| flips[i] += (changed >> i & 1) as u32);
            }
            assert!(flips.iter().all(|n| (120..280).contains(n)), "bit {bit} of {bits}: {flips:?}");
        }
    }
}

fn flow_of(bytes: &[u8; 36], v4: bool) -> FlowKey {
    use base::{Addr, Endpoint};
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let (local, remote, at) = if v4 {
        let addr = |at: usize| Addr::v4([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        (addr(0), addr(4), 8)
    } else {
        let addr = |at: usize| Addr::v6(std::array::from_fn(|i| bytes[at + i]));
        (addr(0), addr(16), 32)
    };
    FlowKey::new(Endpoint::new(local, port(at)), Endpoint::new(remote, port(at + 2)))
}
